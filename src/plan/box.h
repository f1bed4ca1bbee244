// Arithmetic of boxes and of row-major order. Pure: no I/O, no allocation per element or row. Every function may be
// called on any thread. "Row-major order of a box" numbers its elements 0 … volume-1, the last dimension fastest.
#pragma once

#include <span>
#include <vector>

#include "base/types.h"

namespace ckpt::plan {

// The intersection of two boxes of the same ndim; a box of volume 0 if they are disjoint.
Box intersect(const Box& a, const Box& b);

// Whether `box` has the dimensions of `shape` and lies inside it. Safe for untrusted numbers.
bool inside(const Box& box, const Shape& shape);

// The boxes that make up elements [first, first + count) of `outer` in its row-major order. They come in that order;
// there are at most 2 * ndim - 1 (1 for a scalar), none of them empty. Their coordinates include the offset of `outer`.
// The range must lie inside `outer`. A count of 0 gives none.
std::vector<Box> boxes_of_range(const Box& outer, uint64_t first, uint64_t count);

// Row-major strides of a contiguous block of this extent, in elements.
Shape contiguous_strides(const Shape& extent);
// Whether a block of this extent with these strides is contiguous. Strides of dimensions with extent 1 do not matter.
bool is_contiguous(std::span<const uint64_t> extent, std::span<const uint64_t> strides);

// One contiguous run of elements: `source` and `target` are element positions.
struct Run {
  uint64_t source, target, count;
};

// Matches elements stored in the row-major order of `stored` with memory that holds the box `wanted`.
// Calls visit(Run) for every maximal run of elements that lies in `wanted` and whose position in the order of `stored`
// is in [first, last). run.source is the position relative to `first`; run.target is the element offset in memory (the
// first element of `wanted` is at 0; `strides` are in elements). Runs come in ascending order of source. A run spans
// several rows if they are contiguous on both sides. If the memory's innermost stride is not 1, every run has count 1;
// for_each_strided_run in plan/box_runs.h is then faster.
// The cost is proportional to the number of runs, not to the volume of either box: rows outside [first, last) are not
// visited.
template <typename Visit>
void for_each_run(const Box& stored, uint64_t first, uint64_t last, const Box& wanted,
                  std::span<const uint64_t> strides, Visit&& visit);

}  // namespace ckpt::plan

#include "plan/box_runs.h"
