// This rank is here: it holds the lock of its claim. Where other machines reach the store that is not enough, since a
// server that restarts forgets locks, and two mounts of one machine may not share them. So whoever finds the lock free
// asks by a file, and a thread of this rank looks for such files and answers by another (Liveness asks).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <thread>

#include "session/session_plan.h"
#include "store/store.h"

namespace ckpt::session {

class Presence {
 public:
  // Locks this rank's claim, which must exist. CONFLICT if something else holds a lock on it.
  static Result<std::unique_ptr<Presence>> hold(const std::shared_ptr<store::Store>& store, const SessionPlan& plan,
                                                uint32_t rank);
  // Does not wait for a disk that hangs.
  ~Presence();

  // How often a rank looks for questions: all together some 100 times a second at most, however many they are.
  static int64_t look_ms(uint32_t world_size) { return std::max<int64_t>(2000, int64_t{world_size} * 10); }
  // What is not answered by then has no answer.
  static int64_t answer_ms(uint32_t world_size) { return 4 * look_ms(world_size) + 2000; }

 private:
  struct State;
  Presence() = default;
  static void answer(State& state, uint64_t* next);
  static void work(State& state);

  std::shared_ptr<State> state_;
  std::thread thread_;  // joinable where it answers
};

}  // namespace ckpt::session
