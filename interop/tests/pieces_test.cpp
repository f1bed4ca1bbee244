// Tensors in pieces of several files: what makes a whole, and what is refused by name.
#include "interop/src/pieces.h"

#include <gtest/gtest.h>

#include "ckpt.h"
#include "interop/src/elements.h"
#include "plan/box.h"
#include "safetensors_fixture.h"

namespace ckpt::interop {
namespace {

Shape shape_of(std::initializer_list<uint64_t> extents) {
  return Shape::of(std::span(extents.begin(), extents.size()));
}
Region box(std::initializer_list<uint64_t> offset, std::initializer_list<uint64_t> extent) {
  return {RegionKind::kBox, {shape_of(offset), shape_of(extent)}, 0, 0};
}
Region flat(uint64_t first, uint64_t count) { return {RegionKind::kFlat, {}, first, count}; }

// A tensor of bytes [4, 3], and what files have of it.
class Pieces : public testing::Test {
 protected:
  Pieces() : joiner_("dir", ReadOptions{}) {
    EXPECT_EQ(*joiner_.tensor("w", CKPT_DTYPE_U8, shape_of({4, 3}), "rank0.pt"), 0u);
  }
  Status add(const Region& region, std::string_view elements, const std::string& file) {
    return joiner_.add(0, region, as_bytes(elements), std::nullopt, file);
  }
  // The elements of the whole, or the error.
  std::string joined() {
    Result<std::vector<ForeignTensor>> all = std::move(joiner_).finish(files_);
    if (!all.ok()) return status_name(all.status().code()) + (" " + all.status().message());
    std::string out(12, '?');
    const plan::Geometry geometry = *plan::geometry_of(CKPT_DTYPE_U8, shape_of({4, 3}));
    device::RegionRequest wanted;
    wanted.geometry = geometry;
    wanted.units = flat(0, 12);
    wanted.memory.data = reinterpret_cast<std::byte*>(out.data());
    const Status status = copy_elements(files_, (*all)[0], wanted, false);
    return status.ok() ? out : status.message();
  }

  PieceJoiner joiner_;
  FileTable files_;
};

TEST_F(Pieces, BoxesAndRangesMakeTheWhole) {
  ASSERT_TRUE(add(box({0, 0}, {2, 1}), "ad", "rank1.pt").ok());
  ASSERT_TRUE(add(box({0, 1}, {2, 2}), "bcef", "rank0.pt").ok());
  ASSERT_TRUE(add(flat(6, 5), "ghijk", "rank2.pt").ok());
  ASSERT_TRUE(add(flat(11, 1), "l", "rank3.pt").ok());
  ASSERT_TRUE(add(flat(12, 0), "", "rank4.pt").ok());
  EXPECT_EQ(joined(), "abcdefghijkl");
}

// Against a walk over the elements: each cut of each box into two ranges.
TEST_F(Pieces, RangesInABoxAreItsElementsInOrder) {
  const std::string whole = "abcdefghijkl";
  const Box inner{shape_of({1, 1}), shape_of({3, 2})};
  for (uint64_t cut = 0; cut <= 6; cut++) {
    PieceJoiner joiner("dir", ReadOptions{});
    ASSERT_TRUE(joiner.tensor("w", CKPT_DTYPE_U8, shape_of({4, 3}), "f").ok());
    const std::string of_inner = "ehknqt";
    ASSERT_TRUE(joiner.add_range(0, inner, 0, as_bytes(of_inner).first(cut), "f").ok());
    ASSERT_TRUE(joiner.add_range(0, inner, cut, as_bytes(of_inner).subspan(cut), "g").ok());
    ASSERT_TRUE(joiner.add(0, box({0, 0}, {1, 3}), as_bytes("ABC"), std::nullopt, "f").ok());
    ASSERT_TRUE(joiner.add(0, box({1, 0}, {3, 1}), as_bytes("DEF"), std::nullopt, "f").ok());
    joiner_ = std::move(joiner);
    EXPECT_EQ(joined(), "ABCDehEknFqt") << cut;
  }
  EXPECT_EQ(joiner_.add_range(0, inner, 6, as_bytes("x"), "f").code(), CKPT_FORMAT);
}

TEST_F(Pieces, ReplicasAreTakenOnceAndMustBeEqual) {
  ASSERT_TRUE(add({}, "abcdefghijkl", "rank0.pt").ok());
  ASSERT_TRUE(add(box({0, 0}, {4, 3}), "abcdefghijkl", "rank1.pt").ok());
  // The same elements in the order of columns.
  const std::string columns = "adgjbehkcfil";
  const Strides strides{1, 4};
  ASSERT_TRUE(joiner_.add(0, {}, as_bytes(columns), strides, "rank2.pt").ok());
  const Status other = add(flat(0, 12), "abcdefghijkX", "rank3.pt");
  EXPECT_EQ(other.code(), CKPT_MISMATCH);
  EXPECT_EQ(other.message(), "dir/rank3.pt: tensor \"w\": whole is not what rank0.pt has of it");
  EXPECT_EQ(joined(), "abcdefghijkl");
}

TEST_F(Pieces, WhatIsMissingOrTwiceOrOutsideIsNamed) {
  ASSERT_TRUE(add(box({0, 0}, {2, 3}), "abcdef", "rank0.pt").ok());
  EXPECT_EQ(add(box({3, 0}, {2, 3}), "abcdef", "rank1.pt").code(), CKPT_FORMAT);
  EXPECT_EQ(add(box({2, 0}, {2, 3}), "abc", "rank1.pt").message(),
            "dir/rank1.pt: tensor \"w\": expected 6 bytes for box [2:4, 0:3], found 3");
  EXPECT_EQ(joiner_.tensor("w", CKPT_DTYPE_U8, shape_of({4, 4}), "rank1.pt").status().message(),
            "dir/rank1.pt: tensor \"w\": expected u8 [4, 3] as rank0.pt says, found u8 [4, 4]");
  EXPECT_EQ(joiner_.tensor("x", CKPT_DTYPE_F64, shape_of({1ull << 62, 4}), "rank1.pt").status().code(), CKPT_FORMAT);
  PieceJoiner twice = joiner_;
  ASSERT_TRUE(twice.add(0, box({1, 0}, {3, 3}), as_bytes("abcdefghi"), std::nullopt, "rank1.pt").ok());
  EXPECT_EQ(joined(), "INCOMPLETE dir: tensor \"w\": no file has box [2:4, 0:3] of [4, 3]");
  joiner_ = std::move(twice);
  EXPECT_EQ(joined(),
            "MISMATCH dir/rank1.pt: tensor \"w\": its box [1:4, 0:3] and box [0:2, 0:3] of rank0.pt are the same "
            "elements");
}

TEST_F(Pieces, ATensorWithoutElementsNeedsNone) {
  PieceJoiner joiner("dir", ReadOptions{});
  ASSERT_TRUE(joiner.tensor("none", CKPT_DTYPE_F32, shape_of({0, 3}), "rank0.pt").ok());
  Result<std::vector<ForeignTensor>> all = std::move(joiner).finish(files_);
  ASSERT_TRUE(all.ok());
  EXPECT_NE((*all)[0].whole(), nullptr);
}

TEST(SameElements, ThatFilesRepeatAreComparedOnce) {
  const Shape many = shape_of({uint64_t{1} << 40, 2});
  const Strides apart{0, 2};
  const auto same = [&](std::string_view a, std::string_view b) {
    return same_elements(CKPT_DTYPE_U8, many, {{as_bytes(a), apart}, {as_bytes(b), apart}}, nullptr);
  };
  EXPECT_TRUE(*same("x.y", "x-y"));
  EXPECT_FALSE(*same("x.y", "x-z"));
  const Shape square = shape_of({uint64_t{1} << 30, uint64_t{1} << 30});
  const auto crossed =
      same_elements(CKPT_DTYPE_U8, square, {{as_bytes("xx"), Strides{0, 1}}, {as_bytes("xx"), Strides{1, 0}}}, nullptr);
  EXPECT_EQ(crossed.status().code(), CKPT_UNSUPPORTED);
}

}  // namespace
}  // namespace ckpt::interop
