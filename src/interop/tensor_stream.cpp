#include "interop/tensor_stream.h"

#include <algorithm>
#include <utility>

namespace ckpt::interop {

static constexpr size_t kMaxPieces = 1 << 16;  // a load of more does not get faster

Status TensorStream::add(size_t item, const TensorRange& range) {
  if (range.size == 0) return add_piece({item, 0, 0, true, true}, range);
  CKPT_ASSIGN(const uint64_t bytes, element_bytes(range.size, range.dtype));
  // A multiple of 8 elements ends at a whole byte, whatever the dtype.
  const auto bits = static_cast<uint64_t>(dtype_bits(range.dtype));
  const uint64_t step = bytes <= buffer_.size() ? range.size : buffer_.size() / bits * 8;
  TensorRange part = range;
  for (uint64_t at = 0; at < range.size; at += step) {
    part.begin = range.begin + at;
    part.size = std::min(step, range.size - at);
    CKPT_ASSIGN(const uint64_t part_bytes, element_bytes(part.size, range.dtype));
    CKPT_TRY(add_piece({item, part_bytes, bytes, at == 0, at + part.size == range.size}, part));
  }
  return Ok();
}

Status TensorStream::add_piece(const Piece& piece, const TensorRange& range) {
  if (piece.bytes > buffer_.size() - used_ || pieces_.size() == kMaxPieces) CKPT_TRY(flush());
  pieces_.push_back(piece);
  if (piece.bytes == 0) return Ok();
  if (!load_) {
    CKPT_ASSIGN(load_, result(client::Load::create(reader_, options_)));
  }
  CKPT_ASSIGN(const uint64_t all, element_count(range.shape));
  const ckpt_tensor_desc desc = range.size == all ? describe(range.dtype, range.shape)
                                                  : describe(range.dtype, range.shape, range.begin, range.size);
  CKPT_TRY(done(
      load_->add_tensor(range.name, client::Tensor(desc), client::MutableMemory(buffer_.data() + used_, piece.bytes))));
  used_ += piece.bytes;
  return Ok();
}

Status TensorStream::flush() {
  if (std::optional<client::Load> load = std::exchange(load_, std::nullopt)) CKPT_TRY(done(load->run()));
  const std::vector<Piece> pieces = std::exchange(pieces_, {});
  return pieces.empty() ? Ok() : sink_(pieces, buffer_.first(std::exchange(used_, 0)));
}

}  // namespace ckpt::interop
