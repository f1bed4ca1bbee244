// Memory of its own mapping, for staging: on huge pages where the kernel gives them, not copied by fork.
#pragma once

#include <cstddef>

#include "base/status.h"
#include "base/types.h"

namespace ckpt::device {

// An aligned, zeroed stretch of memory of its own mapping. Large ones ask for huge pages, since fresh small pages cost
// more than the copy into them.
class Mapping {
 public:
  // NOMEM.
  static Result<Mapping> make(uint64_t bytes);
  // What make(bytes) takes: whole pages, and huge ones from half of one on.
  static uint64_t size_for(uint64_t bytes);
  Mapping() = default;
  Mapping(Mapping&& other) noexcept : data_(other.data_), size_(other.size_) {
    other.data_ = nullptr;
    other.size_ = 0;
  }
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  MutableBytes bytes() const { return {data_, size_}; }
  // Has the kernel give the pages of the first `bytes` now and not at their first use, by so many threads. Pages that
  // are there already cost almost nothing. NOMEM.
  Status populate(uint64_t bytes, unsigned threads) const;

 private:
  std::byte* data_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace ckpt::device
