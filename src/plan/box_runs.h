// The walk behind for_each_run of plan/box.h, and a variant for memory whose innermost stride is not 1.
// Pure, no allocation; a walk belongs to one thread.
#pragma once

#include <algorithm>
#include <array>
#include <span>

#include "plan/box.h"

namespace ckpt::plan {

// Elements that are neighbours in storage and `target_stride` apart in memory.
struct StridedRun {
  uint64_t source, target, count, target_stride;
};

// Walks the intersection of `stored` and `wanted` row by row, in ascending order of the stored positions. A row is
// contiguous in storage and evenly spaced in memory; dimensions that continue each other on both sides are merged.
// Invariant: the stored strides of the loops are nested, so the walk follows the order of storage.
class RowWalk {
 public:
  RowWalk(const Box& stored, const Box& wanted, std::span<const uint64_t> strides);

  // Goes to the first row that has an element at stored position `position` or later; false if there is none. Costs
  // O(ndim). Call it once, before next().
  bool seek(uint64_t position);
  bool next() { return step(0); }

  uint64_t source() const { return source_; }  // of the row's first element, in the order of `stored`
  uint64_t target() const { return target_; }  // of the same element, in memory
  uint64_t count() const { return row_count_; }
  uint64_t target_stride() const { return row_stride_; }

 private:
  struct Loop {
    uint64_t extent, source, target, index;
  };
  void add_dimension(uint64_t extent, uint64_t source, uint64_t target);
  bool step(int loop);

  std::array<Loop, kMaxNdim> loops_;  // innermost first
  int loop_count_ = 0;
  uint64_t row_count_ = 1, row_stride_ = 1;
  uint64_t source_ = 0, target_ = 0;
  bool empty_ = false;
};

inline bool RowWalk::step(int loop) {
  for (; loop < loop_count_; loop++) {
    Loop& at = loops_[static_cast<size_t>(loop)];
    if (++at.index < at.extent) {
      source_ += at.source;
      target_ += at.target;
      return true;
    }
    source_ -= (at.extent - 1) * at.source;
    target_ -= (at.extent - 1) * at.target;
    at.index = 0;
  }
  return false;
}

// Like for_each_run, but calls visit(StridedRun) once for each row, whatever the strides of the memory. A run of count
// 1 has target_stride 1.
template <typename Visit>
void for_each_strided_run(const Box& stored, uint64_t first, uint64_t last, const Box& wanted,
                          std::span<const uint64_t> strides, Visit&& visit) {
  if (first >= last) return;
  RowWalk walk(stored, wanted, strides);
  for (bool more = walk.seek(first); more && walk.source() < last; more = walk.next()) {
    uint64_t begin = walk.source() < first ? first - walk.source() : 0;
    uint64_t count = std::min(walk.count(), last - walk.source()) - begin;
    visit(StridedRun{walk.source() + begin - first, walk.target() + begin * walk.target_stride(), count,
                     count == 1 ? 1 : walk.target_stride()});
  }
}

template <typename Visit>
void for_each_run(const Box& stored, uint64_t first, uint64_t last, const Box& wanted,
                  std::span<const uint64_t> strides, Visit&& visit) {
  // Rows that happen to touch form one run; with odd strides the walk cannot know this beforehand.
  Run held{0, 0, 0};
  auto add = [&](uint64_t source, uint64_t target, uint64_t count) {
    if (held.count && held.source + held.count == source && held.target + held.count == target) {
      held.count += count;
      return;
    }
    if (held.count) visit(held);
    held = {source, target, count};
  };
  for_each_strided_run(stored, first, last, wanted, strides, [&](const StridedRun& run) {
    if (run.target_stride == 1) return add(run.source, run.target, run.count);
    for (uint64_t i = 0; i < run.count; i++) add(run.source + i, run.target + i * run.target_stride, 1);
  });
  if (held.count) visit(held);
}

}  // namespace ckpt::plan
