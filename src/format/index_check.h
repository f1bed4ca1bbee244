// Checks an index that was read against FORMAT §4; for Index::open only.
#pragma once

#include "format/index.h"

namespace ckpt::format {

class IndexCheck {
 public:
  IndexCheck(const Index& index, IndexKind kind) : index_(index), kind_(kind) {}

  // FORMAT with the first broken rule, in the order of the columns; UNSUPPORTED. Many records are divided among
  // `threads` threads.
  Status run(unsigned threads);
  // Call after run(): see Index::divided.
  std::vector<uint32_t> take_divided() { return std::move(divided_); }

 private:
  // ---- tensors, segments, chunks: index_tensors.cpp ----
  struct Extents;
  struct Range {
    Status status;
    std::vector<uint32_t> divided;
  };
  Status tensors(unsigned threads);
  Status tensor_range(size_t first, size_t end, std::vector<uint32_t>* divided) const;
  Status segments_of(const fb::Tensor& tensor, const Extents& extents, uint64_t* next_chunk, bool* whole) const;
  Status segment_of(const Extents& extents, const fb::Segment& segment, bool* whole) const;
  uint64_t end_of_segments(size_t count) const;
  uint64_t end_of_chunks(uint64_t count) const;
  static Status chunks_of(std::string_view owner, std::span<const fb::Chunk> list, uint64_t bytes, bool raw);

  // ---- the others: index_check.cpp ----
  Status aliases() const;
  Status objects() const;
  Status object_data(const fb::Object& object, uint64_t* next_chunk, uint64_t* next_inline) const;
  Status groups(uint64_t next_chunk) const;
  Status attrs() const;
  Status parts() const;
  Status counts(uint64_t part_bytes) const;

  static bool range_ok(uint64_t first, uint64_t count, size_t size) { return first <= size && count <= size - first; }
  bool text_ok(const fb::Text& text) const {
    uint64_t end = uint64_t{text.offset()} + text.size();
    return end < index_.names.size() && index_.names[end] == '\n';
  }

  const Index& index_;
  const IndexKind kind_;
  std::vector<uint32_t> divided_;
};

}  // namespace ckpt::format
