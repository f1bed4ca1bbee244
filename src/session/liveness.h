// Which ranks of a session are gone. Each rank locks its claim for as long as its session lives; the lock ends with the
// process, however it ends. So whoever waits for a rank can ask whether there is anything to wait for.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>

#include "session/session_plan.h"
#include "store/store.h"

namespace ckpt::session {

class Liveness {
 public:
  // Locks this rank's claim, which must exist. CONFLICT if something else holds a lock on it.
  Status hold(const store::Store& store, const SessionPlan& plan, uint32_t rank);

  // ABORTED if one of these ranks is gone: detail `ranks`. Asks the store once in a while, and for a few ranks at a
  // time; may be called at any time, from any thread. A rank counts as gone if its claim has been found unlocked twice
  // in a row, and if the lock would have been seen: it was seen before, or the rank's process is of this machine. So on
  // a store without locks, or with locks that only count within one machine, no rank of another machine ever is.
  Status check(const store::Store& store, const SessionPlan& plan, std::span<const uint32_t> ranks);

  // What a claim says of the machine that it was made on.
  static std::string machine();

 private:
  enum class Seen { kAlive, kUnknown, kUnlocked };
  Seen look(const store::Store& store, const std::string& claim, uint32_t rank);

  std::unique_ptr<store::Lock> lock_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point next_ = {};
  size_t turn_ = 0;
  std::set<uint32_t> visible_;   // ranks whose lock this process can see
  std::set<uint32_t> unlocked_;  // once
};

}  // namespace ckpt::session
