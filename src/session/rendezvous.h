// Ranks that have no communicator meet through files of the store: a hello with a nonce, an answer to just that nonce,
// an exclusive claim, and rank 0's word that all are there (src/README.md, "Rendezvous"). Nonces on both sides prove
// that a file is of this start, never clocks; leftovers of a dead start match nothing.
#pragma once

#include "session/session_plan.h"
#include "store/store.h"

namespace ckpt::session {

// Rank 0, holding a session: answers every rank's hello and waits until all ranks claimed their place; TIMEOUT names
// those missing; FENCED.
Status lead_rendezvous(store::Store& store, const SessionPlan& plan, const std::string& session_string,
                       int64_t timeout_ms);
// Another rank: says hello and returns the session string that answers it. TIMEOUT.
Result<std::string> join_rendezvous(store::Store& store, std::string_view run, uint32_t rank, int64_t timeout_ms);
// Another rank, after its claim: waits for rank 0's word that all ranks are here. TIMEOUT, ABORTED, FENCED.
Status await_start(store::Store& store, const SessionPlan& plan, int64_t timeout_ms);

}  // namespace ckpt::session
