/* save.* and load.*: one rank's share of a checkpoint. */
#include <inttypes.h>
#include <stdlib.h>

#include "runner.h"

/* The arrays of save.tensors and load.tensors: COUNT tensors PREFIX0, PREFIX1, … of DTYPE SHAPE, all in the memory M.
 */
enum { kLongest = 256 }; /* a name, with its NUL */
typedef struct many {
  uint64_t count;
  const char** names;
  ckpt_tensor_desc* descs;
  void** data;
  uint64_t* sizes;
  char* texts; /* of the names */
} many;

static many many_of(runner* r) {
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

static ckpt_status many_free(many* all, ckpt_status status) {
  free(all->names);
  free(all->descs);
  free(all->data);
  free(all->sizes);
  free(all->texts);
  return status;
}

/* ---- saves ---- */

MAKES(run_new, 0, SAVE, ckpt_save,
      ckpt_save_new(&made, get(r, 1, SESSION), word(r, 2), integer(r, 3), r->options, &r->error))
MAKES(run_start, 1, JOB, ckpt_job, ckpt_save_start(get(r, 0, SAVE), &made, &r->error))
MAKES(run_start_in_place, 1, JOB, ckpt_job, ckpt_save_start_in_place(get(r, 0, SAVE), &made, &r->error))
MAKES(run_report, 1, REPORT, ckpt_report, ckpt_save_report(get(r, 0, SAVE), &made, &r->error))
CALLS(run_attr, ckpt_save_set_attr(get(r, 0, SAVE), text_of(r, "tensor"), word(r, 1), word(r, 2), &r->error))
CALLS(run_tree, ckpt_save_add_tree(get(r, 0, SAVE), text_of(r, "name"), get(r, 1, TREE), &r->error))
CALLS(run_run, ckpt_save_run(get(r, 0, SAVE), &r->error))
CALLS(run_give_up, ckpt_save_give_up(get(r, 0, SAVE), word(r, 1), &r->error))

static ckpt_status run_tensor(runner* r) {
  ckpt_save* save = get(r, 0, SAVE);
  const memory* from = get_memory(r, 4);
  ckpt_tensor_desc desc;
  int32_t type, id;
  region_of(r, 2, &desc);
  device_of(r, &type, &id);
  return ckpt_save_add_tensor(save, word(r, 1), &desc, from ? from->data : NULL, from ? from->size : 0, type, id,
                              &r->error);
}

static ckpt_status run_tensors(runner* r) {
  many all = many_of(r);
  return many_free(&all, ckpt_save_add_tensors(get(r, 0, SAVE), all.count, all.names, all.descs,
                                               (const void* const*)all.data, all.sizes, CKPT_DEVICE_CPU, 0, &r->error));
}

static ckpt_status run_object(runner* r) {
  static const char* const scopes[] = {"shared", "per-rank", NULL};
  const memory* from = get(r, 4, MEMORY);
  int32_t scope = named(r, scopes, word(r, 3));
  return ckpt_save_add_object(get(r, 0, SAVE), word(r, 1), word(r, 2), scope, from->data, from->size, &r->error);
}

static ckpt_status run_alias(runner* r) {
  const char *shape = text_of(r, "shape"), *strides = text_of(r, "strides");
  ckpt_tensor_desc view = {.struct_size = sizeof view, .flat_offset = integer_of(r, "offset", 0)};
  if (shape) view.ndim = numbers(shape, view.shape, CKPT_MAX_NDIM);
  if (strides) view.flags = CKPT_TENSOR_STRIDED;
  if (strides) (void)numbers(strides, view.strides, CKPT_MAX_NDIM);
  return ckpt_save_add_alias(get(r, 0, SAVE), word(r, 1), word(r, 2), shape ? &view : NULL, &r->error);
}

SAYS(run_id, say_text(r, NULL, ckpt_save_id(get(r, 0, SAVE))))

/* ---- loads: requests that are planned and read together ---- */

MAKES(run_load_new, 0, LOAD, ckpt_load, ckpt_load_new(&made, get(r, 1, READER), r->options, &r->error))
MAKES(run_load_start, 1, JOB, ckpt_job, ckpt_load_start(get(r, 0, LOAD), &made, &r->error))
MAKES(run_load_report, 1, REPORT, ckpt_report, ckpt_load_report(get(r, 0, LOAD), &made, &r->error))
CALLS(run_load_run, ckpt_load_run(get(r, 0, LOAD), &r->error))

static ckpt_status run_load_tensor(runner* r) {
  ckpt_load* load = get(r, 0, LOAD);
  memory* to = get_memory(r, 4);
  ckpt_tensor_desc desc;
  int32_t type, id;
  region_of(r, 2, &desc);
  device_of(r, &type, &id);
  if (integer_of(r, "convert", 0)) desc.flags |= CKPT_TENSOR_CONVERT;
  return ckpt_load_add_tensor(load, word(r, 1), &desc, to ? to->data : NULL, to ? to->size : 0, type, id, &r->error);
}

static ckpt_status run_load_tensors(runner* r) {
  many all = many_of(r);
  return many_free(&all, ckpt_load_add_tensors(get(r, 0, LOAD), all.count, all.names, all.descs, all.data, all.sizes,
                                               CKPT_DEVICE_CPU, 0, &r->error));
}

static ckpt_status run_load_object(runner* r) {
  memory* to = get(r, 3, MEMORY);
  uint32_t rank = (uint32_t)unsigned_integer(r, 2);
  return ckpt_load_add_object(get(r, 0, LOAD), word(r, 1), rank, to->data, to->size, &r->error);
}

const command save_commands[] = {{"save.new", run_new},
                                 {"save.tensor", run_tensor},
                                 {"save.tensors", run_tensors},
                                 {"save.object", run_object},
                                 {"save.alias", run_alias},
                                 {"save.attr", run_attr},
                                 {"save.tree", run_tree},
                                 {"save.id", run_id},
                                 {"save.run", run_run},
                                 {"save.start", run_start},
                                 {"save.start_in_place", run_start_in_place},
                                 {"save.give_up", run_give_up},
                                 {"save.report", run_report},
                                 {"load.new", run_load_new},
                                 {"load.tensor", run_load_tensor},
                                 {"load.tensors", run_load_tensors},
                                 {"load.object", run_load_object},
                                 {"load.run", run_load_run},
                                 {"load.start", run_load_start},
                                 {"load.report", run_load_report},
                                 {NULL, NULL}};
