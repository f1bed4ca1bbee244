// Ranks without a communicator meet through files of the store: a hello with a nonce, a welcome with the nonces that it
// answers, an exclusive claim, and rank 0's word that all ranks are there (src/README.md, "Rendezvous"). Nonces, not
// clocks, prove that a file belongs to this start; leftovers of a dead start match nothing.
// Whatever the number of ranks, a poll asks the store one thing, and each rank reads and writes a constant amount.
#pragma once

#include "base/job.h"
#include "session/session_plan.h"
#include "store/store.h"

namespace ckpt::session {

// Rank 0, which holds a session: answers every rank's hello and waits until all ranks have claimed their place. TIMEOUT
// names the missing ranks; FENCED.
Status lead_rendezvous(store::Store& store, const SessionPlan& plan, const std::string& session_string,
                       int64_t timeout_ms, const Job& job);
// Other ranks: says hello and returns the session string of the answer. TIMEOUT.
struct Newcomer {
  uint32_t rank, world_size;
};
Result<std::string> join_rendezvous(store::Store& store, std::string_view run, Newcomer newcomer, int64_t timeout_ms,
                                    const Job& job);
// Other ranks, after their claim: waits for rank 0's word that all ranks are there. TIMEOUT, ABORTED, FENCED.
Status await_start(store::Store& store, const SessionPlan& plan, int64_t timeout_ms, const Job& job);

}  // namespace ckpt::session
