/* reader.*: what is done with a committed checkpoint as a whole; content.c looks at what is in it. */
#include <stdlib.h>
#include <string.h>

#include "runner.h"

static ckpt_status run_open(runner* r, line* l) {
  ckpt_options* options;
  ckpt_reader* reader = NULL;
  const ckpt_store* store = object_get(r, &l->words[1], STORE);
  ckpt_status status = options_of(r, l, &options);
  if (!status) status = ckpt_reader_open(&reader, store, l->words[2].text, options, &r->error);
  ckpt_options_free(options);
  if (!status) object_put(r, &l->words[0], READER, reader);
  return status;
}

static ckpt_status run_info(runner* r, line* l) {
  ckpt_checkpoint_info info = {.struct_size = sizeof info};
  ckpt_status status = ckpt_reader_info(object_get(r, &l->words[0], READER), &info, &r->error);
  if (!status) expect_checkpoint(r, l, &info);
  return status;
}

static ckpt_status run_map(runner* r, line* l) {
  ckpt_options* options;
  const void* view = NULL;
  uint64_t size = 0;
  const ckpt_reader* reader = object_get(r, &l->words[0], READER);
  ckpt_status status = options_of(r, l, &options);
  if (!status) status = ckpt_reader_map(reader, l->words[1].text, options, &view, &size, &r->error);
  ckpt_options_free(options);
  if (status) return status;
  memory* copy = memory_new(r, &l->words[2], size);
  if (size) memcpy(copy->data, view, size);
  return CKPT_OK;
}

static ckpt_status run_verify(runner* r, line* l) {
  ckpt_options* options;
  ckpt_job* job = NULL;
  const ckpt_reader* reader = object_get(r, &l->words[0], READER);
  ckpt_status status = options_of(r, l, &options);
  if (!status) status = ckpt_reader_verify(reader, options, &job, &r->error);
  ckpt_options_free(options);
  if (!status) object_put(r, &l->words[1], JOB, job);
  return status;
}

static ckpt_status run_diff(runner* r, line* l) {
  ckpt_options* options;
  ckpt_report* report = NULL;
  const ckpt_reader *a = object_get(r, &l->words[0], READER), *b = object_get(r, &l->words[1], READER);
  ckpt_status status = options_of(r, l, &options);
  if (!status) status = ckpt_reader_diff(a, b, options, &report, &r->error);
  ckpt_options_free(options);
  if (!status) object_put(r, &l->words[2], REPORT, report);
  return status;
}

static ckpt_status run_tree(runner* r, line* l) {
  ckpt_tree* tree = NULL;
  const ckpt_reader* reader = object_get(r, &l->words[0], READER);
  ckpt_status status = ckpt_reader_tree(reader, pair_text(l, "name"), &tree, &r->error);
  if (!status) object_put(r, &l->words[1], TREE, tree);
  return status;
}

static ckpt_status run_export(runner* r, line* l) {
  ckpt_options* options;
  const ckpt_reader* reader = object_get(r, &l->words[0], READER);
  char* path = path_of(r, l->words[1].text);
  ckpt_status status = options_of(r, l, &options);
  if (!status) status = ckpt_export(reader, path, options, &r->error);
  ckpt_options_free(options);
  free(path);
  return status;
}

const command reader_commands[] = {{"reader.open", 3, OPTIONS, run_open},     {"reader.info", 1, PAIRS, run_info},
                                   {"reader.map", 3, OPTIONS, run_map},       {"reader.verify", 2, OPTIONS, run_verify},
                                   {"reader.diff", 3, OPTIONS, run_diff},     {"reader.tree", 2, PAIRS, run_tree},
                                   {"reader.export", 2, OPTIONS, run_export}, {NULL, 0, 0, NULL}};
