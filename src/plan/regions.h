// The size of a region. Pure; callable on any thread; safe for untrusted numbers.
#pragma once

#include "base/types.h"

namespace ckpt::plan {

// The number of elements of a region. INVALID if the shape is too large or the region is not inside it.
Result<uint64_t> region_elements(const Shape& shape, const Region& region);

}  // namespace ckpt::plan
