// The rules of FORMAT §4 for chunks, aliases, objects, attributes and groups. A record that breaks one is refused by
// name.
#include "format/index_draft.h"

namespace ckpt::format {
namespace {

// ---- chunks ----

Draft of_chunks(std::initializer_list<fb::Chunk> chunks, uint64_t elements, Codec codec = Codec::kRaw) {
  Draft draft(1);
  draft.tensor("t", CKPT_DTYPE_F32, {elements}).segment(0, flat(0, elements), chunks, codec);
  return draft;
}

TEST(IndexRules, ChunksFollowEachOtherWithoutHoleOrOverlapInTheList) {
  Draft draft = complete();
  expect_refused(draft, with_segment(0, [](auto& f) { f.chunk_first++; }), "chunks of tensor \"a\" do not follow");
  expect_refused(draft, with_segment(1, [](auto& f) { f.chunk_count--; }), "hold 32 bytes, expected 64");
  expect_refused(draft, with_segment(0, [](auto& f) { f.chunk_count = 0; }), "chunks of tensor \"a\" do not follow");
  expect_refused(draft, with_segment(4, [](auto& f) { f.chunk_count = ~uint64_t{0}; }),
                 "chunks of tensor \"d\" do not follow");
}

TEST(IndexRules, ChunkSizesAreLegalAndSumUp) {
  auto refused = [](std::initializer_list<fb::Chunk> chunks, uint64_t elements, std::string_view why,
                    Codec codec = Codec::kRaw) {
    Draft draft = of_chunks(chunks, elements, codec);
    expect_refused(draft, why);
  };
  refused({chunk(4096, 16), chunk(4112, 8), chunk(4120, 16)}, 10, "chunk 1");
  refused({chunk(4096, 8), chunk(4104, 16)}, 6, "chunk 1");
  refused({chunk(4096, 16)}, 5, "hold 16 bytes, expected 20");
  refused({chunk(4096, 24)}, 5, "hold 24 bytes, expected 20");
  refused({chunk(4096, 20, 19)}, 5, "raw size 20, stored size 19");
  refused({chunk(4096, 20, 21)}, 5, "raw size 20, stored size 21", Codec::kLz4);
  refused({fb::Chunk(4096, 0, 20, fb::Digest())}, 5, "stored size 0", Codec::kLz4);
  refused({fb::Chunk(4096, 0, 0, fb::Digest()), fb::Chunk(4096, 0, 0, fb::Digest())}, 5, "raw size 0");
  refused({fb::Chunk(4096, 4096, (64 << 20) + 4, fb::Digest())}, (16 << 20) + 1, "raw size 67108868", Codec::kLz4);
  refused({chunk(4096, 6), chunk(4104, 2)}, 2, "inside an element");
  refused({chunk(4096, 2), chunk(4100, 2)}, 1, "inside an element");
  refused({fb::Chunk(4096, 16, 64 << 20, fb::Digest())}, 16 << 20, "stored size 16",
          Codec::kLz4);  // LZ4 never compresses so well
}

TEST(IndexRules, ChunksAscendBehindTheHeaderAndInsideThePart) {
  auto refused = [](std::initializer_list<fb::Chunk> chunks, uint64_t elements, std::string_view why) {
    Draft draft = of_chunks(chunks, elements);
    expect_refused(draft, why);
  };
  refused({chunk(4092, 8)}, 2, "chunk 0 of a segment starts at 4092");
  refused({chunk(0, 8)}, 2, "starts at 0");
  refused({chunk(4096, 8), chunk(4100, 8)}, 4, "chunk 1 of a segment starts at 4100");
  refused({chunk(5000, 8), chunk(4096, 8)}, 4, "chunk 1 of a segment starts at 4096");
  refused({chunk(~uint64_t{0} - 3, 8)}, 2, "chunk 0");
  refused({chunk(40956, 8)}, 2, "beyond its part of 40960 bytes");
}

// ---- aliases ----

TEST(IndexRules, AliasesHaveAPlaceOfTheirOwnAndATarget) {
  Draft draft = complete();
  expect_refused(
      draft, [](const Index& index) { set_name(index, index.aliases[0].target(), "x"); },
      "of a tensor that is not there");
  expect_refused(
      draft, [](const Index& index) { set_name(index, index.aliases[0].name(), "vied"); },
      "alias \"tied.view\" is out of order");
  Draft named;
  named.tensor("a", CKPT_DTYPE_U8, {0});
  named.builder.add_alias("a", "a", false, {}, 0);
  expect_refused(named, "is out of order or a tensor");
  Draft chained = complete();
  chained.builder.add_alias("zz", "tied", false, {}, 0);
  expect_refused(chained, "of a tensor that is not there");
}

TEST(IndexRules, ViewsStayInsideTheirTarget) {
  auto view = [](std::initializer_list<uint64_t> numbers, int ndim) {
    Draft draft;
    draft.tensor("a", CKPT_DTYPE_F32, {4, 6}).segment(0, box({0, 0}, {4, 6}), {chunk(4096, 96)});
    draft.builder.add_alias("v", "a", true, std::vector<uint64_t>(numbers), ndim);
    auto bytes = draft.encode();
    return Index::open(bytes, IndexKind::kManifest).ok();
  };
  EXPECT_TRUE(view({23}, 0));
  EXPECT_FALSE(view({24}, 0));
  EXPECT_TRUE(view({0, 4, 6, 6, 1}, 2));
  EXPECT_FALSE(view({1, 4, 6, 6, 1}, 2));
  EXPECT_TRUE(view({23, 1000, 0}, 1)) << "stride 0 repeats";
  EXPECT_TRUE(view({99, 0, 1}, 1)) << "empty: nothing is outside";
  EXPECT_FALSE(view({0, 2, ~uint64_t{0}}, 1));
  EXPECT_FALSE(view({~uint64_t{0}, 2, 1}, 1));
  EXPECT_FALSE(view({0, uint64_t{1} << 32, uint64_t{1} << 32}, 1));
  EXPECT_FALSE(view({0, uint64_t{1} << 62, 0}, 1)) << "as large as no tensor may be";
  EXPECT_FALSE(view({0, uint64_t{1} << 32, uint64_t{1} << 32, 0, 0}, 2));
  Draft draft = complete();
  expect_refused(
      draft,
      [](const Index& index) {
        const fb::Alias& a = index.aliases[1];
        set(a, fb::Alias(a.name(), a.target(), uint8_t{1}, uint8_t{0}, uint16_t{17}, 0, a.view()));
      },
      "lies outside the numbers");
  expect_refused(
      draft,
      [](const Index& index) {
        const fb::Alias& a = index.aliases[1];
        set(a, fb::Alias(a.name(), a.target(), uint8_t{1}, uint8_t{0}, uint16_t{2}, 0, index.numbers.size() - 4));
      },
      "lies outside the numbers");
  expect_refused(
      draft,
      [](const Index& index) {
        const fb::Alias& a = index.aliases[0];
        set(a, fb::Alias(a.name(), a.target(), uint8_t{2}, uint8_t{0}, uint16_t{0}, 0, a.view()));
      },
      "");
}

// ---- objects ----

struct ObjectFields {
  uint8_t scope, placement;
  uint32_t rank, part;
  uint64_t size, inline_offset, chunk_first, chunk_count;
};
Change with_object(size_t i, std::function<void(ObjectFields&)> edit) {
  return [=](const Index& index) {
    const fb::Object& o = index.objects[i];
    ObjectFields f{o.scope(), o.placement(),     o.rank(),        o.part(),
                   o.size(),  o.inline_offset(), o.chunk_first(), o.chunk_count()};
    edit(f);
    set(o, fb::Object(o.name(), o.media_type(), f.scope, f.placement, uint16_t{0}, f.rank, f.size, f.inline_offset,
                      o.digest(), f.part, 0, f.chunk_first, f.chunk_count));
  };
}

TEST(IndexRules, ObjectsAreSortedByNameThenRankAndOfOneScope) {
  Draft draft = complete();
  expect_refused(draft, with_object(2, [](auto& f) { f.rank = 0; }), "out of order");
  expect_refused(draft, with_object(1, [](auto& f) { f.scope = 0; }), "out of order");
  expect_refused(draft, with_object(0, [](auto& f) { f.scope = 2; }), "no known kind");
  expect_refused(draft, with_object(0, [](auto& f) { f.rank = 1; }), "no known kind");
  expect_refused(draft, with_object(1, [](auto& f) { f.placement = 3; }), "no known kind");
  expect_refused(draft, with_object(1, [](auto& f) { f.placement = 2; }), "no known kind");
  expect_refused(
      draft, [](const Index& index) { set_name(index, index.objects[0].name(), "zhunked"); }, "out of order");
}

TEST(IndexRules, ObjectsLieInThePartOfTheirRank) {
  Draft draft = complete();
  expect_refused(draft, with_object(0, [](auto& f) { f.part = 2; }), "lies in no part");
  expect_refused(draft, with_object(0, [](auto& f) { f.part = 1; }), "not in that of its rank");
  expect_refused(draft, with_object(2, [](auto& f) { f.part = 0; }), "not in that of its rank");
}

TEST(IndexRules, ObjectDataFollowsThatBefore) {
  Draft draft = complete();
  expect_refused(draft, with_object(0, [](auto& f) { f.chunk_first++; }), "data of object \"chunked\" does not follow");
  expect_refused(draft, with_object(0, [](auto& f) { f.chunk_count++; }), "data of object \"chunked\" does not follow");
  expect_refused(draft, with_object(0, [](auto& f) { f.size++; }), "hold 5000 bytes, expected 5001");
  expect_refused(draft, with_object(1, [](auto& f) { f.inline_offset++; }), "data of object \"own\" does not follow");
  expect_refused(draft, with_object(1, [](auto& f) { f.size--; }), "data of object \"own\" does not follow");
  expect_refused(draft, with_object(2, [](auto& f) { f.size++; }), "outside the inline data");
  expect_refused(draft, with_object(2, [](auto& f) { f.size--; }), "data that belongs to nothing");
  expect_refused(draft, with_object(1, [](auto& f) { f.placement = 1; }), "does not follow");
  expect_refused(draft, with_object(2, [](auto& f) { f.size = 4097; }), "outside the inline data");
}

// ---- attributes ----

TEST(IndexRules, AttributesAreSortedLegalAndOwned) {
  Draft draft = complete();
  expect_refused(draft, [](const Index& index) { set_name(index, index.attrs[2].key(), "alpha\n"); }, "");
  expect_refused(
      draft, [](const Index& index) { set_name(index, index.attrs[3].owner(), "none"); }, "which is not there");
  expect_refused(draft, [](const Index& index) { set_name(index, index.attrs[0].key(), "k\1y"); }, "");
  expect_refused(
      draft, [](const Index& index) { set_name(index, index.attrs[0].value(), std::string_view("v\0lue", 5)); }, "");
  expect_refused(draft, [](const Index& index) { set_name(index, index.attrs[3].value(), "\xff"); }, "UTF-8");
  Draft twice;
  twice.builder.add_attr("", "k", "1");
  twice.builder.add_attr("", "k", "2");
  expect_refused(twice, "attribute \"k\" is out of order");
  Draft long_value;
  long_value.builder.add_attr("", "k", std::string((1 << 20) + 1, 'x'));
  expect_refused(long_value, "longer than 1 MiB");
  Draft owners = complete();
  owners.builder.add_attr("a", "later", "");
  expect_refused(owners, "out of order");
}

// ---- groups ----

Draft part_of_group(uint32_t member, uint32_t count, const fb::Chunk& list) {
  Draft draft;
  draft.builder.parts.clear();
  draft.builder.add_group(7, member, count, {1, 2}, 3, list);
  return draft;
}

TEST(IndexRules, GroupsBelongToAPartAndFollowWhatPrecedesThem) {
  Draft sound = part_of_group(1, 2, chunk(4096, 100, 50));
  auto bytes = sound.encode();
  auto index = Index::open(bytes, IndexKind::kPart);
  ASSERT_TRUE(index.ok()) << index.status().message();
  EXPECT_EQ(index->groups[0].entry_count(), 3u);
  for (auto [member, count] : {std::pair{2u, 2u}, {0u, 1u}, {0u, 0u}}) {
    Draft draft = part_of_group(member, count, chunk(4096, 100, 50));
    expect_refused(draft, "a group's list", IndexKind::kPart);
  }
  Draft illegal = part_of_group(0, 2, chunk(0, 100, 50));
  expect_refused(illegal, "a declaration list", IndexKind::kPart);
  auto moved = [](const Index& i) {
    const fb::Group& g = i.groups[0];
    set(g, fb::Group(g.id(), g.index(), g.count(), g.digest(), g.entry_count(), g.chunk() + 1));
  };
  expect_refused(sound, moved, "a group's list", CKPT_FORMAT, IndexKind::kPart);
  Draft committed = complete();
  committed.builder.add_group(7, 0, 2, {1, 2}, 3, chunk(24576, 100));
  expect_refused(committed, "counts");
}

TEST(IndexRules, DeclaredObjectsAreOfAPartOnly) {
  Draft draft;
  draft.builder.parts.clear();
  draft.object({.name = "o",
                .media_type = "",
                .scope = 0,
                .placement = 2,
                .rank = 0,
                .part = 1,
                .size = 10,
                .digest = {},
                .inline_bytes = {},
                .chunks = {}});
  auto bytes = draft.encode();
  EXPECT_TRUE(Index::open(bytes, IndexKind::kPart).ok());
  Draft own;
  own.builder.parts.clear();
  own.object({.name = "o",
              .media_type = "",
              .scope = 1,
              .placement = 2,
              .rank = 1,
              .part = 1,
              .size = 10,
              .digest = {},
              .inline_bytes = {},
              .chunks = {}});
  expect_refused(own, "no known kind", IndexKind::kPart);
}

// ---- the buffer ----

TEST(IndexRules, VectorsOfStructsAreAligned) {
  // FlatBuffers' own verifier does not check alignment. This moves the vector of one kind back by four bytes, which
  // misaligns its elements.
  Draft draft(1);
  draft.tensor("t", CKPT_DTYPE_U8, {0});
  auto bytes = draft.encode();
  size_t refused = 0;
  for (size_t at = 0; at + 4 <= bytes.size(); at += 4) {
    auto copy = bytes;
    uint32_t offset;
    std::memcpy(&offset, &copy[at], 4);
    if (offset < 8 || offset > bytes.size()) continue;
    offset -= 4;
    std::memcpy(&copy[at], &offset, 4);
    auto index = Index::open(copy, IndexKind::kManifest);
    refused += !index.ok() && index.status().message().find("aligned") != std::string::npos;
  }
  EXPECT_GT(refused, 0u);
}

// ---- bytes at random ----

TEST(IndexRules, NoFlippedBitMakesTheReaderLeaveTheBuffer) {
  // The digests of a file prevent this. But right digests for wrong bytes leave only these rules. ASan watches.
  Draft draft = complete();
  auto bytes = draft.encode();
  size_t accepted = 0;
  for (size_t bit = 0; bit < bytes.size() * 8; bit++) {
    std::vector<std::byte> copy = bytes;
    copy[bit / 8] ^= std::byte(1 << bit % 8);
    for (IndexKind kind : {IndexKind::kManifest, IndexKind::kPart}) {
      auto index = Index::open(copy, kind);
      if (!index.ok()) continue;
      accepted++;
      for (const auto& tensor : index->tensors)
        for (const auto& segment : index->segments_of(tensor)) (void)index->region_of(segment, tensor.ndim());
      for (const auto& attr : index->attrs) (void)std::string(index->text(attr.value()));
    }
  }
  EXPECT_GT(accepted, 0u) << "digests and times are free";
}

}  // namespace
}  // namespace ckpt::format
