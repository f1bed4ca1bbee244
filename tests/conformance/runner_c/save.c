/* save.*: one rank's share of a checkpoint. */
#include <stdio.h>
#include <stdlib.h>

#include "runner.h"

static ckpt_status run_new(runner* r) {
  ckpt_save* made = NULL;
  const ckpt_session* session = get(r, 1, SESSION);
  ckpt_status status = ckpt_save_new(&made, session, word(r, 2), integer(r, 3), r->options, &r->error);
  return keep(r, 0, SAVE, made, status);
}

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
  ckpt_save* save = get(r, 0, SAVE);
  const memory* from = get(r, 5, MEMORY);
  ckpt_tensor_desc desc;
  region_of(r, 3, &desc);
  char name[256];
  ckpt_status status = CKPT_OK;
  for (int64_t i = 0, count = integer(r, 1); i < count && !status; i++) {
    (void)snprintf(name, sizeof name, "%s%lld", word(r, 2), (long long)i);
    status = ckpt_save_add_tensor(save, name, &desc, from->data, from->size, CKPT_DEVICE_CPU, 0, &r->error);
  }
  return status;
}

static ckpt_status run_object(runner* r) {
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

static ckpt_status run_attr(runner* r) {
  return ckpt_save_set_attr(get(r, 0, SAVE), text_of(r, "tensor"), word(r, 1), word(r, 2), &r->error);
}

static ckpt_status run_tree(runner* r) {
  return ckpt_save_add_tree(get(r, 0, SAVE), text_of(r, "name"), get(r, 1, TREE), &r->error);
}

static ckpt_status run_id(runner* r) {
  expect_word(r, 1, ckpt_save_id(get(r, 0, SAVE)));
  return CKPT_OK;
}

static ckpt_status run_run(runner* r) { return ckpt_save_run(get(r, 0, SAVE), &r->error); }

static ckpt_status run_start(runner* r) {
  ckpt_job* made = NULL;
  ckpt_status status = ckpt_save_start(get(r, 0, SAVE), &made, &r->error);
  return keep(r, 1, JOB, made, status);
}

static ckpt_status run_start_in_place(runner* r) {
  ckpt_job* made = NULL;
  ckpt_status status = ckpt_save_start_in_place(get(r, 0, SAVE), &made, &r->error);
  return keep(r, 1, JOB, made, status);
}

static ckpt_status run_give_up(runner* r) { return ckpt_save_give_up(get(r, 0, SAVE), word(r, 1), &r->error); }

static ckpt_status run_report(runner* r) {
  ckpt_report* made = NULL;
  ckpt_status status = ckpt_save_report(get(r, 0, SAVE), &made, &r->error);
  return keep(r, 1, REPORT, made, status);
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
                                 {NULL, NULL}};
