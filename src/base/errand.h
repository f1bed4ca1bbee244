// For which job a thread works, and how long it may still wait for servers. A store knows no jobs, and one handle of it
// serves several at once: so each thread that works for a job has an errand, and whoever hands work to another thread
// (Job, run_parallel, IoQueue) hands on the errand, too.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "base/tally.h"

namespace ckpt {

class Errand {
 public:
  // What must not be broken off halfway has so much time, whatever has ended.
  static constexpr int64_t kLastMs = 10000;

  Errand() = default;
  explicit Errand(Tally* tally) : tally_(tally) {}
  // That of this thread; of nobody if it works for no job.
  static const Errand& current();

  Tally* tally() const { return tally_; }
  // OK as long as it may wait. CANCELLED, TIMEOUT.
  Status check() const;
  // The same with an end at `until`, of now_ms(), unless it has an earlier one.
  Errand ending_at(int64_t until_ms) const;
  // The same with kLastMs from now on at least, unless it has been given that before.
  Errand going_on() const;

  // Of a clock that never goes back.
  static int64_t now_ms();

 private:
  static constexpr int64_t kNever = INT64_MAX;

  Tally* tally_ = nullptr;
  int64_t until_ms_ = kNever, at_least_ms_ = 0;
};

// Gives this thread an errand, as long as it lives.
class OnErrand {
 public:
  explicit OnErrand(const Errand& errand);
  ~OnErrand();
  OnErrand(const OnErrand&) = delete;
  OnErrand& operator=(const OnErrand&) = delete;

 private:
  const Errand before_;
};

// What this thread does while it lives is to be done although the job is cancelled, or its time is up.
class GoingOn : OnErrand {
 public:
  GoingOn() : OnErrand(Errand::current().going_on()) {}
};

// Counts a request of this thread's work, and the bytes of the bodies. `again`: an earlier try of it failed.
void count_request(RequestKind kind, bool again, uint64_t sent, uint64_t received);

}  // namespace ckpt
