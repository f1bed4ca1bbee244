// How elements of a device's memory pass through pinned memory: packed in the order in which the device has them, not
// in the row-major order of a chunk. So few copies move them whatever the strides, and the host permutes them. No I/O.
#pragma once

#include <array>
#include <span>

#include "base/types.h"

namespace ckpt::device {

class Packing {
 public:
  // Of a box of this extent, not empty, whose memory has these strides. Elements of `width` bytes.
  Packing(const Shape& extent, std::span<const uint64_t> strides, uint64_t width);

  // The packed elements: their strides, in elements, and how many there are: no more than the box has, and fewer where
  // strides of the memory repeat some.
  const std::array<uint64_t, kMaxNdim>& strides() const { return strides_; }
  uint64_t units() const { return units_; }
  // Whether they are in the row-major order of the box.
  bool in_order() const { return in_order_; }

  // `rows` of `bytes` each; places and distances in bytes, from the first element of the box.
  struct Rows {
    uint64_t packed, memory, bytes, rows, packed_pitch, memory_pitch;
  };
  // Calls visit(Rows) for what must be copied, each row exactly once. Rows do not overlap, on either side.
  template <typename Visit>
  void for_each_copy(Visit&& visit) const {
    std::array<uint64_t, kMaxNdim> index{};
    const Loop& inner = loops_[0];
    Rows copy{0, 0, run_ * width_, inner.extent, inner.packed * width_, inner.memory * width_};
    for (size_t at = 1; at != 0;) {
      visit(copy);
      for (at = 1; at < loop_count_; at++) {
        const Loop& loop = loops_[at];
        copy.packed += loop.packed * width_;
        copy.memory += loop.memory * width_;
        if (++index[at] < loop.extent) break;
        copy.packed -= loop.extent * loop.packed * width_;
        copy.memory -= loop.extent * loop.memory * width_;
        index[at] = 0;
      }
      if (at >= loop_count_) at = 0;
    }
  }

 private:
  struct Loop {
    uint64_t extent = 1, packed = 0, memory = 0;
  };
  void add_loop(uint64_t extent, uint64_t memory);

  std::array<uint64_t, kMaxNdim> strides_{};
  std::array<Loop, kMaxNdim> loops_;  // over runs; the first gives the rows of a copy
  size_t loop_count_ = 0;
  uint64_t width_, units_ = 1, run_ = 1;  // elements of a run, which both sides have in one piece
  bool in_order_;
};

}  // namespace ckpt::device
