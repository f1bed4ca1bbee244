// Imports into one run take turns, in whatever processes they run: each opens a session, which would fence the others.
#pragma once

#include <memory>
#include <string>

#include "base/job.h"
#include "store/store.h"

namespace ckpt::session {

struct ImportTurn {
  std::string run;
  std::unique_ptr<store::Lock> lock;  // as long as it lives no other import into the run has its turn
};

// Waits until no other import into the run has its turn, and takes it. The kernel releases the lock of a process that
// dies. An empty `run` means "main", where whoever asks without options looks, as long as no trainer has used it since
// the last import; else "import", since a session of "main" would fence the trainer. Makes the store if there is none.
// TIMEOUT, CANCELLED. In a store without locks nobody waits.
Result<ImportTurn> take_import_turn(store::Store& store, const std::string& run, int64_t timeout_ms, const Job& job);

}  // namespace ckpt::session
