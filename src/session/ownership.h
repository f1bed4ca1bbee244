// Which session owns a run: the owner records `.ckpt/owners/<token>`. The highest token of a run owns it.
#pragma once

#include <optional>

#include "session/session_plan.h"
#include "store/store.h"

namespace ckpt::session {

// Rank 0: the store's id. The first session of a store makes it; where .ckpt was deleted, the checkpoints vote.
Result<Id> ensure_store_id(store::Store& store);

// Rank 0: takes the next token of the store for `plan`, which gets it. CONFLICT.
Status take_token(store::Store& store, SessionPlan* plan);

// FENCED where another session owns the plan's run. `recorded`: whether the store has the plan's own record.
Status check_fence(store::Store& store, const SessionPlan& plan, bool* recorded = nullptr);

// Rank 0, before an attempt: check_fence(), and puts the plan's record back where .ckpt was deleted by hand.
Status hold_run(store::Store& store, const SessionPlan& plan);

// The record of a token: nothing where there is none or it is somebody else's file. `failure`: it cannot be read.
std::optional<SessionPlan> read_owner(store::Store& store, uint64_t token, Status* failure);

}  // namespace ckpt::session
