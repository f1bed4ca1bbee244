// Which session owns a run. A session takes a token by creating `.ckpt/owners/<token>`, and then the run by
// `.ckpt/runs/<run>/<token>.<session id>`: the highest token there owns it. Names alone decide, so that a record that
// cannot be read, of whatever run, blocks nobody.
#pragma once

#include <optional>

#include "session/session_plan.h"
#include "store/store.h"

namespace ckpt::session {

// Rank 0: the store's id. The first session of a store makes it; if .ckpt was deleted, the checkpoints vote.
Result<Id> ensure_store_id(store::Store& store);

// Rank 0: takes the next token of the store, puts it into `plan`, and takes the run with it. CONFLICT.
Status take_token(store::Store& store, SessionPlan* plan);

// The highest token of the sessions that have taken a run; 0 if none has.
Result<uint64_t> owner_of(const store::Store& store, std::string_view run);

// FENCED if another session owns the plan's run. Sets `*recorded` if the store has the plan's own record. One listing.
Status check_fence(store::Store& store, const SessionPlan& plan, bool* recorded = nullptr);

// Rank 0, before an attempt: check_fence(), and restores the plan's records if .ckpt was deleted by hand.
Status hold_run(store::Store& store, const SessionPlan& plan);

// The owner record of a token; nullopt if there is none or the file is somebody else's. Sets `*failure` if it cannot be
// read.
std::optional<SessionPlan> read_owner(store::Store& store, uint64_t token, Status* failure);

}  // namespace ckpt::session
