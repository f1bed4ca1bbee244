// Signs of life on a store without locks that can tell how old a file is (Traits::tells_age): as long as somebody
// works, a small file is put again and again. Its age, by the store's clock, tells others whether he is gone. Each work
// has a key of its own: a removal that failed, or a put that came late, must not speak of the next one.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/call.h"
#include "store/store.h"

namespace ckpt::store {

class Heartbeat {
 public:
  Heartbeat(std::shared_ptr<Store> store, int64_t interval_ms) : store_(std::move(store)), interval_(interval_ms) {}
  // The files are removed by then.
  ~Heartbeat();

  // Puts the file of a work, at first at once, until what this returns is gone; then removes it. What fails is tried
  // again at the next beat. No two works have one key.
  std::shared_ptr<void> begin(std::string key);

 private:
  using Clock = std::chrono::steady_clock;
  void end(const std::string& key);
  void work();

  const std::shared_ptr<Store> store_;
  const std::chrono::milliseconds interval_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Clock::time_point> works_;  // when each is due
  std::map<std::string, Clock::time_point> over_;   // to be removed: an end needs no memory
  bool ends_ = false;
  const std::shared_ptr<Call> asked_ = std::make_shared<Call>();  // by the thread; cancelled at the end
  std::thread thread_;
};

}  // namespace ckpt::store
