#include "plan/regions.h"

#include "plan/box.h"

namespace ckpt::plan {

Result<uint64_t> region_elements(const Shape& shape, const Region& region) {
  CKPT_ASSIGN(uint64_t total, element_count(shape));
  switch (region.kind) {
    case RegionKind::kWhole:
    case RegionKind::kRows:
      return total;
    case RegionKind::kBox:
      if (inside(region.box, shape)) return region.box.volume();
      break;
    case RegionKind::kFlat:
      if (region.flat_size <= total && region.flat_offset <= total - region.flat_size) return region.flat_size;
      break;
  }
  return Status(CKPT_INVALID, to_text(region) + " reaches outside of shape " + to_text(shape));
}

}  // namespace ckpt::plan
