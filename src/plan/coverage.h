// Whether regions make up a tensor. Pure; callable on any thread.
#pragma once

#include <span>

#include "base/types.h"

namespace ckpt::plan {

// Checks that regions cover every element of `shape` exactly once. `regions` may mix boxes, flat ranges and wholes;
// empty ones count for nothing.
// INVALID: a region reaches outside the shape ("index" tells which). MISMATCH: an element is there twice; "first" and
// "second" tell the indexes of two of the culprits. INCOMPLETE: nobody has an element; "found" names a range or box
// that is missing.
// O(n log n) for flat ranges and for tilings that cuts along dimensions take apart (rows, grids); never worse than
// O(n^2) in the number of regions of one tensor.
Status check_coverage(const Shape& shape, std::span<const Region> regions);

}  // namespace ckpt::plan
