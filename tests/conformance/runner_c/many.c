/* The arrays of save.tensors and load.tensors. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "runner.h"

enum { kLongest = 256 }; /* a name, with its NUL */

many many_of(runner* r) {
  memory* in = get(r, 5, MEMORY);
  many all = {.count = unsigned_integer(r, 1)};
  all.names = allocate(all.count * sizeof *all.names);
  all.descs = allocate(all.count * sizeof *all.descs);
  all.data = allocate(all.count * sizeof *all.data);
  all.sizes = allocate(all.count * sizeof *all.sizes);
  all.texts = allocate(all.count * kLongest);
  for (uint64_t i = 0; i < all.count; i++) {
    char* text = all.texts + i * kLongest;
    (void)snprintf(text, kLongest, "%s%" PRIu64, word(r, 2), i);
    all.names[i] = text;
    region_of(r, 3, &all.descs[i]);
    all.data[i] = in->data;
    all.sizes[i] = in->size;
  }
  return all;
}

void many_free(many* all) {
  free(all->names);
  free(all->descs);
  free(all->data);
  free(all->sizes);
  free(all->texts);
}
