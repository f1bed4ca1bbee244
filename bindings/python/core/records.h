// Turns the plain structs of the C API into the frozen dataclasses of gen/records.py.
#pragma once

#include <nanobind/nanobind.h>

#include <ckpt.hpp>

namespace ckpt_py {

nanobind::object record(const ckpt::CheckpointInfo& info);
nanobind::object record(const ckpt::RunInfo& info);
nanobind::object record(const ckpt::TensorInfo& info);
nanobind::object alias_record(const ckpt_tensor_desc& view);
nanobind::object record(const ckpt::SegmentInfo& info);
nanobind::object record(const ckpt::ObjectInfo& info);
nanobind::object record(const ckpt::PartInfo& info);
nanobind::object record(const ckpt::JobStats& stats);
nanobind::object record(const ckpt::Node& node);
nanobind::object record(const ckpt::FileTensor& tensor);
nanobind::object record(const ckpt_option_info& info);
nanobind::object record(const ckpt::Report& report);
nanobind::object record(const ckpt::TableInfo& info, const std::vector<ckpt::ColumnInfo>& columns);

nanobind::object dtype_of(int32_t dtype);
nanobind::object job_state_of(int32_t state);
nanobind::tuple extents(const int64_t* values, int32_t ndim);

}  // namespace ckpt_py
