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
void Job::be_part_of_outer() {
  Call* const around = CallContext::current().call();
  if (!around || around == call.get()) return;
  call->outer = around->shared_from_this();
  context_ = CallContext::current().with(call.get());
}

Status Job::work_on(int32_t done, const std::function<Status(Job&)>& work) {
  const ContextScope on{context_};
  began_ = std::chrono::steady_clock::now();
  reach(CKPT_JOB_RUNNING);
  IfThreadEnds lost([&](Status status) { end(done, std::move(status)); });
  // Where memory runs out, what is known of the end counts, as for a thread that is left behind.
  const Status status =
      call_guarded([&] { return work(*this); }, [&](Status why) { return call->answer_of_left(std::move(why)); });
  lost.came_back();
  counters.total_us = elapsed_us();
  end(done, status);
  return status;
}

void Job::end_outside(Status status) {
  if (ended()) return;
  counters.total_us = elapsed_us();
  end(CKPT_JOB_DONE, std::move(status));
}

Status Job::run(int32_t done, const std::function<Status(Job&)>& work) {
  taken_ = true;
  be_part_of_outer();
  return work_on(done, work);
}

bool Job::launch(std::thread* thread, int32_t done, std::function<Status(Job&)> work) {
  taken_ = true;
  be_part_of_outer();
  work_ = std::move(work);
  const std::shared_ptr<Job> self = weak_from_this().lock();
  if (self) call->watch();
  can_be_left_ = self != nullptr;
  return start_thread(thread, [this, self, done] { (void)work_on(done, work_); });
}

Status Job::start(int32_t done, std::function<Status(Job&)> work) {
  if (launch(&thread_, done, std::move(work))) return Ok();
  return Status(CKPT_NOMEM, "the system gives no thread to work in the background");
}

// Where there is no thread to be had, this one does it, and nobody else looks at what `look_too_` tells. The thread is
// nobody else's: the job may be a caller's, who frees it meanwhile.
Status Job::run_apart(int32_t done, std::function<Status(Job&)> work) {
  std::thread thread;
  if (!launch(&thread, done, std::move(work))) {
    can_be_left_ = false;
    if (look_too_)
      call->hear_by([weak = weak_from_this()] {
        Status answer;
        if (const auto self = weak.lock()) (void)self->look_too_(&answer);
      });
    return work_on(done, work_);
  }
  (void)await(CKPT_JOB_COMMITTED, -1);
  if (left_) {
    thread.detach();
  } else {
    thread.join();
    work_ = nullptr;  // the job may live on; what the work had need not
  }
  std::lock_guard lock(mutex_);
  return status_;
}

void Job::begin_outside() {
  taken_ = true;
  be_part_of_outer();
  call->watch();
  began_ = std::chrono::steady_clock::now();
  reach(CKPT_JOB_RUNNING);
}

ContextScope Job::enter(int64_t patience_ms) const {
  call->bound(patience_ms);
  for (const Call* one = CallContext::current().call(); one; one = one->outer.get())
    if (one == call.get()) return ContextScope(CallContext::current());
  return ContextScope(CallContext(call.get()));
}

// The first end counts: a thread that was left behind may come later.
void Job::end(int32_t done, Status status) {
  std::lock_guard lock(mutex_);
  if (state_ >= CKPT_JOB_COMMITTED) return;
  status_ = status;
  state_ = status.ok()                       ? done
           : status.code() == CKPT_CANCELLED ? int32_t{CKPT_JOB_CANCELLED}
                                             : int32_t{CKPT_JOB_FAILED};
  changed_.notify_all();
}

// Ends the job if the kernel holds one of its threads for too long. Whoever waits cannot end for lack of memory: the
// work goes on. So the next look tells.
void Job::look() const noexcept {
  if (!can_be_left_ || state_ >= CKPT_JOB_COMMITTED) return;
  try {
    look_now();
  } catch (const std::bad_alloc&) {
  }
}

void Job::look_now() const {
  Status answer;
  bool left = call->is_stuck(&answer);
  if (!left && look_too_) {
    const std::lock_guard one(looking_);
    left = look_too_(&answer);
    if (left) answer = call->answer_of_left(std::move(answer));
  }
  if (!left) return;
  std::lock_guard lock(mutex_);
  if (state_ >= CKPT_JOB_COMMITTED) return;
  left_ = true;
  status_ = std::move(answer);
  state_ = status_.ok() ? CKPT_JOB_DONE : CKPT_JOB_FAILED;
  changed_.notify_all();
}

int32_t Job::state() const {
  look();
  return state_;
}

void Job::reach(int32_t state) {
  std::lock_guard lock(mutex_);
  if (state_.load() < state) reached_ = state_ = state;
  changed_.notify_all();
}

// False if the time was up before.
bool Job::await(int32_t state, int64_t timeout_ms) const {
  // Who looks too hears soon that its other half was cancelled, and tells how far this one is.
  const std::chrono::milliseconds pause{look_too_ ? 20 : 200};
  // The largest timeouts would overflow the clock. A year is as good as for ever.
  constexpr int64_t kForEver = int64_t{1000} * 3600 * 24 * 365;
  if (timeout_ms < 0 || timeout_ms > kForEver) timeout_ms = kForEver;
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  auto reached = [&] { return state_ >= state || state_ >= CKPT_JOB_COMMITTED; };
  std::unique_lock lock(mutex_);
  while (!reached()) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= until) return false;
    if (changed_.wait_until(lock, std::min(until, now + pause), reached)) break;
    lock.unlock();
    look();
    lock.lock();
  }
  return true;
}

Status Job::wait(int32_t state, int64_t timeout_ms) const {
  const bool in_time = await(state, timeout_ms);
  std::lock_guard lock(mutex_);
  if (!in_time && state_ < state && state_ < CKPT_JOB_COMMITTED)
    return Status(CKPT_TIMEOUT,
                  strformat("the job did not reach state {} within {} ms; it goes on", state, timeout_ms));
  return reached_ >= state ? Ok() : status_;
}

uint64_t Job::elapsed_us() const {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - began_).count());
}

void Job::finish() {
  if (state() != CKPT_JOB_NEW) cancel();
  if (!thread_.joinable()) return;
  (void)await(CKPT_JOB_COMMITTED, -1);
  if (left_)
    thread_.detach();
  else
    thread_.join();
}

// The last one to go may be the job's own thread, which was left behind or whose job nobody freed.
Job::~Job() {
  if (thread_.joinable() && thread_.get_id() == std::this_thread::get_id())
    thread_.detach();
  else
    finish();
}

ContextScope Backoff::within() const {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - std::chrono::steady_clock::now());
  return ContextScope(CallContext::current().ending_at(steady_ms() + left.count()));
}

void Backoff::sleep() {
  auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - std::chrono::steady_clock::now());
  auto pause = std::min(std::chrono::milliseconds(pause_ms_), std::max(left, std::chrono::milliseconds(0)));
  std::this_thread::sleep_for(pause);
  pause_ms_ = std::min(pause_ms_ * 2, longest_ms_);
}

}  // namespace ckpt
