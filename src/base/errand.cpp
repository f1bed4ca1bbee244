#include "base/errand.h"

#include <algorithm>
#include <chrono>

namespace ckpt {

// Set only while a call is at work, and put back by it. So it is nothing to a language that changes threads between
// calls, nor to two users in one process.
static thread_local Errand errand_of_thread;

const Errand& Errand::current() { return errand_of_thread; }

OnErrand::OnErrand(const Errand& errand) : before_(errand_of_thread) { errand_of_thread = errand; }
OnErrand::~OnErrand() { errand_of_thread = before_; }

int64_t Errand::now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Status Errand::check() const {
  const int64_t now = now_ms();
  if (now < at_least_ms_) return Ok();
  for (const Tally* tally = tally_; tally; tally = tally->outer.get())
    if (tally->cancelled) return Status(CKPT_CANCELLED, "the job was cancelled");
  return now < until_ms_ ? Ok() : Status(CKPT_TIMEOUT, "no answer before the time was up");
}

Errand Errand::ending_at(int64_t until_ms) const {
  Errand errand = *this;
  errand.until_ms_ = std::min(until_ms_, until_ms);
  return errand;
}

Errand Errand::going_on() const {
  Errand errand = *this;
  if (at_least_ms_ == 0) errand.at_least_ms_ = now_ms() + kLastMs;
  return errand;
}

void count_request(RequestKind kind, bool again, uint64_t sent, uint64_t received) {
  for (Tally* tally = Errand::current().tally(); tally; tally = tally->outer.get()) {
    switch (kind) {
      case RequestKind::kGet:
        tally->gets++;
        break;
      case RequestKind::kPut:
        tally->puts++;
        break;
      case RequestKind::kList:
        tally->lists++;
        break;
      case RequestKind::kDelete:
        tally->deletes++;
        break;
    }
    tally->retries += again ? 1 : 0;
    tally->bytes_sent += sent;
    tally->bytes_received += received;
  }
}

}  // namespace ckpt
