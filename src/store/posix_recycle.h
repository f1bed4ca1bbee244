// The files of the checkpoint that was retired last, kept in .ckpt/recycled so that the next ones are written into them
// (src/README.md, "Recycling"). That directory is all the state there is; calls may run at once in any number of
// processes, since a file is claimed by a rename.
#pragma once

#include "store/posix_file.h"

namespace ckpt::store {

inline constexpr uint64_t kRecycleFrom = 1 << 20;  // smaller files gain nothing

// As remove_directory, but files that may be written again stay: they are the pool from then on, and what it held goes.
Status retire_directory(const Root& root, std::string_view key, std::string_view first);

// Puts a retired file in the place of an empty new one, `temporary` in `directory`, which is open as `fresh`: the one
// that was called `name`, else the one whose size is nearest. Returns it open for writing, with its old bytes; nothing,
// with all as it was, where none may be had.
Fd take_retired(const Root& root, int directory, const std::string& temporary, std::string_view name, int fresh,
                uint64_t size);

// Gives the space of the pool back.
void empty_pool(const Root& root);

// Opens a file of ours for writing that has one name, and that no other descriptor or mapping on this machine has open.
// Nothing for any other, and on file systems where that cannot be known.
Fd open_unused(int directory, const std::string& name);

}  // namespace ckpt::store
