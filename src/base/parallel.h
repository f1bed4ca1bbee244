// Runs one function on several threads and waits; the first error wins and stops the others.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <new>

#include "base/status.h"

namespace ckpt {

// The number of threads. `wanted` 0 means min(cores, 4): enough to keep a disk busy while another thread hashes.
unsigned resolve_threads(int64_t wanted);

// Calls `work`. That there is no memory is NOMEM; any other exception, which would end the program, INTERNAL.
template <typename Work>
Status call_guarded(Work&& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return Status::no_memory();
  } catch (const std::exception& error) {
    return Status(CKPT_INTERNAL, error.what());
  }
}
// The same; `otherwise` says what an exception means.
template <typename Work, typename Otherwise>
Status call_guarded(Work&& work, Otherwise&& otherwise) {
  bool came_back = false;
  Status status = call_guarded([&] {
    Status ended = work();
    came_back = true;
    return ended;
  });
  return came_back ? std::move(status) : otherwise(std::move(status));
}

// What becomes of work whose thread is ended within a call of somebody else's code (pthread_exit): nothing else comes
// back, so whoever waits for the thread is told by this.
template <typename Tell>
class IfThreadEnds {
 public:
  explicit IfThreadEnds(Tell tell) : tell_(std::move(tell)) {}
  ~IfThreadEnds() {
    if (!came_back_) tell_(Status(CKPT_INTERNAL, "a thread of the call was ended from within (pthread_exit)"));
  }
  IfThreadEnds(const IfThreadEnds&) = delete;
  IfThreadEnds& operator=(const IfThreadEnds&) = delete;
  void came_back() { came_back_ = true; }

 private:
  const Tell tell_;
  bool came_back_ = false;
};

// Calls body(worker, stop) on `threads` threads, this one included. When a body fails, `stop` becomes true; the others
// should then return soon.
Status run_parallel(unsigned threads,
                    const std::function<Status(unsigned worker, const std::atomic<bool>& stop)>& body);

// Calls body(i) for every i in [0, count). The threads take the indexes one by one.
Status for_each_parallel(unsigned threads, size_t count, const std::function<Status(size_t)>& body);

}  // namespace ckpt
