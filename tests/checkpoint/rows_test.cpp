// Rows in several parts: where each part's begin, and what a manifest may not say of them.
#include "checkpoint/drafted.h"

namespace ckpt::checkpoint {
namespace {

Draft part_with(std::vector<uint64_t> extents, const Region& region, uint64_t elements, uint32_t world = 3) {
  Draft draft(IndexKind::kPart, world);
  draft.tensor("t", CKPT_DTYPE_U8, extents);
  if (elements != 0) draft.region(region).segment(0, elements, {format::chunk(4096, static_cast<uint32_t>(elements))});
  return draft;
}
Draft own_rows(uint64_t rows) { return part_with({rows, 2}, format::rows(), 2 * rows); }
Draft manifest() { return Draft(IndexKind::kManifest, 3); }

// The pieces of "t" as a drafted manifest tells it.
Result<std::vector<Piece>> pieces_of(const std::unique_ptr<Checkpoint>& checkpoint) {
  CKPT_ASSIGN(const Checkpoint::Named named, checkpoint->find("t"));
  EXPECT_TRUE(named.tensor);
  return checkpoint->pieces(named.tensor);
}

TEST(Rows, OfAPartBeginWhereThoseOfThePartsBeforeEnd) {
  Drafted drafted;
  for (uint64_t rows : {3, 0, 4}) drafted.add_part(own_rows(rows));
  ASSERT_TRUE(drafted.merge().ok());
  auto checkpoint = drafted.open().take();
  auto pieces = pieces_of(checkpoint);
  ASSERT_TRUE(pieces.ok()) << pieces.status().message();
  ASSERT_EQ(pieces->size(), 2u);
  EXPECT_EQ((*pieces)[0].held(), format::flat(0, 6));
  EXPECT_EQ((*pieces)[1].part, 2u);
  EXPECT_EQ((*pieces)[1].held(), format::flat(6, 8));
  EXPECT_EQ((*pieces)[1].shape(), format::shape({7, 2}));
}

TEST(Rows, OfOnePartAreTheWholeTensor) {
  Drafted drafted;
  for (uint64_t rows : {0, 4, 0}) drafted.add_part(own_rows(rows));
  ASSERT_TRUE(drafted.merge().ok());
  auto checkpoint = drafted.open().take();
  auto pieces = pieces_of(checkpoint);
  ASSERT_TRUE(pieces.ok()) << pieces.status().message();
  ASSERT_EQ(pieces->size(), 1u);
  EXPECT_EQ((*pieces)[0].held(), Region{});
}

// As verification meets them, which goes through one part.
TEST(Rows, ThatOnePartTellsGetTheirPlaceFromAllPartsIfTheseAreSound) {
  for (const uint64_t told : {7, 8}) {
    Drafted drafted;
    for (uint64_t rows : {3, 0, 4}) drafted.add_part(own_rows(rows));
    drafted.commit(manifest().tensor("t", CKPT_DTYPE_U8, {told, 2}).rows_in({0, 2}));
    auto checkpoint = drafted.open();
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    const format::Page* page = *(*(*checkpoint)->part_index(2))->page_of("t");
    const Piece alone{2, page, page->find_tensor("t"), page->regions.data(), page->segments.data()};
    EXPECT_TRUE(alone.unplaced());
    EXPECT_EQ(alone.held(), Region{});
    const Piece placed = (*checkpoint)->placed(alone);
    EXPECT_EQ(placed.unplaced(), told == 8);
    if (told == 7) {
      EXPECT_EQ(placed.held(), format::flat(6, 8));
    }
  }
}

TEST(Rows, ThatAManifestTellsWronglyAreRefused) {
  struct Lie {
    Draft manifest;
    const char* why;
  };
  const Lie lies[] = {
      {manifest().tensor("t", CKPT_DTYPE_U8, {8, 2}).rows_in({0, 2}), "the parts have 7 rows, the manifest says 8"},
      {manifest().tensor("t", CKPT_DTYPE_U8, {6, 2}).rows_in({0, 2}), "PART_002 does not hold rows of it"},
      {manifest().tensor("t", CKPT_DTYPE_U8, {7, 3}).rows_in({0, 2}), "PART_000 does not hold rows of it"},
      {manifest().tensor("t", CKPT_DTYPE_U8, {14}).rows_in({0, 2}), "PART_000 does not hold rows of it"},
      {manifest().tensor("t", CKPT_DTYPE_I8, {7, 2}).rows_in({0, 2}), "PART_000 does not hold rows of it"},
      {manifest().tensor("t", CKPT_DTYPE_U8, {7, 2}).rows_in({0, 1, 2}), "PART_001 does not hold rows of it"},
      {manifest().tensor("t", CKPT_DTYPE_U8, {3, 2}).list({0}), "PART_000 does not hold it as the manifest says"},
      {manifest().tensor("t", CKPT_DTYPE_U8, {7, 2}).list({0, 2}), "PART_000 does not hold it as the manifest says"}};
  for (const Lie& lie : lies) {
    Drafted drafted;
    for (uint64_t rows : {3, 0, 4}) drafted.add_part(own_rows(rows));
    drafted.commit(lie.manifest);
    auto checkpoint = drafted.open();
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    expect_error(pieces_of(*checkpoint).status(), CKPT_FORMAT, lie.why);
  }
}

TEST(Rows, AreNotWhatAPartHoldsAsAnOrdinaryRegion) {
  Drafted drafted;
  drafted.add_part(part_with({3, 2}, {}, 6));
  for (int i = 0; i < 2; i++) drafted.add_part(own_rows(0));
  drafted.commit(manifest().tensor("t", CKPT_DTYPE_U8, {3, 2}).rows_in({0}));
  auto checkpoint = drafted.open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  expect_error(pieces_of(*checkpoint).status(), CKPT_FORMAT, "PART_000 does not hold rows of it");
}

}  // namespace
}  // namespace ckpt::checkpoint
