// Staging memory in mappings of its own: on huge pages if the kernel gives them, not copied by fork.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "base/status.h"
#include "base/types.h"

namespace ckpt {

// An aligned, zeroed mapping. Large ones ask for huge pages, since the first touch of small pages costs more than the
// copy into them.
class Mapping {
 public:
  static constexpr uint64_t kHugePage = 2 << 20;
  // From this size on, one huge page: its single fault costs less than the faults of the small pages.
  static constexpr uint64_t kHugeFrom = kHugePage / 2;
  // NOMEM.
  // `in_children`: what is there at a fork is there in the child too. Otherwise its pages are not even copied on write.
  static Result<Mapping> make(uint64_t bytes, bool in_children = false);
  // The size that make(bytes) maps: whole pages; huge ones from half a huge page on.
  static uint64_t size_for(uint64_t bytes);
  Mapping() = default;
  Mapping(Mapping&& other) noexcept : data_(other.data_), size_(other.size_), hold_(std::move(other.hold_)) {
    other.data_ = nullptr;
    other.size_ = 0;
  }
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  MutableBytes bytes() const { return {data_, size_}; }
  // Gives back what is beyond the first `bytes`.
  void shrink(uint64_t bytes);
  // The caller keeps the memory, and ends it with give_back and the bytes that it asked for.
  std::byte* take() { return std::exchange(data_, nullptr); }
  static void give_back(void* data, uint64_t bytes);
  // Makes the kernel provide the pages of the first `bytes` now, not at their first use, on `threads` threads. Pages
  // that exist already cost almost nothing. NOMEM.
  Status populate(uint64_t bytes, unsigned threads) const;
  // The same for a piece of any mapping, by this thread.
  static Status make_pages(MutableBytes piece);
  // What ends before the memory does: a device's pins.
  struct Hold {
    virtual ~Hold() = default;
  };
  std::unique_ptr<Hold>& hold() { return hold_; }

 private:
  std::byte* data_ = nullptr;
  uint64_t size_ = 0;
  std::unique_ptr<Hold> hold_;
};

}  // namespace ckpt
