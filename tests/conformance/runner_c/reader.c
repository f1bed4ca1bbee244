/* reader.* and file.*: a committed checkpoint, and files of other formats, opened in place. */
#include <inttypes.h>

#include "runner.h"

static ckpt_reader* reader_of(runner* r) { return get(r, 0, READER); }

MAKES(run_open, 0, READER, ckpt_reader, ckpt_reader_open(&made, get(r, 1, STORE), word(r, 2), r->options, &r->error))
MAKES(run_report, 1, REPORT, ckpt_report, ckpt_reader_report(reader_of(r), &made, &r->error))
MAKES(run_verify, 1, JOB, ckpt_job, ckpt_reader_verify(reader_of(r), r->options, &made, &r->error))
MAKES(run_diff, 2, REPORT, ckpt_report, ckpt_reader_diff(reader_of(r), get(r, 1, READER), r->options, &made, &r->error))
MAKES(run_copy, 2, REPORT, ckpt_report, ckpt_reader_copy(reader_of(r), get(r, 1, STORE), r->options, &made, &r->error))
MAKES(run_tree, 1, TREE, ckpt_tree,
      text_of(r, "rank") ? ckpt_reader_tree_of_rank(reader_of(r), text_of(r, "name"),
                                                    (uint32_t)integer_of(r, "rank", 0), &made, &r->error)
                         : ckpt_reader_tree(reader_of(r), text_of(r, "name"), &made, &r->error))
CALLS(run_export, ckpt_export(reader_of(r), word(r, 1), r->options, &r->error))

static ckpt_status run_map(runner* r) {
  const void* view = NULL;
  uint64_t size = 0;
  ckpt_status status = ckpt_reader_map(reader_of(r), word(r, 1), r->options, &view, &size, &r->error);
  if (!status) (void)keep_memory(r, 2, view, size);
  return status;
}

/* ---- what it holds ---- */

LISTS(run_tensors, ckpt_reader_tensor_count(reader_of(r)), ckpt_tensor_info,
      ckpt_reader_tensor_at(reader_of(r), i, &info, &r->error))

#define F(kind, name) {#name, kind, offsetof(ckpt_tensor_info, name)}
static const field kTensor[] = {
    F(TEXT, name), F(DTYPE, dtype), F(U64, bytes), F(U64, stored_bytes), F(U32, segment_count), F(TEXT, alias_of), {0}};
#undef F

FINDS(run_tensor, ckpt_tensor_info, kTensor, ckpt_reader_tensor_find(reader_of(r), word(r, 1), &info, &r->error),
      say_text(r, "shape", shape_text(info.ndim, info.shape)))

static ckpt_status run_alias(runner* r) {
  ckpt_tensor_desc view = {.struct_size = sizeof view};
  ckpt_status status = ckpt_reader_alias_find(reader_of(r), word(r, 1), &view, &r->error);
  if (status) return status;
  say_text(r, "shape", shape_text(view.ndim, view.shape));
  say_text(r, "strides", shape_text(view.ndim, view.strides));
  say(r, "offset", "%" PRId64, view.flat_offset);
  say_text(r, "dtype", ckpt_dtype_name(view.dtype));
  return CKPT_OK;
}

#define F(kind, name) {#name, kind, offsetof(ckpt_segment_info, name)}
static const field kSegment[] = {F(U32, part),        F(I32, codec),        F(I32, filter),
                                 F(U32, chunk_count), F(U64, stored_bytes), {0}};
#undef F

static ckpt_status run_segment(runner* r) {
  ckpt_segment_info info = {.struct_size = sizeof info};
  uint32_t index = (uint32_t)unsigned_integer(r, 2);
  ckpt_status status = ckpt_reader_segment_at(reader_of(r), word(r, 1), index, &info, &r->error);
  if (status) return status;
  bool is_flat = info.ndim < 0;
  say(r, "flat", is_flat ? "%" PRId64 ":%" PRId64 : "", info.flat_offset, info.flat_size);
  say(r, "box", is_flat ? "" : "%s:%s", shape_text(info.ndim, info.offset), shape_text(info.ndim, info.extent));
  say_record(r, kSegment, &info);
  return CKPT_OK;
}

static ckpt_status run_objects(runner* r) {
  for (uint64_t i = 0; i < ckpt_reader_object_count(reader_of(r)); i++) {
    ckpt_object_info info = {.struct_size = sizeof info};
    ckpt_status status = ckpt_reader_object_at(reader_of(r), i, &info, &r->error);
    if (status) return status;
    if (info.scope == CKPT_OBJECT_SHARED)
      say(r, NULL, "%s:-", info.name);
    else
      say(r, NULL, "%s:%" PRIu32, info.name, info.rank);
  }
  return CKPT_OK;
}

#define F(kind, name) {#name, kind, offsetof(ckpt_object_info, name)}
static const field kObject[] = {F(TEXT, name), F(U32, rank), F(U64, size), F(TEXT, media_type), {0}};
#undef F

static ckpt_status run_object(runner* r) {
  static const char* const scopes[] = {"shared", "per-rank", "tree"};
  ckpt_object_info info = {.struct_size = sizeof info};
  uint32_t rank = (uint32_t)unsigned_integer(r, 2);
  ckpt_status status = ckpt_reader_object_find(reader_of(r), word(r, 1), rank, &info, &r->error);
  if (status) return status;
  say_text(r, "scope", scopes[info.scope]);
  say_record(r, kObject, &info);
  return CKPT_OK;
}

static ckpt_status run_part(runner* r) {
  ckpt_part_info info = {.struct_size = sizeof info};
  ckpt_status status = ckpt_reader_part_at(reader_of(r), (uint32_t)unsigned_integer(r, 1), &info, &r->error);
  if (status) return status;
  say_text(r, "name", info.name);
  say_unsigned(r, "rank", info.rank);
  return CKPT_OK;
}

static ckpt_status run_attrs(runner* r) {
  const char* tensor = *word(r, 1) ? word(r, 1) : NULL;
  for (uint64_t i = 0; i < ckpt_reader_attr_count(reader_of(r), tensor); i++) {
    const char *key, *value;
    ckpt_status status = ckpt_reader_attr_at(reader_of(r), tensor, i, &key, &value, &r->error);
    if (status) return status;
    say(r, NULL, "%s=%s", key, value);
  }
  return CKPT_OK;
}

SAYS(run_attr, say_text(r, NULL, ckpt_reader_attr(reader_of(r), text_of(r, "tensor"), word(r, 1))))

/* ---- files ---- */

static ckpt_file* file_of(runner* r) { return get(r, 0, FILE_OBJECT); }

MAKES(run_file_open, 0, FILE_OBJECT, ckpt_file, ckpt_file_open(&made, word(r, 1), r->options, &r->error))

static ckpt_status run_format(runner* r) {
  say_text(r, NULL, ckpt_file_format(file_of(r)));
  for (uint64_t i = 0; ckpt_file_left_out(file_of(r), i); i++) say_text(r, NULL, ckpt_file_left_out(file_of(r), i));
  return CKPT_OK;
}

LISTS(run_file_tensors, ckpt_file_tensor_count(file_of(r)), ckpt_file_tensor,
      ckpt_file_tensor_at(file_of(r), i, &info, &r->error))

#define F(kind, name) {#name, kind, offsetof(ckpt_file_tensor, name)}
static const field kFileTensor[] = {
    F(TEXT, name), F(DTYPE, dtype), F(U64, bytes), F(U64, data_bytes), F(TEXT, alias_of), F(I64, alias_offset), {0}};
#undef F

FINDS(run_file_tensor, ckpt_file_tensor, kFileTensor,
      ckpt_file_tensor_at(file_of(r), unsigned_integer(r, 1), &info, &r->error),
      say_text(r, "shape", shape_text(info.ndim, info.shape));
      say_text(r, "strides", shape_text(info.ndim, info.strides)))

static ckpt_status run_data(runner* r) {
  ckpt_file_tensor found = {.struct_size = sizeof found};
  ckpt_status status = ckpt_file_tensor_at(file_of(r), unsigned_integer(r, 1), &found, &r->error);
  if (!status) (void)keep_memory(r, 2, found.data, found.data_bytes);
  return status;
}

static ckpt_status run_read(runner* r) {
  memory* to = get_memory(r, 4);
  ckpt_tensor_desc desc;
  region_of(r, 2, &desc);
  return ckpt_file_read(file_of(r), unsigned_integer(r, 1), &desc, to ? to->data : NULL, to ? to->size : 0, &r->error);
}

static ckpt_status run_file_tree(runner* r) {
  const ckpt_tree* tree = NULL;
  ckpt_status status = ckpt_file_tree(file_of(r), &tree, &r->error);
  return status ? status : keep_borrowed(r, 1, TREE, tree, file_of(r));
}

const command reader_commands[] = {{"reader.open", run_open},
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
                                   {"file.open", run_file_open},
                                   {"file.format", run_format},
                                   {"file.tensors", run_file_tensors},
                                   {"file.tensor", run_file_tensor},
                                   {"file.data", run_data},
                                   {"file.read", run_read},
                                   {"file.tree", run_file_tree},
                                   {NULL, NULL}};
