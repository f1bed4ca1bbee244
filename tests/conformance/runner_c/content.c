/* reader.*: the tensors, objects, parts and attributes of a checkpoint. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner.h"

static ckpt_status run_tensors(runner* r, line* l) {
  const ckpt_reader* reader = object_get(r, &l->words[0], READER);
  uint64_t count = ckpt_reader_tensor_count(reader);
  for (uint64_t i = 0; i < count; i++) {
    ckpt_tensor_info info = {.struct_size = sizeof info};
    ckpt_status status = ckpt_reader_tensor_at(reader, i, &info, &r->error);
    if (status) return status;
    expect_list(r, l, 1, i, info.name);
  }
  expect_list_end(r, l, 1, count);
  return CKPT_OK;
}

static ckpt_status run_tensor(runner* r, line* l) {
  const ckpt_reader* reader = object_get(r, &l->words[0], READER);
  ckpt_tensor_info info = {.struct_size = sizeof info};
  ckpt_status status = ckpt_reader_tensor_find(reader, l->words[1].text, &info, &r->error);
  if (status) return status;
  if (strcmp(info.name, l->words[1].text) != 0) fail(r, "expected %s, found %s", l->words[1].text, info.name);
  expect_dtype(r, l, "dtype", info.dtype);
  expect_text(r, l, "shape", shape_text(info.ndim, info.shape));
  expect_unsigned(r, l, "bytes", info.bytes);
  expect_unsigned(r, l, "stored_bytes", info.stored_bytes);
  expect_unsigned(r, l, "segment_count", info.segment_count);
  expect_text(r, l, "alias_of", info.alias_of);
  return CKPT_OK;
}

static ckpt_status run_alias(runner* r, line* l) {
  const ckpt_reader* reader = object_get(r, &l->words[0], READER);
  ckpt_tensor_desc view = {.struct_size = sizeof view};
  ckpt_status status = ckpt_reader_alias_find(reader, l->words[1].text, &view, &r->error);
  if (status) return status;
  expect_text(r, l, "shape", shape_text(view.ndim, view.shape));
  expect_text(r, l, "strides", shape_text(view.ndim, view.strides));
  expect_int(r, l, "offset", view.flat_offset);
  expect_dtype(r, l, "dtype", view.dtype);
  return CKPT_OK;
}

static void expect_place(runner* r, line* l, const ckpt_segment_info* info) {
  char text[1024];
  bool flat = info->ndim < 0;
  if (flat)
    (void)snprintf(text, sizeof text, "%" PRId64 ":%" PRId64, info->flat_offset, info->flat_size);
  else
    (void)snprintf(text, sizeof text, "%s:%s", shape_text(info->ndim, info->offset),
                   shape_text(info->ndim, info->extent));
  expect_text(r, l, "box", flat ? "" : text);
  expect_text(r, l, "flat", flat ? text : "");
}

static ckpt_status run_segment(runner* r, line* l) {
  const ckpt_reader* reader = object_get(r, &l->words[0], READER);
  ckpt_segment_info info = {.struct_size = sizeof info};
  uint32_t index = (uint32_t)parse_unsigned(r, l->words[2].text);
  ckpt_status status = ckpt_reader_segment_at(reader, l->words[1].text, index, &info, &r->error);
  if (status) return status;
  expect_place(r, l, &info);
  expect_unsigned(r, l, "part", info.part);
  expect_int(r, l, "codec", info.codec);
  expect_int(r, l, "filter", info.filter);
  expect_unsigned(r, l, "chunk_count", info.chunk_count);
  expect_unsigned(r, l, "stored_bytes", info.stored_bytes);
  return CKPT_OK;
}

static ckpt_status run_objects(runner* r, line* l) {
  const ckpt_reader* reader = object_get(r, &l->words[0], READER);
  uint64_t count = ckpt_reader_object_count(reader);
  for (uint64_t i = 0; i < count; i++) {
    ckpt_object_info info = {.struct_size = sizeof info};
    ckpt_status status = ckpt_reader_object_at(reader, i, &info, &r->error);
    if (status) return status;
    size_t room = strlen(info.name) + 16;
    char* text = allocate(room);
    if (info.scope == CKPT_OBJECT_SHARED)
      (void)snprintf(text, room, "%s:-", info.name);
    else
      (void)snprintf(text, room, "%s:%" PRIu32, info.name, info.rank);
    expect_list(r, l, 1, i, text);
    free(text);
  }
  expect_list_end(r, l, 1, count);
  return CKPT_OK;
}

static ckpt_status run_object(runner* r, line* l) {
  static const char* const scopes[] = {"shared", "per-rank", NULL};
  const ckpt_reader* reader = object_get(r, &l->words[0], READER);
  ckpt_object_info info = {.struct_size = sizeof info};
  uint32_t rank = (uint32_t)parse_unsigned(r, l->words[2].text);
  ckpt_status status = ckpt_reader_object_find(reader, l->words[1].text, rank, &info, &r->error);
  if (status) return status;
  expect_name(r, l, "scope", scopes, info.scope);
  expect_unsigned(r, l, "rank", info.rank);
  expect_unsigned(r, l, "size", info.size);
  expect_text(r, l, "media_type", info.media_type);
  return CKPT_OK;
}

static ckpt_status run_part(runner* r, line* l) {
  const ckpt_reader* reader = object_get(r, &l->words[0], READER);
  ckpt_part_info info = {.struct_size = sizeof info};
  ckpt_status status = ckpt_reader_part_at(reader, (uint32_t)parse_unsigned(r, l->words[1].text), &info, &r->error);
  if (status) return status;
  expect_text(r, l, "name", info.name);
  expect_unsigned(r, l, "rank", info.rank);
  return CKPT_OK;
}

static ckpt_status run_attrs(runner* r, line* l) {
  const ckpt_reader* reader = object_get(r, &l->words[0], READER);
  size_t first = 1;
  const char* tensor = NULL;
  if (l->word_count > 1 && strncmp(l->words[1].text, "tensor:", 7) == 0) {
    tensor = l->words[1].text + 7;
    first = 2;
  }
  uint64_t count = ckpt_reader_attr_count(reader, tensor);
  for (uint64_t i = 0; i < count; i++) {
    const char *key, *value;
    ckpt_status status = ckpt_reader_attr_at(reader, tensor, i, &key, &value, &r->error);
    if (status) return status;
    size_t room = strlen(key) + strlen(value) + 2;
    char* text = allocate(room);
    (void)snprintf(text, room, "%s=%s", key, value);
    expect_list(r, l, first, i, text);
    free(text);
  }
  expect_list_end(r, l, first, count);
  return CKPT_OK;
}

static ckpt_status run_attr(runner* r, line* l) {
  const ckpt_reader* reader = object_get(r, &l->words[0], READER);
  const char* found = ckpt_reader_attr(reader, pair_text(l, "tensor"), l->words[1].text);
  if (!found) found = "";
  if (strcmp(found, l->words[2].text) != 0) fail(r, "expected '%s', found '%s'", l->words[2].text, found);
  return CKPT_OK;
}

const command content_commands[] = {{"reader.tensors", 1, MORE, run_tensors}, {"reader.tensor", 2, PAIRS, run_tensor},
                                    {"reader.alias", 2, PAIRS, run_alias},    {"reader.segment", 3, PAIRS, run_segment},
                                    {"reader.objects", 1, MORE, run_objects}, {"reader.object", 3, PAIRS, run_object},
                                    {"reader.part", 2, PAIRS, run_part},      {"reader.attrs", 1, MORE, run_attrs},
                                    {"reader.attr", 3, PAIRS, run_attr},      {NULL, 0, 0, NULL}};
