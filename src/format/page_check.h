// Checks a page that was read against FORMAT §4; for Page::open only.
#pragma once

#include "format/page.h"

namespace ckpt::format {

class PageCheck {
 public:
  PageCheck(const Page& page, const Root& root)
      : page_(page), root_(root), manifest_(root.kind == IndexKind::kManifest) {}

  // FORMAT with the first broken rule; UNSUPPORTED.
  Status records(size_t number);
  Status parts(size_t number) const;
  Status part(const fb::Part& part, uint64_t number) const;

 private:
  struct Extents;

  // ---- tensors, regions, segments, chunks: page_tensors.cpp ----
  Status tensors();
  Status tensor(const fb::Tensor& tensor, std::string_view name);
  Status holding(const fb::Tensor& tensor, const Extents& extents) const;
  Status regions_of(const fb::Tensor& tensor, const Extents& extents);
  Status region(const fb::Region& region, const Extents& extents, uint64_t* elements) const;
  Status rows(const fb::Tensor& tensor, const Extents& extents) const;
  Status segments_of(const fb::Region& region, const Extents& extents, uint64_t elements);
  Status segment(const fb::Segment& segment, const Extents& extents, uint64_t elements) const;
  Status chunks_of(std::string_view owner, std::span<const fb::Chunk> list, uint64_t bytes, bool raw) const;
  Status homes() const;
  bool lies_in_file(const fb::Chunk& chunk, uint16_t home) const;

  // ---- the others: page_check.cpp ----
  Status aliases() const;
  Status objects();
  Status object_data(const fb::Object& object, std::string_view name);
  Status object_place(const fb::Object& object, std::string_view name) const;
  Status attrs() const;
  Status names(size_t number) const;
  Status ordered(std::string_view what, const fb::Text& name, std::string_view* previous, bool first) const;

  const Page& page_;
  const Root& root_;
  const bool manifest_;
  std::string_view from_, to_;  // the page's range of names; `to_` is empty for the last page
  uint64_t next_region_ = 0, next_segment_ = 0, next_chunk_ = 0, next_inline_ = 0, objects_ = 0;
};

}  // namespace ckpt::format
