// An order of regions, for maps, and their size.
#pragma once

#include <algorithm>

#include "base/types.h"

namespace ckpt::checkpoint {

// By kind, then by the numbers of FORMAT §4.
struct RegionOrder {
  bool operator()(const Region& a, const Region& b) const {
    if (a.kind != b.kind) return a.kind < b.kind;
    uint64_t x[2 * kMaxNdim], y[2 * kMaxNdim];
    return std::lexicographical_compare(x, put_region(a, x), y, put_region(b, y));
  }
};

// In elements, of a region of a tensor of `total` elements.
inline uint64_t region_volume(const Region& region, uint64_t total) {
  return region.kind == RegionKind::kBox    ? region.box.volume()
         : region.kind == RegionKind::kFlat ? region.flat_size
                                            : total;
}

}  // namespace ckpt::checkpoint
