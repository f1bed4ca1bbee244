#include "base/large_memory.h"

#include <sys/mman.h>

#include <new>

namespace ckpt {

static constexpr size_t kHugePage = 2 << 20, kLarge = 2 * kHugePage;

void* allocate_large(size_t bytes) {
  if (bytes < kLarge) return ::operator new(bytes);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  madvise(memory, bytes, MADV_HUGEPAGE);
  return memory;
}

void free_large(void* memory, size_t bytes) noexcept {
  if (bytes < kLarge)
    ::operator delete(memory);
  else
    munmap(memory, bytes);
}

}  // namespace ckpt
