// Collects the records of an index in canonical order, cuts them into pages and encodes them (FORMAT §4, §6).
// Deterministic: equal records give equal bytes. Not thread-safe.
#pragma once

#include <span>
#include <string>
#include <unordered_map>

#include "codec/codec.h"
#include "format/buffer.h"
#include "format/page.h"

namespace ckpt::format {

struct EncodedIndex {
  Buffer bytes;
  uint64_t root_size = 0;
  Digest root_digest;
};

// Callers add tensors, aliases, objects and attributes, each in the order of FORMAT §4.
class IndexBuilder {
 public:
  Summary summary;
  LargeVector<fb::Part> parts;  // of a manifest: those of kind 0, then bases
  LargeVector<uint64_t> used;   // of each of these, if there are bases
  std::vector<fb::Base> bases;  // of a part

  void add_tensor(std::string_view name, uint16_t dtype, std::span<const uint64_t> extents);
  // These concern the tensor added last. In a manifest:
  void add_holding(uint64_t stored_bytes, uint32_t segments, uint32_t layout);
  // In a part: a region, and segments of the region added last.
  void add_region(const Region& region, std::span<const uint64_t> extents);
  // `homes`: of the chunks; empty: all are in the part.
  void add_segment(uint64_t start, uint64_t count, const codec::CodecSpec& codec, std::span<const fb::Chunk> chunks,
                   std::span<const uint16_t> homes = {});

  void add_alias(std::string_view name, std::string_view target, bool is_view, std::span<const uint64_t> view,
                 int ndim);
  struct ObjectRecord {
    std::string_view name, media_type;
    uint8_t scope, placement;
    uint64_t size;
    Digest digest;
    Bytes inline_bytes;                 // placement 0
    std::span<const fb::Chunk> chunks;  // placement 1
    uint32_t layout = 0;                // placement 3
    std::span<const uint16_t> homes{};  // as in add_segment
  };
  void add_object(const ObjectRecord& object);
  void add_attr(std::string_view owner, std::string_view key, std::string_view value);
  void add_group(uint64_t id, uint32_t index, uint32_t count, const Digest& digest, uint64_t entries,
                 const fb::Chunk& list);

  // The layouts of a manifest; equal ones are one. `holders`: parts, ascending.
  uint32_t list_layout(std::span<const uint32_t> holders);
  // The same, of a tensor whose rows the parts hold one after the other.
  uint32_t rows_layout(std::span<const uint32_t> holders);
  // `holders`: `per_cell` for each cell.
  uint32_t grid_layout(std::span<const uint64_t> cells, uint32_t per_cell, std::span<const uint32_t> holders);

  uint64_t tensor_count() const { return tensors_.size(); }
  // A tensor that was added; null if there is none of this name.
  const fb::Tensor* find_tensor(std::string_view name) const;
  std::span<const uint64_t> extents_of(const fb::Tensor& tensor) const {
    return {numbers_.data() + tensor.shape(), tensor.ndim()};
  }

  // UNSUPPORTED if a column grows beyond what positions can name.
  Result<EncodedIndex> encode(IndexKind kind);

 private:
  // The records of one page: [begin, end) of each column.
  struct Range {
    size_t begin = 0, end = 0;
  };
  struct Cut {
    Range tensors, aliases, objects, attrs;
    uint64_t bytes = 0;
  };
  class PageWriter;

  fb::Text put_text(std::string_view text);
  uint32_t put_numbers(std::span<const uint64_t> values);
  void put_chunks(std::span<const fb::Chunk> chunks, std::span<const uint16_t> homes);
  uint32_t intern(uint8_t kind, std::span<const uint64_t> cells, uint32_t per_cell, std::span<const uint32_t> holders);
  std::string_view text(const fb::Text& text) const { return {names_.data() + text.offset(), text.size()}; }
  std::string_view first_name(const Cut& cut) const;
  std::string_view next_name(const Cut& at) const;
  uint64_t take_name(std::string_view name, Cut* at) const;
  uint64_t bytes_of(const fb::Tensor& tensor, IndexKind kind) const;
  std::vector<Cut> cut_pages(IndexKind kind) const;
  uint64_t objects_on(const Cut& cut, IndexKind kind) const;

  LargeVector<char> names_;
  LargeVector<uint64_t> numbers_;
  LargeVector<fb::Tensor> tensors_;
  LargeVector<fb::Holding> holdings_;
  LargeVector<fb::Region> regions_;
  LargeVector<fb::Segment> segments_;
  LargeVector<fb::Chunk> chunks_;
  LargeVector<uint16_t> homes_;  // of the first of them; those after lie in the part
  LargeVector<fb::Object> objects_;
  LargeVector<std::byte> inline_data_;
  LargeVector<fb::Alias> aliases_;
  LargeVector<fb::Attr> attrs_;
  std::vector<fb::Group> groups_;
  std::vector<uint64_t> cells_;
  std::vector<fb::Layout> layouts_;
  std::vector<fb::PartRun> runs_;
  std::unordered_map<std::string, uint32_t> known_layouts_;
};

}  // namespace ckpt::format
