// The order and the bytes of what a replica group declares (FORMAT §6). Pure; callable on any thread.
#pragma once

#include <compare>

#include "plan/assign.h"

namespace ckpt::plan {

// The order all members use: bytes descending, then name (as bytes), then geometry: kind, then the numbers of the
// region as FORMAT §6 lists them; where all these are equal, dtype and shape. Quick where the entries have it already.
std::vector<size_t> assignment_order(std::span<const ReplicaRegion> entries);
std::strong_ordering compare_entries(const ReplicaRegion& a, const ReplicaRegion& b);

// The declaration list of a group (FORMAT §6), the same bytes for any order of the entries.
std::vector<std::byte> declaration_list(std::span<const ReplicaRegion> entries);

// The size of the longest run of whole entries at the front of a list that takes at most `limit` bytes.
size_t declarations_within(Bytes list, size_t limit);

struct Declared {
  std::string name;
  uint16_t dtype;
  Shape shape;
  Region region;
};

// Reads a declaration list; FORMAT unless declaration_list could have written it. Memory grows with what was read.
// Names are checked for their length only.
Result<std::vector<Declared>> parse_declaration_list(Bytes list);

}  // namespace ckpt::plan
