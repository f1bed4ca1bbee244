// Turns the caller's descriptor into a checked region and memory, for saves and loads alike.
#pragma once

#include "device/scatter.h"
#include "device/transfers.h"
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
// The same of a tensor of a save or load, whose `transfers` note where its memory is. INVALID, UNSUPPORTED: there is no
// such device here. Filled in place: a request has more than a kilobyte, and small tensors come by the hundred
// thousand.
Status read_request(std::string_view name, const ckpt_tensor_desc& desc, const void* data, uint64_t data_bytes,
                    Location where, Transfers* transfers, RegionRequest* request);

}  // namespace ckpt::device
