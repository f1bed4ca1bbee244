// Who of a replica group writes what (FORMAT §6). Pure and deterministic: every member calls it with the same entries
// (in any order) and needs no communication. Callable on any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace ckpt::plan {

// One region that all members of a replica group hold. It must lie inside its shape, and `bytes` must be its bytes.
struct DealEntry {
  std::string_view name;
  uint16_t dtype;
  Shape shape;
  Region region;
  uint64_t bytes;
};

// What one member writes of entries[entry]: the region itself, or a cut of it (flat ranges, or boxes of a box).
struct Piece {
  size_t entry;
  Region region;
  uint64_t bytes;
};

struct DealOptions {
  uint64_t chunk_bytes, large_tensor_bytes;
};

// The order all members use: bytes descending, then name (as bytes), then geometry: kind, then the numbers of the
// region as FORMAT §6 lists them; where all these are equal, dtype and shape.
std::vector<size_t> deal_order(std::span<const DealEntry> entries);

// What member `index` of `count` writes, cut regions first. The union over all members covers every entry exactly
// once; empty regions are nobody's. A group of one writes everything whole.
// Cuts fall on chunk boundaries, rounded down to where both an element and a byte begin. Regions of elements that are
// not whole bytes wide are left whole where a cut could not start and end at whole bytes (FORMAT §5).
std::vector<Piece> deal(std::span<const DealEntry> entries, uint32_t index, uint32_t count, const DealOptions& options);

// The declaration list of a group (FORMAT §6), the same bytes for any order of the entries.
std::vector<std::byte> declaration_list(std::span<const DealEntry> entries);

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
