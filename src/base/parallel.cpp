#include "base/parallel.h"

#include <algorithm>
#include <mutex>
#include <thread>
#include <vector>

#include "base/call.h"
#include "base/thread.h"

namespace ckpt {

unsigned resolve_threads(int64_t wanted) {
  if (wanted > 0) return static_cast<unsigned>(wanted);
  return std::clamp(std::thread::hardware_concurrency(), 2u, 4u);
}

namespace {

// Threads that are waited for, however this one goes on.
class Joined {
 public:
  explicit Joined(unsigned count) : threads_(count) {}
  ~Joined() {
    for (std::thread& thread : threads_)
      if (thread.joinable()) thread.join();
  }
  Joined(const Joined&) = delete;
  Joined& operator=(const Joined&) = delete;
  std::thread& operator[](size_t i) { return threads_[i]; }

 private:
  std::vector<std::thread> threads_;
};

}  // namespace

Status run_parallel(unsigned threads, const std::function<Status(unsigned, const std::atomic<bool>&)>& body) {
  std::atomic<bool> stop{false};
  std::mutex mutex;
  Status first;
  const CallContext context = CallContext::current();
  auto work = [&](unsigned worker) {
    const auto fail = [&](Status status) {
      std::lock_guard lock(mutex);
      if (first.ok()) first = std::move(status);
      stop = true;
    };
    IfThreadEnds lost(fail);
    const ContextScope on(context);
    Status status = call_guarded([&] { return body(worker, stop); });
    lost.came_back();
    if (!status.ok()) fail(std::move(status));
  };
  // Where the system gives fewer threads, those that started do the work, only more slowly.
  {
    Joined helpers(threads);
    for (unsigned i = 1; i < threads; i++)
      if (!start_thread(&helpers[i], [&work, i] { work(i); })) break;
    work(0);
  }
  return first;
}

Status for_each_parallel(unsigned threads, size_t count, const std::function<Status(size_t)>& body) {
  std::atomic<size_t> next{0};
  threads = static_cast<unsigned>(std::min<size_t>(threads, std::max<size_t>(count, 1)));
  return run_parallel(threads, [&](unsigned, const std::atomic<bool>& stop) -> Status {
    for (size_t i; !stop && (i = next++) < count;) CKPT_TRY(body(i));
    return Ok();
  });
}

}  // namespace ckpt
