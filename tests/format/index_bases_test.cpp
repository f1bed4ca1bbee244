// Chunks that lie in parts of earlier checkpoints: FORMAT §4, bases.
#include "format/index_draft.h"
#include "format/names.h"
#include "format/part_record.h"

namespace ckpt::format {
namespace {

constexpr Id kFirst{1, 1}, kSecond{2, 1};

// A part of two bases: tensor "a" has a chunk in each and two of its own, "b" lies in the part, "c" in the second base.
Draft part_of_two_bases() {
  Draft draft(IndexKind::kPart);
  draft.base(kFirst, 3, 16).base(kSecond, 0, 916);
  draft.tensor("a", CKPT_DTYPE_U8, {60}).region({});
  draft.segment(0, 60, {chunk(8176, 16), chunk(4112, 16), chunk(8176, 16), chunk(4128, 12)}, {}, {1, 0, 2, 0});
  draft.tensor("b", CKPT_DTYPE_U8, {4}).region({}).segment(0, 4, {chunk(4096, 4)});
  draft.tensor("c", CKPT_DTYPE_U8, {4}).region({}).segment(0, 4, {chunk(4096, 4)}, {}, {2});
  const fb::Chunk data[] = {chunk(8192, 4096), chunk(4096, 904)};
  const uint16_t homes[] = {0, 2};
  draft.builder.add_object({.name = "o",
                            .media_type = "",
                            .scope = 1,
                            .placement = 1,
                            .size = 5000,
                            .digest = {1, 1},
                            .inline_bytes = {},
                            .chunks = data,
                            .homes = homes});
  return draft;
}

Draft manifest_of_two_bases(uint32_t world = 4) {
  Draft draft(IndexKind::kManifest, world);
  draft.tensor("a", CKPT_DTYPE_U8, {60}).list({0});
  return draft.base(kFirst, 3, 16).base(kSecond, 0, 916);
}

TEST(Bases, AreReadAsTheyWereWritten) {
  Draft draft = part_of_two_bases();
  const EncodedIndex index = draft.encode();
  auto opened = open_all(index, IndexKind::kPart);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ(opened->root.summary.required_features, kHasBases);
  ASSERT_EQ(opened->root.bases.size(), 2u);
  EXPECT_EQ(file_name(opened->root.bases[0].part()), base_name(kFirst, 3));
  EXPECT_EQ(opened->root.bases[1].used(), 916u);
  const Page& page = opened->pages[0];
  std::vector<uint16_t> homes;
  for (const fb::Chunk& each : page.chunks) homes.push_back(page.home_of(each));
  EXPECT_EQ(homes, (std::vector<uint16_t>{1, 0, 2, 0, 0, 2, 0, 2}));
}

TEST(Bases, FollowThePartsOfAManifest) {
  const EncodedIndex index = manifest_of_two_bases().encode();
  auto opened = open_all(index, IndexKind::kManifest);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ(opened->root.summary.base_bytes, 81920u);
  EXPECT_EQ(opened->root.summary.used_bytes, 932u);
  const Page& page = opened->part_pages[0];
  ASSERT_EQ(page.parts.size(), 6u);
  EXPECT_EQ(std::vector<uint64_t>(page.used.begin(), page.used.end()), (std::vector<uint64_t>{0, 0, 0, 0, 16, 916}));
  EXPECT_EQ(file_name(page.parts[3]), "PART_003");
  EXPECT_EQ(file_name(page.parts[4]), base_name(kFirst, 3));
  for (uint32_t world :
       {510u, 511u, 512u, 513u}) {  // on the page of the last part, over two pages, on one of their own
    const EncodedIndex many = manifest_of_two_bases(world).encode();
    auto all = open_all(many, IndexKind::kManifest);
    ASSERT_TRUE(all.ok()) << all.status().message();
    ASSERT_EQ(all->part_pages.size(), world < 511 ? 1u : 2u);
    EXPECT_EQ(all->part_pages[0].used.empty(), world >= 512);
    EXPECT_EQ(all->part_pages.back().used.back(), 916u);
  }
}

// What nothing shares is what readers before bases read, byte for byte: the golden checkpoints say so of whole files.
TEST(Bases, HomesAreOnPagesThatHaveSomeAlone) {
  Draft draft(IndexKind::kPart);
  draft.base(kFirst, 3, 16);
  draft.tensor("a", CKPT_DTYPE_U8, {4}).region({}).segment(0, 4, {chunk(4096, 4)}, {}, {0});
  draft.attr("b", "long", std::string(65500, 'x'));
  draft.tensor("c", CKPT_DTYPE_U8, {16}).region({}).segment(0, 16, {chunk(4096, 16)}, {}, {1});
  draft.tensor("d", CKPT_DTYPE_U8, {4}).region({}).segment(0, 4, {chunk(4100, 4)});
  draft.attr("e", "long", std::string(65500, 'x'));
  draft.tensor("f", CKPT_DTYPE_U8, {4}).region({}).segment(0, 4, {chunk(4104, 4)});
  const EncodedIndex index = draft.encode();
  auto opened = open_all(index, IndexKind::kPart);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  ASSERT_EQ(opened->pages.size(), 5u);
  EXPECT_TRUE(opened->pages[0].homes.empty());
  EXPECT_TRUE(opened->pages[4].homes.empty());
  EXPECT_EQ(std::vector<uint16_t>(opened->pages[2].homes.begin(), opened->pages[2].homes.end()),
            (std::vector<uint16_t>{1, 0}));
}

TEST(BaseRules, ThoseOfAPartAreInOrderAndOfOtherCheckpoints) {
  const std::string_view described = "a base is not described well", order = "bases are out of order";
  expect_each_refused(part_of_two_bases(), {{[](auto& at) { at.base(0).part.kind = 0; }, described},
                                            {[](auto& at) { at.base(0).part.kind = 2; }, described},
                                            {[](auto& at) { at.base(0).part.copy_offset = 64; }, described},
                                            {[](auto& at) { at.base(0).part.pad = 1; }, described},
                                            {[](auto& at) { at.base(0).part.pad2 = 1; }, described},
                                            {[](auto& at) { at.base(0).part.pad3 = 1; }, described},
                                            {[](auto& at) { at.base(0).part.size += 64; }, described},
                                            {[](auto& at) { at.base(0).part.index_size = ~uint64_t{0}; }, described},
                                            {[](auto& at) { at.base(0).part.root_size = 0; }, described},
                                            {[](auto& at) { at.base(0).part.save_id = {5, 6}; }, "of itself"},
                                            {[](auto& at) { at.base(0).part.save_id = kSecond; }, order},
                                            {[](auto& at) { at.base(1).part.save_id = kFirst; }, order}});
  expect_accepted(Draft(IndexKind::kPart).base(kFirst, 2, 1).base(kFirst, 3, 1).base({1, 2}, 0, 1).base(kSecond, 0, 1));
  expect_refused(Draft(IndexKind::kPart).base(kFirst, 3, 1).base(kFirst, 3, 1), order);
}

TEST(BaseRules, ChunksLieInThem) {
  const std::string_view base = "between header and index of base 1", part = "between header and index of its part";
  expect_each_refused(part_of_two_bases(),
                      {{[](auto& at) { at.chunk(0).offset += 1; }, base},
                       {[](auto& at) { at.chunk(0).offset = 4080; }, base},
                       {[](auto& at) { at.chunk(0).offset = ~uint64_t{0}; }, base},
                       {[](auto& at) { at.base(0).part.index_offset = 4096; }, base},
                       {[](auto& at) { at.chunk(3).offset = 4080; }, part},
                       {[](auto& at) { at.chunk(7).offset = 8192; }, "between header and index of base 2"},
                       {[](auto& at) { at.home(0) = 3; }, "a chunk in base 3 of 2"},
                       {[](auto& at) { at.home(1) = 9; }, "a chunk in base 9 of 2"}});
  expect_accepted(part_of_two_bases());
}

TEST(BaseRules, EachChunkHasAHomeIfOneHas) {
  for (size_t count : {1u, 3u}) {
    flatbuffers::FlatBufferBuilder builder;
    const std::vector<uint16_t> homes(count);
    const std::vector<fb::Chunk> chunks{chunk(4096, 4), chunk(4100, 4)};
    auto at = builder.CreateVector(homes);
    auto list = builder.CreateVectorOfStructs(chunks);
    auto names = builder.CreateString("");
    fb::PageBuilder page(builder);
    page.add_names(names);
    page.add_chunks(list);
    page.add_homes(at);
    builder.Finish(page.Finish(), "CKPI");
    const EncodedIndex index = part_of_two_bases().encode();
    auto opened = open_all(index, IndexKind::kPart);
    ASSERT_TRUE(opened.ok());
    const Bytes bytes = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
    EXPECT_EQ(Page::open(bytes, opened->root, 0).status().message(), "not one home for each chunk");
  }
}

TEST(BaseRules, ThoseOfAManifestAreInOrderAndUsed) {
  expect_each_refused(manifest_of_two_bases(), {{[](auto& at) { at.part(4).kind = 0; }, "not described well"},
                                                {[](auto& at) { at.part(4).kind = 2; }, "kind 2", CKPT_UNSUPPORTED},
                                                {[](auto& at) { at.part(4).copy_offset = 64; }, "not described well"},
                                                {[](auto& at) { at.part(4).save_id = {5, 6}; }, "of itself"},
                                                {[](auto& at) { at.part(4).save_id = kSecond; }, "out of order"},
                                                {[](auto& at) { at.part(3).kind = 1; }, "part 3 is a base"},
                                                {[](auto& at) { at.used(3) = 1; }, "used bytes of a part"},
                                                {[](auto& at) { at.used(4) = 0; }, "nothing is used"}});
  Draft missing = manifest_of_two_bases();
  missing.builder.used.clear();
  missing.builder.summary.base_count = 3;
  expect_refused(missing, "a page of 6 parts");
  Draft more = manifest_of_two_bases();
  more.builder.summary.base_count = UINT32_MAX;
  expect_refused(more, "more parts and bases than can be numbered");
}

TEST(BaseRules, AFeatureTellsOlderReaders) {
  const std::string_view why = "required_features and bases contradict each other";
  Draft feature = some_part();
  feature.builder.summary.required_features = kHasBases;
  expect_refused(feature, why);
  Draft manifest = some_manifest();
  manifest.builder.summary.required_features = kHasBases;
  expect_refused(manifest, why);
  Draft unknown = part_of_two_bases();
  unknown.builder.summary.required_features = 4;
  expect_refused(unknown, "does not know: bits 0x4", CKPT_REVISION);
}

TEST(BaseRules, AreInTheRootOfAPartAndOnThePagesOfAManifest) {
  const std::string_view why = "bases are counted in a part, or described in the root of a manifest";
  Draft counted = part_of_two_bases();
  counted.builder.summary.base_count = 2;
  expect_refused(counted, why);
  Draft described = manifest_of_two_bases();
  described.builder.bases = part_of_two_bases().builder.bases;
  expect_refused(described, why);
}

}  // namespace
}  // namespace ckpt::format
