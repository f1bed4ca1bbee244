// Makes the manifest from the indexes of all parts. Pure, so that a commit and a repair make the same bytes (FORMAT
// §6).
#pragma once

#include <span>

#include "checkpoint/part_file.h"
#include "format/buffer.h"

namespace ckpt::commit {

struct Merged {
  format::Summary summary;
  format::Buffer file;  // the whole MANIFEST
};

// `parts`: one for each rank, in order of rank. MISMATCH or INCOMPLETE, naming the tensor and the ranks, if they do not
// make one checkpoint. `mark_rebuilt`: for a forced repair. The store is read only to explain a mismatch of replica
// groups.
Result<Merged> merge_parts(std::span<const checkpoint::PartFile> parts, const store::Store& store,
                           std::string_view directory, bool mark_rebuilt);

}  // namespace ckpt::commit
