// What the parts hold of a tensor: the layout that a merge finds, and the pieces that a reader collects by it.
#include <map>

#include "checkpoint/drafted.h"

namespace ckpt::checkpoint {
namespace {

using format::box;
using format::chunk;
using format::flat;

// What a rank wrote of a region of the tensor "t"; `count` 0: all of it.
struct Held {
  uint32_t rank;
  Region region;
  uint64_t start = 0, count = 0;
};
using Extents = std::vector<uint64_t>;

// Parts that hold this, each rank's regions in order, and nothing else.
Drafted parts_of(const Extents& extents, const std::vector<Held>& held, uint32_t world = 4) {
  Drafted drafted;
  uint64_t total = 0, offset = 4096;
  count_elements(extents, &total);
  for (uint32_t rank = 0; rank < world; rank++) {
    Draft part(IndexKind::kPart, world);
    const Region* before = nullptr;
    for (const Held& share : held) {
      if (share.rank != rank) continue;
      if (!before) part.tensor("t", CKPT_DTYPE_U8, extents);
      const Region whole{};
      const Region& region = share.region;
      if (!before || !(*before == region)) part.region(region);
      before = &region;
      const uint64_t all = region == whole                   ? total
                           : region.kind == RegionKind::kBox ? region.box.volume()
                                                             : region.flat_size;
      const uint64_t count = share.count ? share.count : all;
      part.segment(share.start, count, {chunk(offset, static_cast<uint32_t>(count))});
      offset += count;
    }
    drafted.add_part(std::move(part));
  }
  return drafted;
}

// "list: 0 3" or "grid 1x2 of 2: 0 2 1 3".
std::string layout_of(const Checkpoint& checkpoint) {
  const TensorRef tensor = checkpoint.find("t")->tensor;
  const format::Root& root = checkpoint.root();
  const fb::Layout& layout = root.layouts[tensor.page->holding_of(*tensor.tensor).layout()];
  std::string text = root.is_grid(layout) ? "grid " : "list";
  for (uint64_t cells : root.cells_of(layout)) text += (text.size() > 5 ? "x" : "") + std::to_string(cells);
  if (root.is_grid(layout)) text += " of " + std::to_string(layout.per_cell());
  text += ":";
  root.for_each_part(layout, 0, root.part_count(layout), [&](uint32_t part) { text += " " + std::to_string(part); });
  return text;
}

// The parts of the pieces, in their order; or the error.
std::string parts_read(const Checkpoint& checkpoint, const Box* wanted = nullptr) {
  auto found = checkpoint.find("t");
  EXPECT_TRUE(found.ok() && found->tensor) << found.status().message();
  auto pieces = checkpoint.pieces(found->tensor, wanted);
  if (!pieces.ok()) return pieces.status().message();
  std::string text;
  for (const Piece& piece : *pieces) text += (text.empty() ? "" : " ") + std::to_string(piece.part);
  return text;
}

// ---- what a merge finds ----

std::string merged_layout(const Extents& extents, const std::vector<Held>& held, uint32_t world = 4) {
  Drafted drafted = parts_of(extents, held, world);
  Status merged = drafted.merge();
  EXPECT_TRUE(merged.ok()) << merged.message();
  auto checkpoint = drafted.open();
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  return checkpoint.ok() ? layout_of(**checkpoint) : "";
}

const Region kLeft = box({0, 0}, {4, 3}), kRight = box({0, 3}, {4, 3});

TEST(MergedLayout, IsAGridIfTheRegionsAreItsCells) {
  EXPECT_EQ(merged_layout({4, 6}, {{0, kLeft}, {1, kRight}}), "grid 1x2 of 1: 0 1");
  EXPECT_EQ(merged_layout({4, 6}, {{3, kLeft}, {2, kRight}}), "grid 1x2 of 1: 3 2");
  EXPECT_EQ(merged_layout({4, 6}, {{1, kLeft}, {1, kRight}}), "grid 1x2 of 1: 1 1");
  EXPECT_EQ(
      merged_layout(
          {2, 2},
          {{0, box({1, 1}, {1, 1})}, {1, box({1, 0}, {1, 1})}, {2, box({0, 1}, {1, 1})}, {3, box({0, 0}, {1, 1})}}),
      "grid 2x2 of 1: 3 2 1 0");
  EXPECT_EQ(merged_layout({10}, {{0, box({0}, {3})}, {1, box({3}, {3})}, {2, box({6}, {3})}, {3, box({9}, {1})}}),
            "grid 4 of 1: 0 1 2 3");
  EXPECT_EQ(merged_layout({10}, {{0, box({0}, {4})}, {1, box({4}, {4})}, {2, box({8}, {2})}}), "grid 3 of 1: 0 1 2");
}

TEST(MergedLayout, NamesTheSeveralPartsOfACellByTheirFirstElement) {
  EXPECT_EQ(merged_layout({4, 6}, {{0, kLeft, 0, 6}, {2, kLeft, 6, 6}, {1, kRight, 0, 6}, {3, kRight, 6, 6}}),
            "grid 1x2 of 2: 0 2 1 3");
  EXPECT_EQ(merged_layout({4, 6}, {{0, kLeft, 6, 6}, {2, kLeft, 0, 6}, {1, kRight, 0, 6}, {3, kRight, 6, 6}}),
            "grid 1x2 of 2: 2 0 1 3");
  EXPECT_EQ(merged_layout({4, 6}, {{0, kLeft, 0, 4}, {0, kLeft, 8, 4}, {2, kLeft, 4, 4}, {1, kRight}}),
            "grid 1x2 of 2: 0 2 1 1")
      << "the last one is repeated";
}

TEST(MergedLayout, IsAListOtherwise) {
  EXPECT_EQ(merged_layout({4, 6}, {{2, {}}}), "list: 2");
  EXPECT_EQ(merged_layout({4, 6}, {{1, {}, 12, 12}, {3, {}, 0, 12}}), "list: 1 3");
  EXPECT_EQ(merged_layout({24}, {{0, flat(0, 12)}, {1, flat(12, 12)}}), "list: 0 1");
  EXPECT_EQ(merged_layout({10}, {{0, box({0}, {6})}, {1, box({6}, {4})}}), "list: 0 1") << "cells of 5 were meant";
  EXPECT_EQ(merged_layout({4, 6}, {{0, box({0, 0}, {1, 6})}, {1, box({1, 0}, {3, 6})}}), "list: 0 1");
  EXPECT_EQ(merged_layout({4, 6}, {{0, kLeft}, {2, box({0, 3}, {2, 3})}, {3, box({2, 3}, {2, 3})}}), "list: 0 2 3");
  EXPECT_EQ(merged_layout({}, {{3, {}}}), "list: 3");
}

TEST(MergedLayout, IsOneForManyTensorsAndObjects) {
  Drafted drafted;
  for (uint32_t rank = 0; rank < 3; rank++) {
    Draft part(IndexKind::kPart, 3);
    for (uint64_t i = 0; i < 100; i++)
      part.tensor("t" + std::to_string(100 + i), CKPT_DTYPE_U8, {6, i % 2 + 1})
          .region(box({2 * rank, 0}, {2, i % 2 + 1}))
          .segment(0, 2 * (i % 2 + 1), {chunk(4096 + 10 * i, static_cast<uint32_t>(2 * (i % 2 + 1)))});
    drafted.add_part(part.inline_object("o", 1, "x").inline_object("p", 1, "x"));
  }
  ASSERT_TRUE(drafted.merge().ok());
  auto checkpoint = drafted.open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ((*checkpoint)->root().layouts.size(), 2u) << "the grid, and the list of the objects";
  EXPECT_EQ((*checkpoint)->root().runs.size(), 2u);
}

// ---- together ----

// Parts that hold this are refused by a merge, and by a reader whose manifest has a list of them; or by none.
void expect_judged(const Extents& extents, const std::vector<Held>& held, std::string_view merge_says,
                   std::string_view reader_says) {
  Drafted drafted = parts_of(extents, held);
  std::set<uint32_t> holders;
  for (const Held& share : held) holders.insert(share.rank);
  Status merged = drafted.merge();
  EXPECT_EQ(merged.code(), merge_says.empty() ? CKPT_OK : CKPT_MISMATCH) << merged.message();
  EXPECT_NE(merged.message().find(merge_says), std::string::npos) << merged.message();
  drafted.commit(Draft(IndexKind::kManifest)
                     .tensor("t", CKPT_DTYPE_U8, extents)
                     .list(std::vector<uint32_t>(holders.begin(), holders.end())));
  auto checkpoint = drafted.open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  const Status read = (*checkpoint)->pieces((*checkpoint)->find("t")->tensor).status();
  EXPECT_EQ(read.code(), reader_says.empty() ? CKPT_OK : CKPT_FORMAT) << read.message();
  EXPECT_NE(read.message().find(reader_says), std::string::npos) << read.message();
  for (const Status* status : {&std::as_const(merged), &read})
    if (!status->ok()) {
      EXPECT_NE(status->message().find("tensor \"t\""), std::string::npos) << status->message();
      EXPECT_TRUE(status->detail("tensor") && *status->detail("tensor") == "t");
    }
}

TEST(Together, SlabsRangesGridsAndSharesInAnyOrderCover) {
  const std::vector<std::vector<Held>> covers{
      {{0, {}}},
      {{0, {}, 0, 5}, {1, {}, 5, 19}},
      {{1, {}, 0, 5}, {0, {}, 5, 19}},
      {{0, {}, 0, 5}, {0, {}, 7, 17}, {1, {}, 5, 2}},
      {{0, box({0, 0}, {1, 6})}, {0, box({1, 0}, {2, 6})}, {1, box({3, 0}, {1, 6})}},
      {{0, box({2, 0}, {2, 6})}, {1, box({0, 0}, {2, 6})}},
      {{0, box({0, 0}, {4, 1})}, {1, box({0, 1}, {4, 5})}},
      {{0, flat(0, 5)}, {1, flat(5, 19)}},
      {{0, flat(5, 19)}, {1, flat(0, 5)}},
      {{0, flat(0, 12)}, {1, box({2, 0}, {2, 6})}},
      {{0, flat(0, 12), 0, 6}, {3, flat(0, 12), 6, 6}, {1, box({2, 0}, {2, 6})}}};
  for (const auto& held : covers) expect_judged({4, 6}, held, "", "");
  expect_judged({}, {{2, {}}}, "", "");
}

TEST(Together, GapsDoublesAndForeignRegionsAreRefusedWithTheName) {
  auto refused = [](const std::vector<Held>& held, std::string_view merge_says, std::string_view reader_says) {
    expect_judged({4, 6}, held, merge_says, reader_says);
  };
  const std::string_view gap = "no region", twice = "hold the same";
  refused({{0, {}, 0, 23}}, "no rank holds element 23", "only 23 of 24 elements");
  refused({{0, {}, 1, 23}}, "no rank holds element 0", "in no part");
  refused({{0, {}, 0, 5}, {1, {}, 6, 18}}, "no rank holds element 5", "in no part");
  refused({{0, {}, 0, 5}, {1, {}, 4, 20}}, "both hold element 4", "in two parts");
  refused({{0, {}}, {1, {}}}, "both hold element 0", "in two parts");
  refused({{0, kLeft, 0, 5}, {1, kRight}}, "no rank holds element 5", "only 5 of 12");
  refused({{0, box({0, 0}, {3, 6})}}, gap, gap);
  refused({{0, box({0, 0}, {1, 6})}, {1, box({2, 0}, {2, 6})}}, gap, gap);
  refused({{0, box({0, 0}, {2, 6})}, {1, box({2, 0}, {2, 5})}}, gap, gap);
  refused({{0, box({0, 0}, {2, 6})}, {1, box({1, 0}, {3, 6})}}, twice, twice);
  refused({{0, box({0, 0}, {2, 6})}, {1, box({2, 0}, {2, 6})}, {2, box({3, 5}, {1, 1})}}, twice, twice);
  refused({{0, {}}, {1, box({3, 5}, {1, 1})}}, twice, twice);
  refused({{0, flat(0, 5)}, {1, flat(6, 18)}}, gap, gap);
  refused({{0, flat(0, 5)}, {1, flat(4, 20)}}, twice, twice);
  refused({{0, flat(0, 12)}, {1, box({1, 0}, {3, 6})}}, twice, twice);
}

TEST(Together, AMergeNamesTheRanksThatContradict) {
  Drafted drafted = parts_of({4, 6}, {{0, flat(0, 5)}, {2, flat(4, 10)}, {3, flat(14, 10)}});
  const Status merged = drafted.merge();
  ASSERT_TRUE(merged.detail("ranks"));
  EXPECT_EQ(*merged.detail("ranks"), "0, 2");
}

// ---- what a reader finds where a grid sends it ----

std::string read_by_grid(const std::vector<Held>& held, const Box* wanted = nullptr,
                         const std::vector<uint32_t>& parts = {0, 2, 1, 3}) {
  Drafted drafted = parts_of({4, 6}, held);
  drafted.commit(Draft(IndexKind::kManifest).tensor("t", CKPT_DTYPE_U8, {4, 6}).grid({1, 2}, 2, parts));
  auto checkpoint = drafted.open();
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  return parts_read(**checkpoint, wanted);
}

TEST(GridPieces, AreThoseOfTheCellsThatABoxMeets) {
  const std::vector<Held> held{{0, kLeft, 0, 6}, {2, kLeft, 6, 6}, {1, kRight, 0, 6}, {3, kRight, 6, 6}};
  auto read = [&](std::initializer_list<uint64_t> offset, std::initializer_list<uint64_t> extent) {
    const Box wanted = box(offset, extent).box;
    return read_by_grid(held, &wanted);
  };
  EXPECT_EQ(read_by_grid(held), "0 1 2 3");
  EXPECT_EQ(read({0, 0}, {4, 6}), "0 1 2 3");
  EXPECT_EQ(read({0, 2}, {1, 2}), "0 1 2 3");
  EXPECT_EQ(read({1, 0}, {3, 3}), "0 2");
  EXPECT_EQ(read({0, 2}, {1, 1}), "0 2");
  EXPECT_EQ(read({3, 3}, {1, 3}), "1 3");
  EXPECT_EQ(read({0, 0}, {0, 6}), "") << "an empty box";
  EXPECT_EQ(read({4, 6}, {0, 0}), "");
  EXPECT_EQ(read_by_grid({{0, kLeft, 0, 6}, {2, kLeft, 6, 6}, {1, kRight}}, nullptr, {0, 2, 1, 1}), "0 1 2");
}

TEST(GridPieces, ThatAreMissingDoubleOrForeignAreRefusedWithTheName) {
  auto refused = [](const std::vector<Held>& held, std::string_view why) {
    const std::string said = read_by_grid(held);
    EXPECT_NE(said.find("tensor \"t\""), std::string::npos) << said;
    EXPECT_NE(said.find(why), std::string::npos) << said;
  };
  const Held left[] = {{0, kLeft, 0, 6}, {2, kLeft, 6, 6}};
  refused({left[0], left[1], {1, kRight, 0, 6}, {3, kRight, 6, 5}}, "only 11 of 12");
  refused({left[0], left[1], {1, kRight, 0, 6}, {3, kRight, 5, 7}}, "in two parts");
  refused({left[0], left[1], {1, kRight, 0, 6}, {3, kRight, 7, 5}}, "in no part");
  refused({left[0], left[1], {1, kRight}, {3, kLeft}}, "PART_003 holds nothing of it");
  refused({left[0], left[1], {1, kRight}, {3, {}}}, "PART_003 holds nothing of it");
  refused({left[0], left[1], {1, box({0, 3}, {3, 3})}, {3, kRight}}, "PART_001 holds nothing of it");
  refused({left[0], left[1], {1, kRight}}, "PART_003 does not hold it");
}

TEST(Pieces, ComeFromPartsThatDescribeTheTensorAsTheManifestDoes) {
  auto said = [](Draft part) {
    Drafted drafted;
    drafted.add_part(std::move(part));
    drafted.commit(Draft(IndexKind::kManifest, 1).tensor("t", CKPT_DTYPE_U8, {6}).list({0}));
    auto checkpoint = drafted.open();
    return checkpoint.ok() ? parts_read(**checkpoint) : checkpoint.status().message();
  };
  auto part = [](std::string_view name, uint16_t dtype, const Extents& extents) {
    return Draft(IndexKind::kPart, 1).tensor(name, dtype, extents);
  };
  const std::string_view differs = "PART_000 does not hold it as the manifest says";
  EXPECT_EQ(said(part("t", CKPT_DTYPE_U8, {6}).region({}).segment(0, 6, {chunk(4096, 6)})), "0");
  EXPECT_NE(said(part("t", CKPT_DTYPE_I8, {6}).region({}).segment(0, 6, {chunk(4096, 6)})).find(differs),
            std::string::npos);
  EXPECT_NE(said(part("t", CKPT_DTYPE_U8, {2, 3}).region({}).segment(0, 6, {chunk(4096, 6)})).find(differs),
            std::string::npos);
  EXPECT_NE(said(part("s", CKPT_DTYPE_U8, {6}).region({}).segment(0, 6, {chunk(4096, 6)})).find(differs),
            std::string::npos);
  EXPECT_NE(said(part("t", CKPT_DTYPE_U8, {6})).find("PART_000 holds nothing of it"), std::string::npos);
  Draft other = part("t", CKPT_DTYPE_U8, {6}).region({}).segment(0, 6, {chunk(4096, 6)});
  other.builder.summary.save_id.lo++;
  EXPECT_NE(said(other).find("that of another save"), std::string::npos);
}

// ---- which indexes are read ----

// So much text that the indexes of all parts do not fit into the manifest.
Drafted without_copies(const std::vector<Held>& held) {
  Drafted drafted, small = parts_of({4, 6}, held);
  for (uint32_t rank = 0; rank < 4; rank++) {
    Draft part(IndexKind::kPart);
    for (const Held& share : held)
      if (share.rank == rank)
        part.tensor("t", CKPT_DTYPE_U8, {4, 6}).region(share.region).segment(share.start, 6, {chunk(4096, 6)});
    drafted.add_part(part.attr("t", "rank " + std::to_string(rank), std::string(300000, 'x')));
  }
  return drafted;
}

TEST(PartIndexes, OfTheCellsThatABoxMeetsAreReadAndNoOthers) {
  Drafted drafted = without_copies({{0, kLeft, 0, 6}, {2, kLeft, 6, 6}, {1, kRight, 0, 6}, {3, kRight, 6, 6}});
  ASSERT_TRUE(drafted.merge().ok());
  std::map<std::string, int> opened;
  drafted.shell->before([&](std::string_view operation, std::string_view key) {
    if (operation == "open") opened[std::string(key)]++;
    return Ok();
  });
  auto checkpoint = drafted.open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ(layout_of(**checkpoint), "grid 1x2 of 2: 0 2 1 3");
  EXPECT_EQ(opened, (std::map<std::string, int>{{"c/MANIFEST", 1}}));
  const Box wanted = box({0, 4}, {4, 2}).box;
  EXPECT_EQ(parts_read(**checkpoint, &wanted), "1 3");
  EXPECT_EQ(parts_read(**checkpoint, &wanted), "1 3");
  EXPECT_EQ(opened, (std::map<std::string, int>{{"c/MANIFEST", 1}, {"c/PART_001", 1}, {"c/PART_003", 1}}));
  EXPECT_EQ(parts_read(**checkpoint), "0 1 2 3");
  EXPECT_EQ(opened.size(), 5u);
}

TEST(PartIndexes, AreCopiedIntoTheManifestUpTo1MiB) {
  const size_t empty = Draft(IndexKind::kPart, 1).attr("", "k", "").encode().bytes.size();
  for (auto [size, copied] : {std::pair{(1 << 20) - 64, true}, {1 << 20, true}, {(1 << 20) + 64, false}}) {
    Drafted drafted;
    drafted.add_part(Draft(IndexKind::kPart, 1).attr("", "k", std::string(static_cast<size_t>(size) - empty, 'x')));
    const uint64_t takes = round_up(drafted.indexes[0].bytes.size(), 64);
    ASSERT_EQ(takes, static_cast<uint64_t>(size));
    ASSERT_TRUE(drafted.merge().ok());
    auto slot = peek_slot(*drafted.inner, "c");
    ASSERT_TRUE(slot.ok()) << slot.status().message();
    EXPECT_EQ(slot->trailer.copies_size, copied ? takes : 0);
    auto checkpoint = drafted.open();
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    auto index = (*checkpoint)->part_index(0);
    ASSERT_TRUE(index.ok()) << index.status().message();
    EXPECT_TRUE((*index)->load_all().ok());
  }
}

TEST(PartIndexes, ThatAreCopiedNeedNoParts) {
  Drafted drafted = parts_of({4, 6}, {{0, kLeft}, {1, kRight}});
  ASSERT_TRUE(drafted.merge().ok());
  for (const char* part : {"c/PART_000", "c/PART_001", "c/PART_002", "c/PART_003"})
    ASSERT_TRUE(drafted.inner->remove(part, false).ok());
  auto checkpoint = drafted.open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ(parts_read(**checkpoint), "0 1");
}

TEST(PartIndexes, ThatAreNoLongerThoseOfTheManifestAreCorrupt) {
  Drafted drafted = without_copies({{0, kLeft, 0, 6}, {2, kLeft, 6, 6}, {1, kRight, 0, 6}, {3, kRight, 6, 6}});
  ASSERT_TRUE(drafted.merge().ok());
  auto part = *drafted.inner->get("c/PART_002", uint64_t{1} << 30);
  part[drafted.index_offset + 100] ^= std::byte{1};
  drafted.put("c/PART_002", part);
  auto checkpoint = drafted.open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  const Status read = (*checkpoint)->pieces((*checkpoint)->find("t")->tensor).status();
  expect_error(read, CKPT_CORRUPT, "a page of the index");
  EXPECT_EQ(*read.detail("part"), "PART_002");
  const Box right = kRight.box;
  EXPECT_EQ(parts_read(**checkpoint, &right), "1 3");
}

}  // namespace
}  // namespace ckpt::checkpoint
