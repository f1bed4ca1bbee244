#include <gtest/gtest.h>

#include <algorithm>

#include "plan/coverage.h"
#include "random_boxes.h"

namespace ckpt::plan {
namespace {

using namespace testing;

Region whole() { return {}; }

// Cuts a box at random until the pieces are small. Every cut goes through a whole box.
void split(Random& random, const Box& box, int depth, std::vector<Region>* out) {
  int d = box.ndim() ? static_cast<int>(random.below(static_cast<uint64_t>(box.ndim()))) : 0;
  if (box.ndim() == 0 || depth == 0 || box.extent[d] < 2) return out->push_back(box_region(box));
  Box low = box, high = box;
  low.extent[d] = random.between(1, box.extent[d] - 1);
  high.offset[d] += low.extent[d];
  high.extent[d] -= low.extent[d];
  split(random, low, depth - 1, out);
  split(random, high, depth - 1, out);
}

std::vector<Region> flats(Random& random, uint64_t total) {
  std::vector<Region> regions;
  for (uint64_t at = 0; at < total;) {
    uint64_t size = random.between(0, std::min<uint64_t>(total - at, 7));
    regions.push_back(flat_region(at, size));
    at += size;
  }
  return regions;
}

// A flat head and boxes for the rest.
std::vector<Region> mixed(Random& random, const Shape& shape, uint64_t total) {
  uint64_t head = random.below(total + 1);
  std::vector<Region> regions{flat_region(0, head)};
  for (const Box& box : boxes_of_range(Box::whole(shape), head, total - head)) split(random, box, 3, &regions);
  return regions;
}

std::vector<Region> random_tiling(Random& random, const Shape& shape) {
  std::vector<Region> regions;
  uint64_t total = Box::whole(shape).volume(), kind = random.below(3);
  if (kind == 0) split(random, Box::whole(shape), static_cast<int>(random.below(7)), &regions);
  if (kind == 1) regions = flats(random, total);
  if (kind == 2) regions = mixed(random, shape, total);
  std::shuffle(regions.begin(), regions.end(), random.engine);
  return regions;
}

// How often each element is held. OK, INCOMPLETE or MISMATCH follow from it.
std::vector<int> holders(const Shape& shape, const std::vector<Region>& regions) {
  std::vector<int> counts(Box::whole(shape).volume());
  for (const Region& region : regions)
    for (uint64_t element : elements_of(shape, region)) counts[element]++;
  return counts;
}

void check_against_brute_force(const Shape& shape, const std::vector<Region>& regions) {
  std::vector<int> counts = holders(shape, regions);
  bool twice = std::any_of(counts.begin(), counts.end(), [](int n) { return n > 1; });
  bool missing = std::any_of(counts.begin(), counts.end(), [](int n) { return n == 0; });
  Status status = check_coverage(shape, regions);
  ASSERT_EQ(status.code(), twice ? CKPT_MISMATCH : missing ? CKPT_INCOMPLETE : CKPT_OK) << status.message();
  ASSERT_EQ(status.detail("found") != nullptr, status.code() == CKPT_INCOMPLETE);
  if (status.code() != CKPT_MISMATCH) return;
  size_t first = std::stoul(*status.detail("first")), second = std::stoul(*status.detail("second"));
  ASSERT_LT(first, second);
  ASSERT_LT(second, regions.size());
  std::vector<Region> culprits{regions[first], regions[second]};
  std::vector<int> both = holders(shape, culprits);
  ASSERT_TRUE(std::any_of(both.begin(), both.end(), [](int n) { return n == 2; })) << status.message();
}

TEST(Coverage, AgreesWithBruteForceOnTilingsAndDamagedTilings) {
  Random random(5);
  for (int round = 0; round < 4000; round++) {
    Shape shape = random.shape(static_cast<int>(random.below(6)), 1, random.below(2) ? 3 : 5);
    std::vector<Region> regions = random_tiling(random, shape);
    check_against_brute_force(shape, regions);
    uint64_t damage = random.below(4);
    if (damage == 0 && !regions.empty())
      regions.erase(regions.begin() + static_cast<long>(random.below(regions.size())));
    if (damage == 1) regions.push_back(box_region(random.box(shape)));
    if (damage == 2) regions.push_back(whole());
    if (damage == 3) regions.push_back(flat_region(0, random.below(Box::whole(shape).volume() + 1)));
    check_against_brute_force(shape, regions);
  }
}

TEST(Coverage, AgreesWithBruteForceOnRandomBoxes) {
  Random random(6);
  for (int round = 0; round < 4000; round++) {
    Shape shape = random.shape(static_cast<int>(random.below(4)), 1, 4);
    std::vector<Region> regions;
    for (uint64_t n = random.below(4); n > 0; n--) regions.push_back(box_region(random.box(shape)));
    check_against_brute_force(shape, regions);
  }
}

// Removes one piece of a tiling. "found" must name a place inside that piece.
TEST(Coverage, NamesAPlaceThatIsReallyMissing) {
  Random random(7);
  for (int round = 0; round < 2000; round++) {
    Shape shape = random.shape(static_cast<int>(random.between(1, 4)), 1, 5);
    std::vector<Region> regions;
    split(random, Box::whole(shape), 6, &regions);
    size_t gone = random.below(regions.size());
    Box missing = regions[gone].box;
    regions.erase(regions.begin() + static_cast<long>(gone));
    Status status = check_coverage(shape, regions);
    ASSERT_EQ(status.code(), CKPT_INCOMPLETE);
    const std::string* found = status.detail("found");
    ASSERT_NE(found, nullptr);
    if (regions.empty()) continue;  // everything is missing: named as a flat range
    // It must name some box inside the missing piece.
    bool named = false;
    for (uint64_t i = 0; i < missing.volume() && !named; i++)
      for (uint64_t j = 0; j < missing.volume() && !named; j++) {
        Box part = missing;
        Shape low = place_of(missing, i), high = place_of(missing, j);
        bool ordered = true;
        for (int d = 0; d < shape.ndim && ordered; d++) {
          ordered = low[d] <= high[d];
          part.offset[d] = low[d];
          part.extent[d] = high[d] - low[d] + 1;
        }
        named = ordered && *found == to_text(box_region(part));
      }
    ASSERT_TRUE(named) << *found << " is not in " << to_text(missing);
  }
}

TEST(Coverage, NamesTheFlatRangeThatIsMissing) {
  std::vector<Region> regions{flat_region(0, 4), flat_region(7, 3)};
  Status status = check_coverage(make_shape({2, 5}), regions);
  EXPECT_EQ(status.code(), CKPT_INCOMPLETE);
  EXPECT_EQ(*status.detail("found"), "flat 4:7");
  EXPECT_EQ(status.message(), "no region of shape [2, 5] holds flat 4:7");
  EXPECT_EQ(*check_coverage(make_shape({2, 5}), {}).detail("found"), "flat 0:10");
}

TEST(Coverage, RegionsOutsideTheShapeAreInvalidAndNamed) {
  Shape shape = make_shape({4});
  for (const Region& bad : {box_region({2}, {3}), box_region({0, 0}, {4, 1}), flat_region(4, 1),
                            flat_region(UINT64_MAX, 2), flat_region(1, UINT64_MAX), box_region({UINT64_MAX}, {1})}) {
    std::vector<Region> regions{whole(), bad};
    Status status = check_coverage(shape, regions);
    EXPECT_EQ(status.code(), CKPT_INVALID) << to_text(bad);
    EXPECT_EQ(*status.detail("index"), "1");
  }
}

TEST(Coverage, ATensorWithoutElementsIsCoveredByNothing) {
  Shape shape = make_shape({uint64_t{1} << 62, 0, uint64_t{1} << 62});
  EXPECT_TRUE(check_coverage(shape, {}).ok());
  std::vector<Region> empty{whole(), flat_region(0, 0), box_region({0, 0, 0}, {5, 0, 5})};
  EXPECT_TRUE(check_coverage(shape, empty).ok());
  std::vector<Region> full{flat_region(0, 1)};
  EXPECT_EQ(check_coverage(shape, full).code(), CKPT_INVALID);
}

TEST(Coverage, AShapeThatIsTooLargeIsInvalid) {
  EXPECT_EQ(check_coverage(make_shape({uint64_t{1} << 32, uint64_t{1} << 32}), {}).code(), CKPT_INVALID);
}

TEST(Coverage, VolumesNearTheLimitDoNotOverflow) {
  uint64_t half = uint64_t{1} << 62, most = INT64_MAX;
  std::vector<Region> flat{flat_region(0, half), flat_region(half, most - half)};
  EXPECT_TRUE(check_coverage(make_shape({most}), flat).ok());
  std::vector<Region> boxes{box_region({0}, {half}), box_region({half}, {most - half})};
  EXPECT_TRUE(check_coverage(make_shape({most}), boxes).ok());
  // The sum of their volumes exceeds 64 bits.
  std::vector<Region> many(5, box_region({0}, {most}));
  EXPECT_EQ(check_coverage(make_shape({most}), many).code(), CKPT_MISMATCH);
  boxes[1].box.extent[0]--;
  EXPECT_EQ(*check_coverage(make_shape({most}), boxes).detail("found"),
            "box [9223372036854775806:9223372036854775807]");
}

TEST(Coverage, TwoHoldersOfAScalarAreAMismatch) {
  std::vector<Region> regions{box_region({}, {}), whole()};
  EXPECT_EQ(check_coverage(Shape{}, regions).code(), CKPT_MISMATCH);
  regions.pop_back();
  EXPECT_TRUE(check_coverage(Shape{}, regions).ok());
}

// Four boxes around a fifth: no cut separates them.
TEST(Coverage, AcceptsAPinwheelThatNoDimensionSeparates) {
  std::vector<Region> regions;
  uint64_t n = 10;  // so many that not all pairs are compared at once
  for (uint64_t i = 0; i < n; i++) {
    uint64_t at = 3 * i;
    regions.push_back(box_region({0, at}, {1, 2}));
    regions.push_back(box_region({0, at + 2}, {2, 1}));
    regions.push_back(box_region({2, at + 1}, {1, 2}));
    regions.push_back(box_region({1, at}, {2, 1}));
    regions.push_back(box_region({1, at + 1}, {1, 1}));
  }
  Shape shape = make_shape({3, 3 * n});
  EXPECT_TRUE(check_coverage(shape, regions).ok());
  check_against_brute_force(shape, regions);
  Region centre = regions[4];
  regions.erase(regions.begin() + 4);
  EXPECT_EQ(*check_coverage(shape, regions).detail("found"), to_text(centre));
}

std::vector<Region> grid(uint64_t rows, uint64_t columns, uint64_t size) {
  std::vector<Region> regions;
  for (uint64_t i = 0; i < rows; i++)
    for (uint64_t j = 0; j < columns; j++) regions.push_back(box_region({i * size, j * size}, {size, size}));
  return regions;
}

TEST(Coverage, TilingsOfAThousandRanksAreAcceptedAndOneMissingOrDoubledTileIsFound) {
  for (auto [rows, columns] : {std::pair<uint64_t, uint64_t>{1024, 1}, {1, 1024}, {32, 32}}) {
    Shape shape = make_shape({rows * 64, columns * 64});
    std::vector<Region> regions = grid(rows, columns, 64);
    EXPECT_TRUE(check_coverage(shape, regions).ok());
    Region last = regions[777];
    regions.push_back(last);
    Status twice = check_coverage(shape, regions);
    EXPECT_EQ(twice.code(), CKPT_MISMATCH);
    EXPECT_EQ(*twice.detail("first"), "777");
    EXPECT_EQ(*twice.detail("second"), "1024");
    regions.pop_back();
    regions.erase(regions.begin() + 777);
    EXPECT_EQ(*check_coverage(shape, regions).detail("found"), to_text(last));
  }
}

}  // namespace
}  // namespace ckpt::plan
