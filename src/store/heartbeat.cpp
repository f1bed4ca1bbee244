#include "store/heartbeat.h"

#include <system_error>

#include "base/errand.h"

namespace ckpt::store {

Heartbeat::~Heartbeat() {
  {
    std::lock_guard lock(mutex_);
    ends_ = true;
  }
  asked_->cancelled = true;
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<void> Heartbeat::begin() {
  {
    std::lock_guard lock(mutex_);
    works_++;
    try {
      if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
    } catch (const std::system_error&) {
      // Without a thread there is no file, and nobody is taken to be gone.
    }
  }
  changed_.notify_all();
  return std::shared_ptr<void>(this, [](void* self) { static_cast<Heartbeat*>(self)->end(); });
}

void Heartbeat::end() {
  {
    std::lock_guard lock(mutex_);
    works_--;
  }
  changed_.notify_all();
}

void Heartbeat::work() {
  const OnErrand until_it_ends{Errand(asked_.get())};
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ends_ || works_ != 0; });
    if (works_ == 0) return;
    while (works_ != 0) {
      const auto next = std::chrono::steady_clock::now() + interval_;
      lock.unlock();
      (void)store_->put_over(key_, as_bytes("\n"));
      lock.lock();
      changed_.wait_until(lock, next, [this] { return works_ == 0; });
    }
    lock.unlock();
    (void)store_->remove(key_, false);
    lock.lock();
  }
}

}  // namespace ckpt::store
