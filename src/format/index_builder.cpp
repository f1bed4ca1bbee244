// Builds and encodes an index. Deterministic: equal records give equal bytes.
#include <limits>

#include "format/index.h"

namespace ckpt::format {

// FlatBuffers' offsets have 31 bits. This leaves some room for tables and padding.
static constexpr uint64_t kMaxIndexBytes = (uint64_t{1} << 31) - (1 << 20);

void IndexBuilder::Room::add(const Index& index) {
  names += index.names.size();
  numbers += index.numbers.size();
  tensors += index.tensors.size();
  segments += index.segments.size();
  chunks += index.chunks.size();
}

void IndexBuilder::reserve(const Room& room) {
  names_.reserve(room.names);
  numbers_.reserve(room.numbers);
  tensors_.reserve(room.tensors);
  segments_.reserve(room.segments);
  chunks_.reserve(room.chunks);
}

fb::Text IndexBuilder::put_text(std::string_view text) {
  fb::Text ref(static_cast<uint32_t>(names_.size()), static_cast<uint32_t>(text.size()));
  names_.insert(names_.end(), text.begin(), text.end());
  names_.push_back('\n');
  return ref;
}

uint64_t IndexBuilder::put_numbers(std::span<const uint64_t> values) {
  uint64_t position = numbers_.size();
  numbers_.insert(numbers_.end(), values.begin(), values.end());
  return position;
}

void IndexBuilder::add_tensor(std::string_view name, uint16_t dtype, const Shape& shape) {
  fb::Text text = put_text(name);
  uint64_t position = put_numbers(shape.span());
  tensors_.emplace_back(text, dtype, static_cast<uint16_t>(shape.ndim), 0u, position, segments_.size(), uint64_t{0});
}

void IndexBuilder::add_segment(uint32_t part, const Region& region, const Shape& shape, Codec codec, Filter filter,
                               int filter_width, std::span<const fb::Chunk> chunks) {
  bool flat = region.kind == RegionKind::kFlat;
  uint64_t position;
  if (flat) {
    const uint64_t range[2] = {region.flat_offset, region.flat_size};
    position = put_numbers(range);
  } else {
    const Box box = region.kind == RegionKind::kWhole ? Box::whole(shape) : region.box;
    position = put_numbers(box.offset.span());
    put_numbers(box.extent.span());
  }
  segments_.emplace_back(part, static_cast<uint8_t>(flat), static_cast<uint8_t>(codec), static_cast<uint8_t>(filter),
                         static_cast<uint8_t>(filter_width), position, chunks_.size(), chunks.size());
  chunks_.insert(chunks_.end(), chunks.begin(), chunks.end());
  fb::Tensor& tensor = tensors_.back();
  tensor = fb::Tensor(tensor.name(), tensor.dtype(), tensor.ndim(), 0u, tensor.shape(), tensor.segment_first(),
                      tensor.segment_count() + 1);
}

void IndexBuilder::add_alias(std::string_view name, std::string_view target, bool is_view,
                             std::span<const uint64_t> view, int ndim) {
  fb::Text name_text = put_text(name), target_text = put_text(target);
  aliases_.emplace_back(name_text, target_text, static_cast<uint8_t>(is_view), uint8_t{0}, static_cast<uint16_t>(ndim),
                        0u, put_numbers(view));
}

void IndexBuilder::add_object(const ObjectRecord& object) {
  fb::Text name = put_text(object.name), media_type = put_text(object.media_type);
  objects_.emplace_back(name, media_type, object.scope, object.placement, uint16_t{0}, object.rank, object.size,
                        inline_data_.size(), digest_of(object.digest), object.part, 0u, chunks_.size(),
                        object.chunks.size());
  inline_data_.insert(inline_data_.end(), object.inline_bytes.begin(), object.inline_bytes.end());
  chunks_.insert(chunks_.end(), object.chunks.begin(), object.chunks.end());
}

void IndexBuilder::add_attr(std::string_view owner, std::string_view key, std::string_view value) {
  fb::Text owner_text = put_text(owner), key_text = put_text(key), value_text = put_text(value);
  attrs_.emplace_back(owner_text, key_text, value_text);
}

void IndexBuilder::add_group(uint64_t id, uint32_t index, uint32_t count, const Digest& digest, uint64_t entries,
                             const fb::Chunk& list) {
  groups_.emplace_back(id, index, count, digest_of(digest), entries, chunks_.size());
  chunks_.push_back(list);
}

// Called last, so that the identity lies at the front of the buffer.
static flatbuffers::Offset<fb::Summary> put_summary(flatbuffers::FlatBufferBuilder& builder, const Summary& summary) {
  auto run = builder.CreateString(summary.run), label = builder.CreateString(summary.label);
  auto writer = builder.CreateString(summary.writer);
  fb::Digest store_id = digest_of(summary.store_id), session_id = digest_of(summary.session_id);
  fb::Digest save_id = digest_of(summary.save_id);
  return fb::CreateSummary(builder, summary.revision, summary.required_features, &store_id, &session_id, &save_id, run,
                           label, summary.token, summary.attempt, summary.sequence, summary.step, summary.world_size,
                           writer, summary.created_unix_ms, summary.part_count, summary.tensor_count,
                           summary.object_count, summary.part_bytes, summary.rebuilt);
}

std::vector<std::byte> encode_summary(const Summary& summary) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(put_summary(builder, summary), "CKPS");
  auto* data = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  return {data, data + builder.GetSize()};
}

template <typename T>
static flatbuffers::Offset<flatbuffers::Vector<const T*>> put(flatbuffers::FlatBufferBuilder& builder,
                                                              const LargeVector<T>& records) {
  return records.empty() ? 0 : builder.CreateVectorOfStructs(records.data(), records.size());
}

// Adds room behind the end of the encoder's memory, which the encoder fills from that end. The room is for the frame of
// a manifest.
class RoomBehind final : public flatbuffers::Allocator {
 public:
  static constexpr size_t kRoom = 4096;
  uint8_t* allocate(size_t size) override { return static_cast<uint8_t*>(allocate_large(size + kRoom)); }
  void deallocate(uint8_t* memory, size_t size) override { free_large(memory, size + kRoom); }
};

Result<Buffer> IndexBuilder::encode() const {
  uint64_t bytes = names_.size() + numbers_.size() * 8 + parts.size() * sizeof(fb::Part) +
                   tensors_.size() * sizeof(fb::Tensor) + segments_.size() * sizeof(fb::Segment) +
                   chunks_.size() * sizeof(fb::Chunk) + objects_.size() * sizeof(fb::Object) + inline_data_.size() +
                   aliases_.size() * sizeof(fb::Alias) + attrs_.size() * sizeof(fb::Attr) +
                   groups_.size() * sizeof(fb::Group);
  if (bytes > kMaxIndexBytes)
    return Status(CKPT_UNSUPPORTED,
                  strformat("the index takes {} bytes, more than the 2 GiB of format revision 0; larger "
                            "chunk_bytes make it smaller",
                            bytes));
  RoomBehind allocator;
  flatbuffers::FlatBufferBuilder builder(bytes + 4096, &allocator);
  auto chunks = put(builder, chunks_);
  auto segments = put(builder, segments_);
  auto tensors = put(builder, tensors_);
  auto numbers = numbers_.empty() ? 0 : builder.CreateVector(numbers_.data(), numbers_.size());
  auto names = builder.CreateString(names_.data(), names_.size());
  auto objects = put(builder, objects_);
  auto inline_data = inline_data_.empty() ? 0
                                          : builder.CreateVector(reinterpret_cast<const uint8_t*>(inline_data_.data()),
                                                                 inline_data_.size());
  auto aliases = put(builder, aliases_);
  auto attrs = put(builder, attrs_);
  auto groups = put(builder, groups_);
  auto part_list = parts.empty() ? 0 : builder.CreateVectorOfStructs(parts);
  auto identity = put_summary(builder, summary);
  builder.Finish(fb::CreateIndex(builder, identity, names, numbers, part_list, tensors, segments, chunks, objects,
                                 inline_data, aliases, attrs, groups),
                 "CKPI");
  size_t capacity, begin, size = builder.GetSize();
  auto* memory = reinterpret_cast<std::byte*>(builder.ReleaseRaw(capacity, begin));
  return Buffer(memory, capacity + RoomBehind::kRoom, begin, size);
}

}  // namespace ckpt::format
