/* reader.*: a committed checkpoint: what it holds, and operations on the whole checkpoint. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner.h"

static ckpt_reader* reader_of(runner* r) { return get(r, 0, READER); }

static ckpt_status run_open(runner* r) {
  ckpt_reader* made = NULL;
  ckpt_status status = ckpt_reader_open(&made, get(r, 1, STORE), word(r, 2), r->options, &r->error);
  return keep(r, 0, READER, made, status);
}

static ckpt_status run_info(runner* r) {
  ckpt_checkpoint_info info = {.struct_size = sizeof info};
  ckpt_status status = ckpt_reader_info(reader_of(r), &info, &r->error);
  if (!status) expect_checkpoint(r, &info);
  return status;
}

static ckpt_status run_report(runner* r) {
  ckpt_report* made = NULL;
  ckpt_status status = ckpt_reader_report(reader_of(r), &made, &r->error);
  return keep(r, 1, REPORT, made, status);
}

static ckpt_status run_map(runner* r) {
  const void* view = NULL;
  uint64_t size = 0;
  ckpt_status status = ckpt_reader_map(reader_of(r), word(r, 1), r->options, &view, &size, &r->error);
  if (!status) (void)keep_memory(r, 2, view, size);
  return status;
}

static ckpt_status run_verify(runner* r) {
  ckpt_job* made = NULL;
  ckpt_status status = ckpt_reader_verify(reader_of(r), r->options, &made, &r->error);
  return keep(r, 1, JOB, made, status);
}

static ckpt_status run_diff(runner* r) {
  ckpt_report* made = NULL;
  ckpt_status status = ckpt_reader_diff(reader_of(r), get(r, 1, READER), r->options, &made, &r->error);
  return keep(r, 2, REPORT, made, status);
}

static ckpt_status run_copy(runner* r) {
  ckpt_report* made = NULL;
  ckpt_status status = ckpt_reader_copy(reader_of(r), get(r, 1, STORE), r->options, &made, &r->error);
  return keep(r, 2, REPORT, made, status);
}

static ckpt_status run_tree(runner* r) {
  ckpt_tree* made = NULL;
  const char *name = text_of(r, "name"), *rank = text_of(r, "rank");
  ckpt_status status =
      rank ? ckpt_reader_tree_of_rank(reader_of(r), name, (uint32_t)integer_of(r, "rank", 0), &made, &r->error)
           : ckpt_reader_tree(reader_of(r), name, &made, &r->error);
  return keep(r, 1, TREE, made, status);
}

static ckpt_status run_export(runner* r) { return ckpt_export(reader_of(r), word(r, 1), r->options, &r->error); }

/* ---- what it holds ---- */

static ckpt_status run_tensors(runner* r) {
  uint64_t count = ckpt_reader_tensor_count(reader_of(r));
  for (uint64_t i = 0; i < count; i++) {
    ckpt_tensor_info info = {.struct_size = sizeof info};
    ckpt_status status = ckpt_reader_tensor_at(reader_of(r), i, &info, &r->error);
    if (status) return status;
    expect_word(r, 1 + i, info.name);
  }
  expect_word(r, 1 + count, NULL);
  return CKPT_OK;
}

static ckpt_status run_tensor(runner* r) {
  ckpt_tensor_info info = {.struct_size = sizeof info};
  ckpt_status status = ckpt_reader_tensor_find(reader_of(r), word(r, 1), &info, &r->error);
  if (status) return status;
  expect_word(r, 1, info.name);
  expect_dtype(r, "dtype", info.dtype);
  expect_text(r, "shape", shape_text(info.ndim, info.shape));
  expect_unsigned(r, "bytes", info.bytes);
  expect_unsigned(r, "stored_bytes", info.stored_bytes);
  expect_unsigned(r, "segment_count", info.segment_count);
  expect_text(r, "alias_of", info.alias_of);
  return CKPT_OK;
}

static ckpt_status run_alias(runner* r) {
  ckpt_tensor_desc view = {.struct_size = sizeof view};
  ckpt_status status = ckpt_reader_alias_find(reader_of(r), word(r, 1), &view, &r->error);
  if (status) return status;
  expect_text(r, "shape", shape_text(view.ndim, view.shape));
  expect_text(r, "strides", shape_text(view.ndim, view.strides));
  expect_int(r, "offset", view.flat_offset);
  expect_dtype(r, "dtype", view.dtype);
  return CKPT_OK;
}

static ckpt_status run_segment(runner* r) {
  ckpt_segment_info info = {.struct_size = sizeof info};
  uint32_t index = (uint32_t)unsigned_integer(r, 2);
  ckpt_status status = ckpt_reader_segment_at(reader_of(r), word(r, 1), index, &info, &r->error);
  if (status) return status;
  char box[1024] = "", flat[64] = "";
  if (info.ndim < 0)
    (void)snprintf(flat, sizeof flat, "%" PRId64 ":%" PRId64, info.flat_offset, info.flat_size);
  else
    (void)snprintf(box, sizeof box, "%s:%s", shape_text(info.ndim, info.offset), shape_text(info.ndim, info.extent));
  expect_text(r, "box", box);
  expect_text(r, "flat", flat);
  expect_unsigned(r, "part", info.part);
  expect_int(r, "codec", info.codec);
  expect_int(r, "filter", info.filter);
  expect_unsigned(r, "chunk_count", info.chunk_count);
  expect_unsigned(r, "stored_bytes", info.stored_bytes);
  return CKPT_OK;
}

/* Expects that word `i` is the formatted text. */
#define EXPECT_PRINTED(r, i, ...)                             \
  do {                                                        \
    size_t size = (size_t)snprintf(NULL, 0, __VA_ARGS__) + 1; \
    char* text = allocate(size);                              \
    (void)snprintf(text, size, __VA_ARGS__);                  \
    expect_word(r, i, text);                                  \
    free(text);                                               \
  } while (0)

static ckpt_status run_objects(runner* r) {
  uint64_t count = ckpt_reader_object_count(reader_of(r));
  for (uint64_t i = 0; i < count; i++) {
    ckpt_object_info info = {.struct_size = sizeof info};
    ckpt_status status = ckpt_reader_object_at(reader_of(r), i, &info, &r->error);
    if (status) return status;
    if (info.scope == CKPT_OBJECT_SHARED)
      EXPECT_PRINTED(r, 1 + i, "%s:-", info.name);
    else
      EXPECT_PRINTED(r, 1 + i, "%s:%" PRIu32, info.name, info.rank);
  }
  expect_word(r, 1 + count, NULL);
  return CKPT_OK;
}

static ckpt_status run_object(runner* r) {
  ckpt_object_info info = {.struct_size = sizeof info};
  uint32_t rank = (uint32_t)unsigned_integer(r, 2);
  ckpt_status status = ckpt_reader_object_find(reader_of(r), word(r, 1), rank, &info, &r->error);
  if (status) return status;
  expect_text(r, "scope", scopes[info.scope]);
  expect_unsigned(r, "rank", info.rank);
  expect_unsigned(r, "size", info.size);
  expect_text(r, "media_type", info.media_type);
  return CKPT_OK;
}

static ckpt_status run_part(runner* r) {
  ckpt_part_info info = {.struct_size = sizeof info};
  ckpt_status status = ckpt_reader_part_at(reader_of(r), (uint32_t)unsigned_integer(r, 1), &info, &r->error);
  if (status) return status;
  expect_text(r, "name", info.name);
  expect_unsigned(r, "rank", info.rank);
  return CKPT_OK;
}

static ckpt_status run_attrs(runner* r) {
  const char* tensor = *word(r, 1) ? word(r, 1) : NULL;
  uint64_t count = ckpt_reader_attr_count(reader_of(r), tensor);
  for (uint64_t i = 0; i < count; i++) {
    const char *key, *value;
    ckpt_status status = ckpt_reader_attr_at(reader_of(r), tensor, i, &key, &value, &r->error);
    if (status) return status;
    EXPECT_PRINTED(r, 2 + i, "%s=%s", key, value);
  }
  expect_word(r, 2 + count, NULL);
  return CKPT_OK;
}

static ckpt_status run_attr(runner* r) {
  const char* found = ckpt_reader_attr(reader_of(r), text_of(r, "tensor"), word(r, 1));
  expect_word(r, 2, found ? found : "");
  return CKPT_OK;
}

const command reader_commands[] = {{"reader.open", run_open},
                                   {"reader.info", run_info},
                                   {"reader.report", run_report},
                                   {"reader.map", run_map},
                                   {"reader.verify", run_verify},
                                   {"reader.diff", run_diff},
                                   {"reader.copy", run_copy},
                                   {"reader.tree", run_tree},
                                   {"reader.export", run_export},
                                   {"reader.tensors", run_tensors},
                                   {"reader.tensor", run_tensor},
                                   {"reader.alias", run_alias},
                                   {"reader.segment", run_segment},
                                   {"reader.objects", run_objects},
                                   {"reader.object", run_object},
                                   {"reader.part", run_part},
                                   {"reader.attrs", run_attrs},
                                   {"reader.attr", run_attr},
                                   {NULL, NULL}};
