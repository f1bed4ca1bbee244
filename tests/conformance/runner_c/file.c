/* file.*: other people's files, opened in place. */
#include <stdlib.h>
#include <string.h>

#include "runner.h"

static ckpt_status run_open(runner* r, line* l) {
  ckpt_options* options;
  ckpt_file* file = NULL;
  char* path = path_of(r, l->words[1].text);
  ckpt_status status = options_of(r, l, &options);
  if (!status) status = ckpt_file_open(&file, path, options, &r->error);
  ckpt_options_free(options);
  free(path);
  if (!status) object_put(r, &l->words[0], FILE_OBJECT, file);
  return status;
}

static ckpt_status run_format(runner* r, line* l) {
  const char* found = ckpt_file_format(object_get(r, &l->words[0], FILE_OBJECT));
  if (strcmp(found, l->words[1].text) != 0) fail(r, "expected %s, found %s", l->words[1].text, found);
  return CKPT_OK;
}

static ckpt_status run_tensors(runner* r, line* l) {
  const ckpt_file* file = object_get(r, &l->words[0], FILE_OBJECT);
  uint64_t count = ckpt_file_tensor_count(file);
  for (uint64_t i = 0; i < count; i++) {
    ckpt_file_tensor found = {.struct_size = sizeof found};
    ckpt_status status = ckpt_file_tensor_at(file, i, &found, &r->error);
    if (status) return status;
    expect_list(r, l, 1, i, found.name);
  }
  expect_list_end(r, l, 1, count);
  return CKPT_OK;
}

static ckpt_status tensor_at(runner* r, line* l, ckpt_file_tensor* out) {
  memset(out, 0, sizeof *out);
  out->struct_size = sizeof *out;
  const ckpt_file* file = object_get(r, &l->words[0], FILE_OBJECT);
  return ckpt_file_tensor_at(file, parse_unsigned(r, l->words[1].text), out, &r->error);
}

static ckpt_status run_tensor(runner* r, line* l) {
  ckpt_file_tensor found;
  ckpt_status status = tensor_at(r, l, &found);
  if (status) return status;
  expect_text(r, l, "name", found.name);
  expect_dtype(r, l, "dtype", found.dtype);
  expect_text(r, l, "shape", shape_text(found.ndim, found.shape));
  expect_text(r, l, "strides", shape_text(found.ndim, found.strides));
  expect_unsigned(r, l, "bytes", found.bytes);
  expect_unsigned(r, l, "data_bytes", found.data_bytes);
  expect_text(r, l, "alias_of", found.alias_of);
  expect_int(r, l, "alias_offset", found.alias_offset);
  return CKPT_OK;
}

static ckpt_status run_read(runner* r, line* l) {
  ckpt_file_tensor found;
  ckpt_status status = tensor_at(r, l, &found);
  if (status) return status;
  memory* copy = memory_new(r, &l->words[2], found.data_bytes);
  if (found.data_bytes) memcpy(copy->data, found.data, found.data_bytes);
  return CKPT_OK;
}

static ckpt_status run_tree(runner* r, line* l) {
  const ckpt_tree* tree = NULL;
  const ckpt_file* file = object_get(r, &l->words[0], FILE_OBJECT);
  ckpt_status status = ckpt_file_tree(file, &tree, &r->error);
  if (!status) object_put_borrowed(r, &l->words[1], TREE, tree, file);
  return status;
}

const command file_commands[] = {{"file.open", 2, OPTIONS, run_open},
                                 {"file.format", 2, 0, run_format},
                                 {"file.tensors", 1, MORE, run_tensors},
                                 {"file.tensor", 2, PAIRS, run_tensor},
                                 {"file.read", 3, 0, run_read},
                                 {"file.tree", 2, 0, run_tree},
                                 {NULL, 0, 0, NULL}};
