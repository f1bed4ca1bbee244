// A tensor of another people's file, where it lies in the mapping.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/types.h"

namespace ckpt::interop {

struct ForeignTensor {
  static constexpr size_t kNoTarget = SIZE_MAX;

  std::string name;
  std::string location;  // torch's, where it is not "cpu"
  uint16_t dtype = 0;
  Shape shape;
  std::array<int64_t, kMaxNdim> strides{};  // in elements
  Bytes data;                               // from the first element to the last, gaps included
  size_t target = kNoTarget;                // an earlier tensor whose memory it shares
  uint64_t target_offset = 0;               // its first element in the flattened target
  std::array<int64_t, kMaxNdim> target_strides{};

  uint64_t elements() const {
    uint64_t count;
    count_elements(shape.span(), &count);  // was checked when the file was read
    return count;
  }
  uint64_t bytes() const {
    uint64_t size;
    count_bytes(elements(), dtype, &size);
    return size;
  }
};

}  // namespace ckpt::interop
