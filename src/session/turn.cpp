#include "session/turn.h"

#include <algorithm>

#include "format/names.h"
#include "session/ownership.h"
#include "session/runs.h"

namespace ckpt::session {

static Result<std::unique_ptr<store::Lock>> lock_run(store::Store& store, std::string_view run, int64_t timeout_ms,
                                                     const Job& job) {
  CKPT_TRY(format::check_run(run));
  CKPT_TRY(store.make_root());  // the import's session does the rest
  CKPT_TRY(store.make_directory(format::run_dir(run)));
  const std::string key = format::import_key(run);
  // It stays for the next import: whoever removed it could remove the one that another import has locked.
  if (Status made = store.put_if_absent(key, as_bytes("\n")); !made.ok() && made.code() != CKPT_EXISTS) return made;
  for (Backoff backoff(timeout_ms);; backoff.sleep()) {
    auto lock = store.try_lock_exclusive(key);
    if (lock.ok() || lock.status().code() != CKPT_CONFLICT) return lock;
    CKPT_TRY(job.check());
    CKPT_TRY(CallContext::current().check());  // of a call above, too
    if (!backoff.expired()) continue;
    return Status(CKPT_TIMEOUT,
                  strformat("another import into run \"{}\" did not end within {} ms (option timeout_ms); "
                            "it holds a lock on {}; wait for it, or import into another run",
                            run, timeout_ms, store.path(key)))
        .with("path", store.path(key));
  }
}

// Whether an import into the run would fence no trainer: nobody has used it, or the last session was an import's. For
// whoever has the turn: then that import has ended.
static Result<bool> is_free_for_import(const store::Store& store, std::string_view run) {
  CKPT_ASSIGN(const uint64_t token, owner_of(store, run));
  if (token > 0) return is_owned_by_import(store, run);
  CKPT_ASSIGN(const auto runs, list_runs(store));  // .ckpt may have been deleted
  return std::none_of(runs.begin(), runs.end(), [&](const RunEntry& entry) { return entry.name == run; });
}

Result<ImportTurn> take_import_turn(store::Store& store, const std::string& run, int64_t timeout_ms, const Job& job) {
  ImportTurn turn{run.empty() ? "main" : run, nullptr};
  CKPT_ASSIGN(turn.lock, lock_run(store, turn.run, timeout_ms, job));
  if (!run.empty()) return turn;
  CKPT_ASSIGN(const bool is_free, is_free_for_import(store, turn.run));
  if (is_free) return turn;
  turn = {"import", nullptr};
  CKPT_ASSIGN(turn.lock, lock_run(store, turn.run, timeout_ms, job));
  return turn;
}

}  // namespace ckpt::session
