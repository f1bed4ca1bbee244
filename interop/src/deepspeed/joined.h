// One-dimensional tensors of several files as one: the partitions of a group, or the groups of a rank. Parameters are
// ranges of it. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "interop/src/reader.h"

namespace ckpt::interop {

class Joined {
 public:
  // Appends the first `count` elements of a tensor, which must have them in a row. FORMAT.
  Status add(const ForeignTensor& tensor, uint64_t count);
  uint64_t size() const { return size_; }
  uint16_t dtype() const { return dtype_; }
  // Adds elements [begin, begin + count), which must be there, as those of `to` from `flat_offset` on.
  void cut(uint64_t begin, uint64_t count, uint64_t flat_offset, ForeignTensor* to) const;

 private:
  struct Segment {
    uint64_t begin;  // in all
    FileRange bytes;
  };
  std::vector<Segment> segments_;
  uint64_t size_ = 0;
  uint16_t dtype_ = 0;
};

}  // namespace ckpt::interop
