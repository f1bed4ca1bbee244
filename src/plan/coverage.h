// Whether regions make up a tensor. Pure; callable on any thread.
#pragma once

#include <span>

#include "base/types.h"

namespace ckpt::plan {

// Checks that regions cover every element of `shape` exactly once. `regions` may mix boxes, flat ranges and wholes;
// empty ones are ignored.
// INVALID: a region reaches outside the shape; "index" tells which. MISMATCH: two regions hold the same element;
// "first" and "second" are the indexes of two such regions. INCOMPLETE: no region holds an element; "found" names a
// missing range or box.
// O(n log n) for flat ranges and for tilings that cuts along dimensions take apart (rows, grids); at worst O(n^2) in
// the number of regions of one tensor.
Status check_coverage(const Shape& shape, std::span<const Region> regions);

}  // namespace ckpt::plan
