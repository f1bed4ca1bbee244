#include "plan/overlap.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <tuple>

#include "random_boxes.h"

namespace ckpt::plan {
namespace {

using namespace testing;
using Dimensions = std::vector<Placement::Dimension>;

// Calls visit(address, element) for each element.
template <typename Visit>
void for_each_element(const Placement& of, const Visit& visit, size_t d = 0, uint64_t address = 0,
                      uint64_t element = 0) {
  if (d == of.dimensions.size()) return visit(of.address + address, of.first + element);
  const auto& [extent, step, source] = of.dimensions[d];
  for (uint64_t i = 0; i < extent; i++) for_each_element(of, visit, d + 1, address + i * step, element + i * source);
}

Stretch stretch_of(const Placement& of) {
  Stretch stretch{UINT64_MAX, 0, false};
  for_each_element(of, [&](uint64_t address, uint64_t) {
    stretch.begin = std::min(stretch.begin, address);
    stretch.end = std::max(stretch.end, address + of.width);
  });
  return stretch;
}

std::optional<Meeting> find(const std::vector<Placement>& of) {
  std::vector<Stretch> stretches;
  for (const Placement& placement : of) stretches.push_back(stretch_of(placement));
  return find_overlap(stretches, [&](size_t i) { return of[i]; });
}

// Byte by byte: whether requests bring different bytes to one.
bool brute_force(const std::vector<Placement>& of) {
  std::map<uint64_t, std::tuple<std::string_view, uint64_t, uint64_t, uint64_t>> memory;
  bool found = false;
  for (const Placement& placement : of)
    for_each_element(placement, [&](uint64_t address, uint64_t element) {
      for (uint64_t i = 0; i < placement.width; i++) {
        const std::tuple byte{placement.source, placement.kind, element, i};
        found |= memory.try_emplace(address + i, byte).first->second != byte;
      }
    });
  return found;
}

Placement random_placement(Random& random, std::string_view source) {
  Placement placement{source, 0, 100 + random.below(40), uint64_t{1} << random.below(3)};
  const Shape shape = random.shape(static_cast<int>(random.below(4)), 1, 4), extent = random.box(shape).extent;
  const Shape steps = random.strides(extent), sources = contiguous_strides(shape);
  const uint64_t spread = random.between(1, 3);
  placement.first = random.below(3);
  for (int d = 0; d < shape.ndim; d++)
    placement.dimensions.push_back({extent[d], steps[d] * placement.width * spread, sources[d]});
  return placement;
}

TEST(Overlap, RequestsAreApartIfAllAreDenseAndNoneMeetsAnother) {
  Random random(37);
  int apart = 0, ordered = 0;
  for (int round = 0; round < 20000; round++) {
    std::vector<Stretch> stretches;
    std::map<uint64_t, int> bytes;
    bool expected = true, ascend = true;
    for (uint64_t count = random.between(1, 5); stretches.size() < count;) {
      const uint64_t begin = random.below(60);
      ascend &= stretches.empty() || begin >= stretches.back().begin;
      stretches.push_back({begin, begin + random.below(9), random.below(20) != 0});
      expected &= stretches.back().dense || stretches.back().begin == stretches.back().end;
      for (uint64_t at = begin; at < stretches.back().end; at++) expected &= ++bytes[at] == 1;
    }
    apart += expected;
    ordered += expected && ascend;
    ASSERT_EQ(are_apart(stretches), expected) << "round " << round;
  }
  EXPECT_GT(ordered, 1000);
  EXPECT_GT(apart - ordered, 1000);
}

TEST(Overlap, IsFoundWhereAndOnlyWhereBytesMeet) {
  Random random(35);
  int overlaps = 0, apart = 0;
  const std::string_view names[] = {"a", "b", "c", "d"};
  for (int round = 0; round < 20000; round++) {
    const bool one_source = random.below(3) == 0;
    std::vector<Placement> requests;
    for (uint64_t count = random.between(1, 4); requests.size() < count;)
      requests.push_back(random_placement(random, names[one_source ? 0 : requests.size()]));
    const bool expected = brute_force(requests);
    const auto found = find(requests);
    (found ? overlaps : apart)++;
    ASSERT_TRUE(found || !expected) << "round " << round;
    if (!found) continue;
    // The two that are named do meet. Of one source, some that bring the same bytes are refused, too.
    std::vector<Placement> named{requests[found->first]};
    if (found->first != found->second) named.push_back(requests[found->second]);
    for (size_t i = 0; i < named.size(); i++) named[i].kind = i;
    ASSERT_TRUE(brute_force(named) || (one_source && named.size() == 1)) << "round " << round;
  }
  EXPECT_GT(overlaps, 3000);
  EXPECT_GT(apart, 3000);
}

TEST(Overlap, TheSameBytesMayComeTwice) {
  const Placement transposed{"w", 0, 1000, 4, 0, Dimensions{{6, 4, 8}, {8, 24, 1}}};
  const Placement rows{"w", 0, 1008, 4, 16, Dimensions{{2, 4, 8}, {8, 24, 1}}};  // 2 and 3 of them
  const Placement twice{"w", 0, 1008, 4, 16, Dimensions{{2, 4, 8}, {8, 24, 1}}};
  const Placement image{"v", 0, 4000, 4, 0, Dimensions{{100, 4, 1}}};
  const Placement part{"v", 0, 4040, 4, 10, Dimensions{{5, 40, 10}, {3, 4, 1}}};
  const Placement windows{"v", 0, 4020, 4, 5, Dimensions{{9, 4, 1}, {4, 8, 2}}};  // overlaps itself, as the source does
  EXPECT_FALSE(find({transposed, rows, twice, image, part, windows}));

  Placement other = rows;
  other.source = "x";
  EXPECT_EQ(find({image, transposed, part, other}), Meeting(1, 3));
  other = rows;
  other.kind = 1;  // such as another dtype
  EXPECT_EQ(find({transposed, other}), Meeting(0, 1));
  other = rows;
  other.first = 8;  // other rows
  EXPECT_EQ(find({transposed, other}), Meeting(0, 1));
  other = windows;
  other.dimensions[1].step = 4;
  EXPECT_EQ(find({image, other}), Meeting(1, 1));
}

// Columns of one matrix, each a request of its own, whose ranges all meet; and pieces that lie between each other at
// no common pitch, in memory beyond one window of marks.
TEST(Overlap, ManyThatMeetAreCheap) {
  std::vector<Placement> columns;
  std::vector<std::string> names;
  const uint64_t count = 100000;
  for (uint64_t i = 0; i < count; i++) names.push_back("c" + std::to_string(i));
  for (uint64_t i = 0; i < count; i++)
    columns.push_back({names[i], 0, 4096 + i * 4, 4, 0, Dimensions{{100, count * 4, 1}}});
  auto find_all = [&] {
    std::vector<Stretch> stretches;
    for (const Placement& c : columns) stretches.push_back({c.address, c.address + 99 * count * 4 + 4, false});
    return find_overlap(stretches, [&](size_t i) { return columns[i]; });
  };
  EXPECT_FALSE(find_all());
  columns[777].address += 4;
  EXPECT_EQ(find_all(), Meeting(777, 778));

  const uint64_t far = uint64_t{1} << 30;
  const Placement wide{"wide", 0, 4096, 1, 0, Dimensions{{3, far, 1}, {5, 3, 1}}};
  Placement odd{"odd", 0, 4097, 1, 0, Dimensions{{4, far - 1, 1}}};  // 4097, …: 1, 0, -1, -2 after wide's places
  EXPECT_EQ(find({wide, odd}), Meeting(0, 1));
  odd.address += 1;  // 2, 1, 0
  EXPECT_EQ(find({odd, wide}), Meeting(0, 1));
  odd.dimensions[0].extent = 2;
  EXPECT_FALSE(find({odd, wide}));
}

}  // namespace
}  // namespace ckpt::plan
