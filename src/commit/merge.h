// From the indexes of all parts to the manifest: pure, so that a commit and a repair make the same bytes (FORMAT §6).
#pragma once

#include <span>

#include "checkpoint/part_file.h"

namespace ckpt::commit {

struct Merged {
  format::Summary summary;
  format::Buffer index;  // encoded
};

// `parts` in order of rank, one for each rank. MISMATCH or INCOMPLETE, naming the tensor and the ranks, where they do
// not make one checkpoint. `mark_rebuilt`: the manifest of a forced repair. The store is read only to explain a
// mismatch of replica groups.
Result<Merged> merge_parts(std::span<const checkpoint::PartFile> parts, const store::Store& store,
                           std::string_view directory, bool mark_rebuilt, unsigned threads = 1);

}  // namespace ckpt::commit
