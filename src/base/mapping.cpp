#include "base/mapping.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "base/parallel.h"

namespace ckpt {

uint64_t Mapping::size_for(uint64_t bytes) { return round_up(bytes, bytes >= kHugeFrom ? kHugePage : kAlign); }

Result<Mapping> Mapping::make(uint64_t bytes, bool in_children) {
  Mapping mapping;
  if (bytes == 0) return mapping;
  uint64_t size = size_for(bytes);
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return Status(CKPT_NOMEM, strformat("cannot map {} bytes of memory: errno {}", size, errno));
  if (bytes >= kHugeFrom) madvise(data, size, MADV_HUGEPAGE);
  if (!in_children) madvise(data, size, MADV_DONTFORK);
  mapping.data_ = static_cast<std::byte*>(data);
  mapping.size_ = size;
  return mapping;
}

// MADV_POPULATE_WRITE needs Linux 5.14. Older kernels populate a page when a byte of it is written; this writes the
// byte that is there.
Status Mapping::make_pages(MutableBytes piece) {
#ifdef MADV_POPULATE_WRITE
  if (madvise(piece.data(), piece.size(), MADV_POPULATE_WRITE) == 0) return Ok();
  if (errno == ENOMEM) return Status(CKPT_NOMEM, "no memory for the pages of a mapping");
#endif
  for (uint64_t at = 0; at < piece.size(); at += kAlign) {
    volatile std::byte* byte = piece.data() + at;
    *byte = *byte;
  }
  return Ok();
}

Status Mapping::populate(uint64_t bytes, unsigned threads) const {
  constexpr uint64_t kStep = 16 * kHugePage;
  bytes = std::min(bytes, size_);
  return for_each_parallel(threads, (bytes + kStep - 1) / kStep, [&](size_t i) {
    uint64_t at = i * kStep;
    return make_pages({data_ + at, std::min(kStep, bytes - at)});
  });
}

void Mapping::shrink(uint64_t bytes) {
  const uint64_t size = size_for(bytes);
  if (size >= size_) return;
  munmap(data_ + size, size_ - size);
  size_ = size;
}

void Mapping::give_back(void* data, uint64_t bytes) {
  if (data) munmap(data, size_for(bytes));
}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(hold_, other.hold_);
  return *this;
}

Mapping::~Mapping() {
  hold_.reset();
  if (data_) munmap(data_, size_);
}

}  // namespace ckpt
