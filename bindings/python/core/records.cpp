#include "records.h"

#include <string>

#include "errors.h"
#include "tree.h"

namespace nb = nanobind;

namespace ckpt_py {

static nb::object enums(const char* name) { return nb::module_::import_("ckpt.enums").attr(name); }
static nb::object records(const char* name) { return nb::module_::import_("ckpt.records").attr(name); }
static nb::object text_or_none(const char* text) { return text ? nb::object(decoded(text)) : nb::none(); }

nb::object dtype_of(int32_t dtype) { return enums("DType")(dtype); }
nb::object job_state_of(int32_t state) { return enums("JobState")(state); }

nb::tuple extents(const int64_t* values, int32_t ndim) {
  nb::list out;
  for (int32_t i = 0; i < ndim; i++) out.append(values[i]);
  return nb::tuple(out);
}

#include "fields.h"

nb::object record(const ckpt::CheckpointInfo& info) { return records("CheckpointInfo")(*fields(info)); }
nb::object record(const ckpt::RunInfo& info) { return records("RunInfo")(*fields(info)); }
nb::object record(const ckpt::TensorInfo& info) { return records("TensorInfo")(*fields(info)); }
nb::object record(const ckpt::ObjectInfo& info) { return records("ObjectInfo")(*fields(info)); }
nb::object record(const ckpt::PartInfo& info) { return records("PartInfo")(*fields(info)); }
nb::object record(const ckpt::JobStats& info) { return records("JobStats")(*fields(info)); }
nb::object record(const ckpt::FileTensor& info) { return records("FileTensor")(*fields(info)); }
nb::object record(const ckpt_option_info& info) { return records("OptionInfo")(*fields(info)); }

nb::object alias_record(const ckpt_tensor_desc& view) {
  return records("AliasInfo")(dtype_of(view.dtype), extents(view.shape, view.ndim), extents(view.strides, view.ndim),
                              view.flat_offset);
}

nb::object record(const ckpt::SegmentInfo& info) {
  const bool flat = info.ndim < 0;
  return records("SegmentInfo")(info.part, flat ? nb::none() : nb::object(extents(info.offset, info.ndim)),
                                flat ? nb::none() : nb::object(extents(info.extent, info.ndim)), info.flat_offset,
                                info.flat_size, enums("Codec")(info.codec), enums("Filter")(info.filter),
                                info.chunk_count, info.part_offset, info.stored_bytes);
}

nb::object record(const ckpt::TableInfo& info, const std::vector<ckpt::ColumnInfo>& columns) {
  nb::list of;
  for (const ckpt::ColumnInfo& column : columns) of.append(records("ColumnInfo")(*fields(column)));
  return records("TableInfo")(*fields(info), nb::tuple(of));
}

nb::object key_of(const ckpt::Node& node) {
  if (node.key_kind == CKPT_KEY_INT) return nb::int_(node.key_int);
  if (node.key_kind == CKPT_KEY_TEXT) return nb::str(node.key, static_cast<size_t>(node.key_size));
  return nb::none();
}

nb::object value_of(const ckpt::Node& node) {
  const size_t size = static_cast<size_t>(node.text_size);
  switch (node.kind) {
    case CKPT_NODE_BOOL:
      return nb::bool_(node.bool_value != 0);
    case CKPT_NODE_INT:
      return nb::int_(node.int_value);
    case CKPT_NODE_FLOAT:
      return nb::float_(node.float_value);
    case CKPT_NODE_BYTES:
      return nb::bytes(node.text, size);
    case CKPT_NODE_TEXT:
    case CKPT_NODE_TENSOR:
    case CKPT_NODE_RECORD:
      return nb::str(node.text, size);
    case CKPT_NODE_BIGINT:
      return nb::module_::import_("ckpt.records").attr("int_of_digits")(nb::str(node.text, size));
    default:
      return nb::none();
  }
}

static nb::object place_or_none(uint64_t node) {
  return node == CKPT_NODE_END ? nb::none() : nb::object(nb::int_(node));
}

nb::object record(const ckpt::Node& node) {
  return records("Node")(enums("NodeKind")(node.kind), enums("KeyKind")(node.key_kind), key_of(node), value_of(node),
                         node.child_count, place_or_none(node.first_child), place_or_none(node.next_sibling),
                         place_or_none(node.parent));
}

nb::object record(const ckpt::Report& report) {
  nb::list findings;
  for (size_t i = 0; i < report.size(); i++) findings.append(records("Finding")(*fields(report.at(i))));
  return records("Report")(nb::tuple(findings));
}

}  // namespace ckpt_py
