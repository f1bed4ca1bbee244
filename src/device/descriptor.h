// From the caller's descriptor to a checked region and memory, for saves and loads alike.
#pragma once

#include "device/scatter.h"
#include "plan/geometry.h"

namespace ckpt::device {

// A tensor region as a caller describes it.
struct RegionRequest {
  uint16_t dtype = 0;
  Shape shape;
  Region region;
  plan::Geometry geometry;
  Region units;
  device::Memory memory;  // data set, strides in byte units
  Shape memory_extent;    // in byte units
  uint64_t bytes = 0;     // that the region's elements take
};
// Checks a descriptor and the memory behind it, and fills a request that is as it was made. INVALID.
Status read_desc(const ckpt_tensor_desc& desc, const void* data, uint64_t data_bytes, RegionRequest* request);

}  // namespace ckpt::device
