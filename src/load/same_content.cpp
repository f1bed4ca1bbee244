#include "load/same_content.h"

#include <algorithm>
#include <cstring>

#include "load/load.h"

namespace ckpt::load {

bool same_stored(const fb::Chunk& x, const fb::Chunk& y) {
  return format::id_of(x.digest()) == format::id_of(y.digest()) && x.raw_size() == y.raw_size() &&
         x.stored_size() == y.stored_size();
}

bool same_layout(const checkpoint::Piece& x, const checkpoint::Piece& y) {
  const fb::Segment &s = *x.segment, &t = *y.segment;
  return x.held() == y.held() && s.start() == t.start() && s.count() == t.count() && s.codec() == t.codec() &&
         s.filter() == t.filter() && s.filter_width() == t.filter_width() &&
         std::ranges::equal(x.chunks(), y.chunks(), {}, &fb::Chunk::raw_size, &fb::Chunk::raw_size);
}

bool same_chunks(const std::vector<checkpoint::Piece>& a, const std::vector<checkpoint::Piece>& b) {
  return std::ranges::equal(a, b, [](const checkpoint::Piece& x, const checkpoint::Piece& y) {
    return same_layout(x, y) && std::ranges::equal(x.chunks(), y.chunks(), same_stored);
  });
}

Status read_range(const checkpoint::Checkpoint& checkpoint, const checkpoint::TensorRef& tensor, uint64_t first,
                  MutableBytes out) {
  plan::Geometry geometry = *plan::geometry_of(tensor.dtype(), tensor.shape());
  LoadPlan plan(checkpoint);
  Region range;
  range.kind = RegionKind::kFlat;
  range.flat_offset = first;
  range.flat_size = out.size() / geometry.width;
  add_boxes(&plan, tensor, geometry, range, {.data = out.data(), .dtype = geometry.dtype, .strides = {1}, .ndim = 1});
  CKPT_TRY(plan_reads(&plan));
  Job job;
  return execute_reads(checkpoint, plan, {.threads = 1, .staging_bytes = kPieceBytes, .verify = true}, job);
}

Result<bool> same_content(const checkpoint::Checkpoint& checkpoint, const checkpoint::TensorRef& a,
                          const checkpoint::TensorRef& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  CKPT_ASSIGN(const auto x, checkpoint.pieces(a));
  CKPT_ASSIGN(const auto y, checkpoint.pieces(b));
  if (std::ranges::equal(x, y, same_layout)) return same_chunks(x, y);
  const plan::Geometry geometry = *plan::geometry_of(a.dtype(), a.shape());
  const uint64_t step = std::max<uint64_t>(kPieceBytes / geometry.width, 1);
  std::vector<std::byte> left, right;
  for (uint64_t at = 0; at < geometry.volume; at += step) {
    CKPT_TRY(CallContext::current().check());
    left.resize(std::min(step, geometry.volume - at) * geometry.width);
    right.resize(left.size());
    CKPT_TRY(read_range(checkpoint, a, at, left));
    CKPT_TRY(read_range(checkpoint, b, at, right));
    if (left != right) return false;
  }
  return true;
}

}  // namespace ckpt::load
