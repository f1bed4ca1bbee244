// Indexes for the tests of their rules: drafts that are right, and their records, which tests change in place.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "format/index_builder.h"

namespace ckpt::format {

// ---- regions and chunks ----

inline fb::Chunk chunk(uint64_t offset, uint32_t raw, uint32_t stored = 0) {
  return fb::Chunk(offset, stored ? stored : raw, raw, fb::Digest(offset, raw));
}
inline Shape shape(std::initializer_list<uint64_t> extents) { return Shape::of(std::vector<uint64_t>(extents)); }
inline Region box(std::initializer_list<uint64_t> offset, std::initializer_list<uint64_t> extent) {
  return {RegionKind::kBox, {shape(offset), shape(extent)}, 0, 0};
}
inline Region flat(uint64_t offset, uint64_t size) { return {RegionKind::kFlat, {}, offset, size}; }
inline Region rows() { return {RegionKind::kRows, {}, 0, 0}; }

// ---- records as the schema lays them out ----

struct TensorFields {
  uint32_t name, name_size;
  uint16_t dtype, ndim;
  uint32_t shape, region_first, region_count;
};
struct HoldingFields {
  uint64_t stored_bytes;
  uint32_t segment_count, layout;
};
struct RegionFields {
  uint8_t kind, pad;
  uint16_t pad2;
  uint32_t geometry, segment_first, segment_count;
};
struct SegmentFields {
  uint64_t start, count;
  uint32_t chunk_first, chunk_count;
  uint8_t codec, filter, filter_width, pad;
  uint32_t pad2;
};
struct ChunkFields {
  uint64_t offset;
  uint32_t stored_size, raw_size;
  Digest digest;
};
struct AliasFields {
  uint32_t name, name_size, target, target_size;
  uint8_t is_view, pad;
  uint16_t ndim;
  uint32_t view;
};
struct ObjectFields {
  uint32_t name, name_size, media_type, media_type_size;
  uint64_t size;
  Digest digest;
  uint8_t scope, placement;
  uint16_t pad;
  uint32_t layout, inline_offset, chunk_first, chunk_count, pad2;
};
struct AttrFields {
  uint32_t owner, owner_size, key, key_size, value, value_size;
};
struct PartFields {
  uint64_t size, index_offset, index_size, copy_offset;
  Digest root_digest;
  Id save_id;
  uint32_t root_size, rank;
  uint8_t kind, pad;
  uint16_t pad2;
  uint32_t pad3;
};
struct BaseFields {
  PartFields part;
  uint64_t used;
};
struct PageFields {
  uint64_t offset, name_first, object_first;
  Digest digest;
  uint32_t first, first_size, size, pad;
};
struct LayoutFields {
  uint8_t kind, pad;
  uint16_t ndim;
  uint32_t cells, per_cell, run_first, run_count;
};
struct RunFields {
  uint32_t first, count;
  int32_t stride;
};
struct GroupFields {
  uint64_t id;
  Digest digest;
  uint64_t entry_count;
  ChunkFields list;
  uint32_t index, count;
};

// A record of a buffer that a test may change. Tests are not optimised, so the other type does no harm.
template <typename Fields, typename Record>
Fields& fields(std::span<const Record> records, size_t i) {
  static_assert(sizeof(Fields) == sizeof(Record));
  EXPECT_LT(i, records.size());
  return reinterpret_cast<Fields&>(const_cast<Record&>(records[i]));
}

// An open index and all its pages.
struct Opened {
  Root root;
  std::vector<Page> pages, part_pages;

  TensorFields& tensor(size_t i, size_t page = 0) const { return fields<TensorFields>(pages[page].tensors, i); }
  HoldingFields& holding(size_t i) const { return fields<HoldingFields>(pages[0].holdings, i); }
  RegionFields& region(size_t i) const { return fields<RegionFields>(pages[0].regions, i); }
  SegmentFields& segment(size_t i) const { return fields<SegmentFields>(pages[0].segments, i); }
  ChunkFields& chunk(size_t i) const { return fields<ChunkFields>(pages[0].chunks, i); }
  AliasFields& alias(size_t i, size_t page = 0) const { return fields<AliasFields>(pages[page].aliases, i); }
  ObjectFields& object(size_t i, size_t page = 0) const { return fields<ObjectFields>(pages[page].objects, i); }
  AttrFields& attr(size_t i, size_t page = 0) const { return fields<AttrFields>(pages[page].attrs, i); }
  PartFields& part(size_t i) const { return fields<PartFields>(part_pages[0].parts, i); }
  PageFields& page(size_t i) const { return fields<PageFields>(root.pages, i); }
  PageFields& part_page(size_t i) const { return fields<PageFields>(root.part_pages, i); }
  LayoutFields& layout(size_t i) const { return fields<LayoutFields>(root.layouts, i); }
  RunFields& run(size_t i) const { return fields<RunFields>(root.runs, i); }
  GroupFields& group(size_t i) const { return fields<GroupFields>(root.groups, i); }
  BaseFields& base(size_t i) const { return fields<BaseFields>(root.bases, i); }
  uint16_t& home(size_t i) const { return const_cast<uint16_t&>(pages[0].homes[i]); }
  uint64_t& used(size_t i) const { return const_cast<uint64_t&>(part_pages[0].used[i]); }
  uint64_t& number(size_t i) const { return const_cast<uint64_t&>(pages[0].numbers[i]); }
  uint64_t& cells(size_t i) const { return const_cast<uint64_t&>(root.numbers[i]); }
  // Overwrites text of a page from `at` on.
  void write(uint32_t at, std::string_view text, size_t page = 0) const {
    std::memcpy(const_cast<char*>(pages[page].names.data()) + at, text.data(), text.size());
  }
};

// Opens all of an index but checks no digests: what is left are the rules of FORMAT §4.
inline Result<Opened> open_all(const EncodedIndex& index, IndexKind kind, uint64_t data_end = 40960) {
  const Bytes bytes(index.bytes);
  Opened opened;
  CKPT_ASSIGN(opened.root, Root::open(bytes.last(index.root_size), kind, bytes.size(), data_end));
  auto page_bytes = [&](const fb::PageRef& page) { return bytes.subspan(page.offset(), page.size()); };
  for (size_t i = 0; i < opened.root.pages.size(); i++) {
    CKPT_ASSIGN(Page page, Page::open(page_bytes(opened.root.pages[i]), opened.root, i));
    opened.pages.push_back(page);
  }
  for (size_t i = 0; i < opened.root.part_pages.size(); i++) {
    CKPT_ASSIGN(Page page, Page::open_parts(page_bytes(opened.root.part_pages[i]), opened.root, i));
    opened.part_pages.push_back(page);
  }
  return opened;
}

// ---- drafts ----

inline Summary summary_of(uint32_t world, IndexKind kind = IndexKind::kManifest) {
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
  summary.part_count = kind == IndexKind::kManifest ? world : 0;
  return summary;
}

inline constexpr std::string_view kText = "some bytes";

// An index in the making. Keeps its counts right.
struct Draft {
  IndexKind kind;
  IndexBuilder builder;

  explicit Draft(IndexKind of, uint32_t world = 4) : kind(of) {
    builder.summary = summary_of(world, of);
    if (kind == IndexKind::kPart) return;
    for (uint32_t rank = 0; rank < world; rank++) add_part(40960, 8192, 1024);
  }
  void add_part(uint64_t size, uint64_t index_offset, uint64_t index_size) {
    builder.parts.emplace_back(size, index_offset, index_size, 0u, fb::Digest(1, 2), digest_of(builder.summary.save_id),
                               512u, static_cast<uint32_t>(builder.parts.size()), uint8_t{0}, uint8_t{0}, uint16_t{0},
                               0u);
    builder.summary.part_bytes += size;
  }
  // A part of another save: a base of a part, or of a manifest.
  Draft& base(const Id& save, uint32_t rank, uint64_t used, uint64_t index_offset = 8192) {
    const fb::Part part(40960, index_offset, 1024, 0u, fb::Digest(1, 2), digest_of(save), 512u, rank, uint8_t{1},
                        uint8_t{0}, uint16_t{0}, 0u);
    if (kind == IndexKind::kPart) {
      builder.bases.emplace_back(part, used);
      return *this;
    }
    builder.parts.push_back(part);
    builder.used.resize(builder.parts.size() - 1);
    builder.used.push_back(used);
    builder.summary.base_count++;
    builder.summary.base_bytes += part.size();
    builder.summary.used_bytes += used;
    return *this;
  }
  Draft& tensor(std::string_view name, uint16_t dtype, const std::vector<uint64_t>& extents) {
    shape_ = Shape::of(extents);
    builder.add_tensor(name, dtype, shape_.span());
    if (kind == IndexKind::kManifest) builder.summary.tensor_count++;
    return *this;
  }
  Draft& list(std::vector<uint32_t> parts) {
    builder.add_holding(100, 1, builder.list_layout(parts));
    return *this;
  }
  Draft& rows_in(std::vector<uint32_t> parts) {
    builder.add_holding(100, 1, builder.rows_layout(parts));
    return *this;
  }
  Draft& grid(std::vector<uint64_t> cells, uint32_t per_cell, std::vector<uint32_t> parts) {
    builder.add_holding(100, 1, builder.grid_layout(cells, per_cell, parts));
    return *this;
  }
  Draft& region(const Region& region) {
    builder.add_region(region, shape_.span());
    return *this;
  }
  Draft& segment(uint64_t start, uint64_t count, std::vector<fb::Chunk> chunks, const codec::CodecSpec& codec = {},
                 std::vector<uint16_t> homes = {}) {
    builder.add_segment(start, count, codec, chunks, homes);
    return *this;
  }
  Draft& object(std::string_view name, uint8_t scope, std::vector<uint32_t> parts) {
    builder.add_object({.name = name,
                        .media_type = "text/plain",
                        .scope = scope,
                        .placement = 3,
                        .size = scope ? 0u : 7u,
                        .digest = scope ? Digest{} : Digest{8, 9},
                        .inline_bytes = {},
                        .chunks = {},
                        .layout = builder.list_layout(parts)});
    builder.summary.object_count += parts.size();
    return *this;
  }
  // In a part, with its bytes in the index.
  Draft& inline_object(std::string_view name, uint8_t scope, std::string_view bytes) {
    builder.add_object({.name = name,
                        .media_type = "",
                        .scope = scope,
                        .placement = 0,
                        .size = bytes.size(),
                        .digest = {1, 1},
                        .inline_bytes = as_bytes(bytes),
                        .chunks = {}});
    return *this;
  }
  Draft& alias(std::string_view name, std::string_view target, std::vector<uint64_t> view = {}) {
    builder.add_alias(name, target, !view.empty(), view, static_cast<int>(view.size()) / 2);
    return *this;
  }
  Draft& attr(std::string_view owner, std::string_view key, std::string_view value) {
    builder.add_attr(owner, key, value);
    return *this;
  }
  EncodedIndex encode() {
    auto index = builder.encode(kind);
    EXPECT_TRUE(index.ok()) << index.status().message();
    return index.take();
  }

 private:
  Shape shape_;
};

// Four ranks; a grid of two cells of two parts each, lists, a tensor without elements, aliases, objects, attributes.
inline Draft some_manifest() {
  Draft draft(IndexKind::kManifest);
  draft.tensor("a", CKPT_DTYPE_F32, {4, 6}).grid({1, 2}, 2, {0, 2, 1, 3});
  draft.tensor("b", CKPT_DTYPE_I16, {10}).list({0, 3});
  draft.tensor("c", CKPT_DTYPE_F64, {0, 3}).list({});
  draft.alias("tied", "a").alias("tied.view", "a", {1, 2, 3, 6, 2});
  draft.object("own", 1, {1, 2, 3}).object("shared", 0, {0});
  draft.attr("", "key", "value").attr("a", "first", "line\nbreak").attr("a", "second", "").attr("tied", "note", "äöü");
  return draft;
}

// A part's index: two regions of a tensor, a compressed one in two segments, an empty tensor, a scalar; objects.
inline Draft some_part() {
  Draft draft(IndexKind::kPart);
  draft.tensor("a", CKPT_DTYPE_F32, {4, 6});
  draft.region(box({0, 0}, {4, 2})).segment(0, 8, {chunk(4096, 32)});
  draft.region(box({0, 2}, {4, 4})).segment(8, 8, {chunk(4128, 16), chunk(4144, 16)});
  draft.tensor("b", CKPT_DTYPE_I16, {10}).region(flat(0, 7));
  draft.segment(0, 5, {chunk(8192, 10, 9)}, {Codec::kLz4, Filter::kBitPlanes, 2}).segment(5, 2, {chunk(8448, 4)});
  draft.tensor("c", CKPT_DTYPE_F64, {0, 3});
  draft.tensor("d", CKPT_DTYPE_U8, {}).region({}).segment(0, 1, {chunk(12288, 1)});
  draft.alias("tied", "on another rank");
  const fb::Chunk data[] = {chunk(16384, 4096), chunk(20480, 904)};
  auto object = [&](std::string_view name, uint8_t scope, uint8_t placement, uint64_t size,
                    std::span<const fb::Chunk> chunks) {
    draft.builder.add_object({.name = name,
                              .media_type = "",
                              .scope = scope,
                              .placement = placement,
                              .size = size,
                              .digest = {1, 1},
                              .inline_bytes = {},
                              .chunks = chunks});
  };
  object("chunked", 1, 1, 5000, data);
  object("declared", 0, 2, 77, {});
  draft.inline_object("short", 1, "four").inline_object("text", 0, kText);
  draft.attr("not here", "key", "value");
  draft.builder.add_group(7, 1, 2, {1, 2}, 3, chunk(24576, 100, 50));
  return draft;
}

// ---- what tests say ----

inline void expect_refusal(const Result<Opened>& opened, std::string_view why, ckpt_status code = CKPT_FORMAT) {
  ASSERT_FALSE(opened.ok()) << "accepted, expected: " << why;
  EXPECT_EQ(opened.status().code(), code) << opened.status().message();
  EXPECT_NE(opened.status().message().find(why), std::string::npos)
      << opened.status().message() << "\n  expected: " << why;
}

inline void expect_refused(Draft draft, std::string_view why, ckpt_status code = CKPT_FORMAT) {
  expect_refusal(open_all(draft.encode(), draft.kind), why, code);
}
inline void expect_accepted(Draft draft) {
  auto opened = open_all(draft.encode(), draft.kind);
  EXPECT_TRUE(opened.ok()) << opened.status().message();
}

// Opens a sound index, changes one of its records, and expects that the next open refuses it for `why`.
using Change = std::function<void(const Opened&)>;
inline void expect_refused(Draft draft, const Change& change, std::string_view why, ckpt_status code = CKPT_FORMAT) {
  const EncodedIndex index = draft.encode();
  auto opened = open_all(index, draft.kind);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  change(*opened);
  expect_refusal(open_all(index, draft.kind), why, code);
}

struct Fault {
  Change change;
  std::string_view why;
  ckpt_status code = CKPT_FORMAT;
};
inline void expect_each_refused(const Draft& draft, const std::vector<Fault>& faults) {
  for (size_t i = 0; i < faults.size(); i++) {
    SCOPED_TRACE("fault " + std::to_string(i));
    expect_refused(draft, faults[i].change, faults[i].why, faults[i].code);
  }
}

}  // namespace ckpt::format
