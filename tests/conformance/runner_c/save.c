/* save.*: one rank's share of a checkpoint. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner.h"

static ckpt_status run_new(runner* r, line* l) {
  ckpt_options* options;
  ckpt_save* save = NULL;
  const ckpt_session* session = object_get(r, &l->words[1], SESSION);
  int64_t step = parse_int(r, l->words[3].text);
  ckpt_status status = options_of(r, l, &options);
  if (!status) status = ckpt_save_new(&save, session, l->words[2].text, step, options, &r->error);
  ckpt_options_free(options);
  if (!status) object_put(r, &l->words[0], SAVE, save);
  return status;
}

static const memory kNothing = {NULL, 0};

static ckpt_status run_tensor(runner* r, line* l) {
  ckpt_save* save = object_get(r, &l->words[0], SAVE);
  const memory* from = l->words[4].size ? object_get(r, &l->words[4], MEMORY) : &kNothing;
  ckpt_tensor_desc desc;
  int32_t type, id;
  parse_region(r, l, l->words[2].text, l->words[3].text, &desc);
  parse_device(r, l, &type, &id);
  return ckpt_save_add_tensor(save, l->words[1].text, &desc, from->data, from->size, type, id, &r->error);
}

static ckpt_status run_tensors(runner* r, line* l) {
  ckpt_save* save = object_get(r, &l->words[0], SAVE);
  uint64_t count = parse_unsigned(r, l->words[1].text);
  const memory* from = object_get(r, &l->words[5], MEMORY);
  ckpt_tensor_desc desc;
  parse_region(r, l, l->words[3].text, l->words[4].text, &desc);
  size_t room = l->words[2].size + 24;
  char* name = allocate(room);
  ckpt_status status = CKPT_OK;
  for (uint64_t i = 0; i < count && !status; i++) {
    (void)snprintf(name, room, "%s%llu", l->words[2].text, (unsigned long long)i);
    status = ckpt_save_add_tensor(save, name, &desc, from->data, from->size, CKPT_DEVICE_CPU, 0, &r->error);
  }
  free(name);
  return status;
}

static ckpt_status run_object(runner* r, line* l) {
  static const char* const scopes[] = {"shared", "per-rank", NULL};
  ckpt_save* save = object_get(r, &l->words[0], SAVE);
  const memory* from = object_get(r, &l->words[4], MEMORY);
  int32_t scope = parse_name(r, scopes, l->words[3].text);
  return ckpt_save_add_object(save, l->words[1].text, l->words[2].text, scope, from->data, from->size, &r->error);
}

static ckpt_status run_alias(runner* r, line* l) {
  ckpt_save* save = object_get(r, &l->words[0], SAVE);
  const char *shape = pair_text(l, "shape"), *strides = pair_text(l, "strides"), *offset = pair_text(l, "offset");
  ckpt_tensor_desc view = {.struct_size = sizeof view};
  if (shape) view.ndim = parse_shape(r, shape, view.shape);
  if (strides) {
    (void)parse_shape(r, strides, view.strides);
    view.flags = CKPT_TENSOR_STRIDED;
  }
  if (offset) view.flat_offset = parse_int(r, offset);
  return ckpt_save_add_alias(save, l->words[1].text, l->words[2].text, shape ? &view : NULL, &r->error);
}

static ckpt_status run_attr(runner* r, line* l) {
  ckpt_save* save = object_get(r, &l->words[0], SAVE);
  return ckpt_save_set_attr(save, pair_text(l, "tensor"), l->words[1].text, l->words[2].text, &r->error);
}

static ckpt_status run_tree(runner* r, line* l) {
  ckpt_save* save = object_get(r, &l->words[0], SAVE);
  return ckpt_save_add_tree(save, pair_text(l, "name"), object_get(r, &l->words[1], TREE), &r->error);
}

static ckpt_status run_id(runner* r, line* l) {
  const char* id = ckpt_save_id(object_get(r, &l->words[0], SAVE));
  if (strcmp(id, l->words[1].text) != 0) fail(r, "expected %s, found %s", l->words[1].text, id);
  return CKPT_OK;
}

static ckpt_status run_run(runner* r, line* l) { return ckpt_save_run(object_get(r, &l->words[0], SAVE), &r->error); }

static ckpt_status run_start(runner* r, line* l) {
  ckpt_job* job = NULL;
  ckpt_status status = ckpt_save_start(object_get(r, &l->words[0], SAVE), &job, &r->error);
  if (!status) object_put(r, &l->words[1], JOB, job);
  return status;
}

static ckpt_status run_start_in_place(runner* r, line* l) {
  ckpt_job* job = NULL;
  ckpt_status status = ckpt_save_start_in_place(object_get(r, &l->words[0], SAVE), &job, &r->error);
  if (!status) object_put(r, &l->words[1], JOB, job);
  return status;
}

const command save_commands[] = {{"save.new", 4, OPTIONS, run_new},
                                 {"save.tensor", 5, PAIRS, run_tensor},
                                 {"save.tensors", 6, 0, run_tensors},
                                 {"save.object", 5, 0, run_object},
                                 {"save.alias", 3, PAIRS, run_alias},
                                 {"save.attr", 3, PAIRS, run_attr},
                                 {"save.tree", 2, PAIRS, run_tree},
                                 {"save.id", 2, 0, run_id},
                                 {"save.run", 1, 0, run_run},
                                 {"save.start", 2, 0, run_start},
                                 {"save.start_in_place", 2, 0, run_start_in_place},
                                 {NULL, 0, 0, NULL}};
