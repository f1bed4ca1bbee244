// Slices as people write them, slabs against a brute force, and the brackets around printed arrays.
#include "cli/slice.h"
#include "base/text.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "cli/array.h"

namespace cli {
namespace {

Slice parsed(const char* text, std::vector<int64_t> shape) { return parse_slice(text, shape); }

// The status that a slice is refused with; OK where it is not.
ckpt_status refusal(const char* text, const std::vector<int64_t>& shape) {
  try {
    parse_slice(text, shape);
  } catch (const ckpt::Error& error) {
    return error.status();
  }
  return CKPT_OK;
}

TEST(ParseSlice, ReadsSlicesAsPythonDoes) {
  EXPECT_EQ(parsed("0:2,3:5", {4, 6}), (Slice{{0, 3}, {2, 2}}));
  EXPECT_EQ(parsed(":", {4, 6}), (Slice{{0, 0}, {4, 6}}));
  EXPECT_EQ(parsed("-3:", {4}), (Slice{{1}, {3}}));
  EXPECT_EQ(parsed(":-1, 1:", {4, 6}), (Slice{{0, 1}, {3, 5}}));
  EXPECT_EQ(parsed("2", {4, 6}), (Slice{{2, 0}, {1, 6}}));
  EXPECT_EQ(parsed("-1", {4}), (Slice{{3}, {1}}));
  EXPECT_EQ(parsed("2:2", {4}), (Slice{{2}, {0}}));
}

TEST(ParseSlice, RefusesWhatIsNotInsideTheTensor) {
  const std::vector<int64_t> shape = {4, 6};
  for (const char* text :
       {"0:5", "4", "-5", "-5:", "3:2", "0:2,0:7", ":,:,:", "9223372036854775807", "-9223372036854775808:"})
    EXPECT_EQ(refusal(text, shape), CKPT_INVALID) << text;
}

TEST(ParseSlice, RefusesWhatIsNoSlice) {
  const std::vector<int64_t> shape = {4, 6};
  for (const char* text : {"a", "1:b", "", ",", "0:4:2", "1 2", "0x1", "99999999999999999999"})
    EXPECT_EQ(refusal(text, shape), CKPT_INVALID) << text;
  EXPECT_EQ(refusal("0", {}), CKPT_INVALID);
}

// The flat indices of a slice's elements in row-major order of the slice.
std::vector<int64_t> elements(const Slice& slice, const std::vector<int64_t>& shape) {
  std::vector<int64_t> out;
  for (uint64_t i = 0; i < slice.volume(); ++i) {
    int64_t rest = static_cast<int64_t>(i), flat = 0, stride = 1;
    for (size_t d = shape.size(); d-- > 0;) {
      flat += (slice.offset[d] + rest % slice.extent[d]) * stride;
      rest /= slice.extent[d];
      stride *= shape[d];
    }
    out.push_back(flat);
  }
  return out;
}

TEST(Slabs, FollowEachOtherInRowMajorOrderWithinTheLimit) {
  std::mt19937 random(1);
  auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  for (int round = 0; round < 2000; ++round) {
    std::vector<int64_t> shape;
    Slice slice;
    for (int64_t d = below(5); d > 0; --d) {
      int64_t size = 1 + below(5), offset = below(size);
      shape.push_back(size);
      slice.offset.push_back(offset);
      slice.extent.push_back(below(size - offset + 1));
    }
    uint64_t limit = 1 + static_cast<uint64_t>(below(40));
    std::vector<int64_t> seen;
    for_each_slab(slice, limit, [&](const Slice& slab) {
      EXPECT_LE(slab.volume(), limit);
      auto part = elements(slab, shape);
      seen.insert(seen.end(), part.begin(), part.end());
    });
    ASSERT_EQ(seen, elements(slice, shape)) << round;
  }
}

TEST(Slabs, StopAtTheFirstError) {
  int visits = 0;
  auto visit = [&](const Slice&) {
    if (++visits == 2) invalid("stop");
  };
  EXPECT_THROW(for_each_slab(Slice{{0}, {10}}, 2, visit), ckpt::Error);
  EXPECT_EQ(visits, 2);
}

std::string printed(const std::vector<int64_t>& extents, bool summary) {
  char* text = nullptr;
  size_t size = 0;
  FILE* out = open_memstream(&text, &size);
  ArrayWriter writer(extents, summary, 1, out);
  int64_t count = 1;
  for (int64_t extent : extents) count *= summary ? shown(extent) : extent;
  for (int64_t i = 0; i < count; ++i) writer.add(std::to_string(i));
  writer.finish();
  std::fclose(out);
  std::string result(text, size);
  std::free(text);
  return result;
}

TEST(ArrayWriter, NestsBracketsAsNumPyDoes) {
  EXPECT_EQ(printed({}, false), "0\n");
  EXPECT_EQ(printed({3}, false), "[0, 1, 2]\n");
  EXPECT_EQ(printed({2, 2}, false), "[[0, 1],\n [2, 3]]\n");
  EXPECT_EQ(printed({2, 1, 2}, false), "[[[0, 1]],\n\n [[2, 3]]]\n");
  EXPECT_EQ(printed({0}, false), "[]\n");
}

TEST(ArrayWriter, SummaryShowsThreeAtEachEnd) {
  EXPECT_EQ(printed({100}, true), "[0, 1, 2, ..., 3, 4, 5]\n");
  EXPECT_EQ(printed({6}, true), "[0, 1, 2, 3, 4, 5]\n");
  EXPECT_EQ(printed({9, 1}, true), "[[0],\n [1],\n [2],\n ...,\n [3],\n [4],\n [5]]\n");
}

}  // namespace
}  // namespace cli
