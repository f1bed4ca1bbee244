// What killed processes leave in .ckpt: files that never got their name, and probes.
#pragma once

#include "store/posix_file.h"

namespace ckpt::store {

// Removes those that are nobody's: a writer keeps its file open from its first byte until it has its name
// (PosixWriter), and a probe its probe, so one with bytes in it that nobody has open is dead. Where leases do not tell
// that, all stay; empty ones too, which may be between their creation and their opening.
void remove_orphans(const Root& root);

}  // namespace ckpt::store
