// The index and the file around it: what the builder makes opens with the same content, and no bit of it can change
// unnoticed.
#include "format/framing.h"
#include "format/index_draft.h"

namespace ckpt::format {
namespace {

TEST(IndexBuilder, WhatWasAddedIsFoundAgain) {
  Draft draft = complete();
  auto bytes = draft.encode();
  auto opened = Index::open(bytes, IndexKind::kManifest);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const Index& index = *opened;
  EXPECT_TRUE(index.summary == draft.builder.summary);
  ASSERT_EQ(index.tensors.size(), 4u);
  EXPECT_EQ(index.text(index.tensors[1].name()), "b");
  EXPECT_EQ(index.shape_of(index.tensors[0]), shape({4, 6}));
  EXPECT_EQ(index.segments_of(index.tensors[0]).size(), 2u);
  EXPECT_EQ(index.region_of(index.segments[1], 2), box({0, 2}, {4, 4}));
  EXPECT_EQ(index.region_of(index.segments[3], 1), flat(7, 3));
  EXPECT_EQ(index.chunks_of(index.segments[1])[1].offset(), 4128u);
  EXPECT_EQ(index.segments[2].filter_width(), 2);
  EXPECT_TRUE(index.segments_of(index.tensors[2]).empty());
  EXPECT_EQ(index.find_tensor("d"), &index.tensors[3]);
  EXPECT_EQ(index.find_tensor("aa"), nullptr);
  EXPECT_EQ(index.find_tensor(""), nullptr);
  EXPECT_EQ(index.text(index.find_alias("tied.view")->target()), "a");
  EXPECT_EQ(index.find_alias("a"), nullptr);
  EXPECT_EQ(index.chunks_of(index.objects[0]).size(), 2u);
  EXPECT_EQ(as_text(index.inline_data.subspan(index.objects[2].inline_offset(), index.objects[2].size())),
            kText.substr(1));
  EXPECT_EQ(index.attrs_of("a").size(), 2u);
  EXPECT_EQ(index.text(index.attrs_of("a")[0].value()), "line\nbreak");
  EXPECT_EQ(index.attrs_of("").size(), 1u);
  EXPECT_TRUE(index.attrs_of("b").empty());
}

TEST(IndexBuilder, EqualRecordsGiveEqualBytes) {
  EXPECT_EQ(complete().encode(), complete().encode());
  EXPECT_EQ(encode_summary(summary_of(3)), encode_summary(summary_of(3)));
}

TEST(IndexBuilder, IndexOfNothingOpens) {
  Draft draft(1);
  auto bytes = draft.encode();
  auto index = Index::open(bytes, IndexKind::kManifest);
  ASSERT_TRUE(index.ok()) << index.status().message();
  EXPECT_TRUE(index->tensors.empty() && index->objects.empty() && index->attrs.empty());
}

TEST(IndexBuilder, SummaryComesBackAsItWas) {
  Summary summary = summary_of(3);
  summary.rebuilt = true;
  summary.step = -1;
  auto back = decode_summary(encode_summary(summary));
  ASSERT_TRUE(back.ok());
  EXPECT_TRUE(*back == summary);
}

// ---- the file in the slot ----

TEST(Slot, ManifestAndItsTailSayTheSame) {
  Draft draft = complete();
  auto index = draft.encode();
  auto file = draft.framed();
  EXPECT_EQ(file.size() % 8, 0u);
  auto slot = open_slot(file);
  ASSERT_TRUE(slot.ok()) << slot.status().message();
  EXPECT_TRUE(slot->committed);
  EXPECT_TRUE(std::equal(index.begin(), index.end(), slot->index.begin(), slot->index.end()));
  EXPECT_TRUE(slot->summary == draft.builder.summary);
  uint64_t needed = 0;
  for (size_t size = 0; size <= file.size(); size++) {
    auto tail = open_slot_tail(Bytes(file).last(size), file.size(), &needed);
    if (size < kManifestTrailerSize) {
      EXPECT_EQ(tail.status().code(), CKPT_FORMAT);
    } else if (size < needed) {
      EXPECT_EQ(tail.status().code(), CKPT_INVALID);
    } else {
      ASSERT_TRUE(tail.ok()) << size;
      EXPECT_TRUE(tail->summary == draft.builder.summary);
    }
  }
  EXPECT_GT(needed, kManifestTrailerSize);
  EXPECT_LE(needed, file.size());
}

TEST(Slot, TombstoneComesBackAsItWas) {
  Tombstone stone{
      .save_id = {1, 2}, .rank = 3, .status = CKPT_TIMEOUT, .reason = "rank 5 did not come", .closed_by_token = 9};
  auto file = frame_tombstone(stone);
  uint64_t needed = 0;
  for (auto slot : {open_slot(file), open_slot_tail(file, file.size(), &needed)}) {
    ASSERT_TRUE(slot.ok()) << slot.status().message();
    EXPECT_FALSE(slot->committed);
    EXPECT_EQ(slot->tombstone.save_id, stone.save_id);
    EXPECT_EQ(slot->tombstone.rank, 3u);
    EXPECT_EQ(slot->tombstone.status, CKPT_TIMEOUT);
    EXPECT_EQ(slot->tombstone.reason, stone.reason);
    EXPECT_EQ(slot->tombstone.closed_by_token, 9u);
  }
  EXPECT_EQ(open_slot_tail(Bytes(file).last(80), file.size(), &needed).status().code(), CKPT_INVALID);
}

TEST(Slot, EveryFlippedBitIsRefused) {
  Draft draft = complete();
  Tombstone stone{.save_id = {1, 2}, .reason = "because"};
  Buffer closed = frame_tombstone(stone);
  for (auto file : {draft.framed(), std::vector<std::byte>(closed.begin(), closed.end())})
    for (size_t bit = 0; bit < file.size() * 8; bit++) {
      file[bit / 8] ^= std::byte(1 << bit % 8);
      auto slot = open_slot(file);
      ASSERT_FALSE(slot.ok()) << "bit " << bit;
      ASSERT_TRUE(slot.status().code() == CKPT_CORRUPT || slot.status().code() == CKPT_FORMAT)
          << slot.status().message();
      file[bit / 8] ^= std::byte(1 << bit % 8);
    }
}

TEST(Slot, EveryTruncationAndExtensionIsRefused) {
  Draft draft = complete();
  auto file = draft.framed();
  for (size_t size = 0; size < file.size(); size++) {
    ASSERT_FALSE(open_slot(Bytes(file).first(size)).ok()) << size;
    if (size == 0) continue;
    ASSERT_FALSE(open_slot(Bytes(file).last(size)).ok()) << size;
  }
  auto longer = file;
  longer.insert(longer.begin(), 8, std::byte{0});
  EXPECT_EQ(open_slot(longer).status().code(), CKPT_FORMAT);
}

}  // namespace
}  // namespace ckpt::format
