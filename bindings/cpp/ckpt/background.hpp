// ckpt/background.hpp - who owns a save in the background: its session, so that a Job may be dropped. Not for direct
// use.
#ifndef CKPT_BACKGROUND_HPP
#define CKPT_BACKGROUND_HPP

#include <atomic>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "call.hpp"

namespace CKPT_HPP_NAMESPACE {
inline namespace CKPT_HPP_MODE {
namespace detail {

// Whether an exception unwinds the stack from within the life of the object that holds this.
class Unwinding {
 public:
  explicit operator bool() const { return std::uncaught_exceptions() > before_; }

 private:
  int before_ = std::uncaught_exceptions();
};

// A C job and what its owners must know about it.
struct JobState : Handle<ckpt_job, ckpt_job_free> {
  explicit JobState(ckpt_job* job, std::string save = {}) : Handle(job), label(std::move(save)) {}
  bool ended() const { return ckpt_job_state(get()) >= CKPT_JOB_COMMITTED; }
  void wait(int32_t state) const { (void)ckpt_job_wait(get(), state, -1, nullptr); }
  std::string label;               // of a save; empty: other work, which ends with its Job
  std::atomic<bool> told = false;  // somebody learned the failure, or asked for it by cancel()
  Unwinding unwinding;
};

// The saves of one session that may still run. Session, Save and Job may be destroyed in any order and by any thread.
class Saves {
 public:
  Saves() = default;
  Saves(const Saves&) = delete;
  ~Saves() { end_and_print(); }

  void add(std::shared_ptr<JobState> job) {
    const std::lock_guard<std::mutex> lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  // The first failure of a save that has ended and that nobody was told of. Forgets all that have ended.
  std::optional<Error> failure() {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::optional<Error> first;
    std::vector<std::shared_ptr<JobState>> running;
    for (auto& job : jobs_) {
      if (!job->ended()) {
        running.push_back(std::move(job));
        continue;
      }
      auto failed = outcome(*job);
      if (!first) first = std::move(failed);
    }
    jobs_ = std::move(running);
    return first;
  }
  // Waits for all.
  std::optional<Error> end() {
    for (const auto& job : copy()) job->wait(CKPT_JOB_COMMITTED);
    return failure();
  }
  // For destructors, which cannot throw, also where there is no memory. In unwinding it cancels: other ranks must not
  // wait for a rank that goes away.
  void end_and_print() noexcept {
    std::vector<std::shared_ptr<JobState>> jobs;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      jobs.swap(jobs_);
    }
    for (const auto& job : jobs)
      if (unwinding_) ckpt_job_cancel(job->get()), job->told = true;
    bool said = false;
    for (const auto& job : jobs) {
      ckpt_error* err = nullptr;
      const ckpt_status status = ckpt_job_wait(job->get(), CKPT_JOB_COMMITTED, -1, &err);
      const bool failed = status != CKPT_OK && status != CKPT_FORKED && !job->told.exchange(true);
      if (failed && !std::exchange(said, true))
        (void)std::fprintf(stderr, "ckpt: %s: the save \"%s\" in the background failed: %s\n", ckpt_status_name(status),
                           job->label.c_str(), ckpt_error_message(err));
      ckpt_error_free(err);
    }
  }

 private:
  std::vector<std::shared_ptr<JobState>> copy() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return jobs_;
  }
  // A forked child learns nothing: the work is its parent's.
  static std::optional<Error> outcome(JobState& job) {
    ckpt_error* err = nullptr;
    const ckpt_status status = ckpt_job_wait(job.get(), CKPT_JOB_COMMITTED, 0, &err);
    const Error error(status, err);
    if (status == CKPT_OK || status == CKPT_FORKED || job.told.exchange(true)) return std::nullopt;
    return Error(status, "the save " + as_literal(job.label) + " in the background failed: " + error.what(),
                 error.details());
  }

  std::mutex mutex_;
  std::vector<std::shared_ptr<JobState>> jobs_;
  Unwinding unwinding_;
};

}  // namespace detail
}  // namespace CKPT_HPP_MODE
}  // namespace CKPT_HPP_NAMESPACE
#endif  // CKPT_BACKGROUND_HPP
