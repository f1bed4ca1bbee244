#include "base/job.h"

#include <algorithm>

#include "base/parallel.h"
#include "base/thread.h"

namespace ckpt {

Status Job::take() {
  if (!taken_.exchange(true)) return Ok();
  return Status(CKPT_INVALID,
                "the job of the options has served a call already; a call needs a new one (ckpt_job_new)");
}

// A job that another one's work begins is a part of that.
void Job::count_with_outer() const {
  Tally* const around = Errand::current().tally();
  if (around && around != tally.get()) tally->outer = around->shared_from_this();
}

Status Job::run(int32_t done, const std::function<Status(Job&)>& work) {
  taken_ = true;
  count_with_outer();
  const OnErrand on{Errand(tally.get())};
  began_ = std::chrono::steady_clock::now();
  reach(CKPT_JOB_RUNNING);
  const Status status = call_guarded([&] { return work(*this); });
  end(done, status);
  return status;
}

Status Job::start(int32_t done, std::function<Status(Job&)> work) {
  taken_ = true;
  count_with_outer();
  work_ = std::move(work);
  if (start_thread(&thread_, [this, done] { (void)run(done, work_); })) return Ok();
  return Status(CKPT_NOMEM, "the system gives no thread to work in the background");
}

void Job::end(int32_t done, Status status) {
  counters.total_us = elapsed_us();
  std::lock_guard lock(mutex_);
  status_ = status;
  state_ = status.ok()                       ? done
           : status.code() == CKPT_CANCELLED ? int32_t{CKPT_JOB_CANCELLED}
                                             : int32_t{CKPT_JOB_FAILED};
  changed_.notify_all();
}

void Job::reach(int32_t state) {
  std::lock_guard lock(mutex_);
  if (state_.load() < state) reached_ = state_ = state;
  changed_.notify_all();
}

Status Job::wait(int32_t state, int64_t timeout_ms) const {
  std::unique_lock lock(mutex_);
  auto reached = [&] { return state_.load() >= state || ended(); };
  // The largest timeouts would overflow the clock. A year is as good as for ever.
  constexpr int64_t kForEver = int64_t{1000} * 3600 * 24 * 365;
  if (timeout_ms < 0 || timeout_ms > kForEver)
    changed_.wait(lock, reached);
  else if (!changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), reached))
    return Status(CKPT_TIMEOUT,
                  strformat("the job did not reach state {} within {} ms; it goes on", state, timeout_ms));
  return reached_ >= state ? Ok() : status_;
}

Status Job::check() const { return cancelled() ? Status(CKPT_CANCELLED, "the job was cancelled") : Ok(); }

uint64_t Job::elapsed_us() const {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - began_).count());
}

void Job::finish() {
  if (state() != CKPT_JOB_NEW) cancel();
  if (thread_.joinable()) thread_.join();
}

OnErrand Backoff::within() const {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - std::chrono::steady_clock::now());
  return OnErrand(Errand::current().ending_at(Errand::now_ms() + left.count()));
}

void Backoff::sleep() {
  auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - std::chrono::steady_clock::now());
  auto pause = std::min(std::chrono::milliseconds(pause_ms_), std::max(left, std::chrono::milliseconds(0)));
  std::this_thread::sleep_for(pause);
  pause_ms_ = std::min(pause_ms_ * 2, longest_ms_);
}

}  // namespace ckpt
