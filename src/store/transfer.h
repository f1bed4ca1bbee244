// What the engines of IoQueue share: transfers, the places for them (as many as may be under way) and the threads that
// do them by blocking calls.
// All may be used from any thread, but a Transfer and a TransferList by one at a time.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "store/io_queue.h"

namespace ckpt::store {

struct Transfer {
  Writer* writer = nullptr;  // or
  const Reader* reader = nullptr;
  uint64_t offset = 0;
  Bytes from{};         // of a write
  MutableBytes into{};  // of a read
  IoQueue::Done done{};
  size_t moved = 0;          // bytes that a ring has transferred
  Transfer* next = nullptr;  // in whatever list it is

  // Blocks; the answer of write_at or read_direct.
  Status run() const;
};

// First in, first out, without allocations.
class TransferList {
 public:
  bool empty() const { return !first_; }
  void push(Transfer* transfer);
  Transfer* pop();  // null where it is empty

 private:
  Transfer* first_ = nullptr;
  Transfer* last_ = nullptr;
};

class Places {
 public:
  explicit Places(unsigned depth);
  // Waits for a place, then puts the transfer there.
  Transfer* take(Transfer transfer);
  // Calls `done`, then gives the place to the next.
  void finish(Transfer* transfer, Status status);
  void wait_until_all_free();

 private:
  std::vector<Transfer> places_;
  std::mutex mutex_;
  std::condition_variable freed_;
  TransferList free_;
  size_t taken_ = 0;
};

// Threads without signals; the function must not throw. False where the system gives none.
bool start_thread(std::thread* thread, const std::function<void()>& body);

// At least one thread, more as they are needed and the system gives them.
class Threads {
 public:
  // NOMEM where there is not even one. `places` must outlive it.
  static Result<std::unique_ptr<Threads>> make(Places& places, unsigned most);
  // Everything posted must have been finished.
  ~Threads();
  void post(Transfer* transfer);

 private:
  Threads(Places& places, unsigned most);
  bool add_thread();
  void work();

  Places& places_;
  const unsigned most_;
  std::mutex mutex_;
  std::condition_variable wake_;
  TransferList waiting_;
  size_t waiting_count_ = 0;
  size_t busy_ = 0;  // threads
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

// What both engines are but for how a transfer begins.
class TransferQueue : public IoQueue {
 public:
  void write(Writer& file, uint64_t offset, Bytes data, Done done) final {
    begin(places_.take({.writer = &file, .offset = offset, .from = data, .done = std::move(done)}));
  }
  void read(const Reader& file, uint64_t offset, MutableBytes out, Done done) final {
    begin(places_.take({.reader = &file, .offset = offset, .into = out, .done = std::move(done)}));
  }

 protected:
  explicit TransferQueue(unsigned depth) : places_(depth) {}
  Status start_threads(unsigned most) {
    CKPT_ASSIGN(threads_, Threads::make(places_, most));
    return Ok();
  }
  virtual void begin(Transfer* transfer) = 0;

  Places places_;
  std::unique_ptr<Threads> threads_;
};

}  // namespace ckpt::store
