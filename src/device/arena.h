// Staging memory in mappings of its own: on huge pages if the kernel gives them, not copied by fork.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "base/status.h"
#include "base/types.h"

namespace ckpt::device {

class Driver;

// Pieces of a mapping that are pinned: a device copies to and from them while others work.
class Pins {
 public:
  explicit Pins(Driver* driver) : driver_(driver) {}
  Pins(const Pins&) = delete;
  ~Pins();
  // A piece that was pinned before stays so; others that it overlaps are given up. NOMEM.
  Status pin(int device, MutableBytes piece);

 private:
  Driver* driver_;
  std::mutex mutex_;
  std::map<std::byte*, uint64_t> pieces_;  // their sizes
};

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
  Mapping(Mapping&& other) noexcept : data_(other.data_), size_(other.size_), pins_(std::move(other.pins_)) {
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
  // Pins a piece, for as long as the mapping lives. Several threads may pin pieces that do not overlap.
  Status pin(Driver* driver, int device, MutableBytes piece);

 private:
  std::byte* data_ = nullptr;
  uint64_t size_ = 0;
  std::unique_ptr<Pins> pins_;
};

}  // namespace ckpt::device
