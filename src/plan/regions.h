// What a region of a tensor holds. Pure; every function may be called on any thread and is safe for untrusted numbers.
#pragma once

#include "base/types.h"

namespace ckpt::plan {

// The elements of a region. INVALID where the shape is too large or the region is not inside it.
Result<uint64_t> region_elements(const Shape& shape, const Region& region);

}  // namespace ckpt::plan
