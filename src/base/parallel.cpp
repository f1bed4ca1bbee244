#include "base/parallel.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/errand.h"

namespace ckpt {

unsigned resolve_threads(int64_t wanted) {
  if (wanted > 0) return static_cast<unsigned>(wanted);
  return std::clamp(std::thread::hardware_concurrency(), 2u, 4u);
}

Status call_guarded(const std::function<Status()>& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return Status(CKPT_NOMEM, "out of memory");
  } catch (const std::system_error& error) {
    return Status(CKPT_NOMEM, std::string("cannot start a thread: ") + error.what());
  }
}

Status run_parallel(unsigned threads, const std::function<Status(unsigned, const std::atomic<bool>&)>& body) {
  std::atomic<bool> stop{false};
  std::mutex mutex;
  Status first;
  const Errand errand = Errand::current();
  auto work = [&](unsigned worker) {
    const OnErrand on(errand);
    Status status = call_guarded([&] { return body(worker, stop); });
    if (status.ok()) return;
    std::lock_guard lock(mutex);
    if (first.ok()) first = std::move(status);
    stop = true;
  };
  std::vector<std::thread> helpers;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    helpers.reserve(threads);
    for (unsigned i = 1; i < threads; i++) helpers.emplace_back(work, i);
  } catch (const std::system_error&) {
    // The threads that started do the work, only more slowly.
  } catch (const std::bad_alloc&) {
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  work(0);
  for (auto& helper : helpers) helper.join();
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
