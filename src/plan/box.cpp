#include "plan/box.h"

#include <cassert>

namespace ckpt::plan {

// The length of [offset, offset + extent) from `from` on; `from` must not be below `offset`.
static uint64_t left_from(uint64_t offset, uint64_t extent, uint64_t from) {
  uint64_t skipped = from - offset;
  return skipped < extent ? extent - skipped : 0;
}

Box intersect(const Box& a, const Box& b) {
  assert(a.ndim() == b.ndim());
  Box common = Box::whole(a.extent);
  for (int d = 0; d < a.ndim(); d++) {
    uint64_t from = std::max(a.offset[d], b.offset[d]);
    common.offset[d] = from;
    common.extent[d] = std::min(left_from(a.offset[d], a.extent[d], from), left_from(b.offset[d], b.extent[d], from));
  }
  return common;
}

bool inside(const Box& box, const Shape& shape) {
  if (box.offset.ndim != shape.ndim || box.extent.ndim != shape.ndim) return false;
  for (int d = 0; d < shape.ndim; d++)
    if (box.extent[d] > shape[d] || box.offset[d] > shape[d] - box.extent[d]) return false;
  return true;
}

Shape contiguous_strides(const Shape& extent) {
  Shape strides = extent;
  uint64_t stride = 1;
  for (int d = extent.ndim - 1; d >= 0; d--) {
    strides[d] = stride;
    stride *= extent[d];
  }
  return strides;
}

bool is_contiguous(std::span<const uint64_t> extent, std::span<const uint64_t> strides) {
  uint64_t expected = 1;
  for (size_t i = extent.size(); i-- > 0; expected *= extent[i])
    if (extent[i] != 1 && strides[i] != expected) return false;
  return true;
}

namespace {

// Cuts a range of a box into boxes, from the outermost dimension inwards: a partial first slice, the full slices, a
// partial last slice.
struct RangeCutter {
  const Box& outer;
  Shape strides;
  Box box;  // dimensions before the current one are fixed, those after it are whole
  std::vector<Box>& boxes;

  void cut(int d, uint64_t first, uint64_t last) {
    if (first == last) return;
    if (d == box.ndim()) return boxes.push_back(box);
    uint64_t stride = strides[d];
    uint64_t from = first / stride, to = last / stride;
    uint64_t head = first % stride, tail = last % stride;
    if (from == to) return slice(d, from, head, tail);
    if (head) slice(d, from++, head, stride);
    if (from < to) {
      select(d, from, to - from);
      boxes.push_back(box);
      select(d, 0, outer.extent[d]);
    }
    if (tail) slice(d, to, 0, tail);
  }

  void slice(int d, uint64_t at, uint64_t first, uint64_t last) {
    select(d, at, 1);
    cut(d + 1, first, last);
    select(d, 0, outer.extent[d]);
  }

  void select(int d, uint64_t at, uint64_t count) {
    box.offset[d] = outer.offset[d] + at;
    box.extent[d] = count;
  }
};

}  // namespace

std::vector<Box> boxes_of_range(const Box& outer, uint64_t first, uint64_t count) {
  std::vector<Box> boxes;
  if (count == 0) return boxes;
  assert(count <= outer.volume() && first <= outer.volume() - count);
  RangeCutter{outer, contiguous_strides(outer.extent), outer, boxes}.cut(0, first, first + count);
  return boxes;
}

RowWalk::RowWalk(const Box& stored, const Box& wanted, std::span<const uint64_t> strides) {
  assert(strides.size() >= static_cast<size_t>(stored.ndim()));
  Box common = intersect(stored, wanted);
  Shape stored_strides = contiguous_strides(stored.extent);
  for (int d = common.ndim() - 1; d >= 0; d--) {
    if (common.extent[d] == 0) {
      empty_ = true;
      return;
    }
    uint64_t stride = strides[static_cast<size_t>(d)];
    source_ += (common.offset[d] - stored.offset[d]) * stored_strides[d];
    target_ += (common.offset[d] - wanted.offset[d]) * stride;
    add_dimension(common.extent[d], stored_strides[d], stride);
  }
}

// Called from the innermost dimension to the outermost.
void RowWalk::add_dimension(uint64_t extent, uint64_t source, uint64_t target) {
  if (extent == 1) return;
  if (loop_count_ == 0) {
    bool starts_row = row_count_ == 1 && source == 1;
    if (starts_row) row_stride_ = target;
    if (starts_row || (row_count_ > 1 && source == row_count_ && target == row_count_ * row_stride_)) {
      row_count_ *= extent;
      return;
    }
  } else {
    Loop& inner = loops_[static_cast<size_t>(loop_count_ - 1)];
    if (source == inner.extent * inner.source && target == inner.extent * inner.target) {
      inner.extent *= extent;
      return;
    }
  }
  loops_[static_cast<size_t>(loop_count_++)] = {extent, source, target, 0};
}

bool RowWalk::seek(uint64_t position) {
  if (empty_) return false;
  if (position <= source_) return true;
  uint64_t rest = position - source_;
  for (int loop = loop_count_ - 1; loop >= 0; loop--) {
    Loop& at = loops_[static_cast<size_t>(loop)];
    uint64_t index = rest / at.source;
    // The current turn of the outer loops ends before the position.
    if (index >= at.extent) return step(loop + 1);
    at.index = index;
    source_ += index * at.source;
    target_ += index * at.target;
    rest -= index * at.source;
  }
  return rest < row_count_ || next();
}

}  // namespace ckpt::plan
