#include "plan/assign.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "plan/box.h"
#include "plan/declare.h"
#include "random_boxes.h"
#include "replica_regions.h"

namespace ckpt::plan {
namespace {

using namespace testing;

constexpr uint16_t kU12 = 0x200c, kU24 = 0x2018;  // unknown codes of odd widths
constexpr uint16_t kDtypes[] = {CKPT_DTYPE_I8, CKPT_DTYPE_BF16,      CKPT_DTYPE_F32, CKPT_DTYPE_C128,
                                CKPT_DTYPE_U4, CKPT_DTYPE_F6_E2M3FN, kU12,           kU24};

uint64_t bytes_of(uint16_t dtype, uint64_t elements) { return *element_bytes(elements, dtype); }

uint64_t volume_of(const Shape& shape, const Region& region) {
  if (region.kind == RegionKind::kWhole) return Box::whole(shape).volume();
  return region.kind == RegionKind::kBox ? region.box.volume() : region.flat_size;
}

ReplicaRegion make_entry(std::string_view name, uint16_t dtype, const Shape& shape, const Region& region = {}) {
  return replica_region(name, dtype, shape, region, bytes_of(dtype, volume_of(shape, region)));
}

// Everything that a member writes, as pieces: cuts first.
std::vector<AssignedCut> pieces_of(const std::vector<ReplicaRegion>& entries, uint32_t member, uint32_t count,
                                   const AssignOptions& options) {
  Assignment assigned = assign(entries, member, count, options);
  for (size_t i : assigned.whole) assigned.cuts.push_back({i, 0, entries[i].bytes});
  return assigned.cuts;
}

struct Group {
  std::vector<std::string> names;
  std::vector<ReplicaRegion> entries;
};

// Regions as a caller may add them: packed ones start and end at whole bytes or are whole.
Region random_region(Random& random, const Shape& shape, uint16_t dtype) {
  uint64_t kind = random.below(3), total = Box::whole(shape).volume();
  uint64_t unit = std::lcm(8, dtype_bits(dtype)) / dtype_bits(dtype);
  if (kind == 1) {
    Box box = random.box(shape);
    int inner = shape.ndim - 1;
    if (unit == 1) return box_region(box);
    if (inner < 0 || shape[inner] % unit) return {};
    box.offset[inner] -= box.offset[inner] % unit;
    box.extent[inner] -= box.extent[inner] % unit;
    return box_region(box);
  }
  if (kind == 2) {
    uint64_t first = random.below(total + 1), size = random.between(0, total - first);
    return flat_region(first / unit * unit, size / unit * unit);
  }
  return {};
}

Group random_group(Random& random) {
  Group group;
  size_t count = random.between(1, 12);
  for (size_t i = 0; i < count; i++) group.names.push_back("t" + std::to_string(i));
  for (size_t i = 0; i < count; i++) {
    uint16_t dtype = kDtypes[random.below(std::size(kDtypes))];
    Shape shape = random.shape(static_cast<int>(random.below(4)), random.below(10) ? 1 : 0, 16);
    group.entries.push_back(make_entry(group.names[i], dtype, shape, random_region(random, shape, dtype)));
    group.entries.back().first_only = random.below(8) == 0;
  }
  return group;
}

const AssignOptions kPages{.chunk_bytes = 4096, .large_tensor_bytes = 4096};

AssignOptions random_options(Random& random) {
  const uint64_t chunk_bytes = uint64_t{16} << random.below(4);
  return {.chunk_bytes = chunk_bytes, .large_tensor_bytes = uint64_t{1} << random.below(12)};
}

TEST(Assign, EveryElementIsWrittenByExactlyOneMember) {
  Random random(8);
  for (int round = 0; round < 1500; round++) {
    Group group = random_group(random);
    AssignOptions options = random_options(random);
    uint32_t members = static_cast<uint32_t>(random.between(1, 9));
    std::vector<std::map<uint64_t, uint64_t>> written(group.entries.size());  // by first byte: bytes
    for (uint32_t member = 0; member < members; member++)
      for (const AssignedCut& piece : pieces_of(group.entries, member, members, options)) {
        ASSERT_NE(piece.bytes, 0u);
        ASSERT_TRUE(written[piece.entry].emplace(piece.first, piece.bytes).second);
      }
    for (size_t i = 0; i < group.entries.size(); i++) {
      uint64_t end = 0;
      for (auto [first, bytes] : written[i]) {
        ASSERT_EQ(first, end) << to_text(group.entries[i].region()) << " of " << to_text(group.entries[i].shape());
        end += bytes;
      }
      ASSERT_EQ(end, group.entries[i].bytes) << to_text(group.entries[i].region());
    }
  }
}

TEST(Assign, PiecesStartAndEndAtElements) {
  Random random(9);
  for (int round = 0; round < 1500; round++) {
    Group group = random_group(random);
    AssignOptions options = random_options(random);
    for (uint32_t member = 0; member < 5; member++)
      for (const AssignedCut& piece : pieces_of(group.entries, member, 5, options)) {
        const ReplicaRegion& entry = group.entries[piece.entry];
        const auto bits = static_cast<uint64_t>(dtype_bits(entry.dtype));
        const bool to_the_end = piece.first + piece.bytes == entry.bytes;
        ASSERT_EQ(piece.first * 8 % bits, 0u) << entry.dtype;
        ASSERT_TRUE(to_the_end || (piece.first + piece.bytes) * 8 % bits == 0) << entry.dtype;
      }
  }
}

TEST(Assign, TheFirstMemberWritesWhatOnlyItsValuesCountFor) {
  Random random(11);
  for (int round = 0; round < 300; round++) {
    Group group = random_group(random);
    for (ReplicaRegion& entry : group.entries) entry.first_only = random.below(2);
    for (uint32_t member = 0; member < 3; member++)
      for (const AssignedCut& piece : pieces_of(group.entries, member, 3, random_options(random)))
        if (const ReplicaRegion& entry = group.entries[piece.entry]; entry.first_only) {
          ASSERT_EQ(member, 0u);
          ASSERT_EQ(piece.bytes, entry.bytes);
        }
  }
}

TEST(Assign, DoesNotDependOnTheOrderInWhichAMemberAdded) {
  Random random(10);
  for (int round = 0; round < 300; round++) {
    Group group = random_group(random);
    std::vector<ReplicaRegion> shuffled = group.entries;
    std::shuffle(shuffled.begin(), shuffled.end(), random.engine);
    AssignOptions options = random_options(random);
    for (uint32_t member = 0; member < 3; member++) {
      std::vector<AssignedCut> a = pieces_of(group.entries, member, 3, options),
                               b = pieces_of(shuffled, member, 3, options);
      ASSERT_EQ(a.size(), b.size());
      for (size_t i = 0; i < a.size(); i++) {
        ASSERT_EQ(group.entries[a[i].entry].name, shuffled[b[i].entry].name);
        ASSERT_EQ(std::pair(a[i].first, a[i].bytes), std::pair(b[i].first, b[i].bytes));
      }
    }
    ASSERT_EQ(declaration_list(group.entries), declaration_list(shuffled));
  }
}

TEST(Assign, OrdersByBytesThenNameThenGeometry) {
  Shape shape = make_shape({8});
  std::vector<ReplicaRegion> entries{
      make_entry("b", CKPT_DTYPE_I8, shape, flat_region(0, 4)),
      make_entry("a", CKPT_DTYPE_I8, shape, flat_region(4, 4)),
      make_entry("a", CKPT_DTYPE_I8, shape, flat_region(0, 4)),
      make_entry("a", CKPT_DTYPE_I8, shape, box_region({4}, {4})),
      make_entry("z", CKPT_DTYPE_I8, shape),
      make_entry("\xc3\xa9", CKPT_DTYPE_I8, shape, flat_region(0, 4)),
  };
  EXPECT_EQ(assignment_order(entries), (std::vector<size_t>{4, 3, 2, 1, 0, 5}));
}

TEST(Assign, SmallRegionsGoWholeToTheLeastLoadedMember) {
  std::vector<ReplicaRegion> entries;
  std::vector<std::string> names{"a", "b", "c", "d", "e"};
  uint64_t sizes[] = {50, 40, 30, 30, 10};
  for (size_t i = 0; i < 5; i++) entries.push_back(make_entry(names[i], CKPT_DTYPE_I8, make_shape({sizes[i]})));
  auto taken = [&](uint32_t member) {
    std::string all;
    for (const AssignedCut& piece : pieces_of(entries, member, 3, kPages)) {
      EXPECT_EQ(piece.bytes, sizes[piece.entry]);
      all += names[piece.entry];
    }
    return all;
  };
  EXPECT_EQ(taken(0), "a");
  EXPECT_EQ(taken(1), "be");  // load 40, against 50 and 60
  EXPECT_EQ(taken(2), "cd");
}

TEST(Assign, LargeRegionsAreCutAtChunksAsTheFormatSays) {
  // 10 chunks, the last one short, among 4 members: 0-2, 2-5, 5-7, 7-10.
  std::vector<ReplicaRegion> entries{make_entry("w", CKPT_DTYPE_F32, make_shape({1024 * 9 + 1}))};
  std::pair<uint64_t, uint64_t> expected[] = {{0, 2048}, {2048, 3072}, {5120, 2048}, {7168, 2049}};
  for (uint32_t member = 0; member < 4; member++) {
    std::vector<AssignedCut> pieces = pieces_of(entries, member, 4, kPages);
    ASSERT_EQ(pieces.size(), 1u);
    EXPECT_EQ(pieces[0].first, expected[member].first * 4);
    EXPECT_EQ(pieces[0].bytes, expected[member].second * 4);
  }
}

TEST(Assign, CutsOfOddElementsAreRoundedDownToElements) {
  std::vector<ReplicaRegion> entries{make_entry("w", kU24, make_shape({4096}))};  // 12288 bytes, 3 chunks
  std::vector<AssignedCut> first = pieces_of(entries, 0, 3, kPages), second = pieces_of(entries, 1, 3, kPages);
  EXPECT_EQ(first[0].first, 0u);
  EXPECT_EQ(first[0].bytes, 3u * (4096 / 3));
  EXPECT_EQ(second[0].first, 3u * (4096 / 3));
  EXPECT_EQ(second[0].bytes, 3u * (8192 / 3 - 4096 / 3));
}

TEST(Assign, ALargeRegionIsCutInItsOwnOrder) {
  for (const Region& region : {flat_region(1000, 8192), box_region({1, 2}, {8, 1024})}) {
    std::vector<ReplicaRegion> entries{make_entry("w", CKPT_DTYPE_I8, make_shape({100, 2000}), region)};
    const AssignedCut piece = pieces_of(entries, 1, 2, kPages)[0];
    EXPECT_EQ(piece.first, 4096u);
    EXPECT_EQ(piece.bytes, 4096u);
  }
}

TEST(Assign, PackedRegionsThatCannotBeCutAtBytesStayWhole) {
  // Neither 81919 elements of 4 bits nor a row of 3 of them end at a byte.
  std::vector<ReplicaRegion> entries{
      make_entry("odd", CKPT_DTYPE_U4, make_shape({81919})),
      make_entry("rows", CKPT_DTYPE_U4, make_shape({9000, 3}), box_region({0, 0}, {9000, 3}))};
  std::vector<AssignedCut> a = pieces_of(entries, 0, 2, kPages), b = pieces_of(entries, 1, 2, kPages);
  ASSERT_EQ(a.size(), 1u);
  ASSERT_EQ(b.size(), 1u);
  EXPECT_EQ(a[0].bytes, entries[a[0].entry].bytes);
  EXPECT_EQ(b[0].bytes, entries[b[0].entry].bytes);
  // Rows of whole bytes that begin inside a byte.
  entries = {make_entry("shifted", CKPT_DTYPE_U4, make_shape({9000, 8}), box_region({0, 1}, {9000, 4}))};
  a = pieces_of(entries, 0, 2, kPages);
  ASSERT_EQ(a.size(), 1u);
  EXPECT_EQ(a[0].bytes, entries[0].bytes);
  // A range that begins inside a byte, or ends inside one.
  for (const Region& range : {flat_region(1, 16384), flat_region(0, 16385)}) {
    entries = {make_entry("range", CKPT_DTYPE_U4, make_shape({81920}), range)};
    EXPECT_EQ(pieces_of(entries, 0, 2, kPages).size() + pieces_of(entries, 1, 2, kPages).size(), 1u);
  }
  // Whole bytes of rows that end inside a byte.
  entries = {make_entry("short", CKPT_DTYPE_U4, make_shape({9000, 7}), box_region({0, 0}, {9000, 4}))};
  EXPECT_EQ(pieces_of(entries, 0, 2, kPages).size() + pieces_of(entries, 1, 2, kPages).size(), 1u);
}

TEST(Assign, PackedRegionsThatEndAtBytesAreCut) {
  for (const Region& region : {Region(), flat_region(8, 32768), box_region({0, 2}, {9000, 4})}) {
    std::vector<ReplicaRegion> entries{make_entry("w", CKPT_DTYPE_U4, make_shape({9000, 8}), region)};
    EXPECT_EQ(pieces_of(entries, 0, 2, kPages).size(), 1u);
    EXPECT_EQ(pieces_of(entries, 1, 2, kPages).size(), 1u);
  }
}

TEST(Assign, WhatIsCutCountsBeforeWhatGoesWhole) {
  // 3 chunks among 2 members: 1 and 2. So the first has room for all that is small.
  std::vector<ReplicaRegion> entries{make_entry("w", CKPT_DTYPE_I8, make_shape({3 * 4096})),
                                     make_entry("a", CKPT_DTYPE_I8, make_shape({2000})),
                                     make_entry("b", CKPT_DTYPE_I8, make_shape({2000}))};
  EXPECT_EQ(pieces_of(entries, 0, 2, kPages).size(), 3u);
  EXPECT_EQ(pieces_of(entries, 1, 2, kPages).size(), 1u);
}

TEST(Assign, AGroupOfOneWritesEverythingWhole) {
  std::vector<ReplicaRegion> entries{make_entry("w", CKPT_DTYPE_I8, make_shape({1 << 20})),
                                     make_entry("none", CKPT_DTYPE_I8, make_shape({0}))};
  std::vector<AssignedCut> pieces = pieces_of(entries, 0, 1, kPages);
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0].bytes, entries[0].bytes);
}

TEST(Assign, EmptyRegionsAreNobodys) {
  std::vector<ReplicaRegion> entries{make_entry("a", CKPT_DTYPE_I8, make_shape({5, 0})),
                                     make_entry("b", CKPT_DTYPE_I8, make_shape({5}), flat_region(5, 0)),
                                     make_entry("c", CKPT_DTYPE_I8, make_shape({5}), box_region({2}, {0}))};
  for (uint32_t member = 0; member < 2; member++) EXPECT_TRUE(pieces_of(entries, member, 2, kPages).empty());
}

TEST(Assign, MoreMembersThanChunksLeavesSomeWithoutAPiece) {
  std::vector<ReplicaRegion> entries{make_entry("w", CKPT_DTYPE_I8, make_shape({8192}))};
  size_t pieces = 0;
  for (uint32_t member = 0; member < 7; member++) pieces += pieces_of(entries, member, 7, kPages).size();
  EXPECT_EQ(pieces, 2u);
}

TEST(Assign, TheLargestTensorIsCutWithoutOverflow) {
  std::vector<ReplicaRegion> entries{make_entry("w", CKPT_DTYPE_I8, make_shape({INT64_MAX}))};
  uint32_t members = uint32_t{1} << 20;
  std::vector<AssignedCut> last = pieces_of(entries, members - 1, members, kPages);
  ASSERT_EQ(last.size(), 1u);
  EXPECT_EQ(last[0].first + last[0].bytes, static_cast<uint64_t>(INT64_MAX));
  EXPECT_EQ(last[0].bytes, (uint64_t{1} << 43) - 1);
}

TEST(Assign, AThousandMembersAreEvenlyLoadedWithAHundredThousandTensors) {
  Random random(11);
  std::vector<std::string> names(100000);
  std::vector<ReplicaRegion> entries;
  uint64_t total = 0;
  for (size_t i = 0; i < names.size(); i++) {
    names[i] = "model.layers." + std::to_string(i) + ".weight";
    entries.push_back(make_entry(names[i], CKPT_DTYPE_BF16, make_shape({random.between(1, 1 << 16)})));
    total += entries.back().bytes;
  }
  uint64_t mine = 0;
  for (const AssignedCut& piece :
       pieces_of(entries, 511, 1024, {.chunk_bytes = 1 << 20, .large_tensor_bytes = 1 << 28}))
    mine += piece.bytes;
  EXPECT_NEAR(static_cast<double>(mine), static_cast<double>(total) / 1024, 70000);
}

}  // namespace
}  // namespace ckpt::plan
