// Signs of life on a store without locks that can tell how old a file is (Traits::tells_age): as long as somebody
// works, a small file is put again and again. Its age, by the store's clock, tells others whether he is gone.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/tally.h"
#include "store/store.h"

namespace ckpt::store {

class Heartbeat {
 public:
  Heartbeat(std::shared_ptr<Store> store, std::string key, int64_t interval_ms)
      : store_(std::move(store)), key_(std::move(key)), interval_(interval_ms) {}
  // The file is removed by then.
  ~Heartbeat();

  // Puts the file, at first at once, until what this returns is gone, and that of every other call; then removes it.
  // What fails is tried again at the next beat.
  std::shared_ptr<void> begin();

 private:
  void end();
  void work();

  const std::shared_ptr<Store> store_;
  const std::string key_;
  const std::chrono::milliseconds interval_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int works_ = 0;  // how many
  bool ends_ = false;
  const std::shared_ptr<Tally> asked_ = std::make_shared<Tally>();  // by the thread; cancelled at the end
  std::thread thread_;
};

}  // namespace ckpt::store
