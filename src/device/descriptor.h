// Turns the caller's descriptor into a checked region and memory, for saves and loads alike.
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
  device::Memory memory;  // with data; strides in byte units
  Shape memory_extent;    // in byte units
  uint64_t bytes = 0;     // size of the region's elements
  uint64_t reach = 0;     // bytes of memory up to the end of the last one
};
// Checks a descriptor and the memory behind it, and fills a new `request`. INVALID.
Status read_desc(const ckpt_tensor_desc& desc, const void* data, uint64_t data_bytes, RegionRequest* request);

}  // namespace ckpt::device
