#include "interop/pt/storage_plan.h"

#include <utility>

namespace ckpt::interop {

namespace {

Result<ckpt_tensor_info> find(const client::Reader& reader, const std::string& name) {
  Result<ckpt_tensor_info> info = result(reader.tensor(name));
  if (info.ok() || info.status().code() != CKPT_NOT_FOUND) return info;
  return Status(CKPT_FORMAT, "the tree names tensor " + quoted(name) + ", which the checkpoint lacks")
      .with("tensor", name);
}

Result<TensorRange> range_of(const ckpt_tensor_info& info) {
  TensorRange range{info.name, static_cast<uint16_t>(info.dtype), shape_of(info), 0, 0};
  if (dtype_bits(range.dtype) % 8 != 0) {
    const std::string found = strformat("{} (0x{:04x})", ckpt_dtype_name(info.dtype), info.dtype);
    return Status(CKPT_UNSUPPORTED, "tensor " + quoted(range.name) + ": torch has no dtype " + found)
        .with("tensor", range.name)
        .with("found", found);
  }
  CKPT_ASSIGN(range.size, element_count(range.shape));
  return range;
}

PtPlace all_of(const TensorRange& range, size_t storage) {
  PtPlace place;
  place.dtype = range.dtype;
  place.shape = range.shape;
  place.storage = storage;
  place.strides = row_major(place.shape);
  return place;
}

}  // namespace

Result<TensorRange> whole_of(const client::Reader& reader, const std::string& name) {
  CKPT_ASSIGN(const ckpt_tensor_info info, find(reader, name));
  return range_of(info);
}

Result<std::string> target_of(const client::Reader& reader, const std::string& name) {
  CKPT_ASSIGN(const ckpt_tensor_info info, find(reader, name));
  return std::string(info.alias_of ? info.alias_of : "");
}

Result<size_t> PtStoragePlan::storage_of(TensorRange range, std::string_view type) {
  std::string key(type);
  key += ' ' + std::to_string(range.begin) + ' ' + std::to_string(range.size) + ' ' + range.name;
  const auto [found, is_new] = position_.try_emplace(std::move(key), storages_.size());
  if (!is_new) return found->second;
  CKPT_ASSIGN(const uint64_t bytes, element_bytes(range.size, range.dtype));
  if (add_overflows(bytes_, bytes, &bytes_) || bytes_ >> 62 != 0)
    return Status(CKPT_UNSUPPORTED, "the file would be larger than 2^62 bytes").with("tensor", range.name);
  storages_.push_back({std::move(range), bytes});
  return found->second;
}

Result<PtPlace> PtStoragePlan::place(const std::string& name, std::string_view type) {
  CKPT_ASSIGN(const ckpt_tensor_info info, find(reader_, name));
  if (!info.alias_of) return place_alone(name, type);
  CKPT_ASSIGN(const TensorRange target, whole_of(reader_, info.alias_of));
  CKPT_ASSIGN(const client::Tensor alias, result(reader_.alias(name)));
  const ckpt_tensor_desc& view = alias.desc();
  PtPlace place;
  place.dtype = target.dtype;
  place.shape.ndim = view.ndim;
  for (int i = 0; i < view.ndim; i++) {
    place.shape[i] = static_cast<uint64_t>(view.shape[i]);
    place.strides[static_cast<size_t>(i)] = view.strides[i];
  }
  place.offset = static_cast<uint64_t>(view.flat_offset);
  CKPT_ASSIGN(place.storage, storage_of(target, type));
  return place;
}

Result<PtPlace> PtStoragePlan::place_alone(const std::string& name, std::string_view type) {
  CKPT_ASSIGN(const TensorRange range, whole_of(reader_, name));
  CKPT_ASSIGN(const size_t storage, storage_of(range, type));
  return all_of(range, storage);
}

Result<PtPlace> PtStoragePlan::place_range(const std::string& name, std::string_view type, uint64_t begin,
                                           uint64_t size) {
  CKPT_ASSIGN(TensorRange range, whole_of(reader_, name));
  if (begin > range.size || size > range.size - begin)
    return Status(CKPT_INTERNAL, "tensor " + quoted(name) + ": a range outside of it");
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

}  // namespace ckpt::interop
