/* session.*: ranks, and the string by which they find each other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runner.h"

enum { kStringMost = 4096 };

/* The file appears complete (see run_string), so what is there is all of it. */
static void read_string(runner* r, const char* file, char out[kStringMost]) {
  char* path = path_of(r, file);
  FILE* opened = NULL;
  for (int tries = 0; tries < 6000 && !(opened = fopen(path, "r")); tries++) {
    struct timespec pause = {0, 10 * 1000 * 1000};
    nanosleep(&pause, NULL);
  }
  if (!opened) fail(r, "expected a file %s within 60 s, found none", path);
  size_t size = fread(out, 1, kStringMost - 1, opened);
  out[size] = '\0';
  fclose(opened);
  free(path);
}

static ckpt_status run_open(runner* r, line* l) {
  ckpt_options* options;
  ckpt_session* session = NULL;
  const ckpt_store* store = object_get(r, &l->words[1], STORE);
  uint32_t rank = (uint32_t)parse_unsigned(r, l->words[2].text), world = (uint32_t)parse_unsigned(r, l->words[3].text);
  const pair* other = pair_find(l, "string");
  const char *file = pair_text(l, "file"), *string = NULL;
  char text[kStringMost];
  if (other) string = ckpt_session_string(object_get(r, &other->value, SESSION));
  if (file) {
    read_string(r, file, text);
    string = text;
  }
  ckpt_status status = options_of(r, l, &options);
  if (!status) status = ckpt_session_open(&session, store, rank, world, string, options, &r->error);
  ckpt_options_free(options);
  if (!status) object_put(r, &l->words[0], SESSION, session);
  return status;
}

static ckpt_status run_string(runner* r, line* l) {
  const char* string = ckpt_session_string(object_get(r, &l->words[0], SESSION));
  char *path = path_of(r, l->words[1].text), *aside = allocate(strlen(path) + 8);
  (void)snprintf(aside, strlen(path) + 8, "%s.aside", path);
  FILE* file = fopen(aside, "w");
  if (!file || fputs(string, file) < 0 || fclose(file) || rename(aside, path))
    fail(r, "expected to write %s, found an error", path);
  free(aside);
  free(path);
  return CKPT_OK;
}

const command session_commands[] = {
    {"session.open", 4, PAIRS | OPTIONS, run_open}, {"session.string", 2, 0, run_string}, {NULL, 0, 0, NULL}};
