// What the engines of IoQueue share: transfers, the places for them (as many as may be under way), and threads that do
// transfers by blocking calls.
// All of it may be used from any thread, but a Transfer or TransferList only by one thread at a time.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/call.h"
#include "base/thread.h"
#include "store/io_queue.h"

namespace ckpt::store {

struct Transfer {
  Writer* writer = nullptr;  // set for a write, else `reader`
  const Reader* reader = nullptr;
  uint64_t offset = 0;
  Bytes from;         // of a write
  MutableBytes into;  // of a read
  IoQueue::Done done;
  CallContext context = CallContext::current();  // for which call
  size_t moved = 0;                              // bytes that a ring has transferred
  Transfer* next = nullptr;                      // in the list that holds it

  // Blocks. Returns what write_at or read_direct returns.
  Status run() const;
};

// First in, first out, without allocations.
class TransferList {
 public:
  bool empty() const { return !first_; }
  void push(Transfer* transfer);
  Transfer* pop();  // null if empty

 private:
  Transfer* first_ = nullptr;
  Transfer* last_ = nullptr;
};

class InFlight {
 public:
  explicit InFlight(unsigned depth);
  // Waits for a place, then puts the transfer into it.
  Transfer* take(Transfer transfer);
  // Calls `done`, then frees the place.
  void finish(Transfer* transfer, Status status);
  void wait_until_all_free();

 private:
  std::optional<Busy>& busy_of(const Transfer& place) { return busy_[static_cast<size_t>(&place - places_.data())]; }

  std::vector<Transfer> places_;
  // Of each place: what the call waits for. The kernel may hold a transfer without holding a thread of the call.
  std::vector<std::optional<Busy>> busy_;
  std::mutex mutex_;
  std::condition_variable freed_;
  TransferList free_;
  size_t taken_ = 0;
};

// One thread at first; more as they are needed, if the system gives them.
class Threads {
 public:
  // NOMEM if there is not even one thread. `places` must outlive it.
  static Result<std::unique_ptr<Threads>> make(InFlight& places, unsigned most);
  // Everything that was posted must be finished.
  ~Threads();
  void post(Transfer* transfer);

 private:
  Threads(InFlight& places, unsigned most);
  bool add_thread();
  void work();

  InFlight& places_;
  const unsigned most_;
  std::mutex mutex_;
  std::condition_variable wake_;
  TransferList waiting_;
  size_t waiting_count_ = 0;
  size_t busy_ = 0;  // number of threads at work
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

// What both engines share. They differ only in how a transfer begins.
class TransferQueue : public IoQueue {
 public:
  void write(Writer& file, uint64_t offset, Bytes data, Done done) final {
    begin(places_.take({.writer = &file, .offset = offset, .from = data, .into = {}, .done = std::move(done)}));
  }
  void read(const Reader& file, uint64_t offset, MutableBytes out, Done done) final {
    begin(places_.take({.reader = &file, .offset = offset, .from = {}, .into = out, .done = std::move(done)}));
  }

 protected:
  explicit TransferQueue(unsigned depth) : places_(depth) {}
  Status start_threads(unsigned most) {
    CKPT_ASSIGN(threads_, Threads::make(places_, most));
    return Ok();
  }
  virtual void begin(Transfer* transfer) = 0;

  InFlight places_;
  std::unique_ptr<Threads> threads_;
};

}  // namespace ckpt::store
