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

nb::object record(const ckpt::CheckpointInfo& info) {
  return records("CheckpointInfo")(info.id, info.label, info.run, enums("CheckpointState")(info.state),
                                   enums("CheckpointFlags")(info.flags), info.step, info.world_size, info.part_count,
                                   info.tensor_count, info.object_count, info.bytes, info.token, info.attempt,
                                   info.sequence, info.created_unix_ms, info.revision, info.save_id, info.store_id,
                                   info.session_id, info.writer, info.passed_over);
}

nb::object record(const ckpt::RunInfo& info) {
  return records("RunInfo")(info.name, info.token, info.checkpoint_count, info.newest_id, info.newest_label,
                            info.newest_step);
}

nb::object record(const ckpt::TensorInfo& info) {
  return records("TensorInfo")(info.name, dtype_of(info.dtype), extents(info.shape, info.ndim), info.bytes,
                               info.stored_bytes, info.segment_count, text_or_none(info.alias_of));
}

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

nb::object record(const ckpt::ObjectInfo& info) {
  return records("ObjectInfo")(info.name, info.media_type, enums("Scope")(info.scope), info.rank, info.size);
}

nb::object record(const ckpt::TableInfo& info, const std::vector<ckpt::ColumnInfo>& columns) {
  nb::list of;
  for (const ckpt::ColumnInfo& column : columns)
    of.append(records("ColumnInfo")(column.name, dtype_of(column.dtype), extents(column.shape, column.ndim),
                                    column.row_bytes, column.stored_bytes));
  return records("TableInfo")(info.name, dtype_of(info.id_dtype), info.row_count, info.bucket_count, info.bytes,
                              info.stored_bytes, nb::tuple(of));
}

nb::object record(const ckpt::PartInfo& info) {
  return records("PartInfo")(info.name, info.rank, info.bytes, info.save_id);
}

nb::object record(const ckpt::JobStats& stats) {
  return records("JobStats")(
      job_state_of(stats.state), stats.bytes_total, stats.bytes_done, stats.bytes_read, stats.bytes_written,
      stats.bytes_requested, stats.chunk_count, stats.run_count, stats.io_count, stats.staging_peak_bytes,
      stats.stage_us, stats.write_us, stats.commit_us, stats.total_us, stats.direct_io != 0, stats.threads,
      stats.arena_us, enums("IoEngine")(stats.io_engine), stats.recycled != 0, stats.get_count, stats.put_count,
      stats.list_count, stats.delete_count, stats.retry_count, stats.bytes_sent, stats.bytes_received);
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

nb::object record(const ckpt::FileTensor& tensor) {
  return records("FileTensor")(tensor.name, dtype_of(tensor.dtype), extents(tensor.shape, tensor.ndim),
                               extents(tensor.strides, tensor.ndim), tensor.bytes, tensor.data_bytes,
                               text_or_none(tensor.alias_of), tensor.alias_offset);
}

nb::object record(const ckpt_option_info& info) {
  return records("OptionInfo")(info.key, enums("OptionKind")(info.kind), info.min, info.max, info.fallback,
                               info.choices, info.used_by, info.help);
}

nb::object record(const ckpt::Report& report) {
  nb::list findings;
  for (size_t i = 0; i < report.size(); i++) {
    const ckpt::Finding finding = report.at(i);
    findings.append(records("Finding")(enums("FindingKind")(finding.kind), enums("Status")(finding.status),
                                       text_or_none(finding.text), text_or_none(finding.name),
                                       text_or_none(finding.part), finding.offset, finding.size, finding.first_element,
                                       finding.last_element, finding.max_abs, finding.max_rel, finding.count));
  }
  return records("Report")(nb::tuple(findings));
}

}  // namespace ckpt_py
