// The index: what the builder makes opens and says the same; what breaks a rule of FORMAT §4 is refused with the rule's name.
#include "format/index.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "format/checksum.h"
#include "format/framing.h"

namespace ckpt::format {
namespace {

fb::Chunk chunk(uint64_t offset, uint32_t raw, uint32_t stored = 0) {
  return fb::Chunk(offset, stored ? stored : raw, raw, fb::Digest(offset, raw));
}

Region box(std::initializer_list<uint64_t> offset, std::initializer_list<uint64_t> extent) {
  Region region;
  region.kind = RegionKind::kBox;
  region.box = {Shape::of(std::vector<uint64_t>(offset)), Shape::of(std::vector<uint64_t>(extent))};
  return region;
}

Region flat(uint64_t offset, uint64_t size) {
  Region region;
  region.kind = RegionKind::kFlat;
  region.flat_offset = offset;
  region.flat_size = size;
  return region;
}

Shape shape(std::initializer_list<uint64_t> extents) { return Shape::of(std::vector<uint64_t>(extents)); }

void add_part(IndexBuilder& builder, uint64_t size = 40960) {
  builder.parts.emplace_back(size, fb::Digest(1, 2), digest_of(builder.summary.save_id), static_cast<uint32_t>(builder.parts.size()), uint8_t{0}, uint8_t{0}, uint16_t{0});
}

Summary summary_of(uint32_t world) {
  Summary summary;
  summary.store_id = {1, 2};
  summary.session_id = {3, 4};
  summary.save_id = {5, 6};
  summary.run = "main";
  summary.label = "step-1";
  summary.writer = "ckpt 0";
  summary.token = 7;
  summary.attempt = 8;
  summary.sequence = 9;
  summary.step = 10;
  summary.world_size = world;
  summary.created_unix_ms = 11;
  summary.part_count = world;
  return summary;
}

// An index in the making, with the counts kept right.
struct Draft {
  IndexBuilder builder;
  explicit Draft(uint32_t world = 2) {
    builder.summary = summary_of(world);
    for (uint32_t i = 0; i < world; i++) add_part(builder);
  }
  Draft& tensor(std::string_view name, uint16_t dtype, std::initializer_list<uint64_t> extents) {
    shape_ = shape(extents);
    builder.add_tensor(name, dtype, shape_);
    builder.summary.tensor_count++;
    return *this;
  }
  Draft& segment(uint32_t part, const Region& region, std::initializer_list<fb::Chunk> chunks, Codec codec = Codec::kRaw, Filter filter = Filter::kNone, int width = 0) {
    builder.add_segment(part, region, shape_, codec, filter, width, std::vector<fb::Chunk>(chunks));
    return *this;
  }
  Draft& object(IndexBuilder::ObjectRecord record) {
    builder.add_object(record);
    builder.summary.object_count++;
    return *this;
  }
  std::vector<std::byte> encode() {
    builder.summary.part_bytes = 0;
    for (const auto& part : builder.parts) builder.summary.part_bytes += part.size();
    auto bytes = builder.encode();
    EXPECT_TRUE(bytes.ok()) << bytes.status().message();
    return bytes.take();
  }

 private:
  Shape shape_;
};

constexpr std::string_view kText = "some bytes";

std::string refusal(Bytes bytes, IndexKind kind = IndexKind::kManifest, ckpt_status expected = CKPT_FORMAT) {
  auto index = Index::open(bytes, kind);
  EXPECT_FALSE(index.ok());
  if (index.ok()) return "accepted";
  EXPECT_EQ(index.status().code(), expected) << index.status().message();
  return index.status().message();
}

void expect_refused(Draft& draft, std::string_view why, IndexKind kind = IndexKind::kManifest, ckpt_status expected = CKPT_FORMAT) {
  auto bytes = draft.encode();
  std::string said = refusal(bytes, kind, expected);
  EXPECT_NE(said.find(why), std::string::npos) << said << "\n  expected: " << why;
}

// Opens a sound index, changes one of its records in place and tells what the next reader says.
using Change = std::function<void(const Index&)>;
void expect_refused(Draft& draft, const Change& change, std::string_view why, ckpt_status expected = CKPT_FORMAT, IndexKind kind = IndexKind::kManifest) {
  auto bytes = draft.encode();
  auto index = Index::open(bytes, kind);
  ASSERT_TRUE(index.ok()) << index.status().message();
  change(*index);
  std::string said = refusal(bytes, kind, expected);
  EXPECT_NE(said.find(why), std::string::npos) << said << "\n  expected: " << why;
}

template <typename T>
void set(const T& record, const T& value) {
  std::memcpy(const_cast<T*>(&record), &value, sizeof value);
}
void set_number(const Index& index, uint64_t position, uint64_t value) { const_cast<uint64_t&>(index.numbers[position]) = value; }
void set_name(const Index& index, const fb::Text& text, std::string_view name) { std::memcpy(const_cast<char*>(index.names.data()) + text.offset(), name.data(), name.size()); }

// ---- building and opening ----

// Two ranks; boxes, flat ranges, a compressed one, an empty tensor, a scalar; aliases, objects, attributes.
Draft complete() {
  Draft draft;
  draft.tensor("a", CKPT_DTYPE_F32, {4, 6}).segment(0, box({0, 0}, {4, 2}), {chunk(4096, 32)}).segment(1, box({0, 2}, {4, 4}), {chunk(4096, 32), chunk(4128, 32)});
  draft.tensor("b", CKPT_DTYPE_I16, {10}).segment(0, flat(0, 7), {chunk(8192, 14, 9)}, Codec::kLz4, Filter::kBitPlanes, 2).segment(1, flat(7, 3), {chunk(8192, 6)});
  draft.tensor("c", CKPT_DTYPE_F64, {0, 3});
  draft.tensor("d", CKPT_DTYPE_U8, {}).segment(1, Region{}, {chunk(12288, 1)});
  draft.builder.add_alias("tied", "a", false, {}, 0);
  const uint64_t view[] = {1, 2, 3, 6, 2};
  draft.builder.add_alias("tied.view", "a", true, view, 2);
  static const fb::Chunk data[] = {chunk(16384, 4096), chunk(20480, 904)};
  draft.object({.name = "chunked", .media_type = "text/plain", .scope = 0, .placement = 1, .rank = 0, .part = 0, .size = 5000, .digest = {1, 1}, .inline_bytes = {}, .chunks = data});
  for (uint32_t rank : {0u, 1u})
    draft.object({.name = "own", .media_type = "", .scope = 1, .placement = 0, .rank = rank, .part = rank, .size = kText.size() - rank, .digest = {2, rank}, .inline_bytes = as_bytes(kText.substr(rank)), .chunks = {}});
  draft.builder.add_attr("", "key", "value");
  draft.builder.add_attr("a", "first", "line\nbreak");
  draft.builder.add_attr("a", "second", "");
  draft.builder.add_attr("tied", "note", "äöü");
  return draft;
}

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
  EXPECT_EQ(as_text(index.inline_data.subspan(index.objects[2].inline_offset(), index.objects[2].size())), kText.substr(1));
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
  auto file = frame_manifest(index, draft.builder.summary);
  EXPECT_EQ(file.size() % 8, 0u);
  auto slot = open_slot(file);
  ASSERT_TRUE(slot.ok()) << slot.status().message();
  EXPECT_TRUE(slot->committed);
  EXPECT_TRUE(std::equal(index.begin(), index.end(), slot->index.begin(), slot->index.end()));
  EXPECT_TRUE(slot->summary == draft.builder.summary);
  uint64_t needed = 0;
  for (size_t size = 0; size <= file.size(); size++) {
    auto tail = open_slot_tail(Bytes(file).last(size), file.size(), &needed);
    if (size < kManifestTrailerSize) EXPECT_EQ(tail.status().code(), CKPT_FORMAT);
    else if (size < needed) EXPECT_EQ(tail.status().code(), CKPT_INVALID);
    else {
      ASSERT_TRUE(tail.ok()) << size;
      EXPECT_TRUE(tail->summary == draft.builder.summary);
    }
  }
  EXPECT_GT(needed, kManifestTrailerSize);
  EXPECT_LE(needed, file.size());
}

TEST(Slot, TombstoneComesBackAsItWas) {
  Tombstone stone{.save_id = {1, 2}, .rank = 3, .status = CKPT_TIMEOUT, .reason = "rank 5 did not come", .closed_by_token = 9};
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
  for (auto file : {frame_manifest(draft.encode(), draft.builder.summary), frame_tombstone(stone)})
    for (size_t bit = 0; bit < file.size() * 8; bit++) {
      file[bit / 8] ^= std::byte(1 << bit % 8);
      auto slot = open_slot(file);
      ASSERT_FALSE(slot.ok()) << "bit " << bit;
      ASSERT_TRUE(slot.status().code() == CKPT_CORRUPT || slot.status().code() == CKPT_FORMAT) << slot.status().message();
      file[bit / 8] ^= std::byte(1 << bit % 8);
    }
}

TEST(Slot, EveryTruncationAndExtensionIsRefused) {
  Draft draft = complete();
  auto file = frame_manifest(draft.encode(), draft.builder.summary);
  for (size_t size = 0; size < file.size(); size++) {
    ASSERT_FALSE(open_slot(Bytes(file).first(size)).ok()) << size;
    if (size != 0) ASSERT_FALSE(open_slot(Bytes(file).last(size)).ok()) << size;
  }
  auto longer = file;
  longer.insert(longer.begin(), 8, std::byte{0});
  EXPECT_EQ(open_slot(longer).status().code(), CKPT_FORMAT);
}

// ---- summary ----

TEST(IndexRules, RevisionAndFeaturesOfTheFutureAreRefused) {
  Draft draft = complete();
  draft.builder.summary.revision = CKPT_FORMAT_REVISION + 1;
  expect_refused(draft, "format revision 1", IndexKind::kManifest, CKPT_REVISION);
  EXPECT_EQ(decode_summary(encode_summary(draft.builder.summary)).status().code(), CKPT_REVISION);
  draft = complete();
  draft.builder.summary.required_features = 1ull << 63;
  expect_refused(draft, "features that this library does not know", IndexKind::kManifest, CKPT_REVISION);
  EXPECT_EQ(decode_summary(encode_summary(draft.builder.summary)).status().code(), CKPT_REVISION);
  EXPECT_EQ(open_slot(frame_manifest(draft.encode(), draft.builder.summary)).status().code(), CKPT_REVISION);
}

TEST(IndexRules, LabelAndRunAreNames) {
  for (const char* bad : {"", ".hidden", "a/b", "a b"}) {
    Draft draft = complete();
    draft.builder.summary.label = bad;
    expect_refused(draft, "label");
    draft = complete();
    draft.builder.summary.run = bad;
    expect_refused(draft, "run");
  }
}

TEST(IndexRules, CountsAreThoseOfTheIndex) {
  using Field = std::function<void(Summary&)>;
  for (const Field& field : {Field([](Summary& s) { s.world_size++; }), Field([](Summary& s) { s.part_count--; }), Field([](Summary& s) { s.tensor_count++; }),
                             Field([](Summary& s) { s.object_count = 0; })}) {
    Draft draft = complete();
    field(draft.builder.summary);
    expect_refused(draft, "counts");
  }
  Draft draft = complete();
  auto& summary = draft.builder.summary;
  draft.encode();
  summary.part_bytes++;
  EXPECT_NE(refusal(draft.builder.encode().take()).find("counts"), std::string::npos);
}

TEST(IndexRules, OtherBuffersAreNoIndex) {
  auto summary = encode_summary(summary_of(1));
  EXPECT_NE(refusal(summary).find("CKPI"), std::string::npos);
  Draft draft = complete();
  EXPECT_EQ(decode_summary(draft.encode()).status().code(), CKPT_FORMAT);
  EXPECT_EQ(refusal({}).empty(), false);
  std::vector<std::byte> zeros(256);
  refusal(zeros);
}

// ---- parts ----

fb::Part part_with(const fb::Part& part, uint64_t size, uint32_t rank, uint8_t kind, fb::Digest save_id) {
  return fb::Part(size, part.index_digest(), save_id, rank, kind, uint8_t{0}, uint16_t{0});
}

TEST(IndexRules, PartsAreInTheOrderOfRanksAndOfThisSave) {
  auto change = [](size_t i, uint64_t size, uint32_t rank, uint8_t kind, fb::Digest save_id) {
    return [=](const Index& index) { set(index.parts[i], part_with(index.parts[i], size, rank, kind, save_id)); };
  };
  Draft draft = complete();
  fb::Digest own(5, 6);
  expect_refused(draft, change(1, 40960, 0, 0, own), "part 1 is of rank 0");
  expect_refused(draft, change(0, 40960, 1, 0, own), "part 0 is of rank 1");
  expect_refused(draft, change(1, 40960, 1, 1, own), "part of kind 1", CKPT_UNSUPPORTED);
  expect_refused(draft, change(1, 40960, 1, 2, own), "part of kind 2", CKPT_UNSUPPORTED);
  expect_refused(draft, change(1, 40960, 1, 0, fb::Digest(5, 7)), "another save");
  expect_refused(draft, change(1, 40960 + 64, 1, 0, own), "no legal size");
  expect_refused(draft, change(1, 4096, 1, 0, own), "");
}

TEST(IndexRules, PartSizesDoNotOverflow) {
  Draft draft;
  draft.builder.parts.clear();
  add_part(draft.builder, ~uint64_t{4095});
  add_part(draft.builder, ~uint64_t{4095});
  expect_refused(draft, "overflow");
}

TEST(IndexRules, PartsOwnIndexListsNoParts) {
  Draft draft;
  expect_refused(draft, "a part's index lists parts", IndexKind::kPart);
}

// ---- texts ----

TEST(IndexRules, TextsLieInsideAndEndWithALineFeed) {
  Draft draft = complete();
  auto rename = [](uint32_t offset, uint32_t size) {
    return [=](const Index& index) {
      fb::Tensor tensor = index.tensors[0];
      set(index.tensors[0], fb::Tensor(fb::Text(offset, size), tensor.dtype(), tensor.ndim(), 0, tensor.shape(), tensor.segment_first(), tensor.segment_count()));
    };
  };
  expect_refused(draft, rename(~0u, 1), "outside the names");
  expect_refused(draft, rename(0, ~0u), "outside the names");
  expect_refused(draft, rename(~0u, ~0u), "outside the names");
  expect_refused(draft, [&](const Index& index) { rename(static_cast<uint32_t>(index.names.size()), 0)(index); }, "outside the names");
  expect_refused(draft, [&](const Index& index) { rename(static_cast<uint32_t>(index.names.size()) - 1, 1)(index); }, "outside the names");
  expect_refused(draft, rename(0, 0), "");  // "a" follows, not a line feed
  expect_refused(draft, [](const Index& index) { const_cast<char&>(index.names[1]) = 'x'; }, "outside the names");
}

TEST(IndexRules, NamesAreSortedUniqueAndLegal) {
  Draft draft = complete();
  expect_refused(draft, [](const Index& index) { set_name(index, index.tensors[1].name(), "a"); }, "tensor \"a\" is out of order");
  expect_refused(draft, [](const Index& index) { set_name(index, index.tensors[0].name(), "e"); }, "out of order");
  expect_refused(draft, [](const Index& index) { set_name(index, index.tensors[0].name(), "\x01"); }, "control");
  expect_refused(draft, [](const Index& index) { set_name(index, index.tensors[0].name(), "\xff"); }, "UTF-8");
  expect_refused(draft, [](const Index& index) { set_name(index, index.objects[0].name(), "a/../b\n"); }, "");
  Draft dots;
  dots.tensor("../x", CKPT_DTYPE_U8, {0});
  expect_refused(dots, "..");
  Draft empty;
  empty.tensor("", CKPT_DTYPE_U8, {0});
  expect_refused(empty, "");
}

// ---- tensors ----

fb::Tensor tensor_with(const fb::Tensor& t, uint16_t dtype, uint16_t ndim, uint32_t reserved, uint64_t shape_at, uint64_t first, uint64_t count) {
  return fb::Tensor(t.name(), dtype, ndim, reserved, shape_at, first, count);
}

TEST(IndexRules, TensorsHaveAShapeAndADtype) {
  auto change = [](uint16_t dtype, uint16_t ndim, uint32_t reserved, uint64_t shape_at) {
    return [=](const Index& index) {
      const fb::Tensor& t = index.tensors[0];
      set(t, tensor_with(t, dtype, ndim, reserved, shape_at, t.segment_first(), t.segment_count()));
    };
  };
  Draft draft = complete();
  expect_refused(draft, change(0x0200, 2, 0, 0), "no valid shape or dtype");
  expect_refused(draft, change(CKPT_DTYPE_F32, 17, 0, 0), "no valid shape or dtype");
  expect_refused(draft, change(CKPT_DTYPE_F32, 2, 1, 0), "no valid shape or dtype");
  expect_refused(draft, change(CKPT_DTYPE_F32, 2, 0, ~uint64_t{0}), "no valid shape or dtype");
  expect_refused(draft, [&](const Index& index) { change(CKPT_DTYPE_F32, 2, 0, index.numbers.size() - 1)(index); }, "no valid shape or dtype");
}

TEST(IndexRules, TensorsOf2To63BytesAreRefusedAndEmptyOnesOfHugeExtentsAreNot) {
  Draft draft = complete();
  expect_refused(draft, [](const Index& index) { set_number(index, index.tensors[0].shape(), uint64_t{1} << 62); }, "larger than 2^63-1 bytes");
  expect_refused(draft, [](const Index& index) { set_number(index, index.tensors[0].shape(), ~uint64_t{0}); }, "larger than 2^63-1 bytes");
  Draft huge;
  huge.tensor("e", CKPT_DTYPE_F32, {0, uint64_t{1} << 62, uint64_t{1} << 62});
  auto bytes = huge.encode();
  EXPECT_TRUE(Index::open(bytes, IndexKind::kManifest).ok());
}

TEST(IndexRules, EverySegmentHasOneOwnerInOrder) {
  auto change = [](size_t i, int64_t first, int64_t count) {
    return [=](const Index& index) {
      const fb::Tensor& t = index.tensors[i];
      set(t, tensor_with(t, t.dtype(), t.ndim(), 0, t.shape(), t.segment_first() + static_cast<uint64_t>(first), t.segment_count() + static_cast<uint64_t>(count)));
    };
  };
  Draft draft = complete();
  expect_refused(draft, change(0, 1, 0), "segments of tensor \"a\" do not follow");
  expect_refused(draft, change(1, -1, 0), "segments of tensor \"b\" do not follow");
  expect_refused(draft, change(0, 0, -1), "segments of tensor \"b\" do not follow");
  expect_refused(draft, change(2, 1, 0), "segments of tensor \"c\" do not follow");
  expect_refused(draft, change(3, 0, 1), "segments of tensor \"d\" do not follow");
  expect_refused(draft, change(3, 0, -1), "a segment belongs to no tensor");
  expect_refused(draft, change(3, 0, INT64_MAX), "segments of tensor \"d\" do not follow");
}

// ---- segments ----

struct SegmentFields {
  uint32_t part;
  uint8_t kind, codec, filter, width;
  uint64_t geometry, chunk_first, chunk_count;
};
Change with_segment(size_t i, std::function<void(SegmentFields&)> edit) {
  return [=](const Index& index) {
    const fb::Segment& s = index.segments[i];
    SegmentFields f{s.part(), s.kind(), s.codec(), s.filter(), s.filter_width(), s.geometry(), s.chunk_first(), s.chunk_count()};
    edit(f);
    set(s, fb::Segment(f.part, f.kind, f.codec, f.filter, f.width, f.geometry, f.chunk_first, f.chunk_count));
  };
}

TEST(IndexRules, UnknownKindCodecOrFilterIsUnsupported) {
  Draft draft = complete();
  expect_refused(draft, with_segment(0, [](auto& f) { f.kind = 2; }), "kind 2", CKPT_UNSUPPORTED);
  expect_refused(draft, with_segment(0, [](auto& f) { f.codec = 2; }), "codec 2", CKPT_UNSUPPORTED);
  expect_refused(draft, with_segment(0, [](auto& f) { f.filter = 3; }), "filter 3", CKPT_UNSUPPORTED);
}

TEST(IndexRules, FiltersHaveAWidthAndACodec) {
  Draft draft = complete();
  for (uint8_t width : {0, 3, 5, 16, 255}) expect_refused(draft, with_segment(2, [=](auto& f) { f.width = width; }), "filter width");
  expect_refused(draft, with_segment(0, [](auto& f) { f.width = 4; }), "filter width");
  expect_refused(draft, with_segment(3, [](auto& f) { f.filter = 1; f.width = 2; }), "a filter without a codec");
}

TEST(IndexRules, SegmentsLieInAPartAndInOrder) {
  Draft draft = complete();
  expect_refused(draft, with_segment(1, [](auto& f) { f.part = 2; }), "a segment in part 2 of 2");
  expect_refused(draft, with_segment(0, [](auto& f) { f.part = 1; }), "out of order");
  Draft same(1);
  same.tensor("a", CKPT_DTYPE_U8, {8}).segment(0, flat(0, 4), {chunk(8192, 4)}).segment(0, flat(4, 4), {chunk(4096, 4)});
  expect_refused(same, "out of order");
}

TEST(IndexRules, GeometryLiesInsideTheNumbersAndTheTensor) {
  Draft draft = complete();
  expect_refused(draft, with_segment(0, [](auto& f) { f.geometry = ~uint64_t{0}; }), "geometry lies outside");
  expect_refused(draft, [](const Index& index) { with_segment(0, [&](auto& f) { f.geometry = index.numbers.size() - 3; })(index); }, "geometry lies outside");
  auto number = [](size_t i, uint64_t at, uint64_t value) {
    return [=](const Index& index) { set_number(index, index.segments[i].geometry() + at, value); };
  };
  expect_refused(draft, number(0, 0, 1), "a box is empty or ends outside");
  expect_refused(draft, number(0, 2, 0), "a box is empty or ends outside");
  expect_refused(draft, number(0, 1, ~uint64_t{0}), "a box is empty or ends outside");
  expect_refused(draft, number(2, 0, 4), "a flat range is empty or ends outside");
  expect_refused(draft, number(2, 1, 0), "a flat range is empty or ends outside");
  expect_refused(draft, number(2, 0, ~uint64_t{0}), "a flat range is empty or ends outside");
}

TEST(IndexRules, PackedElementsEndAtWholeBytes) {
  auto packed = [](const Region& region, std::initializer_list<uint64_t> extents, uint32_t bytes) {
    Draft draft(1);
    draft.tensor("p", CKPT_DTYPE_F4_E2M1FN, extents).segment(0, region, {chunk(4096, bytes)});
    auto encoded = draft.encode();
    return Index::open(encoded, IndexKind::kManifest).ok();
  };
  EXPECT_TRUE(packed(flat(0, 15), {3, 5}, 8)) << "the whole tensor";
  EXPECT_TRUE(packed(box({0, 0}, {3, 5}), {3, 5}, 8)) << "the whole tensor";
  EXPECT_TRUE(packed(flat(2, 13), {3, 5}, 7)) << "to the end";
  EXPECT_TRUE(packed(flat(2, 4), {3, 5}, 2));
  EXPECT_FALSE(packed(flat(1, 4), {3, 5}, 2));
  EXPECT_FALSE(packed(flat(2, 3), {3, 5}, 2));
  EXPECT_TRUE(packed(box({1, 2}, {2, 2}), {3, 6}, 2));
  EXPECT_FALSE(packed(box({1, 1}, {2, 2}), {3, 6}, 2));
  EXPECT_FALSE(packed(box({1, 0}, {2, 3}), {3, 6}, 3));
  EXPECT_FALSE(packed(box({1, 0}, {1, 4}), {3, 5}, 2)) << "rows are no whole bytes";
}

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
  expect_refused(draft, with_segment(4, [](auto& f) { f.chunk_count = ~uint64_t{0}; }), "chunks of tensor \"d\" do not follow");
}

TEST(IndexRules, ChunkSizesAreLegalAndSumUp) {
  auto refused = [](std::initializer_list<fb::Chunk> chunks, uint64_t elements, std::string_view why, Codec codec = Codec::kRaw) {
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
  refused({fb::Chunk(4096, 16, 64 << 20, fb::Digest())}, 16 << 20, "stored size 16", Codec::kLz4);  // LZ4 never grows that much
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
  expect_refused(draft, [](const Index& index) { set_name(index, index.aliases[0].target(), "x"); }, "of a tensor that is not there");
  expect_refused(draft, [](const Index& index) { set_name(index, index.aliases[0].name(), "vied"); }, "alias \"tied.view\" is out of order");
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
    ObjectFields f{o.scope(), o.placement(), o.rank(), o.part(), o.size(), o.inline_offset(), o.chunk_first(), o.chunk_count()};
    edit(f);
    set(o, fb::Object(o.name(), o.media_type(), f.scope, f.placement, uint16_t{0}, f.rank, f.size, f.inline_offset, o.digest(), f.part, 0, f.chunk_first, f.chunk_count));
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
  expect_refused(draft, [](const Index& index) { set_name(index, index.objects[0].name(), "zhunked"); }, "out of order");
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
  expect_refused(draft, [](const Index& index) { set_name(index, index.attrs[3].owner(), "none"); }, "which is not there");
  expect_refused(draft, [](const Index& index) { set_name(index, index.attrs[0].key(), "k\1y"); }, "");
  expect_refused(draft, [](const Index& index) { set_name(index, index.attrs[0].value(), std::string_view("v\0lue", 5)); }, "");
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
  draft.object({.name = "o", .media_type = "", .scope = 0, .placement = 2, .rank = 0, .part = 1, .size = 10, .digest = {}, .inline_bytes = {}, .chunks = {}});
  auto bytes = draft.encode();
  EXPECT_TRUE(Index::open(bytes, IndexKind::kPart).ok());
  Draft own;
  own.builder.parts.clear();
  own.object({.name = "o", .media_type = "", .scope = 1, .placement = 2, .rank = 1, .part = 1, .size = 10, .digest = {}, .inline_bytes = {}, .chunks = {}});
  expect_refused(own, "no known kind", IndexKind::kPart);
}

// ---- bytes at random ----

TEST(IndexRules, NoFlippedBitMakesTheReaderLeaveTheBuffer) {
  // The digests of a file forbid this; whoever makes right digests for wrong bytes meets the rules alone. ASan watches.
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
