// A part's own index: what the part holds, where, and what its rank declared.
#include "save/part_index.h"

#include "codec/checksum.h"

namespace ckpt::save {

static void add_objects(format::IndexBuilder& builder, const SaveContent& content, const PartLayout& layout,
                        std::span<const fb::Chunk> chunks, const Reuse& reuse, uint32_t rank) {
  size_t i = 0;
  for (const auto& [name, object] : content.objects) {
    size_t item = layout.object_items[i++];
    bool declared = object.scope == CKPT_OBJECT_SHARED && rank != 0;
    bool inlined = !declared && item == kNoItem;
    builder.add_object(
        {.name = name,
         .media_type = object.media_type,
         .scope = object.scope,
         .placement = static_cast<uint8_t>(declared  ? 2
                                           : inlined ? 0
                                                     : 1),
         .size = object.data.size(),
         .digest = codec::xxh3_128(object.data),
         .inline_bytes = inlined ? Bytes(object.data) : Bytes(),
         .chunks = item == kNoItem ? std::span<const fb::Chunk>()
                                   : chunks.subspan(layout.items[item].chunk_first, layout.items[item].chunk_count),
         .homes = item == kNoItem ? std::span<const uint16_t>()
                                  : reuse.homes(layout.items[item].chunk_first, layout.items[item].chunk_count)});
  }
}

// The elements of an item, in the row-major order of its region.
static void add_segment(format::IndexBuilder& builder, const Item& item, std::span<const fb::Chunk> chunks,
                        const Reuse& reuse) {
  const SaveTensor& tensor = *item.source.tensor;
  const uint64_t first = item.source.first;
  const auto bits = static_cast<uint64_t>(dtype_bits(tensor.dtype));
  uint64_t start = first / tensor.width, count = item.size / tensor.width;
  if (bits % 8 != 0) {  // a unit is a byte; the last one may be only partly used
    const bool to_the_end = first + item.size == tensor.bytes;
    start = first * 8 / bits;
    count = (to_the_end ? tensor.elements() : (first + item.size) * 8 / bits) - start;
  }
  codec::CodecSpec codec = item.codec;
  if (codec.codec == Codec::kRaw || codec.filter == Filter::kNone) codec.filter_width = 0;
  if (codec.codec == Codec::kRaw) codec.filter = Filter::kNone;
  builder.add_segment(start, count, codec, chunks.subspan(item.chunk_first, item.chunk_count),
                      reuse.homes(item.chunk_first, item.chunk_count));
}

// As the base has it.
static void add_carried(format::IndexBuilder& builder, const Carried::Tensor& carried, const Reuse& reuse) {
  const auto& [name, page, tensor] = carried;
  const auto extents = page->extents_of(*tensor);
  builder.add_tensor(name, tensor->dtype(), extents);
  for (const fb::Region& region : page->regions_of(*tensor)) {
    builder.add_region(page->region_of(region, tensor->ndim()), extents);
    for (const fb::Segment& segment : page->segments_of(region)) {
      const auto [chunks, homes] = reuse.carry(*page, page->chunks_of(segment));
      builder.add_segment(
          segment.start(), segment.count(),
          {static_cast<Codec>(segment.codec()), static_cast<Filter>(segment.filter()), segment.filter_width()}, chunks,
          homes);
    }
  }
}

static void add_tensors(format::IndexBuilder& builder, const SaveContent& content, const PartLayout& layout,
                        std::span<const fb::Chunk> chunks, const Reuse& reuse,
                        std::span<const Carried::Tensor> carried) {
  auto item = layout.items.begin();
  std::string_view added;
  auto add_before = [&](const SaveTensor* tensor) {
    for (; !carried.empty() && (!tensor || carried[0].name < tensor->name); carried = carried.subspan(1))
      add_carried(builder, carried[0], reuse);
  };
  for (const SaveTensor* tensor : content.tensors) {
    add_before(tensor);
    bool here = item != layout.items.end() && item->source.tensor == tensor;
    if (!here && tensor->bytes != 0) continue;
    if (tensor->name != added) builder.add_tensor(tensor->name, tensor->dtype, tensor->extents());
    added = tensor->name;
    if (here) builder.add_region(tensor->region(), tensor->extents());
    for (; item != layout.items.end() && item->source.tensor == tensor; ++item)
      add_segment(builder, *item, chunks, reuse);
  }
  add_before(nullptr);
}

Result<format::EncodedIndex> encode_part_index(const SaveIdentity& identity, const SaveContent& content,
                                               const PartLayout& layout, std::span<const fb::Chunk> chunks,
                                               const Reuse& reuse, const Carried& carried) {
  format::IndexBuilder builder;
  builder.summary = identity.summary;
  uint32_t rank = identity.rank;
  builder.bases.assign(reuse.bases().begin(), reuse.bases().end());
  add_tensors(builder, content, layout, chunks, reuse, carried.tensors);
  for (const auto& [name, alias] : content.aliases)
    builder.add_alias(name, alias.target, alias.is_view, alias.view, alias.ndim);
  add_objects(builder, content, layout, chunks, reuse, rank);
  for (const auto& [owner, values] : content.attrs) {
    if (owner.empty() && rank != 0) continue;
    for (const auto& [key, value] : values) builder.add_attr(owner, key, value);
  }
  for (const GroupPlan& group : layout.groups)
    builder.add_group(group.id, group.index, group.count, group.digest, group.entries,
                      chunks[layout.items[group.item].chunk_first]);
  return builder.encode(format::IndexKind::kPart);
}

}  // namespace ckpt::save
