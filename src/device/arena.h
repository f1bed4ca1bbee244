// Staging memory: mapped once, on huge pages where the kernel gives them, not copied by fork, cut into equal blocks.
#pragma once

#include <cstddef>
#include <memory>

#include "base/status.h"
#include "base/types.h"

namespace ckpt::device {

// An aligned, zeroed stretch of memory of its own mapping. Large ones ask for huge pages, since fresh small pages cost
// more than the copy into them.
class Mapping {
 public:
  // NOMEM.
  static Result<Mapping> make(uint64_t bytes);
  Mapping() = default;
  Mapping(Mapping&& other) noexcept : data_(other.data_), size_(other.size_) {
    other.data_ = nullptr;
    other.size_ = 0;
  }
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  MutableBytes bytes() const { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  uint64_t size_ = 0;
};

// A mapping that is kept between saves.
class Arena {
 public:
  explicit Arena(Mapping mapping) : mapping_(std::move(mapping)) {}
  MutableBytes bytes() const { return mapping_.bytes(); }

 private:
  Mapping mapping_;
};

}  // namespace ckpt::device
