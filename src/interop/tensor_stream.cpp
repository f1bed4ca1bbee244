#include "interop/tensor_stream.h"

#include <algorithm>
#include <utility>

namespace ckpt::interop {

static constexpr size_t kMaxPieces = 1 << 16;  // a load of more does not get faster

static ckpt_tensor_desc describe(const TensorRange& range, uint64_t all) {
  ckpt_tensor_desc desc{};
  desc.struct_size = sizeof desc;
  desc.dtype = range.dtype;
  desc.ndim = range.shape.ndim;
  desc.region_kind = range.begin == 0 && range.size == all ? CKPT_REGION_WHOLE : CKPT_REGION_FLAT;
  for (int i = 0; i < range.shape.ndim; i++) desc.shape[i] = static_cast<int64_t>(range.shape[i]);
  if (desc.region_kind == CKPT_REGION_WHOLE) return desc;
  desc.flat_offset = static_cast<int64_t>(range.begin);
  desc.flat_size = static_cast<int64_t>(range.size);
  return desc;
}

Status TensorStream::add(size_t item, const TensorRange& range) {
  if (range.size == 0) return add_piece({item, 0, true, true}, range);
  CKPT_ASSIGN(const uint64_t bytes, element_bytes(range.size, range.dtype));
  // A multiple of 8 elements ends at a whole byte, whatever the dtype.
  const auto bits = static_cast<uint64_t>(dtype_bits(range.dtype));
  const uint64_t step = bytes <= buffer_.size() ? range.size : buffer_.size() / bits * 8;
  TensorRange part = range;
  for (uint64_t at = 0; at < range.size; at += step) {
    part.begin = range.begin + at;
    part.size = std::min(step, range.size - at);
    CKPT_ASSIGN(const uint64_t part_bytes, element_bytes(part.size, range.dtype));
    CKPT_TRY(add_piece({item, part_bytes, at == 0, at + part.size == range.size}, part));
  }
  return Ok();
}

Status TensorStream::add_piece(const Piece& piece, const TensorRange& range) {
  if (piece.bytes > buffer_.size() - used_ || pieces_.size() == kMaxPieces) CKPT_TRY(flush());
  pieces_.push_back(piece);
  if (piece.bytes == 0) return Ok();
  if (!load_) {
    ckpt_load* made = nullptr;
    CKPT_TRY(call([&](ckpt_error** err) { return ckpt_load_new(&made, reader_, options_, err); }));
    load_.reset(made);
  }
  CKPT_ASSIGN(const uint64_t all, element_count(range.shape));
  const ckpt_tensor_desc desc = describe(range, all);
  CKPT_TRY(call([&](ckpt_error** err) {
    return ckpt_load_add_tensor(load_.get(), range.name.c_str(), &desc, buffer_.data() + used_, piece.bytes,
                                CKPT_DEVICE_CPU, 0, err);
  }));
  used_ += piece.bytes;
  return Ok();
}

Status TensorStream::flush() {
  if (const LoadHandle load = std::move(load_))
    CKPT_TRY(call([&](ckpt_error** err) { return ckpt_load_run(load.get(), err); }));
  const std::vector<Piece> pieces = std::exchange(pieces_, {});
  return pieces.empty() ? Ok() : sink_(pieces, buffer_.first(std::exchange(used_, 0)));
}

}  // namespace ckpt::interop
