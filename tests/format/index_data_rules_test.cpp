// The rules of FORMAT §4 for tensors, regions, segments, chunks, aliases, objects and attributes.
#include "format/index_draft.h"

namespace ckpt::format {
namespace {

// ---- tensors ----

TEST(TensorRules, HaveAShapeAndADtypeAndLessThan2To63Bytes) {
  const std::string_view why = "it has no valid shape or dtype", large = "larger than 2^63-1 bytes",
                         beyond = "an extent beyond 2^63-1";
  for (const Draft& draft : {some_manifest(), some_part()})
    expect_each_refused(
        draft, {{[](auto& at) { at.tensor(0).dtype = 0x0200; }, why},
                {[](auto& at) { at.tensor(0).ndim = 17; }, why},
                {[](auto& at) { at.tensor(0).shape = ~0u; }, why},
                {[](auto& at) { at.tensor(0).shape = static_cast<uint32_t>(at.pages[0].numbers.size()) - 1; }, why},
                {[](auto& at) { at.number(at.tensor(0).shape) = uint64_t{1} << 62; }, large},
                {[](auto& at) { at.number(at.tensor(0).shape) = ~uint64_t{0}; }, beyond}});
  expect_refused(
      Draft(IndexKind::kPart).tensor("t", CKPT_DTYPE_U8, {1}).alias("v", "t", std::vector<uint64_t>(33, 1)),
      [](auto& at) { at.tensor(0).ndim = 17, at.tensor(0).shape = 1; }, why);
  expect_accepted(Draft(IndexKind::kPart).tensor("t", CKPT_DTYPE_F32, {(uint64_t{1} << 61) - 1}));
  expect_refused(Draft(IndexKind::kPart).tensor("t", CKPT_DTYPE_F32, {uint64_t{1} << 61}), large);
  expect_accepted(
      Draft(IndexKind::kPart).tensor("d", CKPT_DTYPE_F32, {0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}));
  expect_accepted(Draft(IndexKind::kPart).tensor("e", CKPT_DTYPE_F32, {0, uint64_t{1} << 62, uint64_t{1} << 62}));
}

TEST(TensorRules, EveryRegionSegmentAndChunkHasOneOwnerInOrder) {
  const std::string_view regions = "its regions do not follow those before", chunks = "chunks of a segment do not",
                         segments = "the segments of a region do not follow those before";
  expect_each_refused(some_manifest(), {{[](auto& at) { at.tensor(0).region_count = 1; }, regions},
                                        {[](auto& at) { at.tensor(0).region_first = 1; }, regions}});
  expect_each_refused(some_part(), {{[](auto& at) { at.tensor(0).region_first++; }, regions},
                                    {[](auto& at) { at.tensor(0).region_count--; }, regions},
                                    {[](auto& at) { at.tensor(1).region_first--; }, regions},
                                    {[](auto& at) { at.tensor(2).region_first--; }, regions},
                                    {[](auto& at) { at.tensor(3).region_count++; }, regions},
                                    {[](auto& at) { at.tensor(3).region_count = ~0u; }, regions},
                                    {[](auto& at) { at.tensor(3).region_count--; }, "belongs to no tensor"},
                                    {[](auto& at) { at.region(0).segment_first++; }, segments},
                                    {[](auto& at) { at.region(0).segment_count = 0; }, segments},
                                    {[](auto& at) { at.region(2).segment_count--; }, segments},
                                    {[](auto& at) { at.region(3).segment_count++; }, segments},
                                    {[](auto& at) { at.region(3).segment_count = ~0u; }, segments},
                                    {[](auto& at) { at.segment(0).chunk_first++; }, chunks},
                                    {[](auto& at) { at.segment(0).chunk_count = 0; }, chunks},
                                    {[](auto& at) { at.segment(4).chunk_count = ~0u; }, chunks},
                                    {[](auto& at) { at.segment(1).chunk_count--; }, "hold 16 bytes, expected 32"}});
  Draft draft(IndexKind::kPart);
  draft.tensor("t", CKPT_DTYPE_U8, {4}).region({});
  expect_refused(draft, segments);
  expect_refused(Draft(IndexKind::kManifest).tensor("t", CKPT_DTYPE_U8, {1}).list({0}).region({}), "has no regions");
  draft.segment(0, 1, {chunk(4096, 1)}).segment(2, 1, {chunk(4097, 1)});
  expect_refused(draft, [](auto& at) { at.region(0).segment_count = 1; }, "belongs to no tensor");
}

TEST(TensorRules, AreNamedInErrors) {
  const EncodedIndex index = some_part().encode();
  auto opened = open_all(index, IndexKind::kPart);
  ASSERT_TRUE(opened.ok());
  opened->segment(2).codec = 9;
  const Status status = open_all(index, IndexKind::kPart).status();
  ASSERT_TRUE(status.detail("tensor"));
  EXPECT_EQ(*status.detail("tensor"), "b");
}

// ---- regions ----

TEST(RegionRules, LieInsideTheNumbersAndTheTensorAndAreNotEmpty) {
  const std::string_view kind = "a region of no known kind", outside = "geometry lies outside",
                         empty = "a region is empty or ends outside its tensor";
  auto number = [](size_t region, size_t i, uint64_t value) {
    return [=](const Opened& at) { at.number(at.region(region).geometry + i) = value; };
  };
  expect_each_refused(
      some_part(),
      {{[](auto& at) { at.region(0).kind = 4; }, kind},
       {[](auto& at) { at.region(0).pad = 1; }, kind},
       {[](auto& at) { at.region(0).pad2 = 1; }, kind},
       {[](auto& at) { at.region(0).geometry = ~0u; }, outside},
       {[](auto& at) { at.region(0).geometry = static_cast<uint32_t>(at.pages[0].numbers.size()) - 3; }, outside},
       {[](auto& at) { at.region(3).geometry = 1; }, outside},
       {number(0, 0, 1), empty},
       {number(0, 2, 0), empty},
       {number(0, 1, ~uint64_t{0}), empty},
       {number(2, 0, 4), empty},
       {number(2, 1, 0), empty},
       {number(2, 0, ~uint64_t{0}), empty}});
}

TEST(RegionRules, AllOfATensorIsToldAsWhole) {
  const std::string_view why = "a region that is all of its tensor is not told so";
  auto number = [](const Opened& at, size_t region, size_t i) -> uint64_t& {
    return at.number(at.region(region).geometry + i);
  };
  expect_each_refused(some_part(), {{[=](auto& at) { number(at, 2, 1) = 10; }, why},
                                    {[=](auto& at) { number(at, 0, 3) = 6; }, why},
                                    {[](auto& at) { at.region(3).kind = 1; }, why}});  // of a scalar
  for (const Region& region : {Region{}, box({0, 0}, {2, 3}), flat(0, 6)}) {
    const EncodedIndex index = Draft(IndexKind::kPart)
                                   .tensor("t", CKPT_DTYPE_U8, {2, 3})
                                   .region(region)
                                   .segment(0, 6, {chunk(4096, 6)})
                                   .encode();
    auto opened = open_all(index, IndexKind::kPart);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    EXPECT_EQ(opened->region(0).kind, 0) << "the builder finds out itself";
  }
}

TEST(RegionRules, AscendByKindThenNumbers) {
  auto part = [](std::vector<Region> regions) {
    Draft draft(IndexKind::kPart);
    draft.tensor("t", CKPT_DTYPE_U8, {4, 4});
    uint64_t offset = 4096;
    for (const Region& region : regions) draft.region(region).segment(0, 1, {chunk(offset++, 1)});
    return draft;
  };
  expect_accepted(part({{}, box({0, 0}, {2, 2}), box({0, 2}, {2, 2}), box({2, 0}, {2, 2}), flat(3, 4), flat(12, 2)}));
  expect_accepted(part({box({0, 0}, {2, 2}), box({0, 0}, {2, 3})}));  // overlap is not for one part to judge
  const std::string_view why = "its regions are out of order";
  expect_refused(part({box({0, 0}, {2, 2}), {}}), why);
  expect_refused(part({flat(0, 2), box({2, 2}, {1, 1})}), why);
  expect_refused(part({{}, {}}), why);
  expect_refused(part({box({0, 2}, {2, 2}), box({0, 0}, {2, 2})}), why);
  expect_refused(part({box({0, 0}, {2, 2}), box({0, 0}, {2, 2})}), why);
  expect_refused(part({flat(3, 4), flat(3, 4)}), why);
  expect_refused(part({flat(3, 4), flat(2, 1)}), why);
}

// ---- packed elements ----

TEST(PackedElements, RegionsAndSegmentsEndAtWholeBytes) {
  auto packed = [](std::initializer_list<uint64_t> extents, const Region& region, uint64_t start, uint64_t count) {
    Draft draft(IndexKind::kPart);
    const auto bytes = static_cast<uint32_t>((count + 1) / 2);
    draft.tensor("p", CKPT_DTYPE_F4_E2M1FN, extents).region(region).segment(start, count, {chunk(4096, bytes)});
    auto opened = open_all(draft.encode(), IndexKind::kPart);
    return opened.ok() ? "" : opened.status().message().substr(12);
  };
  const std::string region = "a region of packed elements does not end at a whole byte";
  const std::string segment = "a segment of packed elements does not end at a whole byte";
  EXPECT_EQ(packed({3, 5}, {}, 0, 15), "") << "the whole tensor";
  EXPECT_EQ(packed({3, 5}, flat(2, 13), 0, 13), "") << "to the end";
  EXPECT_EQ(packed({3, 5}, flat(2, 4), 0, 4), "");
  EXPECT_EQ(packed({3, 5}, flat(1, 4), 0, 4), region);
  EXPECT_EQ(packed({3, 5}, flat(2, 3), 0, 3), region);
  EXPECT_EQ(packed({3, 6}, box({1, 2}, {2, 2}), 0, 4), "");
  EXPECT_EQ(packed({3, 6}, box({1, 1}, {2, 2}), 0, 4), region);
  EXPECT_EQ(packed({3, 6}, box({1, 0}, {2, 3}), 0, 6), region);
  EXPECT_EQ(packed({3, 5}, box({1, 0}, {1, 4}), 0, 4), region) << "rows are no whole bytes";
  EXPECT_EQ(packed({3, 5}, {}, 2, 4), "");
  EXPECT_EQ(packed({3, 5}, {}, 2, 13), "") << "to the region's end";
  EXPECT_EQ(packed({3, 5}, {}, 1, 4), segment);
  EXPECT_EQ(packed({3, 5}, {}, 2, 3), segment);
}

TEST(PackedElements, ChunksOfThemEndAnywhereAndOthersAtElements) {
  auto chunks = [](uint16_t dtype, uint64_t count, std::vector<fb::Chunk> list) {
    return Draft(IndexKind::kPart).tensor("t", dtype, {count}).region({}).segment(0, count, std::move(list));
  };
  expect_accepted(chunks(CKPT_DTYPE_F6_E2M3FN, 8, {chunk(4096, 5), chunk(4101, 1)}));
  expect_accepted(chunks(CKPT_DTYPE_F32, 2, {chunk(4096, 4), chunk(4100, 4)}));
  expect_refused(chunks(CKPT_DTYPE_F32, 2, {chunk(4096, 6), chunk(4104, 2)}), "inside an element");
  expect_refused(chunks(CKPT_DTYPE_F32, 1, {chunk(4096, 2), chunk(4100, 2)}), "inside an element");
}

// ---- segments ----

TEST(SegmentRules, LieInTheirRegionInOrderAndAreNotEmpty) {
  const std::string_view outside = "a segment is empty or ends outside its region", order = "are out of order";
  expect_each_refused(some_part(), {{[](auto& at) { at.segment(0).start = 1; }, outside},
                                    {[](auto& at) { at.segment(0).count = 0; }, outside},
                                    {[](auto& at) { at.segment(0).count = 9; }, outside},
                                    {[](auto& at) { at.segment(0).start = ~uint64_t{0}; }, outside},
                                    {[](auto& at) { at.segment(1).start = 9; }, outside},
                                    {[](auto& at) { at.segment(3).start = 4; }, order},
                                    {[](auto& at) { at.segment(3).start = 0; }, order},
                                    {[](auto& at) { at.segment(0).pad = 1; }, "a segment of no known kind"},
                                    {[](auto& at) { at.segment(0).pad2 = 1; }, "a segment of no known kind"}});
  expect_accepted(Draft(IndexKind::kPart)
                      .tensor("t", CKPT_DTYPE_U8, {9})
                      .region({})
                      .segment(1, 2, {chunk(4096, 2)})
                      .segment(5, 1, {chunk(4100, 1)}));  // other parts fill the holes
}

TEST(SegmentRules, UnknownCodecsAndFiltersAreUnsupportedAndKnownOnesFit) {
  std::vector<Fault> faults{
      {[](auto& at) { at.segment(0).codec = 2; }, "codec 2", CKPT_UNSUPPORTED},
      {[](auto& at) { at.segment(0).filter = 3; }, "filter 3", CKPT_UNSUPPORTED},
      {[](auto& at) { at.segment(0).filter_width = 4; }, "filter width"},
      {[](auto& at) { at.segment(3).filter = 1, at.segment(3).filter_width = 2; }, "a filter without a codec"}};
  for (uint8_t width : std::initializer_list<uint8_t>{0, 3, 5, 16, 255})
    faults.push_back({[=](auto& at) { at.segment(2).filter_width = width; }, "filter width"});
  expect_each_refused(some_part(), faults);
}

// ---- chunks ----

Draft of_chunks(std::vector<fb::Chunk> chunks, uint64_t elements, Codec codec = Codec::kRaw) {
  Draft draft(IndexKind::kPart);
  return draft.tensor("t", CKPT_DTYPE_F32, {elements}).region({}).segment(0, elements, std::move(chunks), {codec});
}

TEST(ChunkRules, SizesAreLegalAndSumUp) {
  auto stored = [](uint32_t size, uint32_t raw) { return fb::Chunk(4096, size, raw, fb::Digest()); };
  expect_refused(of_chunks({chunk(4096, 16), chunk(4112, 8), chunk(4120, 16)}, 10), "chunk 1");
  expect_refused(of_chunks({chunk(4096, 8), chunk(4104, 16)}, 6), "chunk 1");
  expect_refused(of_chunks({chunk(4096, 16)}, 5), "hold 16 bytes, expected 20");
  expect_refused(of_chunks({chunk(4096, 24)}, 5), "hold 24 bytes, expected 20");
  expect_refused(of_chunks({stored(19, 20)}, 5), "raw size 20, stored size 19");
  expect_refused(of_chunks({stored(21, 20)}, 5, Codec::kLz4), "raw size 20, stored size 21");
  expect_refused(of_chunks({stored(0, 20)}, 5, Codec::kLz4), "stored size 0");
  expect_refused(of_chunks({stored(0, 0), stored(0, 0)}, 5), "raw size 0");
  expect_refused(of_chunks({stored(1 << 20, (64 << 20) + 4)}, (16 << 20) + 1, Codec::kLz4), "raw size 67108868");
  expect_refused(of_chunks({stored(16, 64 << 20)}, 16 << 20, Codec::kLz4), "stored size 16");  // LZ4 is not so good
  expect_refused(of_chunks({stored(7, 2040)}, 510, Codec::kLz4), "stored size 7");
  expect_accepted(of_chunks({stored(8, 2040)}, 510, Codec::kLz4));
}

TEST(ChunkRules, LieBetweenTheHeaderAndTheIndexInAnyOrder) {
  auto at = [](uint64_t offset) { return "at " + std::to_string(offset) + " does not lie between"; };
  expect_accepted(of_chunks({chunk(4096, 8), chunk(40952, 8)}, 4));
  expect_refused(of_chunks({chunk(4092, 8)}, 2), at(4092));
  expect_refused(of_chunks({chunk(0, 8)}, 2), at(0));
  expect_accepted(of_chunks({chunk(5000, 8), chunk(4096, 8)}, 4));
  expect_refused(of_chunks({chunk(~uint64_t{0} - 3, 8)}, 2), at(~uint64_t{0} - 3));
  expect_refused(of_chunks({chunk(40956, 8)}, 2), at(40956));
}

// ---- aliases ----

TEST(AliasRules, AreNoTensorsAndHaveAViewOrNone) {
  const std::string_view why = "lies outside the numbers";
  expect_each_refused(
      some_manifest(),
      {{[](auto& at) { at.alias(1).ndim = 17; }, why},
       {[](auto& at) { at.alias(1).view = static_cast<uint32_t>(at.pages[0].numbers.size()) - 4; }, why},
       {[](auto& at) { at.alias(1).view = ~0u; }, why},
       {[](auto& at) { at.alias(1).is_view = 2; }, why},
       {[](auto& at) { at.alias(1).pad = 1; }, why},
       {[](auto& at) { at.alias(0).ndim = 1; }, why},
       {[](auto& at) { at.alias(0).view = 1; }, why}});
  expect_refused(Draft(IndexKind::kPart).tensor("a", CKPT_DTYPE_U8, {0}).alias("a", "b"),
                 "alias \"a\" is a tensor, too");
}

TEST(AliasRules, ViewsStayInsideTheirTarget) {
  const uint64_t extents[] = {4, 6};
  auto fits = [&](std::vector<uint64_t> view) { return view_fits(view, extents, CKPT_DTYPE_F32); };
  EXPECT_TRUE(fits({23}));
  EXPECT_FALSE(fits({24}));
  EXPECT_TRUE(fits({0, 4, 6, 6, 1}));
  EXPECT_FALSE(fits({1, 4, 6, 6, 1}));
  EXPECT_TRUE(fits({23, 1000, 0})) << "stride 0 repeats";
  EXPECT_TRUE(fits({99, 0, 1})) << "empty: nothing is outside";
  EXPECT_FALSE(fits({0, 2, ~uint64_t{0}}));
  EXPECT_FALSE(fits({~uint64_t{0}, 2, 1}));
  EXPECT_FALSE(fits({0, uint64_t{1} << 32, uint64_t{1} << 32}));
  EXPECT_FALSE(fits({0, uint64_t{1} << 62, 0})) << "as large as no tensor may be";
  EXPECT_FALSE(fits({0, uint64_t{1} << 32, uint64_t{1} << 32, 0, 0}));
}

// ---- objects ----

TEST(ObjectRules, OfAPartAreInlineOrChunksOrDeclared) {
  // chunked: of its rank, chunks; declared: shared; short: of its rank, inline; text: shared, inline.
  const std::string_view kind = "is of no known kind", data = "does not follow that before";
  expect_each_refused(some_part(), {{[](auto& at) { at.object(0).scope = 3; }, kind},
                                    {[](auto& at) { at.object(0).pad = 1; }, kind},
                                    {[](auto& at) { at.object(0).pad2 = 1; }, kind},
                                    {[](auto& at) { at.object(0).layout = 1; }, kind},
                                    {[](auto& at) { at.object(0).placement = 3; }, kind},
                                    {[](auto& at) { at.object(1).scope = 1; }, kind},
                                    {[](auto& at) { at.object(0).chunk_first++; }, data},
                                    {[](auto& at) { at.object(0).chunk_count++; }, data},
                                    {[](auto& at) { at.object(0).chunk_count = ~0u; }, data},
                                    {[](auto& at) { at.object(1).placement = 1; }, data},
                                    {[](auto& at) { at.object(0).placement = 0; }, data},
                                    {[](auto& at) { at.object(3).inline_offset++; }, data},
                                    {[](auto& at) { at.object(2).size--; }, data},
                                    {[](auto& at) { at.object(0).size++; }, "hold 5000 bytes, expected 5001"},
                                    {[](auto& at) { at.object(3).size++; }, "outside the inline data"},
                                    {[](auto& at) { at.object(3).size = 4097; }, "outside the inline data"},
                                    {[](auto& at) { at.object(3).size--; }, "data that belongs to nothing"},
                                    {[](auto& at) { at.chunk(7).stored_size--; }, "chunk 1 of object \"chunked\""}});
}

TEST(ObjectRules, AreInlineUpTo4096BytesAndOwnAllChunks) {
  expect_accepted(Draft(IndexKind::kPart).inline_object("o", 0, std::string(4096, 'x')));
  expect_refused(Draft(IndexKind::kPart).inline_object("o", 0, std::string(4097, 'x')), "outside the inline data");
  auto disown = [](auto& at) {
    at.object(0).scope = 0, at.object(0).placement = 2, at.object(0).chunk_count = 0;
    for (size_t i = 1; i < 4; i++) at.object(i).chunk_first -= 2;
  };
  expect_refused(some_part(), disown, "data that belongs to nothing");
}

TEST(ObjectRules, OfAManifestAreListsOfParts) {
  // own: layout 3, of parts 1–3; shared: layout 4, of part 0.
  const std::string_view list = "has no list of parts", wrong = "is not described well", data = "does not follow";
  expect_each_refused(some_manifest(), {{[](auto& at) { at.object(0).placement = 0; }, list},
                                        {[](auto& at) { at.object(0).placement = 2; }, list},
                                        {[](auto& at) { at.object(0).layout = 5; }, list},
                                        {[](auto& at) { at.object(0).layout = 0; }, list},
                                        {[](auto& at) { at.object(0).layout = 2; }, wrong},
                                        {[](auto& at) { at.object(0).size = 1; }, wrong},
                                        {[](auto& at) { at.object(0).digest = {0, 1}; }, wrong},
                                        {[](auto& at) { at.object(1).layout = 3; }, wrong},
                                        {[](auto& at) { at.object(1).layout = 1; }, wrong},
                                        {[](auto& at) { at.run(4).first = 1; }, wrong},
                                        {[](auto& at) { at.object(0).scope = 0; }, wrong},
                                        {[](auto& at) { at.object(0).chunk_count = 1; }, data},
                                        {[](auto& at) { at.object(0).inline_offset = 1; }, data}});
}

// ---- attributes ----

TEST(AttrRules, AreSortedLegalAndOwned) {
  using namespace std::literals;
  const std::string_view order = "is out of order";
  expect_each_refused(some_manifest(), {{[](auto& at) { at.write(at.attr(2).key, "eecond"); }, order},
                                        {[](auto& at) { at.attr(2) = at.attr(1); }, order},
                                        {[](auto& at) { at.attr(1) = at.attr(3); }, order},
                                        {[](auto& at) { at.write(at.attr(3).owner, "none"); }, "which is not there"},
                                        {[](auto& at) { at.write(at.attr(0).key, "k\1y"); }, "control"},
                                        {[](auto& at) { at.write(at.attr(0).value, "v\0lue"s); }, "NUL"},
                                        {[](auto& at) { at.write(at.attr(3).value, "\xff"); }, "UTF-8"}});
  expect_accepted(Draft(IndexKind::kPart).attr("", "k", std::string(1 << 20, 'x')));
  expect_refused(Draft(IndexKind::kPart).attr("", "k", std::string((1 << 20) + 1, 'x')), "longer than 1 MiB");
  expect_accepted(Draft(IndexKind::kPart).attr("of another rank", "k", ""));
}

}  // namespace
}  // namespace ckpt::format
