// Transfers in flight: several reads and writes of files at once, so that a disk never waits for a processor. By
// io_uring where the kernel grants it, by threads of the queue otherwise; callers see no difference.
// All members may be called from any thread.
#pragma once

#include <functional>
#include <memory>

#include "store/store.h"

namespace ckpt::store {

enum class IoEngine { kThreads = 1, kUring = 2 };

class IoQueue {
 public:
  // Called once for every transfer, on a thread of the queue. It must be short and may not start or wait for others.
  using Done = std::function<void(Status)>;

  // At most `depth` transfers are under way. `uring` false: threads in any case. NOMEM where not even they can be had.
  static Result<std::unique_ptr<IoQueue>> make(unsigned depth, bool uring);
  // Waits for all that was started.
  virtual ~IoQueue() = default;

  // Both block while `depth` transfers are under way, then return at once. The file and the memory must stay until
  // `done`. A write is Writer::write_at, a read is Reader::read_direct: the same rules, the same errors.
  virtual void write(Writer& file, uint64_t offset, Bytes data, Done done) = 0;
  virtual void read(const Reader& file, uint64_t offset, MutableBytes out, Done done) = 0;
  virtual IoEngine engine() const = 0;
};

}  // namespace ckpt::store
