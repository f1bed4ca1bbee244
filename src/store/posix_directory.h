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

// ---- the steps of a removal; `directory` is `key`, open ----

// Unlinks `first` ("" for none), durably, and returns the files that were there; IO, with nothing lost, where a
// directory is among them.
Result<std::vector<std::string>> start_removal(const Root& root, std::string_view key, int directory,
                                               std::string_view first);
// Unlinks these files and whatever else is there by now, then the directory.
Status finish_removal(const Root& root, std::string_view key, int directory, std::vector<std::string> files);
// That it is not there is fine.
Status unlink_file(int directory, const std::string& name, const std::string& path);

}  // namespace ckpt::store
