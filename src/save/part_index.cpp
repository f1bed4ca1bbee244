// A part's own index: what the part holds, where, and what its rank declared.
#include "save/part_index.h"

#include "format/checksum.h"

namespace ckpt::save {

static void add_objects(format::IndexBuilder& builder, const SaveContent& content, const PartLayout& layout,
                        std::span<const fb::Chunk> chunks, uint32_t rank) {
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
         .rank = object.scope == CKPT_OBJECT_PER_RANK ? rank : 0,
         .part = rank,
         .size = object.data.size(),
         .digest = format::xxh3_128(object.data),
         .inline_bytes = inlined ? Bytes(object.data) : Bytes(),
         .chunks = item == kNoItem ? std::span<const fb::Chunk>()
                                   : chunks.subspan(layout.items[item].chunk_first, layout.items[item].chunk_count)});
  }
}

// The region of an item in elements.
static Region region_of(const Item& item) {
  const SaveTensor& tensor = *item.tensor;
  if (dtype_bits(tensor.dtype) % 8 == 0) return item.cut ? *item.cut : tensor.region();
  return plan::to_elements(tensor.geometry(), tensor.dtype, tensor.shape(), item.cut ? *item.cut : tensor.units());
}

static void add_tensors(format::IndexBuilder& builder, const SaveContent& content, const PartLayout& layout,
                        std::span<const fb::Chunk> chunks, uint32_t rank) {
  auto item = layout.items.begin();
  for (const SaveTensor* tensor : content.tensors) {
    bool here = item != layout.items.end() && item->tensor == tensor;
    if (!here && tensor->bytes != 0) continue;
    Shape shape = tensor->shape();
    builder.add_tensor(tensor->name, tensor->dtype, shape);
    for (; item != layout.items.end() && item->tensor == tensor; ++item) {
      bool filtered = item->codec.codec != Codec::kRaw && item->codec.filter != Filter::kNone;
      builder.add_segment(rank, region_of(*item), shape, item->codec.codec, item->codec.filter,
                          filtered ? item->codec.filter_width : 0,
                          chunks.subspan(item->chunk_first, item->chunk_count));
    }
  }
}

Result<format::Buffer> encode_part_index(const SaveIdentity& identity, const SaveContent& content,
                                         const PartLayout& layout, std::span<const fb::Chunk> chunks) {
  format::IndexBuilder builder;
  builder.summary = identity.summary;
  uint32_t rank = identity.rank;
  add_tensors(builder, content, layout, chunks, rank);
  for (const auto& [name, alias] : content.aliases)
    builder.add_alias(name, alias.target, alias.is_view, alias.view, alias.ndim);
  add_objects(builder, content, layout, chunks, rank);
  for (const auto& [owner, values] : content.attrs) {
    if (owner.empty() && rank != 0) continue;
    for (const auto& [key, value] : values) builder.add_attr(owner, key, value);
  }
  for (const GroupPlan& group : layout.groups)
    builder.add_group(group.id, group.index, group.count, group.digest, group.entries,
                      chunks[layout.items[group.item].chunk_first]);
  return builder.encode();
}

}  // namespace ckpt::save
