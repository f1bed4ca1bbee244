// Memory for long arrays, not zeroed. Large requests get their own mapping on huge pages: the first touch of small
// pages costs more than what is written to them.
#pragma once

#include <cstddef>
#include <new>
#include <utility>
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

// Leaves numbers without a value as they are: the threads that write them touch the memory, and not one before them.
template <typename T>
struct UntouchedAllocator : LargeAllocator<T> {
  template <typename U>
  struct rebind {
    using other = UntouchedAllocator<U>;
  };
  template <typename U>
  void construct(U* at) noexcept {
    ::new (static_cast<void*>(at)) U;
  }
  template <typename U, typename Value>
  void construct(U* at, Value&& value) {
    ::new (static_cast<void*>(at)) U(std::forward<Value>(value));
  }
};

template <typename T>
using UntouchedVector = std::vector<T, UntouchedAllocator<T>>;

}  // namespace ckpt
