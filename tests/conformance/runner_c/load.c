/* load.*: requests that are planned and read together. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner.h"

static ckpt_status run_new(runner* r, line* l) {
  ckpt_options* options;
  ckpt_load* load = NULL;
  const ckpt_reader* reader = object_get(r, &l->words[1], READER);
  ckpt_status status = options_of(r, l, &options);
  if (!status) status = ckpt_load_new(&load, reader, options, &r->error);
  ckpt_options_free(options);
  if (!status) object_put(r, &l->words[0], LOAD, load);
  return status;
}

static ckpt_status run_tensor(runner* r, line* l) {
  ckpt_load* load = object_get(r, &l->words[0], LOAD);
  memory nothing = {NULL, 0}, *to = l->words[4].size ? object_get(r, &l->words[4], MEMORY) : &nothing;
  ckpt_tensor_desc desc;
  int32_t type, id;
  parse_region(r, l, l->words[2].text, l->words[3].text, &desc);
  parse_device(r, l, &type, &id);
  const char* convert = pair_text(l, "convert");
  if (convert && parse_int(r, convert)) desc.flags |= CKPT_TENSOR_CONVERT;
  return ckpt_load_add_tensor(load, l->words[1].text, &desc, to->data, to->size, type, id, &r->error);
}

static ckpt_status run_tensors(runner* r, line* l) {
  ckpt_load* load = object_get(r, &l->words[0], LOAD);
  uint64_t count = parse_unsigned(r, l->words[1].text);
  memory* to = object_get(r, &l->words[5], MEMORY);
  ckpt_tensor_desc desc;
  parse_region(r, l, l->words[3].text, l->words[4].text, &desc);
  size_t room = l->words[2].size + 24;
  char* name = allocate(room);
  ckpt_status status = CKPT_OK;
  for (uint64_t i = 0; i < count && !status; i++) {
    (void)snprintf(name, room, "%s%llu", l->words[2].text, (unsigned long long)i);
    status = ckpt_load_add_tensor(load, name, &desc, to->data, to->size, CKPT_DEVICE_CPU, 0, &r->error);
  }
  free(name);
  return status;
}

static ckpt_status run_object(runner* r, line* l) {
  ckpt_load* load = object_get(r, &l->words[0], LOAD);
  uint32_t rank = (uint32_t)parse_unsigned(r, l->words[2].text);
  memory* to = object_get(r, &l->words[3], MEMORY);
  return ckpt_load_add_object(load, l->words[1].text, rank, to->data, to->size, &r->error);
}

static ckpt_status run_run(runner* r, line* l) { return ckpt_load_run(object_get(r, &l->words[0], LOAD), &r->error); }

static ckpt_status run_start(runner* r, line* l) {
  ckpt_job* job = NULL;
  ckpt_status status = ckpt_load_start(object_get(r, &l->words[0], LOAD), &job, &r->error);
  if (!status) object_put(r, &l->words[1], JOB, job);
  return status;
}

static ckpt_status run_report(runner* r, line* l) {
  ckpt_report* report = NULL;
  ckpt_status status = ckpt_load_report(object_get(r, &l->words[0], LOAD), &report, &r->error);
  if (!status) object_put(r, &l->words[1], REPORT, report);
  return status;
}

const command load_commands[] = {{"load.new", 2, OPTIONS, run_new},   {"load.tensor", 5, PAIRS, run_tensor},
                                 {"load.tensors", 6, 0, run_tensors}, {"load.object", 4, 0, run_object},
                                 {"load.run", 1, 0, run_run},         {"load.start", 2, 0, run_start},
                                 {"load.report", 2, 0, run_report},   {NULL, 0, 0, NULL}};
