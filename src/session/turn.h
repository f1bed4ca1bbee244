// Imports into one run take turns, in whatever processes they run: each opens a session, which would fence the others.
#pragma once

#include "base/job.h"
#include "store/store.h"

namespace ckpt::session {

// Waits until no other import into the run has its turn, and takes it for as long as the lock exists. The kernel
// releases the lock of a process that dies. Makes the store if there is none. TIMEOUT, CANCELLED. In a store without
// locks nobody waits.
Result<std::unique_ptr<store::Lock>> take_import_turn(store::Store& store, std::string_view run, int64_t timeout_ms,
                                                      const Job& job);

// Whether an import into the run would fence no trainer: nobody has used it, or the last session was an import's. For
// whoever has the turn: then that import has ended.
Result<bool> is_free_for_import(const store::Store& store, std::string_view run);

}  // namespace ckpt::session
