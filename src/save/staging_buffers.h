// The staging memory of a save, cut into buffers of one size. Pages are made when a buffer is first filled, by the
// thread that fills it: it finds them in its cache then, zeroed a moment ago, and a first save takes a third less time
// than if all pages were made before (bench/RESULTS.md).
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "device/transfers.h"

namespace ckpt::save {

class StagingBuffers {
 public:
  using Room = std::function<uint64_t()>;
  static constexpr uint64_t kStep = 256 << 20;  // after so much the machine is looked at again
  StagingBuffers() = default;
  // The first `sure` of `count` buffers are the save's. The others are taken as long as `room` tells that the machine
  // has memory to give; other ranks of it take theirs at the same time. `fresh`: the memory has no pages yet.
  StagingBuffers(Mapping memory, uint64_t buffer_bytes, size_t count, size_t sure, bool fresh, Room room)
      : memory_(std::move(memory)),
        buffer_bytes_(buffer_bytes),
        count_(count),
        sure_(std::min(sure, count)),
        fresh_(fresh),
        room_(std::move(room)) {}

  // Whether take() gives so many.
  bool has(size_t wanted);
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
  Mapping memory_;
  uint64_t buffer_bytes_ = 0;
  size_t count_ = 0, sure_ = 0;
  size_t used_ = 0;  // buffers that were taken at least once
  bool fresh_ = false;
  Room room_;
  std::vector<std::byte*> free_;
};

}  // namespace ckpt::save
