// An io_uring by bare system calls, so that ckpt needs no liburing. One thread must prepare, submit and reap: the
// kernel ties a request to the thread that submitted it, and cancels it when that thread ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "store/kernel.h"
#include "store/posix_file.h"

namespace ckpt::store {

class Ring {
 public:
  struct Completion {
    uint64_t tag = 0;
    int32_t result = 0;  // bytes, or -errno
  };

  // Null if the kernel refuses.
  static std::unique_ptr<Ring> make(unsigned entries);
  ~Ring();

  // At most `entries` requests may be prepared or under way.
  void prepare_write(int fd, uint64_t offset, Bytes data, uint64_t tag);
  void prepare_read(int fd, uint64_t offset, MutableBytes out, uint64_t tag);
  // Submits what is prepared, then waits for a completion. Returns 0 or errno; after an error, what is still prepared
  // may be withdrawn.
  int submit_and_wait();
  // Takes back a request that was prepared but not submitted, and returns its tag.
  std::optional<uint64_t> withdraw();
  std::optional<Completion> reap();

 private:
  Ring() = default;
  bool map(const kernel::UringParams& params);
  void prepare(uint8_t opcode, int fd, uint64_t offset, const std::byte* address, size_t size, uint64_t tag);

  Fd file_;
  void* rings_ = nullptr;
  size_t rings_size_ = 0;
  kernel::Sqe* entries_ = nullptr;
  size_t entries_size_ = 0;
  // In the mapping. The kernel moves sq_head_ and cq_tail_; we move the others.
  unsigned *sq_head_ = nullptr, *sq_tail_ = nullptr, *cq_head_ = nullptr, *cq_tail_ = nullptr;
  const kernel::Cqe* completions_ = nullptr;
  unsigned sq_mask_ = 0, cq_mask_ = 0;
};

}  // namespace ckpt::store
