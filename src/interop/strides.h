// Row-major strides, in elements: what a tensor without gaps has. Pure; thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/types.h"

namespace ckpt::interop {

using Strides = std::array<int64_t, kMaxNdim>;

// As torch sets those of a new tensor. They may wrap where there are no elements.
inline Strides row_major(const Shape& shape) {
  Strides strides{};
  uint64_t step = 1;
  for (int i = shape.ndim; i-- > 0;) {
    strides[static_cast<size_t>(i)] = static_cast<int64_t>(step);
    step *= std::max<uint64_t>(shape[i], 1);
  }
  return strides;
}

// Whether elements with these strides lie in order and without gaps. `shape` has elements.
inline bool is_row_major(const Shape& shape, const Strides& strides) {
  const Strides expected = row_major(shape);
  for (int i = 0; i < shape.ndim; i++) {
    const auto d = static_cast<size_t>(i);
    if (shape.dims[d] > 1 && strides[d] != expected[d]) return false;
  }
  return true;
}

}  // namespace ckpt::interop
