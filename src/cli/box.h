// Boxes as people write them, and how a box is cut into pieces that fit in memory. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "cli/error.h"

namespace cli {

struct Box {
  std::vector<int64_t> offset, extent;

  bool operator==(const Box&) const = default;
  uint64_t volume() const;  // of a box inside a valid tensor, so it cannot overflow
  static Box whole(std::span<const int64_t> shape);
};

// "0:2,3:5", ":", "-3:", "7" (that index alone; the dimension stays, with extent 1). Dimensions not named are whole.
// Unlike Python's, a slice that reaches past its dimension is INVALID: a box is a request for exactly those elements.
Box parse_box(std::string_view text, std::span<const int64_t> shape);

// Cuts `box` into boxes of at most `limit` elements that follow each other in row-major order.
void for_each_slab(const Box& box, uint64_t limit, const std::function<void(const Box&)>& visit);

}  // namespace cli
