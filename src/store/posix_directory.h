// Makes, lists, moves and removes directories of the POSIX store, durably. Keys must have been checked. No state.
#pragma once

#include <vector>

#include "store/posix_file.h"
#include "store/store.h"

namespace ckpt::store {

// "/data" of "/data/run7".
std::string parent_of(const std::string& path);
// A directory by its whole path, which may lie outside of the store; none, and errno.
Fd open_plain(const std::string& directory);
// Makes the root and its parents. INVALID if something else is in its place.
Status make_root(const Root& root);
Status make_directory(const Root& root, std::string_view key);
Result<bool> exists(const Root& root, std::string_view key);
// Where the name in the root leads, if it is a symbolic link; else "".
std::string link_of(const Root& root, std::string_view name);
// A link in the root counts as a directory, since it may lead to one.
Result<std::vector<Entry>> list_directory(const Root& root, std::string_view key);
// The regular files in a directory.
Result<std::vector<FileUse>> list_files(const Root& root, std::string_view key);
Status move_directory(const Root& root, std::string_view from, std::string_view to);
Status remove_directory(const Root& root, std::string_view key, std::string_view first);

// ---- the steps of a removal; `directory` is the open directory `key` ----

// Unlinks `first` ("" for none) durably and returns the other files. If one of them is a directory: IO, and nothing is
// lost.
Result<std::vector<std::string>> start_removal(const Root& root, std::string_view key, int directory,
                                               std::string_view first);
// Unlinks these files and all that came since, then removes the directory.
Status finish_removal(const Root& root, std::string_view key, int directory, std::vector<std::string> files);
// It is fine if the file does not exist.
Status unlink_file(int directory, const std::string& name, const std::string& path);

}  // namespace ckpt::store
