// Makes ReplicaRegions from shapes and regions, for tests. Their numbers live as long as the program.
#pragma once

#include <deque>
#include <vector>

#include "plan/assign.h"

namespace ckpt::plan::testing {

inline ReplicaRegion replica_region(std::string_view name, uint16_t dtype, const Shape& shape, const Region& region,
                                    uint64_t bytes) {
  static std::deque<std::vector<uint64_t>> kept;
  std::vector<uint64_t>& numbers = kept.emplace_back();
  auto add = [&](std::span<const uint64_t> values) { numbers.insert(numbers.end(), values.begin(), values.end()); };
  add(shape.span());
  if (region.kind == RegionKind::kBox) add(region.box.offset.span()), add(region.box.extent.span());
  if (region.kind == RegionKind::kFlat) numbers.insert(numbers.end(), {region.flat_offset, region.flat_size});
  return {.name = name,
          .bytes = bytes,
          .numbers = numbers.data(),
          .dtype = dtype,
          .kind = region.kind,
          .ndim = static_cast<uint8_t>(shape.ndim)};
}

}  // namespace ckpt::plan::testing
