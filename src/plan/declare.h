// The order and the bytes of what a replica group declares (FORMAT §6). Pure; callable on any thread.
#pragma once

#include <compare>

#include "plan/assign.h"

namespace ckpt::plan {

// The order that all members use: bytes descending, then name (as bytes), then geometry (kind, then the numbers of the
// region as FORMAT §6 lists them), then dtype and shape. Fast if the entries are in this order already.
std::vector<size_t> assignment_order(std::span<const ReplicaRegion> entries);
std::strong_ordering compare_entries(const ReplicaRegion& a, const ReplicaRegion& b);

// The declaration list of a group (FORMAT §6). Its bytes do not depend on the order of the entries.
std::vector<std::byte> declaration_list(std::span<const ReplicaRegion> entries);

// The size of the longest run of whole entries at the front of a list that fits into `limit` bytes.
size_t declarations_within(Bytes list, size_t limit);

struct Declared {
  std::string name;
  uint16_t dtype;
  Shape shape;
  Region region;
  bool first_only = false;
  Digest values = {};
  bool sampled = false;
};

// Reads a declaration list. FORMAT unless declaration_list could have written it. Memory grows only with what was read.
// Of names, only the length is checked.
Result<std::vector<Declared>> parse_declaration_list(Bytes list);

}  // namespace ckpt::plan
