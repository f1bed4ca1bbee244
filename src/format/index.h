// The index of a checkpoint or a part: built from plain records, encoded as a FlatBuffer, opened without a copy.
// FORMAT §4. Pure: bytes in, bytes out. An Index is immutable; concurrent use is fine.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "ckpt_generated.h"
#include "format/buffer.h"

namespace ckpt::format {

// FORMAT §4 summary, as plain values.
struct Summary {
  uint32_t revision = CKPT_FORMAT_REVISION;
  uint64_t required_features = 0;
  Id store_id, session_id, save_id;
  std::string run, label, writer;
  uint64_t token = 0, attempt = 0, sequence = 0;
  int64_t step = -1;
  uint32_t world_size = 0;
  uint64_t created_unix_ms = 0;
  uint32_t part_count = 0;
  uint64_t tensor_count = 0, object_count = 0, part_bytes = 0;
  bool rebuilt = false;
  bool operator==(const Summary&) const = default;
};

std::vector<std::byte> encode_summary(const Summary& summary);
Result<Summary> decode_summary(Bytes bytes);  // FORMAT, REVISION

inline Id id_of(const fb::Digest& digest) { return {digest.lo(), digest.hi()}; }
inline fb::Digest digest_of(const Id& id) { return fb::Digest(id.lo, id.hi); }

enum class IndexKind { kManifest, kPart };

// A checked view of an encoded index. The bytes must outlive it and be aligned to 8.
class Index {
 public:
  // Checks structure and every rule of FORMAT §4 but two that need more than one record at a time: coverage
  // (checkpoint/index_coverage) and overlap of chunks (verify). FORMAT, REVISION. A large index is divided among
  // `threads` threads.
  static Result<Index> open(Bytes bytes, IndexKind kind, unsigned threads = 1);

  Summary summary;
  std::string_view names;
  std::span<const uint64_t> numbers;
  std::span<const fb::Part> parts;
  std::span<const fb::Tensor> tensors;
  std::span<const fb::Segment> segments;
  std::span<const fb::Chunk> chunks;
  std::span<const fb::Object> objects;
  std::span<const std::byte> inline_data;
  std::span<const fb::Alias> aliases;
  std::span<const fb::Attr> attrs;
  std::span<const fb::Group> groups;
  // Positions of the tensors that have elements but are not one whole segment. Only these need a check of coverage.
  std::vector<uint32_t> divided;

  std::string_view text(const fb::Text& text) const { return names.substr(text.offset(), text.size()); }
  Shape shape_of(const fb::Tensor& tensor) const;
  std::span<const uint64_t> extents_of(const fb::Tensor& tensor) const {
    return numbers.subspan(tensor.shape(), tensor.ndim());
  }
  Region region_of(const fb::Segment& segment, int ndim) const;
  std::span<const fb::Segment> segments_of(const fb::Tensor& tensor) const {
    return segments.subspan(tensor.segment_first(), tensor.segment_count());
  }
  std::span<const fb::Chunk> chunks_of(const fb::Segment& segment) const {
    return chunks.subspan(segment.chunk_first(), segment.chunk_count());
  }
  std::span<const fb::Chunk> chunks_of(const fb::Object& object) const {
    return chunks.subspan(object.chunk_first(), object.chunk_count());
  }
  const fb::Tensor* find_tensor(std::string_view name) const;
  const fb::Alias* find_alias(std::string_view name) const;
  // Whether a view (offset, extents, strides) stays inside a tensor of this index.
  bool view_fits(std::span<const uint64_t> view, const fb::Tensor& target) const;
  // The attributes of one owner ("" = the checkpoint), in order of key.
  std::span<const fb::Attr> attrs_of(std::string_view owner) const;
};

// Collects the records of an index in canonical order and encodes them. Callers add tensors, then aliases, objects,
// attributes, each in the order of FORMAT §4. Only this class assigns positions.
class IndexBuilder {
 public:
  Summary summary;
  std::vector<fb::Part> parts;

  void add_tensor(std::string_view name, uint16_t dtype, const Shape& shape);
  // Adds a segment to the tensor added last.
  void add_segment(uint32_t part, const Region& region, const Shape& shape, Codec codec, Filter filter,
                   int filter_width, std::span<const fb::Chunk> chunks);
  void add_alias(std::string_view name, std::string_view target, bool is_view, std::span<const uint64_t> view,
                 int ndim);
  struct ObjectRecord {
    std::string_view name, media_type;
    uint8_t scope, placement;
    uint32_t rank, part;
    uint64_t size;
    Digest digest;
    Bytes inline_bytes;                 // placement 0
    std::span<const fb::Chunk> chunks;  // placement 1
  };
  void add_object(const ObjectRecord& object);
  void add_attr(std::string_view owner, std::string_view key, std::string_view value);
  void add_group(uint64_t id, uint32_t index, uint32_t count, const Digest& digest, uint64_t entries,
                 const fb::Chunk& list);

  // Room for the tensors of other indexes: reserved columns are written once and never move while they grow.
  struct Room {
    size_t names = 0, numbers = 0, tensors = 0, segments = 0, chunks = 0;
    void add(const Index& index);
  };
  void reserve(const Room& room);

  uint64_t object_count() const { return objects_.size(); }

  // UNSUPPORTED above the 2 GiB of a FlatBuffer.
  Result<Buffer> encode() const;

 private:
  fb::Text put_text(std::string_view text);
  uint64_t put_numbers(std::span<const uint64_t> values);

  LargeVector<char> names_;
  LargeVector<uint64_t> numbers_;
  LargeVector<fb::Tensor> tensors_;
  LargeVector<fb::Segment> segments_;
  LargeVector<fb::Chunk> chunks_;
  LargeVector<fb::Object> objects_;
  LargeVector<std::byte> inline_data_;
  LargeVector<fb::Alias> aliases_;
  LargeVector<fb::Attr> attrs_;
  LargeVector<fb::Group> groups_;
};

}  // namespace ckpt::format
