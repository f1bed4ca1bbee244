// Makes the manifest from the indexes of all parts. Pure, so that a commit and a repair make the same bytes (FORMAT
// §6), and the bytes do not depend on how ranks were grouped on the way.
#pragma once

#include <span>

#include "checkpoint/part_file.h"
#include "commit/gathered.h"

namespace ckpt::commit {

// A state tree that ranks make together: the parts that hold it, of equal ones the first.
struct HeldTree {
  std::string object;
  std::vector<uint32_t> parts;
};

struct Merged {
  format::Summary summary;
  format::Buffer file;  // the whole MANIFEST
  std::vector<HeldTree> trees;
  std::vector<std::string> bases;  // the names of their files
};

// `parts` and then `groups` tell of all ranks, in their order. MISMATCH or INCOMPLETE, naming the tensor and the ranks,
// if they do not make one checkpoint. `mark_rebuilt`: for a forced repair. The store is read only to explain a mismatch
// of replica groups.
Result<Merged> merge_parts(std::span<const checkpoint::PartFile> parts, std::span<const Gathered> groups,
                           const store::Store& store, std::string_view directory, bool mark_rebuilt);

// What the parts of some consecutive ranks say together. MISMATCH as above; what only all parts can tell, such as
// whether every element has an owner, is left to merge_parts.
Result<Gathered> gather_parts(std::span<const checkpoint::PartFile> parts);

}  // namespace ckpt::commit
