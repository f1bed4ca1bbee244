// Slices of a tensor as users write them (--box), and cutting them into slabs that fit in memory. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "cli/error.h"

namespace cli {

struct Slice {
  std::vector<int64_t> offset, extent;

  bool operator==(const Slice&) const = default;
  uint64_t volume() const;  // cannot overflow: the slice lies inside a valid tensor
  static Slice whole(std::span<const int64_t> shape);
};

// "0:2,3:5", ":", "-3:", "7" (only that index; the dimension stays, with extent 1). Dimensions not named are whole.
// Unlike in Python, bounds outside the dimension are INVALID: the user asks for exactly these elements.
Slice parse_slice(std::string_view text, std::span<const int64_t> shape);

// Cuts `slice` into slabs of at most `limit` elements and visits them in row-major order.
void for_each_slab(const Slice& slice, uint64_t limit, const std::function<void(const Slice&)>& visit);

}  // namespace cli
