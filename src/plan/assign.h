// Who of a replica group writes what (FORMAT §6). Pure and deterministic: every member calls it with the same entries
// (in any order) and needs no communication. Callable on any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace ckpt::plan {

// One region that all members of a replica group hold: a view, since there may be very many. It must lie inside its
// shape, and `bytes` must be its bytes.
struct ReplicaRegion {
  std::string_view name;
  uint64_t bytes;
  const uint64_t* numbers;  // the shape, then of a box offset and extent, of a flat range offset and size
  uint16_t dtype;
  RegionKind kind;
  uint8_t ndim;

  std::span<const uint64_t> extents() const { return {numbers, ndim}; }
  std::span<const uint64_t> region_numbers() const { return {numbers + ndim, region_number_count(kind, ndim)}; }
  Shape shape() const { return Shape::of(extents()); }
  Region region() const { return region_of_numbers(kind, region_numbers()); }
};

// A cut of entries[entry] that one member writes: a flat range, or a box of a box.
struct AssignedCut {
  size_t entry;
  Region region;
  uint64_t bytes;
};

// What one member writes.
struct Assignment {
  std::vector<AssignedCut> cuts;
  std::vector<size_t> whole;  // entries
};

struct AssignOptions {
  uint64_t chunk_bytes, large_tensor_bytes;
};

// What member `index` of `count` writes. The union over all members covers every entry exactly
// once; empty regions are nobody's. A group of one writes everything whole.
// Cuts fall on chunk boundaries, rounded down to where both an element and a byte begin. Regions of elements that are
// not whole bytes wide are left whole where a cut could not start and end at whole bytes (FORMAT §5).
Assignment assign(std::span<const ReplicaRegion> entries, uint32_t index, uint32_t count, const AssignOptions& options);

}  // namespace ckpt::plan
