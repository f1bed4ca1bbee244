#include "interop/src/pt/storage_plan.h"

#include <algorithm>
#include <utility>

namespace ckpt::interop {

namespace {

Result<ckpt_tensor_info> find(const State& state, const std::string& name) {
  Result<ckpt_tensor_info> info = state.tensor(name);
  if (info.ok() || info.status().code() != CKPT_NOT_FOUND) return info;
  return Status(CKPT_FORMAT, "the tree names tensor " + ckpt::in_quotes(name) + ", which the checkpoint lacks")
      .with("tensor", name);
}

Result<TensorRange> range_of(const ckpt_tensor_info& info) {
  TensorRange range{info.name, static_cast<uint16_t>(info.dtype), shape_of(info), 0, 0};
  const bool pairs = range.dtype == CKPT_DTYPE_F4_E2M1FN;
  if (pairs && (range.shape.ndim == 0 || range.shape[range.shape.ndim - 1] % 2 != 0))
    return Status(CKPT_UNSUPPORTED,
                  "tensor " + ckpt::in_quotes(range.name) + ": torch's float4_e2m1fn_x2 has no rows of an odd length")
        .with("tensor", range.name)
        .with("found", to_text(range.shape));
  if (!pairs && dtype_bits(range.dtype) % 8 != 0) {
    const std::string found = strformat("{} (0x{:04x})", ckpt_dtype_name(info.dtype), info.dtype);
    return Status(CKPT_UNSUPPORTED, "tensor " + ckpt::in_quotes(range.name) + ": torch has no dtype " + found)
        .with("tensor", range.name)
        .with("found", found);
  }
  CKPT_ASSIGN(range.size, element_count(range.shape));
  return range;
}

// torch's element of float4_e2m1fn_x2 is a byte of two. Packed elements always lie in a row.
void join_pairs(PtPlace* place) {
  if (place->dtype != CKPT_DTYPE_F4_E2M1FN) return;
  place->shape[place->shape.ndim - 1] /= 2;
  place->strides = row_major(place->shape);
  place->offset /= 2;
}

PtPlace all_of(const TensorRange& range, size_t storage) {
  PtPlace place;
  place.dtype = range.dtype;
  place.shape = range.shape;
  place.storage = storage;
  place.strides = range.axes.empty() ? row_major(place.shape) : strides_of(place.shape, range.axes);
  join_pairs(&place);
  return place;
}

// Where a view of a tensor's elements lies, in those.
PtPlace place_of_view(const ckpt_tensor_info& info, const ckpt_tensor_desc& view) {
  PtPlace place;
  place.dtype = static_cast<uint16_t>(info.dtype);
  place.shape = shape_of(info);
  std::copy_n(view.strides, view.ndim, place.strides.begin());
  place.offset = static_cast<uint64_t>(view.flat_offset);
  return place;
}

}  // namespace

Result<TensorRange> whole_of(const State& state, const std::string& name) {
  CKPT_ASSIGN(const ckpt_tensor_info info, find(state, name));
  return range_of(info);
}

Result<std::string> target_of(const State& state, const std::string& name) {
  CKPT_ASSIGN(const ckpt_tensor_info info, find(state, name));
  return std::string(info.alias_of ? info.alias_of : "");
}

Result<size_t> PtStoragePlan::storage_of(TensorRange range, std::string_view type) {
  std::string key(type);
  for (const int axis : range.axes) key += ',' + std::to_string(axis);
  if (range.box) key += ' ' + to_text(*range.box);
  key += ' ' + std::to_string(range.begin) + ' ' + std::to_string(range.size) + ' ' + range.name;
  const auto [found, is_new] = position_.try_emplace(std::move(key), storages_.size());
  if (!is_new) return found->second;
  CKPT_ASSIGN(const uint64_t bytes, element_bytes(range.size, range.dtype));
  if (add_overflows(bytes_, bytes, &bytes_) || bytes_ >> 62 != 0)
    return Status(CKPT_UNSUPPORTED, "the file would be larger than 2^62 bytes").with("tensor", range.name);
  storages_.push_back({std::move(range), bytes});
  return found->second;
}

Result<PtPlace> PtStoragePlan::place(const std::string& name, std::string_view type, const std::vector<int>& axes) {
  CKPT_ASSIGN(const ckpt_tensor_info info, find(state_, name));
  if (!info.alias_of) return place_alone(name, type, axes);
  CKPT_ASSIGN(const TensorRange target, whole_of(state_, info.alias_of));
  CKPT_ASSIGN(const ckpt_tensor_desc alias, state_.alias(name));
  PtPlace place = place_of_view(info, alias);
  if (dtype_bits(place.dtype) < 8 && place.offset % 2 != 0) return place_alone(name, type, axes);
  // What lies in a row in the checkpoint gets its order in memory; other strides are that order.
  if (!axes.empty() && is_row_major(place.shape, place.strides)) {
    const bool is_whole = place.offset == 0 && place.shape == target.shape;
    return place_alone(is_whole ? target.name : name, type, axes);
  }
  CKPT_TRY(whole_of(state_, name).status());  // an odd row of four bits is no pairs
  join_pairs(&place);
  CKPT_ASSIGN(place.storage, storage_of(target, type));
  return place;
}

Result<PtPlace> PtStoragePlan::place_alone(const std::string& name, std::string_view type,
                                           const std::vector<int>& axes) {
  CKPT_ASSIGN(TensorRange range, whole_of(state_, name));
  range.axes = axes;
  CKPT_ASSIGN(const size_t storage, storage_of(range, type));
  return all_of(range, storage);
}

Result<PtPlace> PtStoragePlan::place_range(const std::string& name, std::string_view type, uint64_t begin,
                                           uint64_t size) {
  CKPT_ASSIGN(TensorRange range, whole_of(state_, name));
  if (begin > range.size || size > range.size - begin)
    return Status(CKPT_INTERNAL, "tensor " + ckpt::in_quotes(name) + ": a range outside of it");
  if (dtype_bits(range.dtype) < 8)
    return Status(CKPT_UNSUPPORTED, "tensor " + ckpt::in_quotes(name) + ": elements of 4 bits in several files")
        .with("tensor", name);
  range.begin = begin;
  range.size = size;
  CKPT_ASSIGN(const size_t storage, storage_of(range, type));
  PtPlace place = all_of(range, storage);
  place.shape = Shape();
  place.shape.ndim = 1;
  place.shape[0] = size;
  place.strides = row_major(place.shape);
  return place;
}

Result<PtPlace> PtStoragePlan::place_box(const std::string& name, std::string_view type, const Box& box) {
  CKPT_ASSIGN(TensorRange range, whole_of(state_, name));
  if (dtype_bits(range.dtype) < 8)
    return Status(CKPT_UNSUPPORTED, "tensor " + ckpt::in_quotes(name) + ": elements of 4 bits in several files")
        .with("tensor", name);
  range.size = box.volume();
  range.box = box;
  for (int i = 0; i < box.extent.ndim; i++) range.axes.push_back(i);
  CKPT_ASSIGN(const size_t storage, storage_of(range, type));
  PtPlace place = all_of(range, storage);
  place.shape = box.extent;
  place.strides = row_major(place.shape);
  return place;
}

}  // namespace ckpt::interop
