// Arithmetic of boxes and of row-major order: pure, no I/O, no allocation per element or row. Every function may be
// called on any thread. "Row-major order of a box" numbers its elements 0 … volume-1, the last dimension fastest.
#pragma once

#include <span>
#include <vector>

#include "base/types.h"

namespace ckpt::plan {

// The common part of two boxes of the same ndim; a box of volume 0 where there is none.
Box intersect(const Box& a, const Box& b);

// `box` has the dimensions of `shape` and lies inside it. Safe for untrusted numbers.
bool inside(const Box& box, const Shape& shape);

// The boxes (at most 2 * ndim - 1, and 1 for a scalar; none empty), in order, that make up elements
// [first, first + count) of `outer` in its row-major order. Their coordinates are those of `outer` (its offset
// included). The range must lie inside `outer`. count 0: none.
std::vector<Box> boxes_of_range(const Box& outer, uint64_t first, uint64_t count);

// Row-major strides of a contiguous block of this extent, in elements.
Shape contiguous_strides(const Shape& extent);
// Whether a block of this extent with these strides is contiguous. The strides of extents of 1 do not matter.
bool is_contiguous(std::span<const uint64_t> extent, std::span<const uint64_t> strides);

// One contiguous run of elements: `source` and `target` are element positions.
struct Run {
  uint64_t source, target, count;
};

// How elements that are stored in the row-major order of `stored` meet a memory that holds the box `wanted`.
// Calls visit(Run) for every maximal run of elements that lies in `wanted` and has its position in [first, last) of
// stored's order: run.source is the position relative to `first`, run.target the element offset in the memory (wanted's
// first element at 0, `strides` in elements). Runs come in ascending order of source. A run covers several rows where
// they are contiguous on both sides; where the memory's innermost stride is not 1, runs have count 1
// (for_each_strided_run in plan/box_runs.h is then the faster way).
// The cost is proportional to the number of runs, not to the volume of either box: rows outside [first, last) are not
// visited.
template <typename Visit>
void for_each_run(const Box& stored, uint64_t first, uint64_t last, const Box& wanted,
                  std::span<const uint64_t> strides, Visit&& visit);

}  // namespace ckpt::plan

#include "plan/box_runs.h"
