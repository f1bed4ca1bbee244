#include "cli/slice.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "cli/format.h"

namespace cli {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t value = 0;
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// One bound of a dimension. A negative one counts from the end; an empty one is `fallback`.
std::optional<int64_t> bound(std::string_view text, int64_t fallback, int64_t size) {
  if (text.empty()) return fallback;
  std::optional<int64_t> value = whole_number(text);
  if (value && *value < 0) value = *value < -size ? -1 : *value + size;
  return value;
}

void parse_bounds(std::string_view text, size_t dimension, int64_t size, int64_t* offset, int64_t* extent) {
  std::string_view bounds = trimmed(text);
  size_t colon = bounds.find(':');
  bool single = colon == std::string_view::npos;
  auto first = bound(trimmed(bounds.substr(0, colon)), single ? -1 : 0, size);
  auto last = single ? first : bound(trimmed(bounds.substr(colon + 1)), size, size);
  if (!first || !last || bounds.empty())
    invalid(strformat("cannot read '{}' in --box as a slice such as 0:2, 5: or 7", bounds));
  int64_t end = single ? (*first < size ? *first + 1 : size + 1) : *last;
  if (*first < 0 || *first > end || end > size)
    invalid(strformat("slice '{}' is outside dimension {}, which has extent {}", bounds, dimension, size));
  *offset = *first;
  *extent = end - *first;
}

}  // namespace

uint64_t Slice::volume() const {
  uint64_t volume = 1;
  for (int64_t e : extent) volume *= static_cast<uint64_t>(e);
  return volume;
}

Slice Slice::whole(std::span<const int64_t> shape) {
  return {std::vector<int64_t>(shape.size(), 0), std::vector<int64_t>(shape.begin(), shape.end())};
}

Slice parse_slice(std::string_view text, std::span<const int64_t> shape) {
  Slice slice = Slice::whole(shape);
  size_t count = static_cast<size_t>(std::count(text.begin(), text.end(), ',')) + 1;
  if (count > shape.size()) invalid(strformat("--box names {} dimensions, the tensor has {}", count, shape.size()));
  for (size_t d = 0; d < count; ++d) {
    size_t comma = text.find(',');
    parse_bounds(text.substr(0, comma), d, shape[d], &slice.offset[d], &slice.extent[d]);
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
  return slice;
}

void for_each_slab(const Slice& slice, uint64_t limit, const std::function<void(const Slice&)>& visit) {
  if (slice.volume() == 0) return;
  // A slab takes dimensions after `cut` whole, and one index of each dimension before it.
  size_t ndim = slice.extent.size(), cut = ndim;
  uint64_t below = 1;
  while (cut > 0 && below * static_cast<uint64_t>(slice.extent[cut - 1]) <= limit) {
    below *= static_cast<uint64_t>(slice.extent[--cut]);
  }
  if (cut == 0) return visit(slice);
  --cut;
  int64_t step = static_cast<int64_t>(std::max<uint64_t>(1, limit / below));
  Slice slab = slice;
  for (size_t d = 0; d < cut; ++d) slab.extent[d] = 1;
  while (true) {
    for (int64_t at = 0; at < slice.extent[cut]; at += step) {
      slab.offset[cut] = slice.offset[cut] + at;
      slab.extent[cut] = std::min(step, slice.extent[cut] - at);
      visit(slab);
    }
    size_t d = cut;
    while (d > 0 && ++slab.offset[d - 1] == slice.offset[d - 1] + slice.extent[d - 1]) {
      slab.offset[d - 1] = slice.offset[d - 1];
      --d;
    }
    if (d == 0) return;
  }
}

}  // namespace cli
