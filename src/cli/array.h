// Prints numbers, given one by one in row-major order, in nested brackets as NumPy does. One thread.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string_view>
#include <vector>

namespace cli {

inline constexpr int64_t kEdge = 3;             // indices that a summary shows at each end of a long dimension
inline constexpr uint64_t kSummaryFrom = 1001;  // elements; fewer are printed in full

// Whether a summary of `size` indices has a "...", and how many indices it shows.
inline constexpr bool has_gap(int64_t size) { return size > 2 * kEdge; }
inline constexpr int64_t shown(int64_t size) { return has_gap(size) ? 2 * kEdge : size; }

class ArrayWriter {
 public:
  // `extents` are of the whole array. With `summary`, add only shown(extent) indices of each dimension.
  ArrayWriter(std::vector<int64_t> extents, bool summary, size_t width, FILE* out);

  void add(std::string_view number);
  void finish();

 private:
  void put(std::string_view text) { std::fwrite(text.data(), 1, text.size(), out_); }
  void put(char c, size_t count);
  bool at_gap(size_t dimension) const;
  void separate(size_t closed);

  std::vector<int64_t> shown_, index_;
  std::vector<bool> gap_;
  size_t width_;  // each number is padded to it
  bool started_ = false;
  FILE* out_;
};

}  // namespace cli
