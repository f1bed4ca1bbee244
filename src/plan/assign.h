// Which member of a replica group writes what (FORMAT §6). Pure and deterministic: every member calls it with the same
// entries (in any order), so no communication is needed. Callable on any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace ckpt::plan {

// One region that all members of a replica group hold. A view, since there may be very many. The region must lie inside
// its shape, and `bytes` must be its size.
struct ReplicaRegion {
  std::string_view name;
  uint64_t bytes;
  const uint64_t* numbers;  // the shape; then a box's offset and extent, or a flat range's offset and size
  uint16_t dtype;
  RegionKind kind;
  uint8_t ndim;
  bool first_only = false;  // the first member's values count, and it writes them all
  Digest values = {};       // zero: nobody compares the members' values
  bool sampled = false;     // `values` is of a sample

  std::span<const uint64_t> extents() const { return {numbers, ndim}; }
  std::span<const uint64_t> region_numbers() const { return {numbers + ndim, region_number_count(kind, ndim)}; }
  Shape shape() const { return Shape::of(extents()); }
  Region region() const { return region_of_numbers(kind, region_numbers()); }
};

// The piece of entries[entry] that one member writes: a range of its bytes, in the row-major order of the region.
struct AssignedCut {
  size_t entry;
  uint64_t first, bytes;
};

// What one member writes.
struct Assignment {
  std::vector<AssignedCut> cuts;
  std::vector<size_t> whole;  // entries
};

struct AssignOptions {
  ByName by_name{};
  uint64_t chunk_bytes = 0, large_tensor_bytes = 0;
};

// What member `index` of `count` writes. Together the members write every entry exactly once; nobody writes empty
// regions. A group of one writes every entry whole.
// The first member writes the regions whose values only it has, before the others are assigned.
// Cuts fall on chunk boundaries, rounded down to where both an element and a byte begin. A region of packed elements
// stays whole if its cuts could not start and end at whole bytes (FORMAT §5).
Assignment assign(std::span<const ReplicaRegion> entries, uint32_t index, uint32_t count, const AssignOptions& options);

}  // namespace ckpt::plan
