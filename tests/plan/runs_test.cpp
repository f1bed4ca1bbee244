#include <gtest/gtest.h>

#include "plan/box.h"
#include "random_boxes.h"

namespace ckpt::plan {
namespace {

using namespace testing;

// Source, target, count. An array, so that it compares and prints.
using Triple = std::array<uint64_t, 3>;
using Triples = std::vector<Triple>;

struct Case {
  Box stored, wanted;
  uint64_t first, last;
  Shape strides;
};

Case random_case(Random& random) {
  Case the;
  Shape shape = random.shape(static_cast<int>(random.below(6)), 1, random.below(2) ? 3 : 5);
  the.stored = random.box(shape);
  the.wanted = random.box(shape);
  if (random.below(3) == 0) the.wanted = the.stored;
  the.first = random.below(3) ? random.below(the.stored.volume() + 1) : 0;
  the.last = random.below(3) ? random.below(the.stored.volume() + 3) : the.stored.volume();
  the.strides = random.strides(the.wanted.extent);
  return the;
}

// Element by element: where each wanted element comes from and goes to.
Triples brute_force(const Case& the) {
  Triples elements;
  for (uint64_t i = the.first; i < the.last && i < the.stored.volume(); i++) {
    Shape place = place_of(the.stored, i);
    if (!holds(the.wanted, place)) continue;
    uint64_t target = 0;
    for (int d = 0; d < place.ndim; d++) target += (place[d] - the.wanted.offset[d]) * the.strides[d];
    elements.push_back({i - the.first, target, 1});
  }
  return elements;
}

Triples maximal(const Triples& elements) {
  Triples runs;
  for (const Triple& one : elements) {
    Triple* last = runs.empty() ? nullptr : &runs.back();
    if (last && (*last)[0] + (*last)[2] == one[0] && (*last)[1] + (*last)[2] == one[1])
      (*last)[2]++;
    else
      runs.push_back(one);
  }
  return runs;
}

Triples runs_of(const Case& the) {
  Triples runs;
  for_each_run(the.stored, the.first, the.last, the.wanted, the.strides.span(),
               [&](const Run& run) { runs.push_back({run.source, run.target, run.count}); });
  return runs;
}

std::vector<StridedRun> strided_runs_of(const Case& the) {
  std::vector<StridedRun> runs;
  for_each_strided_run(the.stored, the.first, the.last, the.wanted, the.strides.span(),
                       [&](const StridedRun& run) { runs.push_back(run); });
  return runs;
}

TEST(Runs, AreTheMaximalRunsOfABruteForceInAscendingOrder) {
  Random random(3);
  for (int round = 0; round < 20000; round++) {
    Case the = random_case(random);
    ASSERT_EQ(runs_of(the), maximal(brute_force(the)))
        << "stored " << to_text(the.stored) << " wanted " << to_text(the.wanted) << " strides " << to_text(the.strides)
        << " range " << the.first << ":" << the.last;
  }
}

TEST(Runs, StridedRunsHoldTheSameElements) {
  Random random(4);
  for (int round = 0; round < 20000; round++) {
    Case the = random_case(random);
    Triples elements;
    for (const StridedRun& run : strided_runs_of(the)) {
      ASSERT_GT(run.count, 0u);
      ASSERT_TRUE(run.count > 1 || run.target_stride == 1);
      for (uint64_t i = 0; i < run.count; i++)
        elements.push_back({run.source + i, run.target + i * run.target_stride, 1});
    }
    ASSERT_EQ(elements, brute_force(the));
  }
}

TEST(Runs, ScalarIsOneRun) {
  EXPECT_EQ(runs_of({Box{}, Box{}, 0, 1, Shape{}}), (Triples{{0, 0, 1}}));
  EXPECT_TRUE(runs_of({Box{}, Box{}, 1, 1, Shape{}}).empty());
}

TEST(Runs, AWholeTensorIntoContiguousMemoryIsOneRunOfAnySize) {
  Box whole = Box::whole(make_shape({1 << 20, 1 << 20, 1 << 20}));
  Case the{whole, whole, 12345, uint64_t{1} << 60, contiguous_strides(whole.extent)};
  EXPECT_EQ(runs_of(the), (Triples{{0, 12345, (uint64_t{1} << 60) - 12345}}));
}

TEST(Runs, RowsThatPaddedMemoryKeepsApartAreOneRunEach) {
  Box whole = Box::whole(make_shape({3, 4}));
  EXPECT_EQ(runs_of({whole, whole, 0, 12, make_shape({5, 1})}), (Triples{{0, 0, 4}, {4, 5, 4}, {8, 10, 4}}));
}

TEST(Runs, ColumnMajorMemoryIsOneStridedRunForEachRow) {
  Box whole = Box::whole(make_shape({3, 1000}));
  std::vector<StridedRun> runs = strided_runs_of({whole, whole, 500, 3000, make_shape({1, 3})});
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].target, 1500u);
  EXPECT_EQ(runs[0].count, 500u);
  EXPECT_EQ(runs[1].source, 500u);
  EXPECT_EQ(runs[1].target, 1u);
  EXPECT_EQ(runs[2].target_stride, 3u);
}

TEST(Runs, RowsThatTouchByAccidentOfTheStridesAreOneRun) {
  // The second plane begins where the last row of the first one ends, although planes and rows do not continue each
  // other.
  Box whole = Box::whole(make_shape({2, 2, 3}));
  EXPECT_EQ(runs_of({whole, whole, 0, 12, make_shape({8, 5, 1})}), (Triples{{0, 0, 3}, {3, 5, 6}, {9, 13, 3}}));
}

// 2^40 rows before the range and as many after it. Only the number of runs may cost time.
TEST(Runs, RowsOutsideTheRangeAreNotVisited) {
  uint64_t rows = uint64_t{1} << 40;
  Box stored = Box::whole(make_shape({rows, 16})), wanted = make_box({0, 4}, {rows, 2});
  uint64_t middle = rows / 2 * 16;
  EXPECT_EQ(runs_of({stored, wanted, middle, middle + 32, make_shape({2, 1})}),
            (Triples{{4, rows, 4 - 2}, {20, rows + 2, 2}}));
  EXPECT_TRUE(runs_of({stored, wanted, middle + 6, middle + 20, make_shape({2, 1})}).empty());
}

TEST(Runs, BoxesThatDoNotMeetHaveNone) {
  EXPECT_TRUE(runs_of({make_box({0, 0}, {4, 4}), make_box({4, 0}, {4, 4}), 0, 16, make_shape({4, 1})}).empty());
  EXPECT_TRUE(runs_of({make_box({0, 0}, {4, 0}), make_box({0, 0}, {4, 4}), 0, 16, make_shape({4, 1})}).empty());
}

}  // namespace
}  // namespace ckpt::plan
