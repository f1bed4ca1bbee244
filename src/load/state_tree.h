// The state tree of a checkpoint (STATE_TREE.md), as its ranks made it together.
#pragma once

#include <optional>

#include "checkpoint/checkpoint.h"
#include "tree/tree.h"

namespace ckpt::load {

// The tree of object `name`; null: the main tree or, if there is none, a dict of all tensors by their names. `rank`: of
// what is each rank's own, only what that rank has, or rank 0 if the checkpoint has no such rank; otherwise that of all
// ranks. NOT_FOUND, CORRUPT, FORMAT, REVISION, IO; INCOMPLETE: it names a tensor that is not there; MISMATCH: the trees
// of two ranks contradict each other.
Result<tree::Tree> read_state_tree(const std::shared_ptr<checkpoint::Checkpoint>& checkpoint, const char* name,
                                   std::optional<uint32_t> rank);

}  // namespace ckpt::load
