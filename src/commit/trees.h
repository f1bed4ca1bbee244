// Before the commit: every tensor that a state tree names must have been added, by whatever rank (STATE_TREE.md §1).
// Not part of the merge, so that a repair rebuilds what older versions committed without this check.
#pragma once

#include <span>

#include "checkpoint/part_file.h"

namespace ckpt::commit {

// `parts`: one for each rank, merged already. MISMATCH names the tree, the tensor and the rank. A tree that cannot be
// read or is none names nothing: readers say what is wrong with it.
Status check_trees(std::span<const checkpoint::PartFile> parts, const store::Store& store, std::string_view directory);

}  // namespace ckpt::commit
