#include "device/arena.h"

#include <sys/mman.h>

#include <cerrno>
#include <utility>

namespace ckpt::device {

static constexpr uint64_t kHugePage = 2 << 20;

Result<Mapping> Mapping::make(uint64_t bytes) {
  Mapping mapping;
  if (bytes == 0) return mapping;
  uint64_t size = round_up(bytes, bytes >= kHugePage ? kHugePage : kAlign);
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED)
    return Status(CKPT_NOMEM,
                  strprintf("cannot map %llu bytes of memory: errno %d", static_cast<unsigned long long>(size), errno));
  if (bytes >= kHugePage) madvise(data, size, MADV_HUGEPAGE);
  madvise(data, size, MADV_DONTFORK);
  mapping.data_ = static_cast<std::byte*>(data);
  mapping.size_ = size;
  return mapping;
}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Mapping::~Mapping() {
  if (data_) munmap(data_, size_);
}

}  // namespace ckpt::device
