// Ranks without a communicator meet through files of the store: a hello with a nonce, a welcome with the nonces that it
// answers, an exclusive claim or a refusal, and rank 0's word that all ranks are there (README.md, "Rendezvous").
// Nonces, not clocks, prove that a file belongs to this start; leftovers of a dead start match nothing. Whatever the
// number of ranks, a poll asks the store one thing, and each rank reads and writes a constant amount.
#pragma once

#include <functional>
#include <span>

#include "base/job.h"
#include "session/session_plan.h"
#include "store/store.h"

namespace ckpt::session {

// Rank 0, which holds a session: answers every rank's hello and waits until all ranks have claimed their place. TIMEOUT
// names the missing ranks; FENCED; ABORTED if a rank has refused, or if `alive` says that one that came is gone.
// Whatever ends it, the other ranks are told.
using Alive = std::function<Status(std::span<const uint32_t> ranks)>;
Status lead_rendezvous(store::Store& store, const SessionPlan& plan, const std::string& session_string,
                       int64_t timeout_ms, const Job& job, const Alive& alive);
// The same for a rank 0 that failed before: the ranks that are waiting need not wait for their time.
void call_off_rendezvous(store::Store& store, const SessionPlan& plan, const std::string& session_string,
                         const Status& cause);
// Other ranks: says hello and returns the session string of the answer. TIMEOUT.
struct Newcomer {
  uint32_t rank, world_size;
};
Result<std::string> join_rendezvous(store::Store& store, std::string_view run, Newcomer newcomer, int64_t timeout_ms,
                                    const Job& job);
// Other ranks that cannot take their place: tells rank 0 why, unless another process has taken it.
void refuse_start(store::Store& store, const SessionPlan& plan, uint32_t rank, bool claimed, const Status& cause);
// Other ranks, after their claim: waits for rank 0's word that all ranks are there. TIMEOUT, ABORTED, FENCED.
Status await_start(store::Store& store, const SessionPlan& plan, int64_t timeout_ms, const Job& job);

}  // namespace ckpt::session
