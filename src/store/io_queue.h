// Several file reads and writes at once, so that a disk never waits for a processor. Uses io_uring if the kernel grants
// it, and threads of its own otherwise; callers see no difference.
// All members may be called from any thread.
#pragma once

#include <functional>
#include <memory>

#include "store/store.h"

namespace ckpt::store {

enum class IoEngine { kThreads = 1, kUring = 2 };

class IoQueue {
 public:
  // Called once for every transfer, on a thread of the queue. It must be short, and must not start or wait for other
  // transfers.
  using Done = std::function<void(Status)>;

  // At most `depth` transfers are under way. `uring` false: always uses threads. NOMEM if it gets no thread.
  static Result<std::unique_ptr<IoQueue>> make(unsigned depth, bool uring);
  // Waits for every transfer that was started.
  virtual ~IoQueue() = default;

  // Both block while `depth` transfers are under way, then start theirs and return. The file and the memory must stay
  // until `done`. A write acts like Writer::write_at, a read like Reader::read_direct: same rules, same errors.
  virtual void write(Writer& file, uint64_t offset, Bytes data, Done done) = 0;
  virtual void read(const Reader& file, uint64_t offset, MutableBytes out, Done done) = 0;
  virtual IoEngine engine() const = 0;
};

}  // namespace ckpt::store
