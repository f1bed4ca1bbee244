// The index and the file around it: what the builder makes opens with the same content, in pages cut as FORMAT §6 says.
#include "format/framing.h"
#include "format/index_draft.h"
#include "format/slot.h"

namespace ckpt::format {
namespace {

TEST(IndexBuilder, WhatWasAddedToAManifestIsFoundAgain) {
  Draft draft = some_manifest();
  const EncodedIndex index = draft.encode();
  auto opened = open_all(index, IndexKind::kManifest);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const Root& root = opened->root;
  const Page& page = opened->pages[0];
  EXPECT_TRUE(root.summary == draft.builder.summary);
  EXPECT_EQ(root.name_count, 5u);
  ASSERT_EQ(page.tensors.size(), 3u);
  EXPECT_EQ(page.text(page.tensors[1].name()), "b");
  EXPECT_EQ(page.shape_of(page.tensors[0]), shape({4, 6}));
  EXPECT_EQ(page.holding_of(page.tensors[0]).stored_bytes(), 100u);
  EXPECT_TRUE(root.is_grid(root.layouts[page.holding_of(page.tensors[0]).layout()]));
  EXPECT_EQ(page.find_tensor("c"), &page.tensors[2]);
  EXPECT_EQ(page.find_tensor("aa"), nullptr);
  EXPECT_EQ(page.find_tensor(""), nullptr);
  EXPECT_EQ(page.text(page.find_alias("tied.view")->target()), "a");
  EXPECT_EQ(page.view_of(page.aliases[1])[3], 6u);
  EXPECT_TRUE(page.view_of(page.aliases[0]).empty());
  EXPECT_EQ(page.find_alias("a"), nullptr);
  EXPECT_EQ(page.find_object("shared")->size(), 7u);
  EXPECT_EQ(page.attrs_of("a").size(), 2u);
  EXPECT_EQ(page.text(page.attrs_of("a")[0].value()), "line\nbreak");
  EXPECT_EQ(page.attrs_of("").size(), 1u);
  EXPECT_TRUE(page.attrs_of("b").empty());
  EXPECT_EQ(opened->part_pages[0].parts[3].rank(), 3u);
}

TEST(IndexBuilder, WhatWasAddedToAPartIsFoundAgain) {
  const EncodedIndex index = some_part().encode();
  auto opened = open_all(index, IndexKind::kPart);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const Page& page = opened->pages[0];
  EXPECT_EQ(page.regions_of(page.tensors[0]).size(), 2u);
  EXPECT_EQ(page.region_of(page.regions[1], 2), box({0, 2}, {4, 4}));
  EXPECT_EQ(page.region_of(page.regions[2], 1), flat(0, 7));
  EXPECT_EQ(page.region_of(page.regions[3], 0), Region{});
  EXPECT_EQ(page.segments_of(page.regions[2])[1].start(), 5u);
  EXPECT_EQ(page.segments[2].filter_width(), 2);
  EXPECT_EQ(page.chunks_of(page.segments[1])[1].offset(), 4144u);
  EXPECT_TRUE(page.regions_of(page.tensors[2]).empty());
  EXPECT_EQ(page.chunks_of(page.objects[0])[1].raw_size(), 904u);
  EXPECT_EQ(as_text(page.inline_data.subspan(page.objects[3].inline_offset(), page.objects[3].size())), kText);
  EXPECT_EQ(opened->root.groups[0].entry_count(), 3u);
  EXPECT_EQ(opened->root.groups[0].list().stored_size(), 50u);
}

TEST(IndexBuilder, EqualRecordsGiveEqualBytes) {
  for (auto* make : {some_manifest, some_part}) {
    const EncodedIndex a = make().encode(), b = make().encode();
    EXPECT_TRUE(std::equal(a.bytes.begin(), a.bytes.end(), b.bytes.begin(), b.bytes.end()));
    EXPECT_EQ(a.root_digest, b.root_digest);
  }
}

TEST(IndexBuilder, AnIndexOfNothingHasOneEmptyPage) {
  for (IndexKind kind : {IndexKind::kManifest, IndexKind::kPart}) {
    auto opened = open_all(Draft(kind, 1).encode(), kind);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    EXPECT_EQ(opened->root.pages.size(), 1u);
    EXPECT_TRUE(opened->pages[0].tensors.empty() && opened->pages[0].objects.empty());
  }
}

TEST(IndexBuilder, SummaryComesBackAsItWas) {
  Summary summary = summary_of(3);
  summary.rebuilt = true;
  summary.step = -1;
  auto back = decode_summary(encode_summary(summary));
  ASSERT_TRUE(back.ok());
  EXPECT_TRUE(*back == summary);
}

// ---- layouts ----

// "first+stride*count" of each run.
std::string runs_of(const std::vector<uint32_t>& parts) {
  Draft draft(IndexKind::kManifest, 1000);
  draft.tensor("t", CKPT_DTYPE_U8, {parts.size()}).grid({parts.size()}, 1, parts);
  const EncodedIndex index = draft.encode();
  auto opened = open_all(index, IndexKind::kManifest);
  EXPECT_TRUE(opened.ok()) << opened.status().message();
  std::vector<uint32_t> back;
  opened->root.for_each_part(opened->root.layouts[0], 0, parts.size(), [&](uint32_t part) { back.push_back(part); });
  EXPECT_EQ(back, parts);
  for (size_t i = 0; i < parts.size(); i++)
    opened->root.for_each_part(opened->root.layouts[0], i, 1, [&](uint32_t part) { EXPECT_EQ(part, parts[i]); });
  std::string text;
  for (const fb::PartRun& run : opened->root.runs)
    text += (text.empty() ? "" : " ") + strformat("{}+{}*{}", run.first(), run.stride(), run.count());
  return text;
}

TEST(Layouts, RunsAreAsLongAsPossibleFromTheFront) {
  EXPECT_EQ(runs_of({7}), "7+0*1");
  EXPECT_EQ(runs_of({0, 1, 2, 3}), "0+1*4");
  EXPECT_EQ(runs_of({0, 8, 16, 1, 9, 17}), "0+8*3 1+8*3");
  EXPECT_EQ(runs_of({9, 6, 3, 0, 1}), "9+-3*4 1+0*1");
  EXPECT_EQ(runs_of({5, 5, 5, 6}), "5+0*3 6+0*1");
  EXPECT_EQ(runs_of({0, 1, 3, 4, 6}), "0+1*2 3+1*2 6+0*1");
}

TEST(Layouts, EqualOnesAreOneInTheOrderOfTheirFirstUse) {
  IndexBuilder builder;
  const uint32_t parts[] = {0, 1, 2, 3};
  const uint64_t square[] = {2, 2}, row[] = {1, 4};
  EXPECT_EQ(builder.list_layout(parts), 0u);
  EXPECT_EQ(builder.grid_layout(square, 1, parts), 1u);
  EXPECT_EQ(builder.grid_layout(row, 1, parts), 2u);
  EXPECT_EQ(builder.grid_layout(std::span(row).first(1), 4, parts), 3u);
  EXPECT_EQ(builder.list_layout(std::span(parts).first(2)), 4u);
  EXPECT_EQ(builder.list_layout(parts), 0u);
  EXPECT_EQ(builder.grid_layout(row, 1, parts), 2u);
}

// ---- pages ----

// Tensors, aliases, objects and attributes by the thousand. Each name is one of four kinds of things, or several.
Draft many(IndexKind kind, size_t count) {
  Draft draft(kind);
  const std::vector<uint32_t> parts{0, 1, 2};
  uint64_t offset = 4096;
  auto each = [&](auto&& add) {
    for (size_t i = 0; i < count; i++) add(i, "layers." + std::to_string(100000 + i) + std::string(i % 37, '.'));
  };
  each([&](size_t i, const std::string& name) {
    if (i % 5 == 4) return;
    draft.tensor(name, CKPT_DTYPE_U8, {2, 4});
    if (kind == IndexKind::kManifest) return (void)draft.list(parts);
    if (i % 3 == 0)
      draft.region(box({0, 0}, {1, 3})).segment(0, 1, {chunk(offset, 1)}).segment(2, 1, {chunk(offset + 1, 1)});
    draft.region(i % 3 ? Region{} : flat(4, 4)).segment(0, 2, {chunk(offset + 2, 1), chunk(offset + 3, 1)});
    offset += 4;
  });
  each([&](size_t i, const std::string& name) {
    if (i % 5 == 4)
      draft.alias(name, "layers.100000", i % 2 ? std::vector<uint64_t>{} : std::vector<uint64_t>{1, 2, 3});
  });
  each([&](size_t i, const std::string& name) {
    if (i % 7 != 6) return;
    if (kind == IndexKind::kManifest) return (void)draft.object(name, i % 2, i % 2 ? parts : std::vector<uint32_t>{0});
    draft.inline_object(name, 0, kText);
  });
  each([&](size_t i, const std::string& name) {
    if (i % 11 == 0) draft.attr(name, "a", "x").attr(name, "b", std::string(i % 1000 ? 5 : 70000, 'x'));
  });
  return draft;
}

// What the records of a page take.
uint64_t bytes_of(const Page& page) {
  return page.names.size() + page.numbers.size_bytes() + page.tensors.size_bytes() + page.holdings.size_bytes() +
         page.regions.size_bytes() + page.segments.size_bytes() + page.chunks.size_bytes() + page.objects.size_bytes() +
         page.inline_data.size() + page.aliases.size_bytes() + page.attrs.size_bytes();
}

// What the records of one name take, and their number.
uint64_t bytes_of(const Page& page, std::string_view name) {
  uint64_t bytes = 0;
  if (const fb::Tensor* tensor = page.find_tensor(name)) {
    bytes += sizeof *tensor + name.size() + 1 + 8 * uint64_t{tensor->ndim()};
    bytes += page.holdings.empty() ? 0 : sizeof(fb::Holding);
    for (const fb::Region& region : page.regions_of(*tensor)) {
      bytes += sizeof region + 8 * region_number_count(static_cast<RegionKind>(region.kind()), tensor->ndim());
      for (const fb::Segment& segment : page.segments_of(region))
        bytes += sizeof segment + page.chunks_of(segment).size_bytes();
    }
  }
  if (const fb::Alias* alias = page.find_alias(name))
    bytes += sizeof *alias + name.size() + alias->target().size() + 2 + page.view_of(*alias).size_bytes();
  if (const fb::Object* object = page.find_object(name))
    bytes += sizeof *object + name.size() + object->media_type().size() + 2 + page.chunks_of(*object).size_bytes() +
             (object->placement() == 0 ? object->size() : 0);
  for (const fb::Attr& attr : page.attrs_of(name))
    bytes += sizeof attr + name.size() + attr.key().size() + attr.value().size() + 3;
  return bytes;
}

std::set<std::string_view> names_on(const Page& page) {
  std::set<std::string_view> names;
  for (const auto& tensor : page.tensors) names.insert(page.text(tensor.name()));
  for (const auto& alias : page.aliases) names.insert(page.text(alias.name()));
  for (const auto& object : page.objects) names.insert(page.text(object.name()));
  for (const auto& attr : page.attrs) names.insert(page.text(attr.owner()));
  return names;
}

TEST(Pages, EndBeforeTheNameThatWouldExceed64KiB) {
  for (IndexKind kind : {IndexKind::kManifest, IndexKind::kPart}) {
    const EncodedIndex index = many(kind, 10000).encode();
    auto opened = open_all(index, kind, uint64_t{1} << 40);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    const auto& pages = opened->pages;
    EXPECT_GT(pages.size(), 15u);
    size_t names = 0, too_large = 0;
    for (size_t i = 0; i < pages.size(); i++) {
      const auto here = names_on(pages[i]);
      uint64_t sum = 0;
      for (std::string_view name : here) sum += bytes_of(pages[i], name);
      EXPECT_EQ(sum, bytes_of(pages[i])) << "records that belong to no name";
      EXPECT_TRUE(sum <= 65536 || here.size() == 1) << sum;
      too_large += sum > 65536;
      if (i + 1 < pages.size()) {
        const std::string_view next = opened->root.first_name(opened->root.pages[i + 1]);
        EXPECT_EQ(next, *names_on(pages[i + 1]).begin());
        EXPECT_GT(sum + bytes_of(pages[i + 1], next), 65536u);
      }
      names += here.size();
    }
    EXPECT_EQ(names, 10000u);
    EXPECT_EQ(too_large, 1u);  // that of layers.100000 and its long attribute
    EXPECT_EQ(opened->root.name_count, 10000u);
  }
}

TEST(Pages, TheRootFindsThePageOfEachNameAndPosition) {
  const EncodedIndex index = many(IndexKind::kManifest, 10000).encode();
  auto opened = open_all(index, IndexKind::kManifest);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  uint64_t position = 0, object = 0;
  for (size_t i = 0; i < opened->pages.size(); i++) {
    const Page& page = opened->pages[i];
    for (std::string_view name : names_on(page)) EXPECT_EQ(opened->root.page_of(name), i);
    for (size_t end = position + page.tensors.size() + page.aliases.size(); position < end; position++)
      EXPECT_EQ(opened->root.page_of_name(position), i);
    for (const fb::Object& held : page.objects)
      for (uint64_t end = object + (held.scope() ? 3 : 1); object < end; object++)
        EXPECT_EQ(opened->root.page_of_object(object), i);
  }
  EXPECT_EQ(position, 10000u);
  EXPECT_EQ(object, opened->root.summary.object_count);
  EXPECT_EQ(opened->root.page_of(""), 0u);
  EXPECT_EQ(opened->root.page_of("zzz"), opened->pages.size() - 1);
}

TEST(Pages, OfPartsHold512) {
  for (uint32_t world : {1u, 512u, 513u, 1024u, 1300u}) {
    auto opened = open_all(Draft(IndexKind::kManifest, world).encode(), IndexKind::kManifest);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    EXPECT_EQ(opened->part_pages.size(), (world + 511) / 512);
    EXPECT_EQ(opened->root.parts_per_page, 512u);
  }
}

// ---- the file in the slot ----

std::vector<std::byte> file_of(Draft draft, std::string_view copies = "") {
  std::string padded(copies);
  padded.resize(round_up(copies.size(), 64));
  Buffer file = frame_manifest(draft.encode(), as_bytes(padded), draft.builder.summary);
  return {file.begin(), file.end()};
}

TEST(Slot, TheEndOfAManifestSaysWhatItIs) {
  Draft draft = some_manifest();
  const EncodedIndex index = draft.encode();
  const std::vector<std::byte> file = file_of(draft, "copies");
  uint64_t needed = 0;
  for (size_t size = 0; size <= file.size(); size++) {
    auto slot = open_slot(Bytes(file).last(size), file.size(), &needed);
    if (size < kManifestTrailerSize) {
      EXPECT_EQ(slot.status().code(), CKPT_FORMAT);
    } else if (size < needed) {
      EXPECT_EQ(slot.status().code(), CKPT_INVALID);
    } else {
      ASSERT_TRUE(slot.ok()) << size;
      EXPECT_TRUE(slot->committed && slot->summary == draft.builder.summary);
      EXPECT_EQ(slot->trailer.index_size, index.bytes.size());
      EXPECT_EQ(slot->trailer.root_size, index.root_size);
      EXPECT_EQ(slot->trailer.root_digest, index.root_digest);
      EXPECT_EQ(slot->trailer.copies_size, 64u);
      EXPECT_EQ(as_text(Bytes(file).subspan(manifest_copies_offset(slot->trailer), 6)), "copies");
    }
  }
  EXPECT_GT(needed, kManifestTrailerSize);
  EXPECT_LT(needed, file.size());
}

TEST(Slot, TombstoneComesBackAsItWas) {
  Tombstone stone{
      .save_id = {1, 2}, .rank = 3, .status = CKPT_TIMEOUT, .reason = "rank 5 did not come", .closed_by_token = 9};
  Buffer file = frame_tombstone(stone);
  uint64_t needed = 0;
  auto slot = open_slot(file, file.size(), &needed);
  ASSERT_TRUE(slot.ok()) << slot.status().message();
  EXPECT_FALSE(slot->committed);
  EXPECT_EQ(slot->tombstone.save_id, stone.save_id);
  EXPECT_EQ(slot->tombstone.rank, 3u);
  EXPECT_EQ(slot->tombstone.status, CKPT_TIMEOUT);
  EXPECT_EQ(slot->tombstone.reason, stone.reason);
  EXPECT_EQ(slot->tombstone.closed_by_token, 9u);
  EXPECT_EQ(open_slot(Bytes(file).last(88), file.size(), &needed).status().code(), CKPT_INVALID);
  EXPECT_EQ(needed, file.size());
}

TEST(Slot, EveryFlippedBitOfTheEndIsRefused) {
  Buffer stone = frame_tombstone({.save_id = {1, 2}, .reason = "because"});
  for (auto file : {file_of(some_manifest(), "c"), std::vector<std::byte>(stone.begin(), stone.end())}) {
    uint64_t needed = 0;
    ASSERT_TRUE(open_slot(file, file.size(), &needed).ok());
    for (size_t bit = (file.size() - needed) * 8; bit < file.size() * 8; bit++) {
      file[bit / 8] ^= std::byte(1 << bit % 8);
      auto slot = open_slot(file, file.size(), &needed);
      ASSERT_FALSE(slot.ok()) << "bit " << bit;
      ASSERT_TRUE(slot.status().code() == CKPT_CORRUPT || slot.status().code() == CKPT_FORMAT)
          << slot.status().message();
      file[bit / 8] ^= std::byte(1 << bit % 8);
    }
  }
}

TEST(Slot, EveryTruncationAndExtensionIsRefused) {
  const std::vector<std::byte> file = file_of(some_manifest(), "copies");
  uint64_t needed = 0;
  for (size_t size = 0; size < file.size(); size++) {
    ASSERT_FALSE(open_slot(Bytes(file).first(size), size, &needed).ok()) << size;
    ASSERT_FALSE(open_slot(Bytes(file).last(size), size, &needed).ok()) << size;
  }
  EXPECT_EQ(open_slot(file, file.size() + 8, &needed).status().code(), CKPT_FORMAT);
  EXPECT_EQ(open_slot(file, file.size() + 64, &needed).status().code(), CKPT_FORMAT);
}

TEST(Slot, GapsOfAWholeManifestAreZero) {
  std::vector<std::byte> file = file_of(some_manifest(), "copies");
  uint64_t needed = 0;
  auto slot = open_slot(file, file.size(), &needed);
  ASSERT_TRUE(slot.ok());
  EXPECT_TRUE(check_manifest_gaps(file, slot->trailer).ok());
  ASSERT_GT(manifest_copies_offset(slot->trailer), slot->trailer.index_size) << "no gap to test";
  file[slot->trailer.index_size] = std::byte{1};
  EXPECT_EQ(check_manifest_gaps(file, slot->trailer).code(), CKPT_CORRUPT);
}

}  // namespace
}  // namespace ckpt::format
