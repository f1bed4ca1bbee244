// Directories of the POSIX store: made, listed, moved and removed, durably. Keys were checked. No state.
#pragma once

#include <vector>

#include "store/posix_file.h"
#include "store/store.h"

namespace ckpt::store {

// The root and its parents. INVALID where something else is in its place.
Status make_root(const Root& root);
Status make_directory(const Root& root, std::string_view key);
Result<std::vector<Entry>> list_directory(const Root& root, std::string_view key);
Status move_directory(const Root& root, std::string_view from, std::string_view to);
Status remove_directory(const Root& root, std::string_view key, std::string_view first);

}  // namespace ckpt::store
