#include "store/uring.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

namespace ckpt::store {

// IORING_SETUP_NO_SQARRAY. It saves an indirection, and kernels before Linux 6.6 refuse it.
// That is wanted: kernels before 6.4 do the direct writes of one file one after another unless each can start at once,
// which the first writes to preallocated blocks cannot (ext4, XFS). Threads are faster there.
constexpr unsigned kNoSqArray = 1u << 16;

// A request takes at most 2 GiB minus a page, and its size has 32 bits. More than that becomes a short transfer.
constexpr size_t kMostBytes = 1 << 30;

static unsigned load(unsigned* value) { return std::atomic_ref(*value).load(std::memory_order_acquire); }
static void store_to(unsigned* value, unsigned now) { std::atomic_ref(*value).store(now, std::memory_order_release); }

std::unique_ptr<Ring> Ring::make(unsigned entries) {
  kernel::UringParams params{};
  params.flags = kNoSqArray;
  std::unique_ptr<Ring> ring(new Ring);
  ring->file_ = Fd(static_cast<int>(syscall(kernel::kIoUringSetup, entries, &params)));  // always close-on-exec
  return ring->file_ && ring->map(params) ? std::move(ring) : nullptr;
}

static void* map_shared(int fd, size_t size, uint64_t offset) {
  void* address =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, static_cast<off_t>(offset));
  return address == MAP_FAILED ? nullptr : address;
}

// Both rings are in one mapping: IORING_FEAT_SINGLE_MMAP is older than kNoSqArray.
bool Ring::map(const kernel::UringParams& params) {
  rings_size_ = params.cq_off.cqes + params.cq_entries * sizeof(kernel::Cqe);
  entries_size_ = params.sq_entries * sizeof(kernel::Sqe);
  rings_ = map_shared(file_.get(), rings_size_, kernel::kOffSqRing);
  entries_ = static_cast<kernel::Sqe*>(map_shared(file_.get(), entries_size_, kernel::kOffSqes));
  if (!rings_ || !entries_) return false;
  auto at = [&](uint32_t offset) { return static_cast<std::byte*>(rings_) + offset; };
  sq_head_ = reinterpret_cast<unsigned*>(at(params.sq_off.head));
  sq_tail_ = reinterpret_cast<unsigned*>(at(params.sq_off.tail));
  cq_head_ = reinterpret_cast<unsigned*>(at(params.cq_off.head));
  cq_tail_ = reinterpret_cast<unsigned*>(at(params.cq_off.tail));
  completions_ = reinterpret_cast<const kernel::Cqe*>(at(params.cq_off.cqes));
  sq_mask_ = params.sq_entries - 1;
  cq_mask_ = params.cq_entries - 1;
  return true;
}

Ring::~Ring() {
  if (rings_) munmap(rings_, rings_size_);
  if (entries_) munmap(entries_, entries_size_);
}

void Ring::prepare_write(int fd, uint64_t offset, Bytes data, uint64_t tag) {
  prepare(kernel::kOpWrite, fd, offset, data.data(), data.size(), tag);
}

void Ring::prepare_read(int fd, uint64_t offset, MutableBytes out, uint64_t tag) {
  prepare(kernel::kOpRead, fd, offset, out.data(), out.size(), tag);
}

void Ring::prepare(uint8_t opcode, int fd, uint64_t offset, const std::byte* address, size_t size, uint64_t tag) {
  kernel::Sqe request{};
  request.opcode = opcode;
  request.fd = fd;
  request.off = offset;
  request.addr = reinterpret_cast<uintptr_t>(address);
  request.len = static_cast<uint32_t>(std::min(size, kMostBytes));
  request.user_data = tag;
  unsigned tail = *sq_tail_;
  entries_[tail & sq_mask_] = request;
  store_to(sq_tail_, tail + 1);
}

int Ring::submit_and_wait() {
  unsigned prepared = *sq_tail_ - load(sq_head_);
  long taken = syscall(kernel::kIoUringEnter, file_.get(), prepared, 1, kernel::kEnterGetEvents, nullptr, 0);
  return taken >= 0 || errno == EINTR ? 0 : errno;
}

// The kernel reads the tail only during submit_and_wait.
std::optional<uint64_t> Ring::withdraw() {
  unsigned tail = *sq_tail_;
  if (tail == load(sq_head_)) return std::nullopt;
  store_to(sq_tail_, tail - 1);
  return entries_[(tail - 1) & sq_mask_].user_data;
}

std::optional<Ring::Completion> Ring::reap() {
  unsigned head = *cq_head_;
  if (head == load(cq_tail_)) return std::nullopt;
  const kernel::Cqe& found = completions_[head & cq_mask_];
  Completion completion{found.user_data, found.res};
  store_to(cq_head_, head + 1);
  return completion;
}

}  // namespace ckpt::store
