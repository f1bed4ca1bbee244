// Which session owns a run. A session takes a token by creating `.ckpt/owners/<token>`, and then the run by
// `.ckpt/runs/<run>/<token>.<session id>`: the highest token there owns it. Names alone decide, so that a record that
// cannot be read, of whatever run, blocks nobody.
#pragma once

#include <optional>

#include "session/session_plan.h"
#include "store/store.h"

namespace ckpt::session {

// Rank 0: the store's id. The first session of a store makes it; if .ckpt was deleted, the checkpoints vote. A store
// that knows none takes that of its mirror (may be null): its disk was lost.
Result<Id> ensure_store_id(store::Store& store, const store::Store* mirror = nullptr);

// Rank 0: takes the next token of the store, puts it into `plan`, and takes the run with it. CONFLICT. Takes both in
// the mirror (may be null), too: whoever starts again from the mirror, elsewhere, must neither use a name of ours nor
// let us go on unnoticed.
Status take_token(store::Store& store, SessionPlan* plan, store::Store* mirror = nullptr);

// The highest token of the sessions that have taken a run; 0 if none has.
Result<uint64_t> owner_of(const store::Store& store, std::string_view run);

// Whether the session that owns a run was opened with purpose=import: another import may take the run again.
Result<bool> is_owned_by_import(const store::Store& store, std::string_view run);

// FENCED, with the facts of each such error: the run, this session's token and, if it is known, the owner's.
Status fenced(const SessionPlan& plan, std::string text, std::optional<uint64_t> owner = std::nullopt);

// FENCED if another session owns the plan's run. Sets `*recorded` if the store has the plan's own record. One listing.
Status check_fence(store::Store& store, const SessionPlan& plan, bool* recorded = nullptr);

// Rank 0, before an attempt: check_fence(), and restores the plan's records if .ckpt was deleted by hand.
Status hold_run(store::Store& store, const SessionPlan& plan);

// The owner record of a token; nullopt if there is none or the file is somebody else's. Sets `*failure` if it cannot be
// read.
std::optional<SessionPlan> read_owner(store::Store& store, uint64_t token, Status* failure);

}  // namespace ckpt::session
