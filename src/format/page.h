// A page of an index: records whose names lie in the page's range, or records of parts (FORMAT §4). A checked view of
// encoded bytes, which must outlive it and be aligned to 8. Immutable; concurrent use is fine.
#pragma once

#include <span>
#include <string_view>

#include "format/index_root.h"

namespace ckpt::format {

class Page {
 public:
  // Opens page `number` of root.pages, or of root.part_pages. Checks every rule of FORMAT §4 but those that need other
  // pages: targets of aliases, what parts hold together, overlap of chunks. FORMAT, UNSUPPORTED.
  static Result<Page> open(Bytes bytes, const Root& root, size_t number);
  static Result<Page> open_parts(Bytes bytes, const Root& root, size_t number);

  std::string_view names;
  std::span<const uint64_t> numbers;
  std::span<const fb::Tensor> tensors;
  std::span<const fb::Holding> holdings;
  std::span<const fb::Region> regions;
  std::span<const fb::Segment> segments;
  std::span<const fb::Chunk> chunks;
  std::span<const fb::Object> objects;
  std::span<const std::byte> inline_data;
  std::span<const fb::Alias> aliases;
  std::span<const fb::Attr> attrs;
  std::span<const fb::Part> parts;
  std::span<const uint16_t> homes;  // of the chunks, or none
  std::span<const uint64_t> used;   // of the parts, or none

  std::string_view text(const fb::Text& text) const { return names.substr(text.offset(), text.size()); }
  const char* c_text(const fb::Text& text) const { return names.data() + text.offset(); }
  Shape shape_of(const fb::Tensor& tensor) const { return Shape::of(extents_of(tensor)); }
  std::span<const uint64_t> extents_of(const fb::Tensor& tensor) const {
    return numbers.subspan(tensor.shape(), tensor.ndim());
  }
  const fb::Holding& holding_of(const fb::Tensor& tensor) const {
    return holdings[static_cast<size_t>(&tensor - tensors.data())];
  }
  std::span<const fb::Region> regions_of(const fb::Tensor& tensor) const {
    return regions.subspan(tensor.region_first(), tensor.region_count());
  }
  std::span<const fb::Segment> segments_of(const fb::Region& region) const {
    return segments.subspan(region.segment_first(), region.segment_count());
  }
  std::span<const fb::Chunk> chunks_of(const fb::Segment& segment) const {
    return chunks.subspan(segment.chunk_first(), segment.chunk_count());
  }
  std::span<const fb::Chunk> chunks_of(const fb::Object& object) const {
    return chunks.subspan(object.chunk_first(), object.chunk_count());
  }
  // Where a chunk of this page lies: 0: in the part; k: in base k - 1 of the root.
  uint16_t home_of(const fb::Chunk& chunk) const {
    return homes.empty() ? uint16_t{0} : homes[static_cast<size_t>(&chunk - chunks.data())];
  }
  // In elements.
  Region region_of(const fb::Region& region, int ndim) const;
  // Offset, extents, strides of a view; empty for an alias of the whole target.
  std::span<const uint64_t> view_of(const fb::Alias& alias) const {
    return numbers.subspan(alias.view(), alias.is_view() ? 1 + 2 * size_t{alias.ndim()} : 0);
  }
  const fb::Tensor* find_tensor(std::string_view name) const;
  const fb::Alias* find_alias(std::string_view name) const;
  const fb::Object* find_object(std::string_view name) const;
  // The attributes of one owner ("" = the checkpoint), in order of key.
  std::span<const fb::Attr> attrs_of(std::string_view owner) const;

 private:
  static Result<Page> view(Bytes bytes);
};

// Whether a view (offset, extents, strides) stays inside a tensor of this shape and dtype.
bool view_fits(std::span<const uint64_t> view, std::span<const uint64_t> extents, uint16_t dtype);

}  // namespace ckpt::format
