#include "base/tally.h"

namespace ckpt {

// Set only while a call is at work, and put back by it. So it is nothing to a language that changes threads between
// calls, nor to two users in one process.
static thread_local Tally* tally_of_thread = nullptr;

Tally* Tally::current() { return tally_of_thread; }

Tallying::Tallying(Tally* tally) : before_(std::exchange(tally_of_thread, tally)) {}
Tallying::~Tallying() { tally_of_thread = before_; }

void count_request(RequestKind kind, bool again, uint64_t sent, uint64_t received) {
  for (Tally* tally = Tally::current(); tally; tally = tally->outer.get()) {
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
