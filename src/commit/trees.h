// Before the commit: the trees of all ranks must make one, and every tensor that a tree names must have been added, by
// whatever rank (STATE_TREE.md §1, §6). Not part of the merge, so that a repair rebuilds what older versions committed
// without this check.
#pragma once

#include <span>

#include "checkpoint/part_file.h"
#include "commit/merge.h"

namespace ckpt::commit {

// A tensor that the tree of a rank names, at this path, and that none of some ranks added.
struct UnknownLeaf {
  std::string name, object, path;
  uint32_t rank = 0;
  bool known = false;  // found since
};

// What trees of these parts name and none of these parts has, in order of names. A tree that cannot be read or is none
// names nothing: readers say what is wrong with it.
Result<std::vector<UnknownLeaf>> unknown_leaves(std::span<const checkpoint::PartFile> parts, const store::Store& store,
                                                std::string_view directory);

// `parts` and `groups` tell of all ranks, and are merged already; `trees` is what the merge found. MISMATCH names the
// place in the tree and the ranks.
Status check_trees(std::span<const checkpoint::PartFile> parts, std::span<const Gathered> groups,
                   std::span<const HeldTree> trees, const store::Store& store, std::string_view directory);

}  // namespace ckpt::commit
