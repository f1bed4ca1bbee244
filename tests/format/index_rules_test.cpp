// The rules of FORMAT §4 for the root: summary, pages, layouts, groups; and for records of parts and names.
#include "format/index_draft.h"

namespace ckpt::format {
namespace {

using namespace std::literals;

// ---- summary ----

TEST(RootRules, RevisionsAndFeaturesOfAnotherTimeAreRefused) {
  for (uint32_t revision : {0u, CKPT_FORMAT_REVISION + 1u}) {
    Draft draft = some_manifest();
    draft.builder.summary.revision = revision;
    EXPECT_EQ(decode_summary(encode_summary(draft.builder.summary)).status().code(), CKPT_REVISION);
    expect_refused(draft, "this library reads revision 1", CKPT_REVISION);
  }
  Draft draft = some_manifest();
  draft.builder.summary.required_features = uint64_t{1} << 63;
  EXPECT_EQ(decode_summary(encode_summary(draft.builder.summary)).status().code(), CKPT_REVISION);
  expect_refused(draft, "features that this library does not know", CKPT_REVISION);
}

TEST(RootRules, LabelAndRunAreNames) {
  for (const char* illegal : {"", ".hidden", "a/b", "a b"}) {
    Draft label = some_manifest(), run = some_manifest();
    label.builder.summary.label = run.builder.summary.run = illegal;
    expect_refused(label, "label");
    expect_refused(run, "run");
  }
}

TEST(RootRules, OtherBuffersAreNoRootAndNoPage) {
  const EncodedIndex index = some_manifest().encode();
  const auto opened = open_all(index, IndexKind::kManifest);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const std::vector<std::byte> zeros(256), summary = encode_summary(summary_of(1));
  const Bytes page = Bytes(index.bytes).first(opened->root.pages[0].size());
  for (Bytes other : {Bytes(), Bytes(zeros), Bytes(summary), page}) {
    const Status status = Root::open(other, IndexKind::kManifest, other.size()).status();
    EXPECT_NE(status.message().find("CKPR"), std::string::npos) << status.message();
  }
  for (Bytes other : {Bytes(), Bytes(zeros), Bytes(index.bytes).last(index.root_size)}) {
    const Status status = Page::open(other, opened->root, 0).status();
    EXPECT_NE(status.message().find("CKPI"), std::string::npos) << status.message();
  }
  std::vector<std::byte> odd(index.root_size + 1);  // a sound root, but its numbers are not aligned
  std::ranges::copy(Bytes(index.bytes).last(index.root_size), odd.begin() + 1);
  EXPECT_EQ(Root::open(Bytes(odd).subspan(1), IndexKind::kManifest, index.bytes.size()).status().code(), CKPT_FORMAT);
}

// ---- pages ----

// Three pages: "a" with a long attribute, "b" and "c", "d" with another one.
Draft of_three_pages() {
  Draft draft(IndexKind::kManifest);
  for (const char* name : {"a", "b", "d"}) draft.tensor(name, CKPT_DTYPE_U8, {2}).list({1});
  draft.alias("c", "a").object("a", 0, {0}).object("b", 1, {0, 1, 2});
  return draft.attr("a", "long", std::string(65400, 'x')).attr("d", "long", std::string(65400, 'x'));
}

TEST(RootRules, PagesFollowEachOtherAndTheRootFollowsThem) {
  const std::string_view why = "does not follow that before";
  expect_each_refused(of_three_pages(),
                      {{[](auto& at) { at.page(1).offset += 64; }, why},
                       {[](auto& at) { at.page(1).offset -= 64; }, why},
                       {[](auto& at) { at.page(0).offset = 64; }, why},
                       {[](auto& at) { at.page(1).size = 0; }, why},
                       {[](auto& at) { at.page(1).size = ~0u; }, "at most 2147483647 are allowed"},
                       {[](auto& at) { at.page(1).pad = 1; }, why},
                       {[](auto& at) { at.page(2).size = 16; }, "page 2 of the index is too small for"},
                       {[](auto& at) { at.part_page(0).size = ~0u; }, "at most 2147483647 are allowed"},
                       {[](auto& at) { at.part_page(0).size += 4096; }, "a page of parts does not follow that before"},
                       {[](auto& at) { at.part_page(0).offset += 64; }, "a page of parts does not follow that before"},
                       {[](auto& at) { at.part_page(0).size -= 64; }, "its root begins at"}});
}

TEST(RootRules, FirstNamesAscendFromNothing) {
  const std::string_view why = "does not follow that before";
  expect_each_refused(of_three_pages(),
                      {{[](auto& at) { at.page(1).first_size = 0; }, why},
                       {[](auto& at) { at.page(1).first = ~0u; }, why},
                       {[](auto& at) { at.page(1).first_size = ~0u; }, why},
                       {[](auto& at) { at.page(0).first = at.page(1).first, at.page(0).first_size = 1; }, why},
                       {[](auto& at) { at.part_page(0).first = at.page(1).first, at.part_page(0).first_size = 1; },
                        "a page of parts"}});
}

TEST(RootRules, PositionsOfNamesAndObjectsAreThoseOfThePages) {
  const std::string_view follow = "does not follow that before", count = "a page holds more or fewer names";
  expect_each_refused(of_three_pages(), {{[](auto& at) { at.page(0).name_first = 1; }, follow},
                                         {[](auto& at) { at.page(0).object_first = 1; }, follow},
                                         {[](auto& at) { at.part_page(0).name_first = 1; }, "a page of parts"},
                                         {[](auto& at) { at.part_page(0).object_first = 1; }, "a page of parts"},
                                         {[](auto& at) { at.page(1).name_first = 4; }, follow},
                                         {[](auto& at) { at.page(1).object_first = 5; }, follow},
                                         {[](auto& at) { at.page(2).name_first = 5; }, "too few names"},
                                         {[](auto& at) { at.page(1).name_first = 2; }, count},
                                         {[](auto& at) { at.page(1).name_first = 0; }, count},
                                         {[](auto& at) { at.page(1).object_first = 2; }, count},
                                         {[](auto& at) { at.page(1).object_first = 0; }, count}});
  Draft objects = of_three_pages();  // one for each rank that has one
  objects.builder.summary.object_count = 2;
  expect_refused(objects, "too few names or objects");
}

TEST(RootRules, RecordsLieOnThePageOfTheirName) {
  const std::string_view order = "is out of order";
  expect_each_refused(of_three_pages(),
                      {{[](auto& at) { at.write(at.tensor(0).name, "b"); }, "on the wrong page"},
                       {[](auto& at) { at.write(at.tensor(0, 1).name, "a", 1); }, "on the wrong page"},
                       {[](auto& at) { at.write(at.alias(0, 1).name, "a", 1); }, order},
                       {[](auto& at) { at.write(at.object(0, 1).name, "a", 1); }, order},
                       {[](auto& at) { at.write(at.object(0).name, "b"); }, order}});
  Draft part(IndexKind::kPart);  // whose attributes need no owner
  part.attr("a", "k", std::string(65500, 'x')).attr("b", "k", "");
  expect_each_refused(part, {{[](auto& at) { at.write(at.attr(0).owner, "b"); }, order},
                             {[](auto& at) { at.write(at.attr(0, 1).owner, "a", 1); }, order}});
}

TEST(RootRules, ARootHasASummaryNamesAndAPageAndAPageHasNames) {
  auto said = [](bool summary, bool names) {
    flatbuffers::FlatBufferBuilder builder;
    auto put = put_summary(builder, summary_of(1, IndexKind::kPart));
    auto text = builder.CreateString("");
    builder.Finish(fb::CreateRoot(builder, summary ? put : 0, names ? text : 0), "CKPR");
    const Bytes bytes = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
    return Root::open(bytes, IndexKind::kPart, bytes.size()).status().message();
  };
  EXPECT_EQ(said(false, true), "the root of the index has no summary or no names");
  EXPECT_EQ(said(true, false), "the root of the index has no summary or no names");
  EXPECT_EQ(said(true, true), "the index has no pages, or too few names or objects");
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(fb::CreatePage(builder), "CKPI");
  const Bytes page = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  EXPECT_EQ(Page::open(page, Root(), 0).status().message(), "a page has no names");
}

// ---- parts ----

TEST(PartRules, ThereAreAsManyAsRanksAndOnlyInAManifest) {
  auto ranks = [](uint32_t parts, uint32_t part_count, uint32_t world) {
    Draft draft(IndexKind::kManifest, parts);
    draft.builder.summary.part_count = part_count;
    draft.builder.summary.world_size = world;
    return draft;
  };
  expect_accepted(ranks(1, 1, 1));
  expect_accepted(ranks(512, 512, 512));
  expect_accepted(ranks(1025, 1025, 1025));
  expect_refused(ranks(4, 4, 5), "as many as there are ranks");
  expect_refused(ranks(4, 5, 4), "too small for 5 of them");
  expect_refused(ranks(0, 4, 4), "as many as there are ranks");
  expect_refused(ranks(512, 513, 513), "as many as there are ranks");
  expect_refused(ranks(513, 512, 512), "as many as there are ranks");
  expect_refused(ranks(4, 5, 5), "too small for 5 of them");
  expect_refused(ranks(5, 4, 4), "a page of 5 parts");
  Draft part = ranks(1, 0, 1);
  part.kind = IndexKind::kPart;
  expect_refused(part, "a part's index lists parts");
}

TEST(PartRules, RecordsAreInTheOrderOfRanksAndDescribeLegalFiles) {
  const std::string_view size = "of another save or of no legal size";
  expect_each_refused(some_manifest(), {{[](auto& at) { at.part(1).rank = 0; }, "part 1 is of rank 0"},
                                        {[](auto& at) { at.part(0).rank = 1; }, "part 0 is of rank 1"},
                                        {[](auto& at) { at.part(1).pad = 1; }, "part 1"},
                                        {[](auto& at) { at.part(1).pad2 = 1; }, "part 1"},
                                        {[](auto& at) { at.part(1).pad3 = 1; }, "part 1"},
                                        {[](auto& at) { at.part(1).kind = 1; }, "part 1 is a base"},
                                        {[](auto& at) { at.part(1).kind = 2; }, "part of kind 2", CKPT_UNSUPPORTED},
                                        {[](auto& at) { at.part(1).save_id.lo++; }, size},
                                        {[](auto& at) { at.part(1).size += 64; }, size},
                                        {[](auto& at) { at.part(1).size = 4096; }, size},
                                        {[](auto& at) { at.part(1).index_offset = 4032; }, size},
                                        {[](auto& at) { at.part(1).index_offset += 8; }, size},
                                        {[](auto& at) { at.part(1).root_size = 0; }, size},
                                        {[](auto& at) { at.part(1).root_size = 1025; }, size},
                                        {[](auto& at) { at.part(1).index_size = 32769; }, size},
                                        {[](auto& at) { at.part(1).index_size = ~uint64_t{8191}; }, size}});
}

TEST(PartRules, ANamedPageAndAPageOfPartsAreNotMistakenForEachOther) {
  const EncodedIndex manifest = some_manifest().encode(), part = some_part().encode();
  auto opened = open_all(manifest, IndexKind::kManifest), other = open_all(part, IndexKind::kPart);
  ASSERT_TRUE(opened.ok() && other.ok());
  auto bytes = [](const EncodedIndex& index, const fb::PageRef& page) {
    return Bytes(index.bytes).subspan(page.offset(), page.size());
  };
  const Bytes names = bytes(manifest, opened->root.pages[0]), parts = bytes(manifest, opened->root.part_pages[0]);
  EXPECT_EQ(Page::open(parts, opened->root, 0).status().message(), "a page of names holds parts");
  EXPECT_EQ(Page::open_parts(names, opened->root, 0).status().message(), "a page of parts holds something else");
  EXPECT_EQ(Page::open(names, other->root, 0).status().message(), "not one holding for each tensor");
  EXPECT_EQ(Page::open(bytes(part, other->root.pages[0]), opened->root, 0).status().message(),
            "not one holding for each tensor");
}

// ---- layouts ----

TEST(LayoutRules, ListsAndGridsOfSoundRunsOnly) {
  // some_manifest has layouts 0: the grid, of runs 0–2 and 1–3; 1: 0–3; 2: nothing; 3: 1–3; 4: 0.
  const std::string_view kind = "a layout of no known kind", count = "parts, expected", part = "does not exist";
  expect_each_refused(some_manifest(), {{[](auto& at) { at.layout(0).kind = 2; }, kind},
                                        {[](auto& at) { at.layout(1).kind = 3; }, kind},
                                        {[](auto& at) { at.layout(0).pad = 1; }, kind},
                                        {[](auto& at) { at.layout(0).ndim = 17; }, kind},
                                        {[](auto& at) { at.layout(0).ndim = 0; }, kind},
                                        {[](auto& at) { at.layout(0).kind = 0; }, kind},
                                        {[](auto& at) { at.layout(0).per_cell = 0; }, kind},
                                        {[](auto& at) { at.layout(0).cells = 1; }, kind},
                                        {[](auto& at) { at.layout(1).cells = 1; }, kind},
                                        {[](auto& at) { at.cells(0) = 0; }, "too many cells"},
                                        {[](auto& at) { at.cells(0) = uint64_t{1} << 63; }, "too many cells"},
                                        {[](auto& at) { at.cells(0) = 2; }, count},
                                        {[](auto& at) { at.layout(0).per_cell = 1; }, count},
                                        {[](auto& at) { at.layout(1).per_cell = 3; }, count},
                                        {[](auto& at) { at.run(2).count = 3; }, part},
                                        {[](auto& at) { at.run(0).count = 0; }, part},
                                        {[](auto& at) { at.run(0).first = 4; }, part},
                                        {[](auto& at) { at.run(0) = {4, 2, -1}; }, part},
                                        {[](auto& at) { at.run(0) = {0, 4, 1}, at.run(1) = {2, 0, 1}; }, part},
                                        {[](auto& at) { at.run(0).stride = 4; }, part},
                                        {[](auto& at) { at.run(0).stride = -1; }, part},
                                        {[](auto& at) { at.run(0) = {3, ~0u, INT32_MIN}; }, part},
                                        {[](auto& at) { at.run(2) = {3, 2, -3}; }, "do not ascend"},
                                        {[](auto& at) { at.run(2) = {0, 2, 0}; }, "do not ascend"}});
  Draft deep(IndexKind::kManifest, 8);
  deep.builder.grid_layout(std::vector<uint64_t>(17, 1), 1, std::vector<uint32_t>{0});
  expect_refused(deep, kind);  // of 17 dimensions
  Draft two_runs(IndexKind::kManifest, 8);
  two_runs.tensor("t", CKPT_DTYPE_U8, {4}).list({0, 1, 4, 6});
  expect_refused(two_runs, [](auto& at) { at.run(1).first = 1; }, "do not ascend");
}

TEST(LayoutRules, EveryRunHasOneOwnerInOrder) {
  const std::string_view why = "the runs of a layout do not follow";
  expect_each_refused(some_manifest(), {{[](auto& at) { at.layout(1).run_first--; }, why},
                                        {[](auto& at) { at.layout(0).run_first++; }, why},
                                        {[](auto& at) { at.layout(4).run_count = ~0u; }, why},
                                        {[](auto& at) { at.layout(4).run_count = at.layout(4).per_cell = 0; },
                                         "a run belongs to no layout"}});
}

TEST(LayoutRules, APartsIndexHasNone) {
  Draft part = some_part();
  part.builder.list_layout(std::vector<uint32_t>{0});
  expect_refused(part, "a part's index has layouts");
}

TEST(LayoutRules, HoldingsFitTheirTensor) {
  expect_each_refused(some_manifest(), {{[](auto& at) { at.holding(0).layout = 5; }, "its layout does not exist"},
                                        {[](auto& at) { at.holding(0).layout = 2; }, "has no parts, or too many"},
                                        {[](auto& at) { at.holding(2).layout = 1; }, "has no parts, or too many"},
                                        {[](auto& at) { at.holding(1).layout = 0; }, "another number of dimensions"}});
  auto grid = [](std::initializer_list<uint64_t> extents, std::vector<uint64_t> cells, std::vector<uint32_t> parts) {
    return Draft(IndexKind::kManifest).tensor("t", CKPT_DTYPE_U8, extents).grid(std::move(cells), 1, std::move(parts));
  };
  expect_accepted(grid({10}, {4}, {0, 1, 2, 3}));  // cells of 3, 3, 3, 1
  expect_accepted(grid({4}, {4}, {0, 1, 2, 3}));
  expect_accepted(grid({4}, {1}, {0}));
  expect_refused(grid({5}, {4}, {0, 1, 2, 3}), "empty cells");  // 2, 2, 1 and nothing
  expect_refused(grid({3}, {4}, {0, 1, 2, 3}), "empty cells");
}

// ---- groups ----

TEST(GroupRules, AreOfAPartAndHaveAList) {
  const std::string_view why = "a replica group is not described well";
  expect_each_refused(some_part(), {{[](auto& at) { at.group(0).index = 2; }, why},
                                    {[](auto& at) { at.group(0).index = 0, at.group(0).count = 1; }, why},
                                    {[](auto& at) { at.group(0).list.offset = 4032; }, why},
                                    {[](auto& at) { at.group(0).list.offset = 40960 - 49; }, why},
                                    {[](auto& at) { at.group(0).list.offset = ~uint64_t{0} - 10; }, why},
                                    {[](auto& at) { at.group(0).list.stored_size = 0; }, why},
                                    {[](auto& at) { at.group(0).list.stored_size = 101; }, why},
                                    {[](auto& at) { at.group(0).list.raw_size = 51 * 255; }, why}});
  Draft large(IndexKind::kPart);
  large.builder.add_group(7, 0, 2, {1, 2}, 3, chunk(4096, (64 << 20) + 1, 1 << 20));
  expect_refusal(open_all(large.encode(), IndexKind::kPart, 1 << 30), why);
  Draft manifest = some_manifest();
  manifest.builder.add_group(7, 0, 2, {1, 2}, 3, chunk(24576, 100));
  expect_refused(manifest, "a manifest has replica groups");
}

// ---- names ----

TEST(NameRules, TextsLieInsideAndEndWithAZero) {
  const std::string_view why = "outside the names";
  expect_each_refused(some_manifest(),
                      {{[](auto& at) { at.tensor(0).name = ~0u; }, why},
                       {[](auto& at) { at.tensor(0).name_size = ~0u; }, why},
                       {[](auto& at) { at.tensor(0).name = at.tensor(0).name_size = ~0u; }, why},
                       {[](auto& at) { at.tensor(0).name = static_cast<uint32_t>(at.pages[0].names.size()); }, why},
                       {[](auto& at) { at.tensor(0).name_size = 0; }, why},  // "a" follows, no zero
                       {[](auto& at) { at.write(at.tensor(0).name + 1, "x"); }, why},
                       {[](auto& at) { at.alias(0).name_size--; }, why},
                       {[](auto& at) { at.alias(0).target_size = 0; }, why},
                       {[](auto& at) { at.object(0).name_size--; }, why},
                       {[](auto& at) { at.object(0).media_type_size--; }, why},
                       {[](auto& at) { at.attr(1).owner_size = 0; }, why},
                       {[](auto& at) { at.attr(0).key_size--; }, why},
                       {[](auto& at) { at.attr(0).value_size--; }, why}});
}

TEST(NameRules, NamesAreSortedUniqueAndLegal) {
  const std::string_view order = "is out of order";
  expect_each_refused(some_manifest(),
                      {{[](auto& at) { at.write(at.tensor(1).name, "a"); }, "\"a\" is out of order"},
                       {[](auto& at) { at.write(at.tensor(0).name, "e"); }, order},
                       {[](auto& at) { at.write(at.alias(0).name, "vied"); }, order},
                       {[](auto& at) { at.alias(1).name_size = 4, at.write(at.alias(1).name + 4, "\0"s); }, order},
                       {[](auto& at) { at.write(at.object(0).name, "zwn"); }, order},
                       {[](auto& at) { at.write(at.tensor(0).name, "\x01"); }, "control"},
                       {[](auto& at) { at.write(at.tensor(0).name, "\xff"); }, "UTF-8"},
                       {[](auto& at) { at.write(at.alias(0).name, "a\x7f"); }, "control"},
                       {[](auto& at) { at.write(at.object(0).name, "\xff"); }, "UTF-8"},
                       {[](auto& at) { at.write(at.object(0).media_type, "\xff"); }, "UTF-8"}});
  expect_refused(Draft(IndexKind::kPart).tensor("../x", CKPT_DTYPE_U8, {0}), "..");
  expect_refused(Draft(IndexKind::kPart).tensor("", CKPT_DTYPE_U8, {0}), "1");
}

// ---- the buffer ----

TEST(Buffers, VectorsOfStructsAreAligned) {
  // FlatBuffers' own verifier does not check alignment. This moves each vector back by four bytes, which misaligns it.
  EncodedIndex index = some_part().encode();
  auto* bytes = const_cast<std::byte*>(index.bytes.data());
  size_t refused = 0;
  for (size_t at = 0; at + 4 <= index.bytes.size(); at += 4) {
    uint32_t offset;
    std::memcpy(&offset, bytes + at, 4);
    if (offset < 8 || offset > index.bytes.size()) continue;
    const uint32_t moved = offset - 4;
    std::memcpy(bytes + at, &moved, 4);
    auto opened = open_all(index, IndexKind::kPart);
    refused += !opened.ok() && opened.status().message().find("aligned") != std::string::npos;
    std::memcpy(bytes + at, &offset, 4);
  }
  EXPECT_GT(refused, 0u);
}

template <typename Record>
ckpt_status code_of_page_with(void (fb::PageBuilder::*add)(flatbuffers::Offset<flatbuffers::Vector<const Record*>>)) {
  flatbuffers::FlatBufferBuilder builder;
  auto records = builder.CreateVectorOfStructs(std::vector<Record>(1));
  auto names = builder.CreateString("");
  fb::PageBuilder page(builder);
  page.add_names(names);
  (page.*add)(records);
  builder.Finish(page.Finish(), "CKPI");
  return Page::open(std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize())), Root(), 0).status().code();
}

TEST(Buffers, WithRecordsOfTheFutureAreUnsupported) {
  EXPECT_EQ(code_of_page_with(&fb::PageBuilder::add_parity), CKPT_UNSUPPORTED);
}

TEST(Buffers, NoFlippedBitMakesTheReaderLeaveThem) {
  // The digests of a file prevent this. But right digests for wrong bytes leave only these rules. ASan watches.
  for (Draft draft : {some_manifest(), some_part(), of_three_pages()}) {
    EncodedIndex index = draft.encode();
    auto* bytes = const_cast<std::byte*>(index.bytes.data());
    size_t accepted = 0;
    for (size_t bit = 0; bit < index.bytes.size() * 8; bit += index.bytes.size() < 65536 ? 1 : 499) {
      bytes[bit / 8] ^= std::byte(1 << bit % 8);
      if (auto opened = open_all(index, draft.kind); opened.ok()) {
        accepted++;
        for (const Page& page : opened->pages) {
          for (const fb::Tensor& tensor : page.tensors)
            for (const fb::Region& region : page.regions_of(tensor)) (void)page.region_of(region, tensor.ndim());
          for (const fb::Alias& alias : page.aliases) (void)page.view_of(alias);
          for (const fb::Attr& attr : page.attrs) (void)std::string(page.text(attr.value()));
        }
        uint64_t sum = 0;
        for (const fb::Layout& layout : opened->root.layouts)
          opened->root.for_each_part(layout, 0, opened->root.part_count(layout), [&](uint32_t part) { sum += part; });
        EXPECT_LT(sum, 100u);
      }
      bytes[bit / 8] ^= std::byte(1 << bit % 8);
    }
    EXPECT_GT(accepted, 0u) << "digests and times are free";
  }
}

}  // namespace
}  // namespace ckpt::format
