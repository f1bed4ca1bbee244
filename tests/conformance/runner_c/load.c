/* load.*: requests that are planned and read together. */
#include "runner.h"

static ckpt_status run_new(runner* r) {
  ckpt_load* made = NULL;
  ckpt_status status = ckpt_load_new(&made, get(r, 1, READER), r->options, &r->error);
  return keep(r, 0, LOAD, made, status);
}

static ckpt_status run_tensor(runner* r) {
  ckpt_load* load = get(r, 0, LOAD);
  memory* to = get_memory(r, 4);
  ckpt_tensor_desc desc;
  int32_t type, id;
  region_of(r, 2, &desc);
  device_of(r, &type, &id);
  if (integer_of(r, "convert", 0)) desc.flags |= CKPT_TENSOR_CONVERT;
  return ckpt_load_add_tensor(load, word(r, 1), &desc, to ? to->data : NULL, to ? to->size : 0, type, id, &r->error);
}

static ckpt_status run_tensors(runner* r) {
  ckpt_load* load = get(r, 0, LOAD);
  many all = many_of(r);
  ckpt_status status =
      ckpt_load_add_tensors(load, all.count, all.names, all.descs, all.data, all.sizes, CKPT_DEVICE_CPU, 0, &r->error);
  many_free(&all);
  return status;
}

static ckpt_status run_object(runner* r) {
  memory* to = get(r, 3, MEMORY);
  uint32_t rank = (uint32_t)unsigned_integer(r, 2);
  return ckpt_load_add_object(get(r, 0, LOAD), word(r, 1), rank, to->data, to->size, &r->error);
}

static ckpt_status run_run(runner* r) { return ckpt_load_run(get(r, 0, LOAD), &r->error); }

static ckpt_status run_start(runner* r) {
  ckpt_job* made = NULL;
  ckpt_status status = ckpt_load_start(get(r, 0, LOAD), &made, &r->error);
  return keep(r, 1, JOB, made, status);
}

static ckpt_status run_report(runner* r) {
  ckpt_report* made = NULL;
  ckpt_status status = ckpt_load_report(get(r, 0, LOAD), &made, &r->error);
  return keep(r, 1, REPORT, made, status);
}

const command load_commands[] = {
    {"load.new", run_new}, {"load.tensor", run_tensor}, {"load.tensors", run_tensors}, {"load.object", run_object},
    {"load.run", run_run}, {"load.start", run_start},   {"load.report", run_report},   {NULL, NULL}};
