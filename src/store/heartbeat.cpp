#include "store/heartbeat.h"

#include <algorithm>

#include "base/call.h"
#include "base/parallel.h"
#include "base/thread.h"

namespace ckpt::store {

Heartbeat::~Heartbeat() {
  {
    std::lock_guard lock(mutex_);
    ends_ = true;
  }
  asked_->cancel();
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<void> Heartbeat::begin(std::string key) {
  {
    std::lock_guard lock(mutex_);
    works_[key] = {};
    // Without a thread there is no file, and nobody is taken to be gone.
    if (!thread_.joinable()) (void)start_thread(&thread_, [this] { work(); });
  }
  changed_.notify_all();
  return std::shared_ptr<void>(this, [key = std::move(key)](void* self) { static_cast<Heartbeat*>(self)->end(key); });
}

void Heartbeat::end(const std::string& key) {
  {
    std::lock_guard lock(mutex_);
    over_.insert(works_.extract(key));
  }
  changed_.notify_all();
}

void Heartbeat::work() {
  const ContextScope until_it_ends{CallContext(asked_.get())};
  std::unique_lock lock(mutex_);
  auto unlocked = [&](auto&& request) {
    lock.unlock();
    (void)call_guarded(request);
    lock.lock();
  };
  for (;;) {
    const auto due = std::ranges::min_element(works_, {}, [](const auto& work) { return work.second; });
    if (!over_.empty()) {
      const auto gone = over_.extract(over_.begin());
      unlocked([&] { return store_->remove(gone.key(), false); });
    } else if (due == works_.end()) {
      if (ends_) return;
      changed_.wait(lock);
    } else if (due->second > Clock::now()) {
      const Clock::time_point when = due->second;  // a copy: the work may end meanwhile, and its entry with it
      changed_.wait_until(lock, when);
    } else {
      due->second = Clock::now() + interval_;
      std::string key;  // a copy, as above
      const Status copied = call_guarded([&] { return key = due->first, Ok(); });
      if (copied.ok()) unlocked([&] { return store_->put_over(key, as_bytes("\n")); });
    }
  }
}

}  // namespace ckpt::store
