#include "plan/box.h"

#include <gtest/gtest.h>

#include "random_boxes.h"

namespace ckpt::plan {
namespace {

using namespace testing;

TEST(Box, IntersectionHoldsExactlyTheCommonElements) {
  Random random(1);
  for (int round = 0; round < 3000; round++) {
    Shape shape = random.shape(static_cast<int>(random.below(5)), 0);
    Box a = random.box(shape), b = random.box(shape), common = intersect(a, b), all = Box::whole(shape);
    EXPECT_EQ(common, intersect(b, a));
    uint64_t expected = 0;
    for (uint64_t i = 0; i < all.volume(); i++) {
      Shape place = place_of(all, i);
      bool both = holds(a, place) && holds(b, place);
      expected += both;
      ASSERT_EQ(both, holds(common, place)) << to_text(a) << " and " << to_text(b);
    }
    ASSERT_EQ(common.volume(), expected);
  }
}

TEST(Box, IntersectionOfScalarsIsTheScalar) { EXPECT_EQ(intersect(Box{}, Box{}).volume(), 1u); }

TEST(Box, IntersectionDoesNotOverflowAtTheEndOfTheNumbers) {
  Box a = make_box({UINT64_MAX - 2}, {UINT64_MAX}), b = make_box({UINT64_MAX - 1}, {UINT64_MAX});
  EXPECT_EQ(intersect(a, b).offset[0], UINT64_MAX - 1);
}

TEST(Box, InsideRefusesWhatReachesOutWrapsOrHasOtherDimensions) {
  Shape shape = make_shape({4, 6});
  EXPECT_TRUE(inside(make_box({0, 0}, {4, 6}), shape));
  EXPECT_TRUE(inside(make_box({4, 6}, {0, 0}), shape));
  EXPECT_TRUE(inside(Box{}, Shape{}));
  EXPECT_FALSE(inside(make_box({1, 0}, {4, 6}), shape));
  EXPECT_FALSE(inside(make_box({5, 0}, {0, 6}), shape));
  EXPECT_FALSE(inside(make_box({UINT64_MAX, 0}, {2, 1}), shape));
  EXPECT_FALSE(inside(make_box({2, 0}, {UINT64_MAX, 1}), shape));
  EXPECT_FALSE(inside(make_box({0}, {4}), shape));
  EXPECT_FALSE(inside(Box{make_shape({0}), make_shape({4, 6})}, shape));
  EXPECT_FALSE(inside(Box{make_shape({0, 0}), make_shape({4})}, shape));
}

TEST(Box, ContiguousStridesNumberElementsInRowMajorOrder) {
  EXPECT_EQ(contiguous_strides(make_shape({2, 3, 4})), make_shape({12, 4, 1}));
  EXPECT_EQ(contiguous_strides(Shape{}), Shape{});
}

TEST(Box, BoxesOfRangeAreTheRangeInOrder) {
  Random random(2);
  for (int round = 0; round < 3000; round++) {
    int ndim = static_cast<int>(random.below(6));
    Shape shape = random.shape(ndim, 1, 4);
    Box outer = random.box(shape);
    uint64_t volume = outer.volume();
    uint64_t first = random.below(volume + 1), count = random.between(0, volume - first);
    std::vector<Box> boxes = boxes_of_range(outer, first, count);
    ASSERT_LE(boxes.size(), static_cast<size_t>(std::max(1, 2 * ndim - 1)));
    uint64_t at = first;
    for (const Box& box : boxes) {
      ASSERT_GT(box.volume(), 0u);
      for (uint64_t i = 0; i < box.volume(); i++, at++) ASSERT_EQ(place_of(box, i), place_of(outer, at));
    }
    ASSERT_EQ(at, first + count);
  }
}

TEST(Box, BoxesOfRangeUsesOneBoxForFullSlices) {
  std::vector<Box> boxes = boxes_of_range(make_box({10, 0, 0}, {8, 3, 5}), 15, 30);
  ASSERT_EQ(boxes.size(), 1u);
  EXPECT_EQ(boxes[0], make_box({11, 0, 0}, {2, 3, 5}));
}

TEST(Box, BoxesOfRangeWorksOnTheLargestTensors) {
  uint64_t rows = uint64_t{1} << 31, columns = uint64_t{1} << 31;
  std::vector<Box> boxes =
      boxes_of_range(Box::whole(make_shape({rows, columns})), columns - 1, rows * columns - columns);
  ASSERT_EQ(boxes.size(), 3u);
  EXPECT_EQ(boxes[0], make_box({0, columns - 1}, {1, 1}));
  EXPECT_EQ(boxes[1], make_box({1, 0}, {rows - 2, columns}));
  EXPECT_EQ(boxes[2], make_box({rows - 1, 0}, {1, columns - 1}));
}

}  // namespace
}  // namespace ckpt::plan
