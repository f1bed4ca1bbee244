// Memory for long arrays, not zeroed. Large requests get their own mapping on huge pages: the first touch of small
// pages costs more than what is written to them.
#pragma once

#include <cstddef>
#include <vector>

namespace ckpt {

void* allocate_large(size_t bytes);  // throws bad_alloc
void free_large(void* memory, size_t bytes) noexcept;

template <typename T>
struct LargeAllocator {
  using value_type = T;
  LargeAllocator() = default;
  template <typename U>
  LargeAllocator(const LargeAllocator<U>&) {}
  // NOLINTBEGIN(bugprone-sizeof-expression): T may be a pointer
  T* allocate(size_t count) { return static_cast<T*>(allocate_large(count * sizeof(T))); }
  void deallocate(T* memory, size_t count) noexcept { free_large(static_cast<void*>(memory), count * sizeof(T)); }
  // NOLINTEND(bugprone-sizeof-expression)
  bool operator==(const LargeAllocator&) const = default;
};

template <typename T>
using LargeVector = std::vector<T, LargeAllocator<T>>;

}  // namespace ckpt
