// The staging memory of a save, cut into buffers of one size. Pages are made when a buffer is first filled, by the
// thread that fills it: it finds them in its cache then, zeroed a moment ago, and a first save takes a third less time
// than if all pages were made before (bench/RESULTS.md).
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "device/transfers.h"

namespace ckpt::save {

// How many buffers a save has.
struct BufferCounts {
  size_t all = 0;      // at most
  size_t sure = 0;     // that are the save's; the others it takes as long as the machine has memory to give
  size_t reserve = 0;  // that staging leaves to encoding
};
struct BufferWants {
  size_t staging = 1;         // buffers that can be of use to staging
  size_t most_reserve = 0;    // and to encoding; 0: copies are not encoded
  uint64_t buffer_bytes = 0;  // of each
  uint64_t budget = 0;        // bytes that are the save's
  uint64_t room = 0;          // bytes that the machine could give beyond them
};
BufferCounts count_buffers(const BufferWants& wants);

class StagingBuffers {
 public:
  using Room = std::function<uint64_t()>;
  static constexpr uint64_t kStep = 256 << 20;  // after so much the machine is looked at again
  StagingBuffers() = default;
  // `room` tells how much memory the machine has to give; other ranks of it take theirs at the same time. `fresh`: the
  // memory has no pages yet.
  StagingBuffers(Mapping memory, uint64_t buffer_bytes, const BufferCounts& counts, bool fresh, Room room)
      : memory_(std::move(memory)),
        buffer_bytes_(buffer_bytes),
        count_(counts.all),
        sure_(std::min(counts.sure, counts.all)),
        reserve_(counts.reserve),
        fresh_(fresh),
        room_(std::move(room)) {}

  // Whether take() gives one.
  bool has_to_stage() { return has(reserve_ + 1); }
  bool has_to_encode() { return has(1); }
  std::byte* take();  // those that were not used yet first: the next save finds them all
  void give(std::byte* buffer) { free_.push_back(buffer); }
  uint64_t bytes_in_use() const { return (used_ - free_.size()) * buffer_bytes_; }
  bool fresh() const { return fresh_; }
  // Makes the pages of a buffer that was taken. NOMEM. May be called by several threads beside all others.
  Status populate(std::byte* buffer) const;
  // Pins a buffer that was taken: for copies from devices. NOMEM. By several threads, too.
  Status pin(std::byte* buffer, device::Transfers& transfers) {
    return transfers.pin(&memory_, {buffer, buffer_bytes_});
  }
  // The memory, to be kept for the next save.
  Mapping end();

 private:
  bool has(size_t wanted);

  Mapping memory_;
  uint64_t buffer_bytes_ = 0;
  size_t count_ = 0, sure_ = 0, reserve_ = 0;
  size_t used_ = 0;  // buffers that were taken at least once
  bool fresh_ = false;
  Room room_;
  std::vector<std::byte*> free_;
};

}  // namespace ckpt::save
