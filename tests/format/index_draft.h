// Indexes for the tests of their rules: drafts that are right but for what a test breaks.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "format/slot.h"

namespace ckpt::format {

inline fb::Chunk chunk(uint64_t offset, uint32_t raw, uint32_t stored = 0) {
  return fb::Chunk(offset, stored ? stored : raw, raw, fb::Digest(offset, raw));
}

inline Region box(std::initializer_list<uint64_t> offset, std::initializer_list<uint64_t> extent) {
  Region region;
  region.kind = RegionKind::kBox;
  region.box = {Shape::of(std::vector<uint64_t>(offset)), Shape::of(std::vector<uint64_t>(extent))};
  return region;
}

inline Region flat(uint64_t offset, uint64_t size) {
  Region region;
  region.kind = RegionKind::kFlat;
  region.flat_offset = offset;
  region.flat_size = size;
  return region;
}

inline Shape shape(std::initializer_list<uint64_t> extents) { return Shape::of(std::vector<uint64_t>(extents)); }

inline void add_part(IndexBuilder& builder, uint64_t size = 40960) {
  builder.parts.emplace_back(size, fb::Digest(1, 2), digest_of(builder.summary.save_id),
                             static_cast<uint32_t>(builder.parts.size()), uint8_t{0}, uint8_t{0}, uint16_t{0});
}

inline Summary summary_of(uint32_t world) {
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

// An index in the making. Keeps its counts right.
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
  Draft& segment(uint32_t part, const Region& region, std::initializer_list<fb::Chunk> chunks,
                 Codec codec = Codec::kRaw, Filter filter = Filter::kNone, int width = 0) {
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
    return {bytes->begin(), bytes->end()};
  }
  std::vector<std::byte> framed() {
    Buffer file = frame_manifest(Buffer(encode()), builder.summary);
    return {file.begin(), file.end()};
  }

 private:
  Shape shape_;
};

inline constexpr std::string_view kText = "some bytes";

inline std::string refusal(Bytes bytes, IndexKind kind = IndexKind::kManifest, ckpt_status expected = CKPT_FORMAT) {
  auto index = Index::open(bytes, kind);
  EXPECT_FALSE(index.ok());
  if (index.ok()) return "accepted";
  EXPECT_EQ(index.status().code(), expected) << index.status().message();
  return index.status().message();
}

inline void expect_refused(Draft& draft, std::string_view why, IndexKind kind = IndexKind::kManifest,
                           ckpt_status expected = CKPT_FORMAT) {
  auto bytes = draft.encode();
  std::string said = refusal(bytes, kind, expected);
  EXPECT_NE(said.find(why), std::string::npos) << said << "\n  expected: " << why;
}

// Opens a sound index, changes one of its records in place, and expects that the next open refuses it for `why`.
using Change = std::function<void(const Index&)>;
inline void expect_refused(Draft& draft, const Change& change, std::string_view why, ckpt_status expected = CKPT_FORMAT,
                           IndexKind kind = IndexKind::kManifest) {
  auto bytes = draft.encode();
  auto index = Index::open(bytes, kind);
  ASSERT_TRUE(index.ok()) << index.status().message();
  change(*index);
  std::string said = refusal(bytes, kind, expected);
  EXPECT_NE(said.find(why), std::string::npos) << said << "\n  expected: " << why;
}

template <typename T>
inline void set(const T& record, const T& value) {
  std::memcpy(const_cast<T*>(&record), &value, sizeof value);
}
inline void set_number(const Index& index, uint64_t position, uint64_t value) {
  const_cast<uint64_t&>(index.numbers[position]) = value;
}
inline void set_name(const Index& index, const fb::Text& text, std::string_view name) {
  std::memcpy(const_cast<char*>(index.names.data()) + text.offset(), name.data(), name.size());
}

// Two ranks; boxes, flat ranges, a compressed one, an empty tensor, a scalar; aliases, objects, attributes.
inline Draft complete() {
  Draft draft;
  draft.tensor("a", CKPT_DTYPE_F32, {4, 6})
      .segment(0, box({0, 0}, {4, 2}), {chunk(4096, 32)})
      .segment(1, box({0, 2}, {4, 4}), {chunk(4096, 32), chunk(4128, 32)});
  draft.tensor("b", CKPT_DTYPE_I16, {10})
      .segment(0, flat(0, 7), {chunk(8192, 14, 9)}, Codec::kLz4, Filter::kBitPlanes, 2)
      .segment(1, flat(7, 3), {chunk(8192, 6)});
  draft.tensor("c", CKPT_DTYPE_F64, {0, 3});
  draft.tensor("d", CKPT_DTYPE_U8, {}).segment(1, Region{}, {chunk(12288, 1)});
  draft.builder.add_alias("tied", "a", false, {}, 0);
  const uint64_t view[] = {1, 2, 3, 6, 2};
  draft.builder.add_alias("tied.view", "a", true, view, 2);
  static const fb::Chunk data[] = {chunk(16384, 4096), chunk(20480, 904)};
  draft.object({.name = "chunked",
                .media_type = "text/plain",
                .scope = 0,
                .placement = 1,
                .rank = 0,
                .part = 0,
                .size = 5000,
                .digest = {1, 1},
                .inline_bytes = {},
                .chunks = data});
  for (uint32_t rank : {0u, 1u})
    draft.object({.name = "own",
                  .media_type = "",
                  .scope = 1,
                  .placement = 0,
                  .rank = rank,
                  .part = rank,
                  .size = kText.size() - rank,
                  .digest = {2, rank},
                  .inline_bytes = as_bytes(kText.substr(rank)),
                  .chunks = {}});
  draft.builder.add_attr("", "key", "value");
  draft.builder.add_attr("a", "first", "line\nbreak");
  draft.builder.add_attr("a", "second", "");
  draft.builder.add_attr("tied", "note", "äöü");
  return draft;
}

struct SegmentFields {
  uint32_t part;
  uint8_t kind, codec, filter, width;
  uint64_t geometry, chunk_first, chunk_count;
};
inline Change with_segment(size_t i, std::function<void(SegmentFields&)> edit) {
  return [=](const Index& index) {
    const fb::Segment& s = index.segments[i];
    SegmentFields f{s.part(),         s.kind(),     s.codec(),       s.filter(),
                    s.filter_width(), s.geometry(), s.chunk_first(), s.chunk_count()};
    edit(f);
    set(s, fb::Segment(f.part, f.kind, f.codec, f.filter, f.width, f.geometry, f.chunk_first, f.chunk_count));
  };
}

}  // namespace ckpt::format
