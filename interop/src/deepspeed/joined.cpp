#include "interop/src/deepspeed/joined.h"

#include <algorithm>

#include "interop/src/json.h"

namespace ckpt::interop {

Status Joined::add(const ForeignTensor& tensor, uint64_t count) {
  const auto refuse = [&](const std::string& what) {
    return Status(CKPT_FORMAT, shown(tensor.name) + ": " + what).with("tensor", tensor.name);
  };
  if (tensor.shape.ndim != 1 || dtype_bits(tensor.dtype) % 8 != 0) return refuse("expected a tensor of one dimension");
  if (tensor.shape[0] < count) return refuse(strformat("expected {} elements, found {}", count, tensor.shape[0]));
  if (!segments_.empty() && tensor.dtype != dtype_)
    return refuse(strformat("expected {}, as the others, found {}", dtype_name(dtype_), dtype_name(tensor.dtype)));
  if (count == 0) return Ok();
  const ForeignPiece& piece = tensor.pieces[0];
  if (piece.strides && (*piece.strides)[0] != 1 && tensor.shape[0] > 1) return refuse("its elements lie apart");
  dtype_ = tensor.dtype;
  FileRange bytes = piece.bytes;
  bytes.size = count * static_cast<uint64_t>(dtype_bits(dtype_)) / 8;
  segments_.push_back({size_, bytes});
  size_ += count;  // all of them are in memory's addresses
  return Ok();
}

void Joined::cut(uint64_t begin, uint64_t count, uint64_t flat_offset, ForeignTensor* to) const {
  const uint64_t width = static_cast<uint64_t>(dtype_bits(dtype_)) / 8, end = begin + count;
  auto segment = std::upper_bound(segments_.begin(), segments_.end(), begin,
                                  [](uint64_t at, const Segment& other) { return at < other.begin; });
  for (segment = count == 0 ? segments_.end() : std::prev(segment); segment != segments_.end(); ++segment) {
    if (segment->begin >= end) break;
    const uint64_t first = std::max(begin, segment->begin);
    const uint64_t last = std::min(end, segment->begin + segment->bytes.size / width);
    ForeignPiece& piece = to->pieces.emplace_back();
    piece.bytes = {segment->bytes.file, segment->bytes.offset + (first - segment->begin) * width,
                   (last - first) * width};
    if (last - first == to->elements()) continue;  // the whole tensor
    piece.region = {RegionKind::kFlat, {}, flat_offset + (first - begin), last - first};
  }
}

}  // namespace ckpt::interop
