// Whether requests of one load write the same bytes of memory: two of them, or one that writes an element over another.
// What would bring equal bytes there may. Pure; costs a sort where no ranges of memory meet.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace ckpt::plan {

// The addresses that a request writes between; `dense`: all of them, each once.
struct Stretch {
  uint64_t begin, end;
  bool dense;
};

// How a request writes: element `first` of its source to `address`, others at steps from there.
struct Placement {
  struct Dimension {
    uint64_t extent;
    uint64_t step;    // bytes in memory
    uint64_t source;  // elements of the source
    bool operator==(const Dimension&) const = default;
  };
  std::string_view source;  // what brings elements, together with `kind`
  uint64_t kind = 0;        // such as their dtype
  uint64_t address = 0, width = 1, first = 0;
  std::vector<Dimension> dimensions = {};
  bool operator==(const Placement&) const = default;
};

// The usual case, which costs no more than a look at each: all are dense, and none meets another.
bool are_apart(std::span<const Stretch> stretches);

// Two requests whose bytes meet, the lower number first; twice the same if it overlaps itself. `place` is called for
// those whose ranges meet, and for those that are not dense.
using Meeting = std::pair<size_t, size_t>;
std::optional<Meeting> find_overlap(std::span<const Stretch> stretches, const std::function<Placement(size_t)>& place);

}  // namespace ckpt::plan
