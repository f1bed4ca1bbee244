#include "device/packing.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "../plan/random_boxes.h"

namespace ckpt::device {
namespace {

using namespace plan::testing;

constexpr uint64_t kWidth = 3;

uint64_t place(const Shape& coordinates, std::span<const uint64_t> strides) {
  uint64_t at = 0;
  for (int d = 0; d < coordinates.ndim; d++) at += coordinates[d] * strides[static_cast<size_t>(d)];
  return at;
}

struct Copied {
  uint64_t copies = 0;
  // Fails if a byte of memory does not come from, or go to, the place where the element is packed.
  Copied(const Packing& packing, const Shape& extent, std::span<const uint64_t> strides) {
    const Box box = Box::whole(extent);
    std::map<uint64_t, uint64_t> there;  // the place in memory of each packed byte
    packing.for_each_copy([&](const Packing::Rows& rows) {
      copies++;
      EXPECT_TRUE(rows.rows == 1 || (rows.packed_pitch >= rows.bytes && rows.memory_pitch >= rows.bytes));
      for (uint64_t row = 0; row < rows.rows; row++)
        for (uint64_t i = 0; i < rows.bytes; i++) {
          const uint64_t from = rows.packed + row * rows.packed_pitch + i;
          EXPECT_TRUE(there.emplace(from, rows.memory + row * rows.memory_pitch + i).second) << "copied twice";
        }
    });
    EXPECT_EQ(there.size(), packing.units() * kWidth);
    EXPECT_LE(packing.units(), box.volume());
    bool ordered = true;
    std::set<uint64_t> wanted;
    for (uint64_t i = 0; i < box.volume(); i++) {
      const Shape coordinates = plan::testing::coordinates(box, i);
      const uint64_t packed = place(coordinates, packing.strides()), memory = place(coordinates, strides);
      ordered &= packed == i;
      for (uint64_t byte = 0; byte < kWidth; byte++) {
        EXPECT_EQ(there.at(packed * kWidth + byte), memory * kWidth + byte);
        wanted.insert(memory * kWidth + byte);
      }
    }
    for (const auto& [from, to] : there) EXPECT_TRUE(wanted.contains(to)) << "what lies between elements is touched";
    EXPECT_EQ(packing.in_order(), ordered);
  }
};

uint64_t copies_of(std::initializer_list<uint64_t> extents, std::initializer_list<uint64_t> strides) {
  const Shape extent = Shape::of(std::vector(extents));
  const std::vector<uint64_t> steps(strides);
  return Copied(Packing(extent, steps, kWidth), extent, steps).copies;
}

TEST(Packing, CopiesEachElementOnceToItsPackedPlaceAndNothingElse) {
  Random random(5);
  for (int round = 0; round < 3000 && !::testing::Test::HasFailure(); round++) {
    const Shape extent = random.shape(static_cast<int>(random.below(6)), 1, random.below(2) ? 3 : 6);
    Shape strides = random.strides(extent);
    // Overlapping ones too.
    for (int d = 0; d < extent.ndim; d++)
      if (random.below(4) == 0) strides[d] = random.below(8);
    Copied(Packing(extent, strides.span(), kWidth), extent, strides.span());
  }
}

TEST(Packing, WhatLeavesNoGapsIsOneCopyWhateverItsOrder) {
  EXPECT_EQ(copies_of({}, {}), 1u);
  EXPECT_EQ(copies_of({1}, {0}), 1u);
  EXPECT_EQ(copies_of({7, 5}, {5, 1}), 1u);
  EXPECT_EQ(copies_of({7, 5}, {1, 7}), 1u) << "transposed";
  EXPECT_EQ(copies_of({4, 3, 5, 2}, {30, 1, 6, 3}), 1u) << "channels last";
  EXPECT_EQ(copies_of({7, 5}, {0, 1}), 1u) << "repeated rows";
  EXPECT_EQ(copies_of({7, 5}, {1, 1}), 1u) << "a sliding window";
}

TEST(Packing, RowsWithGapsAreOneCopyOfRows) {
  EXPECT_EQ(copies_of({7, 5}, {8, 1}), 1u);
  EXPECT_EQ(copies_of({7, 5}, {1, 9}), 1u) << "some rows of a transposed matrix";
  EXPECT_EQ(copies_of({6, 7, 5}, {56, 8, 1}), 1u) << "two dimensions that continue each other";
  EXPECT_EQ(copies_of({2, 9, 5}, {8, 99, 1}), 2u) << "one for each of the fewer";
  EXPECT_EQ(copies_of({3, 9}, {30, 2}), 3u) << "every second element: copies of rows of one element";
}

}  // namespace
}  // namespace ckpt::device
