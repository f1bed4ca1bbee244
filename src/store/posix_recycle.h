// Keeps the files of the checkpoint that was retired last in .ckpt/recycled, so that later checkpoints are written into
// them (README.md, "Recycling"). That directory is the only state. Any number of processes may call these functions
// at once, since a file is claimed by a rename.
#pragma once

#include "store/posix_file.h"

namespace ckpt::store {

inline constexpr uint64_t kRecycleFrom = 1 << 20;  // smaller files gain nothing

// Like remove_directory, but files that may be overwritten stay: they become the pool, and what it held before is
// deleted.
Status retire_directory(const Root& root, std::string_view key, std::string_view first);

// Replaces `temporary` in `directory`, an empty new file that is open as `fresh`, by a retired file: the one that was
// called `name`, or else the one whose size is nearest. Returns it open for writing, with its old bytes. If no file
// qualifies, returns an empty Fd and leaves `temporary` as it is.
Fd take_retired(const Root& root, int directory, const std::string& temporary, std::string_view name, int fresh,
                uint64_t size);

// Deletes the files of the pool to free their space.
void empty_pool(const Root& root);

// Opens a file for writing if we own it, it has only one name, and no other descriptor or mapping on this machine has
// it open. Returns an empty Fd otherwise, and on file systems where that cannot be known.
Fd open_unused(int directory, const std::string& name);

}  // namespace ckpt::store
