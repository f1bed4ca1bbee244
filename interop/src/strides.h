// Strides in elements, and whether a tensor has gaps. Pure; thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "base/types.h"

namespace ckpt::interop {

using Strides = std::array<int64_t, kMaxNdim>;

// Row-major, as torch sets those of a new tensor. They may wrap where there are no elements.
inline Strides row_major(const Shape& shape) {
  Strides strides{};
  uint64_t step = 1;
  for (int i = shape.ndim; i-- > 0;) {
    strides[static_cast<size_t>(i)] = static_cast<int64_t>(step);
    step *= std::max<uint64_t>(shape[i], 1);
  }
  return strides;
}

// Without gaps, `axes` from the outermost to the innermost.
inline Strides strides_of(const Shape& shape, std::span<const int> axes) {
  Strides strides{};
  uint64_t step = 1;
  for (size_t i = axes.size(); i-- > 0;) {
    strides[static_cast<size_t>(axes[i])] = static_cast<int64_t>(step);
    step *= std::max<uint64_t>(shape[axes[i]], 1);
  }
  return strides;
}

// Whether two strides mean the same places. `shape` has elements.
inline bool same_places(const Shape& shape, const Strides& a, const Strides& b) {
  for (size_t i = 0; i < static_cast<size_t>(shape.ndim); i++)
    if (shape.dims[i] > 1 && a[i] != b[i]) return false;
  return true;
}

// Whether elements with these strides lie in order and without gaps. `shape` has elements.
inline bool is_row_major(const Shape& shape, const Strides& strides) {
  return same_places(shape, strides, row_major(shape));
}

}  // namespace ckpt::interop
