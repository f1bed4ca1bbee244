// The orphans that killed processes leave in .ckpt: files that never got their name, and probes.
#pragma once

#include "store/posix_file.h"

namespace ckpt::store {

// Removes orphans. A writer keeps its file open from the first byte until the file has its name (PosixWriter), and a
// probe keeps its file open too. So a file that has bytes and that nobody has open is an orphan. If leases cannot tell
// that, all files stay. Empty files stay too: they may be between creation and opening.
void remove_orphans(const Root& root);
// The same in one directory.
void remove_orphans_in(const Root& root, const std::string& key);

}  // namespace ckpt::store
