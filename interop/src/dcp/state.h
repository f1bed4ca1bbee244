// The state that a `.metadata` lists by paths, as a tree: as torch puts it together, with lists where a path has
// positions. Pure.
#pragma once

#include <functional>

#include "interop/src/dcp/metadata.h"
#include "tree/tree.h"

namespace ckpt::interop {

// `leaf` adds the value of an item, whose path in the tree is `at`, to the tree. FORMAT where paths contradict each
// other.
Result<tree::Tree> dcp_tree(
    const DcpMetadata& metadata,
    const std::function<Status(const DcpItem& item, const std::string& at, tree::Tree& tree)>& leaf);

}  // namespace ckpt::interop
