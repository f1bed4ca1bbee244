// Keys or a token that expire, and are asked for again in time. T has `expires` (seconds since 1970; 0: never),
// `source`, anonymous() and same_as(), which compares what is secret. Keys that are known are never given up for
// nobody. May be used by many threads.
#pragma once

#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <new>

#include "base/status.h"

namespace ckpt::store::cloud {

template <typename T>
class Renewed {
 public:
  using Shared = std::shared_ptr<const T>;
  // Called without the lock, by one thread at a time, with the time at which it was asked for.
  using Ask = std::function<Result<T>(int64_t now)>;
  explicit Renewed(Ask ask) : ask_(std::move(ask)) {}

  // `now` is the server's time, in seconds. They are asked for again five minutes before they expire, by one thread and
  // once in half a minute; meanwhile, and if that fails, the old ones count until their end.
  Result<Shared> get(int64_t now) {
    std::unique_lock lock(mutex_);
    if (are_good(now) && !are_due(now)) return known_;
    auto renewed = renew(lock, now);
    if (!renewed.ok() && are_good(now)) return known_;
    return renewed;
  }

  // The server refused these: asks again, once in half a minute. False if that brought no others.
  bool refused(const T& by_server, int64_t now) {
    if (by_server.anonymous()) return false;
    std::unique_lock lock(mutex_);
    if (known_.get() == &by_server) {
      if (std::abs(now - refused_at_) < kPause) return false;
      refused_at_ = now;
      if (!renew(lock, now).ok()) return false;
    }
    return !known_->same_as(by_server);
  }

 private:
  static constexpr int64_t kRefreshBefore = 300;  // seconds
  static constexpr int64_t kPause = 30;           // between two questions, as long as there is an answer
  static constexpr int64_t kNever = INT64_MIN / 2;

  bool are_good(int64_t now) const { return known_ && (known_->expires == 0 || now < known_->expires); }
  // Nobody may become somebody: the service of an instance that has just started may be late.
  bool are_due(int64_t now) const {
    if (asking_ || std::abs(now - asked_) < kPause) return false;
    return known_->anonymous() || (known_->expires != 0 && now >= known_->expires - kRefreshBefore);
  }
  Result<Shared> renew(std::unique_lock<std::mutex>& lock, int64_t now);

  const Ask ask_;
  std::mutex mutex_;
  std::condition_variable answered_;
  Shared known_;
  bool asking_ = false;                           // some thread, without the lock
  int64_t asked_ = kNever, refused_at_ = kNever;  // when, by `now`
  Status failure_;                                // of the last question
};

// Asks without the lock, or waits for the answer that another thread is asking for.
template <typename T>
Result<std::shared_ptr<const T>> Renewed<T>::renew(std::unique_lock<std::mutex>& lock, int64_t now) {
  if (asking_) {
    answered_.wait(lock, [&] { return !asking_; });
    return failure_.ok() ? Result<Shared>(known_) : failure_;
  }
  asking_ = true;
  lock.unlock();
  Result<T> asked = Status(CKPT_NOMEM, "no memory to ask for credentials");
  Shared found;
  try {
    asked = ask_(now);
    if (asked.ok()) found = std::make_shared<const T>(asked.take());
  } catch (const std::bad_alloc&) {
  }
  lock.lock();
  asking_ = false;
  asked_ = now;
  answered_.notify_all();
  failure_ = found ? Ok() : asked.ok() ? Status(CKPT_NOMEM, "no memory for credentials") : std::move(asked).status();
  if (found && found->anonymous() && known_ && !known_->anonymous())
    failure_ = Status(CKPT_IO, strformat("{} gives no credentials any more", known_->source));
  if (!failure_.ok()) return failure_;
  known_ = std::move(found);
  return known_;
}

}  // namespace ckpt::store::cloud
