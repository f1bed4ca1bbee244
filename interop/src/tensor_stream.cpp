#include "interop/src/tensor_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "interop/src/strides.h"

namespace ckpt::interop {

static constexpr size_t kMaxPieces = 1 << 16;     // a load of more does not get faster
static constexpr uint64_t kRowsBytes = 4U << 20;  // of a mapped tensor, of which columns are wanted

static ckpt_tensor_desc describe_box(const TensorRange& range, const Box& box) {
  ckpt_tensor_desc desc = describe(range.dtype, range.shape);
  desc.region_kind = CKPT_REGION_BOX;
  desc.flags = CKPT_TENSOR_STRIDED;
  const Strides strides = strides_of(box.extent, range.axes);
  for (int i = 0; i < desc.ndim; i++) {
    desc.offset[i] = static_cast<int64_t>(box.offset[i]);
    desc.extent[i] = static_cast<int64_t>(box.extent[i]);
    desc.strides[i] = strides[static_cast<size_t>(i)];
  }
  return desc;
}

Status TensorStream::add(size_t item, const TensorRange& range) {
  if (range.size == 0) return add_piece({item, 0, 0, true, true}, range.name, {});
  if (!range.axes.empty()) return add_box(item, range, range.box.value_or(Box::whole(range.shape)), 0);
  CKPT_ASSIGN(const uint64_t bytes, element_bytes(range.size, range.dtype));
  CKPT_ASSIGN(const uint64_t all, element_count(range.shape));
  // A multiple of 8 elements ends at a whole byte, whatever the dtype.
  const auto bits = static_cast<uint64_t>(dtype_bits(range.dtype));
  const uint64_t step = bytes <= buffer_.size() ? range.size : buffer_.size() / bits * 8;
  for (uint64_t at = 0; at < range.size; at += step) {
    const uint64_t size = std::min(step, range.size - at);
    CKPT_ASSIGN(const uint64_t part_bytes, element_bytes(size, range.dtype));
    const ckpt_tensor_desc desc =
        size == all ? describe(range.dtype, range.shape) : describe(range.dtype, range.shape, range.begin + at, size);
    CKPT_TRY(add_piece({item, part_bytes, bytes, at == 0, at + size == range.size}, range.name, desc));
  }
  return Ok();
}

Status TensorStream::add_box(size_t item, const TensorRange& range, const Box& box, size_t level) {
  CKPT_ASSIGN(const uint64_t bytes, element_bytes(box.volume(), range.dtype));
  if (bytes <= buffer_.size()) {
    CKPT_ASSIGN(const uint64_t all, element_bytes(range.size, range.dtype));
    const Box whole = range.box.value_or(Box::whole(range.shape));
    bool is_first = true, is_last = true;
    for (int i = 0; i < box.extent.ndim; i++) {
      is_first &= box.offset[i] == whole.offset[i];
      is_last &= box.offset[i] + box.extent[i] == whole.offset[i] + whole.extent[i];
    }
    return add_piece({item, bytes, all, is_first, is_last}, range.name, describe_box(range, box));
  }
  const int axis = range.axes[level];
  const uint64_t step = std::max<uint64_t>(buffer_.size() / (bytes / box.extent[axis]), 1);
  Box part = box;
  for (uint64_t at = 0; at < box.extent[axis]; at += step) {
    part.offset[axis] = box.offset[axis] + at;
    part.extent[axis] = std::min(step, box.extent[axis] - at);
    CKPT_TRY(add_box(item, range, part, level + 1));
  }
  return Ok();
}

Status TensorStream::add_piece(const Piece& piece, const std::string& name, const ckpt_tensor_desc& desc) {
  if (piece.bytes > buffer_.size() - used_ || pieces_.size() == kMaxPieces) CKPT_TRY(flush());
  pieces_.push_back(piece);
  if (piece.bytes == 0) return Ok();
  const MutableBytes out = buffer_.subspan(used_, piece.bytes);
  used_ += piece.bytes;
  const std::optional<std::string> origin = state_.origin(name);
  if (!origin) return read(name, desc, out);
  if (!load_) {
    CKPT_ASSIGN(load_, result(client::Load::create(state_.reader(), options_)));
  }
  return done(load_->add_tensor(*origin, client::Tensor(desc), client::MutableMemory(out.data(), out.size())));
}

// Of what is not in the checkpoint as it is wanted.
Status TensorStream::read(const std::string& name, const ckpt_tensor_desc& desc, MutableBytes out) const {
  const bool in_rows = desc.ndim == 2 && desc.strides[1] == 1 && desc.strides[0] == desc.extent[1];
  if (desc.region_kind == CKPT_REGION_BOX && in_rows) return read_columns(name, desc, out);
  if (desc.region_kind == CKPT_REGION_BOX)
    return Status(CKPT_UNSUPPORTED, "tensor " + ckpt::in_quotes(name) + ": it was mapped, so it has no memory format")
        .with("tensor", name);
  if (desc.region_kind == CKPT_REGION_FLAT)
    return state_.read(name, static_cast<uint64_t>(desc.flat_offset), static_cast<uint64_t>(desc.flat_size), out);
  CKPT_ASSIGN(
      const uint64_t elements,
      element_count(Shape::of({reinterpret_cast<const uint64_t*>(desc.shape), static_cast<size_t>(desc.ndim)})));
  return state_.read(name, 0, elements, out);
}

// Whole rows are computed, some at a time, and columns of them taken.
Status TensorStream::read_columns(const std::string& name, const ckpt_tensor_desc& desc, MutableBytes out) const {
  const auto rows = static_cast<uint64_t>(desc.extent[0]), columns = static_cast<uint64_t>(desc.shape[1]);
  const uint64_t width = out.size() / rows / static_cast<uint64_t>(desc.extent[1]);  // of an element
  const uint64_t step = std::max<uint64_t>(kRowsBytes / (columns * width), 1), part = out.size() / rows;
  std::vector<std::byte> whole(std::min(step, rows) * columns * width);
  for (uint64_t at = 0; at < rows; at += step) {
    const uint64_t count = std::min(step, rows - at);
    const MutableBytes some = MutableBytes(whole).first(count * columns * width);
    CKPT_TRY(state_.read(name, (static_cast<uint64_t>(desc.offset[0]) + at) * columns, count * columns, some));
    const std::byte* from = some.data() + static_cast<uint64_t>(desc.offset[1]) * width;
    for (uint64_t row = 0; row < count; row++)
      std::memcpy(out.data() + (at + row) * part, from + row * columns * width, part);
  }
  return Ok();
}

Status TensorStream::flush() {
  if (std::optional<client::Load> load = std::exchange(load_, std::nullopt)) CKPT_TRY(done(load->run()));
  const std::vector<Piece> pieces = std::exchange(pieces_, {});
  return pieces.empty() ? Ok() : sink_(pieces, buffer_.first(std::exchange(used_, 0)));
}

}  // namespace ckpt::interop
