// One piece of work that may run in the background: the state that pollers see, and what the work reports.
// All members may be used from any thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>

#include "base/call.h"
#include "base/report.h"

namespace ckpt {

struct JobCounters {
  std::atomic<uint64_t> bytes_total{0}, bytes_done{0}, bytes_read{0}, bytes_written{0}, bytes_requested{0};
  std::atomic<uint64_t> bytes_reused{0}, chunk_count{0}, run_count{0}, io_count{0}, staging_peak_bytes{0};
  std::atomic<uint64_t> stage_us{0}, write_us{0}, commit_us{0}, total_us{0}, arena_us{0};
  std::atomic<uint32_t> direct_io{0}, threads{0}, io_engine{0}, recycled{0};
};

// A thread of a job that the kernel holds cannot be ended: whoever looks at such a job (wait, state, finish) finds that
// it has ended with TIMEOUT, and the thread is left behind. It keeps alive the job, and what the job was made from.
// Only a job that a shared_ptr holds can be left; any other one waits.
class Job : public std::enable_shared_from_this<Job> {
 public:
  // `state`: NEW for a job that a caller makes before the call that it watches.
  explicit Job(int32_t state = CKPT_JOB_RUNNING) : state_(state) {}
  ~Job();

  // For whoever runs a job that a caller made: it serves one call. INVALID for the second one.
  Status take();
  // Runs `work` on this thread (run), or on a new one (start; run_apart waits for its end). Call one of them, once. The
  // job ends as `done`, FAILED or CANCELLED.
  Status run(int32_t done, const std::function<Status(Job&)>& work);
  Status start(int32_t done, std::function<Status(Job&)> work);
  Status run_apart(int32_t done, std::function<Status(Job&)> work);
  // Of work on threads that are somebody else's (ckpt_layer.h): begins, and ends as DONE, FAILED or CANCELLED.
  void begin_outside();
  void end_outside(Status status);
  // Also has `look` tell, while somebody waits for the job, whether its thread is to be left behind with that answer.
  // Set before the work begins. Only one at a time asks.
  void look_too(std::function<bool(Status* answer)> look) { look_too_ = std::move(look); }
  // This thread works for the job as long as that lives, if it did not already. Its operations take at most so long.
  ContextScope enter(int64_t patience_ms) const;

  int32_t state() const;
  bool ended() const { return state() >= CKPT_JOB_COMMITTED; }
  // Returns OK if `state` was reached, even if the job failed later; TIMEOUT, or the error of a job that failed before.
  // timeout_ms < 0 waits for ever.
  Status wait(int32_t state, int64_t timeout_ms) const;
  // What its work waits for of servers ends within about a second; what must not be broken off, within
  // Call::kClosingMs.
  void cancel() { call->cancel(); }
  bool cancelled() const { return call->cancelled(); }
  // Cancels the work if it still runs, and waits for its thread, unless that is left behind. Work on a caller's thread
  // ends soon after.
  void finish();
  // Whether it has ended without its thread: what the work reports is not to be read.
  bool left() const { return left_; }

  // Called by the work. The state never goes back.
  void reach(int32_t state);
  // Returns CANCELLED after cancel(), TIMEOUT once an operation of the call took too long.
  Status check() const { return call->check_work(); }
  uint64_t elapsed_us() const;

  JobCounters counters;
  const std::shared_ptr<Call> call = std::make_shared<Call>();
  Report report;  // written by the work, read after the end
  bool has_report = false;

 private:
  Status work_on(int32_t done, const std::function<Status(Job&)>& work);
  bool launch(std::thread* thread, int32_t done, std::function<Status(Job&)> work);
  void end(int32_t done, Status status);
  void be_part_of_outer();
  void look() const noexcept;
  void look_now() const;
  bool await(int32_t state, int64_t timeout_ms) const;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable std::atomic<int32_t> state_;
  int32_t reached_ = CKPT_JOB_NEW;  // of the states before the end
  std::atomic<bool> taken_{false};
  mutable std::atomic<bool> left_{false};
  std::atomic<bool> can_be_left_{false};
  std::function<bool(Status*)> look_too_;
  mutable std::mutex looking_;
  mutable Status status_;
  // Kept until the job is freed: it keeps alive what the job was made from.
  std::function<Status(Job&)> work_;
  CallContext context_{call.get()};
  std::thread thread_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

// Runs the body of a call that touches a store on a thread of its own: if the kernel holds that for too long, the
// caller gets TIMEOUT, and the thread is left behind. So the body owns all that it uses, and what it makes.
template <typename Body>
Status run_apart(const std::shared_ptr<Job>& job, int64_t patience_ms, Body body) {
  job->call->bound(patience_ms);
  return job->run_apart(CKPT_JOB_DONE, [body = std::move(body)](Job& running) mutable -> Status {
    CKPT_TRY(running.check());
    Status ended = body(running);
    // What is told of a store that does not answer is no answer, but for what was known before. A TIMEOUT of the body
    // knows more than that the time is up: what a server that answers said each time.
    Status over = running.check();
    const bool is_answer = ended.code() == CKPT_TIMEOUT || running.call->is_settled();
    return over.code() == CKPT_TIMEOUT && !is_answer ? over : ended;
  });
}
template <typename T, typename Body>
Result<T> make_apart(const std::shared_ptr<Job>& job, int64_t patience_ms, Body body) {
  const auto made = std::make_shared<std::optional<T>>();
  CKPT_TRY(run_apart(job, patience_ms, [made, body = std::move(body)](Job& running) mutable -> Status {
    CKPT_ASSIGN(*made, body(running));
    return Ok();
  }));
  if (!job->left() && *made) return std::move(**made);
  // Done, and only tidying up was left when the thread was left behind, or memory ran out: there is no report of it.
  if constexpr (std::is_same_v<T, Report>) return Report();
  return Status(CKPT_INTERNAL, "a call has ended well without what it was to make");
}

// Sleeps between polls of the store: 1 ms at first, doubling up to 100 ms. This keeps both latency and load low. If
// many processes (`pollers`) do the same, the pauses grow with their number, so that all together never poll more than
// some thousand times a second.
class Backoff {
 public:
  explicit Backoff(int64_t timeout_ms, uint32_t pollers = 1)
      : deadline_(std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms)),
        longest_ms_(std::max<int64_t>(100, pollers / 4)) {
    reset();
  }
  bool expired() const { return std::chrono::steady_clock::now() >= deadline_; }
  // What this thread asks of servers while that lives gets no more time.
  ContextScope within() const;
  void sleep();
  int64_t next_pause_ms() const { return pause_ms_; }
  void reset() { pause_ms_ = longest_ms_ / 100; }

 private:
  std::chrono::steady_clock::time_point deadline_;
  int64_t longest_ms_, pause_ms_ = 1;
};

// Every eighth poll may ask something else than the others: whether what is waited for can still come. So no poll asks
// two things.
class Turns {
 public:
  bool other() { return ++turn_ % 8 == 0; }
  bool odd() const { return turn_ % 2 != 0; }

 private:
  unsigned turn_ = 0;
};

}  // namespace ckpt
