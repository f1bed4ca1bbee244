// Which ranks of a session are gone. Each rank locks its claim for as long as its session lives; the lock ends with the
// process, however it ends. So whoever waits for a rank can ask whether there is anything to wait for. Where other
// machines reach the store, a free lock is no death, and the rank itself is asked (presence.h). On a store
// without locks each rank shows signs of life while it saves (store/heartbeat.h): rank 0 looks at all of them by one
// listing, the others at that of rank 0.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "session/presence.h"
#include "session/session_plan.h"
#include "store/heartbeat.h"

namespace ckpt::session {

class Liveness {
 public:
  // Locks this rank's claim, which must exist. CONFLICT if something else holds a lock on it.
  Status hold(const std::shared_ptr<store::Store>& store, const SessionPlan& plan, uint32_t rank);
  // This rank works on an attempt, until what this returns is gone.
  std::shared_ptr<void> begin_save(const SessionPlan& plan, std::string_view attempt);

  // ABORTED if one of these ranks, that an attempt waits for, is gone: detail `ranks`. Asks the store once in a while,
  // and for a few ranks at a time; may be called at any time, from any thread. A rank counts as gone if its claim has
  // been found unlocked twice in a row, and if the lock would have been seen: it was seen before, or the rank's process
  // is of this machine. So on a store with locks that only count within one machine, no rank of another machine ever
  // is. On a store that other machines reach, it counts as gone once it did not answer, either. By signs of life a rank
  // counts as gone if the one of this attempt is older than two heartbeats, twice in a row. One that has not come, or
  // is done, has none.
  Status check(store::Store& store, const SessionPlan& plan, std::string_view attempt, std::span<const uint32_t> ranks);

  // What a claim says of the machine that it was made on.
  static std::string machine();

 private:
  Status check_beats(const store::Store& store, const SessionPlan& plan, std::string_view attempt,
                     std::span<const uint32_t> ranks);
  enum class Seen { kAlive, kUnknown, kUnlocked };
  Status check_unlocked(store::Store& store, const SessionPlan& plan, uint32_t rank);
  Seen look(const store::Store& store, const std::string& claim, uint32_t rank);

  struct Question {
    uint64_t number = 0;  // 0: none is open
    int64_t asked_ms = 0, heard_ms = 0;
  };
  std::unique_ptr<Presence> presence_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point next_ = {};
  size_t turn_ = 0;
  std::set<uint32_t> visible_;                         // ranks whose lock this process can see
  std::set<uint32_t> unlocked_;                        // once
  std::map<uint32_t, Question> questions_;             // to those whose lock is free
  std::set<std::pair<std::string, uint32_t>> silent_;  // in an attempt, once
  uint32_t rank_ = 0;
  std::unique_ptr<store::Heartbeat> heartbeat_;  // null where there are locks, or nobody to look at it
};

}  // namespace ckpt::session
