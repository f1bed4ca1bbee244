// How long a request that failed is tried again, and when all requests of a client wait because its server is busy.
// May be used by many threads.
#pragma once

#include <atomic>

#include "store/cloud/http.h"
#include "store/store.h"

namespace ckpt::store::cloud {

class Patience {
 public:
  explicit Patience(const S3Timing& timing) : timing_(timing) {}

  // A request and its repetitions.
  struct Try {
    int64_t first_failed = 0;
    int count = 0;  // of failures
  };

  // Before each try: waits while the server wants rest, but no longer than the call may.
  void wait_for_calm(const CallContext& context) const;
  // The server has answered: from now on it is given more time.
  void answered() { answered_ = true; }
  // A try has failed.
  static void failed(Try* tries);
  // Sleeps; false if there is no patience left, or the call is over. `busy`: the server has too much to do, which
  // concerns all requests.
  bool wait_to_try_again(const HttpReply& reply, bool busy, const Try& tries, const CallContext& context);

 private:
  void slow_down(int64_t ms);

  const S3Timing timing_;
  std::atomic<bool> answered_ = false;
  std::atomic<int64_t> calm_from_ = 0;  // of now_ms: no request before it
};

// Whether a status tells of something that passes.
bool is_passing_status(long status);

// Of a request whose time is up between two tries: what came of it before.
Status with_last_try(const Status& over, const Status& last);

}  // namespace ckpt::store::cloud
