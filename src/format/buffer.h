// The bytes of an encoded index, or of the file that its frame makes of it. They may begin anywhere in their memory and
// may leave room behind, so that even an index of 2 GiB gets its frame without a copy.
#pragma once

#include <cstring>
#include <utility>

#include "base/large_memory.h"
#include "base/types.h"

namespace ckpt::format {

class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(Bytes copied) { append(copied); }
  // Takes over memory from allocate_large(capacity).
  Buffer(std::byte* memory, size_t capacity, size_t begin, size_t size)
      : memory_(memory), capacity_(capacity), begin_(begin), size_(size) {}
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(capacity_, other.capacity_);
    std::swap(begin_, other.begin_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Buffer() {
    if (memory_) free_large(memory_, capacity_);
  }

  const std::byte* data() const { return memory_ + begin_; }
  size_t size() const { return size_; }
  const std::byte* begin() const { return data(); }
  const std::byte* end() const { return data() + size_; }

  void append(Bytes bytes);

 private:
  std::byte* memory_ = nullptr;
  size_t capacity_ = 0, begin_ = 0, size_ = 0;
};

inline void Buffer::append(Bytes bytes) {
  if (bytes.size() > capacity_ - begin_ - size_) {
    size_t capacity = size_ + bytes.size() + size_ / 2;
    Buffer larger(static_cast<std::byte*>(allocate_large(capacity)), capacity, 0, size_);
    if (size_) std::memcpy(larger.memory_, data(), size_);
    *this = std::move(larger);
  }
  if (!bytes.empty()) std::memcpy(memory_ + begin_ + size_, bytes.data(), bytes.size());
  size_ += bytes.size();
}

}  // namespace ckpt::format
