// What sessions leave behind, and how it is closed and removed: attempts that nobody will finish, records of sessions
// that ended.
#pragma once

#include "format/slot.h"
#include "session/session_plan.h"
#include "store/store.h"

namespace ckpt::session {

// Puts a tombstone into the slot of an attempt. OK if the slot is now closed or committed, by whomever. NOT_FOUND: no
// such directory.
Status close_attempt(store::Store& store, std::string_view directory, const format::Tombstone& tombstone);

// Rank 0, which owns the run: closes and removes the recorded attempts of the run's older sessions. Leaves attempts of
// other runs, and directories that no record names.
Status close_older_attempts(store::Store& store, const SessionPlan& plan);
// After that: removes the records of the run's older sessions. The newest record fences all of them. What the session
// just before it said to its ranks stays until the next one starts.
Status forget_older_owners(store::Store& store, const SessionPlan& plan);

}  // namespace ckpt::session
