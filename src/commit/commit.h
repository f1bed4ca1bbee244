// All ranks or none: how one attempt at a label becomes a committed checkpoint, or is closed for every rank.
//
// The durable steps, in order. Each needs the one before it; README.md says why.
//
//   1. rank 0     put `.ckpt/attempts/<token>.<attempt>.<label>`, synced: what is recorded can be cleaned up.
//   2. rank 0     make the checkpoint directory, and sync the store's root.
//                 (A rank that fails before rank 0 comes does steps 1 and 2 itself, and then step 5 with a tombstone.)
//   3. each rank  write its part under a temporary name, sync it, rename it to PART_nnn if absent, sync the directory
//                 (room `save`).
//   4. leaders    (in a large world) check the parts of their groups of ranks and put GROUP_nnn (rank_groups.h).
//   5. rank 0     check all parts and put MANIFEST if absent, synced: this create is the commit.
//      any rank   put a tombstone into the same slot if absent: this create is the abort. One of the two gets the slot.
//   6. rank 0     remove the attempt record, then the checkpoints that on_existing=replace and retention give up.
//
// Every rank learns the outcome by reading the slot. Functions may be called from any thread.
#pragma once

#include <functional>

#include "base/job.h"
#include "session/session.h"

namespace ckpt::commit {

struct CommitSettings {
  ByName by_name{};
  std::string on_existing{}, protect{};
  int64_t timeout_ms = 0, keep_last = 0, keep_every = 0;
  unsigned threads = 2;
  uint32_t group_from = 256;  // ranks; the same on all of them
  bool wait = true;           // for the outcome, on ranks other than 0
  bool some_hold = false;     // whole tensors may be on some ranks only: see holders.h
  bool incremental = false;   // ranks may have given the directory files of earlier checkpoints
  int64_t step = -1;
  bool goes_back = false;  // rank 0: see anew.h
};

// Steps 1 and 2 on rank 0, which also decides whether the label is free; other ranks wait for it. A rank that fails
// here closes the attempt for all. EXISTS, FENCED, ABORTED, TIMEOUT, CANCELLED, and what `go_on` says, which is asked
// while it waits (default: whether the job was cancelled).
Status open_attempt(session::Session& session, const session::Attempt& attempt, const CommitSettings& settings,
                    Job& job, const std::function<Status()>& go_on = {});

// Steps 4 to 6 on rank 0 and leaders, once all parts are there; other ranks wait for the outcome, unless they are
// told not to. MISMATCH and INCOMPLETE if the parts do not make one checkpoint; ABORTED, FENCED, TIMEOUT, CANCELLED,
// COMMIT_UNKNOWN.
Status finish_attempt(session::Session& session, const session::Attempt& attempt, const CommitSettings& settings,
                      Job& job);

// Closes an attempt because of `cause` on this rank, so that no rank waits for it. Returns `cause`, or what the slot
// says already; OK if the attempt was committed before this rank failed.
// `published`: this rank's part is complete, so rank 0 may have committed already; where nothing can tell,
// COMMIT_UNKNOWN.
Status give_up(session::Session& session, const session::Attempt& attempt, Status cause, bool published = false);

// The same for a rank that fails before it knows whether rank 0 opened the attempt: opens it in order to close it.
Status refuse_attempt(session::Session& session, const session::Attempt& attempt, Status cause);

}  // namespace ckpt::commit
