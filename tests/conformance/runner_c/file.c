/* file.*: files of other formats, opened in place. */
#include "runner.h"

static ckpt_status run_open(runner* r) {
  ckpt_file* made = NULL;
  ckpt_status status = ckpt_file_open(&made, word(r, 1), r->options, &r->error);
  return keep(r, 0, FILE_OBJECT, made, status);
}

static ckpt_status run_format(runner* r) {
  const ckpt_file* file = get(r, 0, FILE_OBJECT);
  expect_word(r, 1, ckpt_file_format(file));
  if (ckpt_file_left_out(file, 0)) fail(r, "nothing lies beside a file, found %s", ckpt_file_left_out(file, 0));
  return CKPT_OK;
}

static ckpt_status run_tensors(runner* r) {
  const ckpt_file* file = get(r, 0, FILE_OBJECT);
  uint64_t count = ckpt_file_tensor_count(file);
  for (uint64_t i = 0; i < count; i++) {
    ckpt_file_tensor found = {.struct_size = sizeof found};
    ckpt_status status = ckpt_file_tensor_at(file, i, &found, &r->error);
    if (status) return status;
    expect_word(r, 1 + i, found.name);
  }
  expect_word(r, 1 + count, NULL);
  return CKPT_OK;
}

static ckpt_status run_tensor(runner* r) {
  ckpt_file_tensor found = {.struct_size = sizeof found};
  ckpt_status status = ckpt_file_tensor_at(get(r, 0, FILE_OBJECT), unsigned_integer(r, 1), &found, &r->error);
  if (status) return status;
  expect_text(r, "name", found.name);
  expect_dtype(r, "dtype", found.dtype);
  expect_text(r, "shape", shape_text(found.ndim, found.shape));
  expect_text(r, "strides", shape_text(found.ndim, found.strides));
  expect_unsigned(r, "bytes", found.bytes);
  expect_unsigned(r, "data_bytes", found.data_bytes);
  expect_text(r, "alias_of", found.alias_of);
  expect_int(r, "alias_offset", found.alias_offset);
  return CKPT_OK;
}

static ckpt_status run_data(runner* r) {
  ckpt_file_tensor found = {.struct_size = sizeof found};
  ckpt_status status = ckpt_file_tensor_at(get(r, 0, FILE_OBJECT), unsigned_integer(r, 1), &found, &r->error);
  if (!status) (void)keep_memory(r, 2, found.data, found.data_bytes);
  return status;
}

static ckpt_status run_read(runner* r) {
  memory* to = get_memory(r, 4);
  ckpt_tensor_desc desc;
  region_of(r, 2, &desc);
  return ckpt_file_read(get(r, 0, FILE_OBJECT), unsigned_integer(r, 1), &desc, to ? to->data : NULL, to ? to->size : 0,
                        &r->error);
}

static ckpt_status run_tree(runner* r) {
  const ckpt_tree* tree = NULL;
  const ckpt_file* file = get(r, 0, FILE_OBJECT);
  ckpt_status status = ckpt_file_tree(file, &tree, &r->error);
  return status ? status : keep_borrowed(r, 1, TREE, tree, file);
}

const command file_commands[] = {
    {"file.open", run_open}, {"file.format", run_format}, {"file.tensors", run_tensors}, {"file.tensor", run_tensor},
    {"file.data", run_data}, {"file.read", run_read},     {"file.tree", run_tree},       {NULL, NULL}};
