#include "session/layout.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "format/checksum.h"
#include "plan/box.h"
#include "plan/deal.h"

namespace ckpt::session {

// ---- from tensors to pieces ----

struct PiecePlan {
  size_t tensor;
  Region units;
  uint64_t first, bytes;
};

// Where a sub-region starts in the row-major order of the memory that holds the whole region.
static uint64_t start_of(const SaveTensor& tensor, const Region& piece) {
  if (piece.kind == RegionKind::kWhole) return 0;
  if (piece.kind == RegionKind::kFlat)
    return piece.flat_offset - (tensor.units.kind == RegionKind::kFlat ? tensor.units.flat_offset : 0);
  Order order = order_of(tensor.geometry, tensor.units);
  Shape strides = plan::contiguous_strides(order.box.extent);
  uint64_t start = 0;
  for (int i = 0; i < strides.ndim; i++) start += (piece.box.offset[i] - order.box.offset[i]) * strides[i];
  return start;
}

static Result<PiecePlan> plan_piece(const SaveContent& content, size_t tensor_index, const Region& region,
                                    uint64_t bytes) {
  const SaveTensor& tensor = content.tensors[tensor_index];
  CKPT_ASSIGN(Region units, to_units(tensor.geometry, tensor.dtype, tensor.shape, region));
  return PiecePlan{tensor_index, units, start_of(tensor, units), bytes};
}

using GroupKey = std::tuple<uint64_t, uint32_t>;  // id, count
struct GroupMembers {
  uint32_t index = 0;
  std::vector<size_t> tensors;
};

static Result<std::map<GroupKey, GroupMembers>> collect_groups(const SaveContent& content) {
  std::map<GroupKey, GroupMembers> groups;
  for (size_t i = 0; i < content.tensors.size(); i++) {
    const SaveTensor& tensor = content.tensors[i];
    if (tensor.replica_count == 1) continue;
    auto [entry, fresh] = groups.try_emplace({tensor.replica_group, tensor.replica_count});
    if (fresh) entry->second.index = tensor.replica_index;
    if (entry->second.index != tensor.replica_index)
      return Status(CKPT_INVALID,
                    strprintf("tensor \"%s\": replica index %u, but %u for other tensors of replica group %llu",
                              tensor.name.c_str(), tensor.replica_index, entry->second.index,
                              static_cast<unsigned long long>(tensor.replica_group)))
          .with("tensor", tensor.name);
    entry->second.tensors.push_back(i);
  }
  return groups;
}

static Status deal_group(const SaveContent& content, const GroupKey& key, const GroupMembers& members,
                         const LayoutOptions& options, std::vector<PiecePlan>* pieces, std::vector<GroupPlan>* groups) {
  std::vector<plan::DealEntry> entries;
  entries.reserve(members.tensors.size());
  for (size_t i : members.tensors) {
    const SaveTensor& tensor = content.tensors[i];
    entries.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.region, tensor.bytes});
  }
  auto [id, count] = key;
  for (const auto& piece :
       plan::deal(entries, members.index, count, {options.chunk_bytes, options.large_tensor_bytes})) {
    CKPT_ASSIGN(PiecePlan planned, plan_piece(content, members.tensors[piece.entry], piece.region, piece.bytes));
    pieces->push_back(std::move(planned));
  }
  GroupPlan group{.id = id,
                  .index = members.index,
                  .count = count,
                  .entries = entries.size(),
                  .digest = {},
                  .list = plan::declaration_list(entries)};
  group.digest = format::xxh3_128(group.list);
  // The list only explains a mismatch; the digest of the whole finds it.
  uint64_t limit = std::min(options.block_bytes, kMaxChunkBytes);
  if (group.list.size() > limit) group.list.resize(plan::declarations_within(group.list, limit));
  groups->push_back(std::move(group));
  return Ok();
}

// ---- from pieces to items, chunks and blocks ----

static void add_item(PartLayout* layout, Item item, uint64_t chunk_raw) {
  item.chunk_raw = chunk_raw;
  item.chunk_first = layout->chunk_count;
  item.chunk_count = (item.size + chunk_raw - 1) / chunk_raw;
  layout->chunk_count += item.chunk_count;
  layout->data_bytes += item.size;
  layout->items.push_back(std::move(item));
}

// A sample of a tensor's bytes for compression=auto: its first chunk, or what of it is contiguous.
static format::CodecSpec codec_for(const Item& item, const std::string& compression, std::vector<std::byte>* scratch) {
  if (compression == "none") return {};
  uint64_t width = item.tensor->geometry.width;
  uint64_t sample = std::min<uint64_t>(item.size, 1 << 20) / width;
  scratch->resize(sample * width);
  device::gather(item.tensor->memory, item.tensor->memory_extent, item.first + (item.size / width - sample) / 2, sample,
                 *scratch);
  return format::choose_codec(compression, item.tensor->dtype, *scratch);
}

static void cut_blocks(PartLayout* layout, uint64_t block_bytes) {
  Block block;
  for (size_t i = 0; i < layout->items.size(); i++) {
    const Item& item = layout->items[i];
    for (uint64_t number = 0; number < item.chunk_count; number++) {
      uint64_t at = place_chunk(item, number, block.raw_bytes);
      if (block.chunk_count != 0 && at + chunk_raw_size(item, number) > block_bytes) {
        layout->blocks.push_back(block);
        block = Block{.chunk_first = item.chunk_first + number,
                      .chunk_count = 0,
                      .item_first = i,
                      .raw_bytes = 0,
                      .encoded = false};
        at = 0;
      }
      if (block.chunk_count == 0) block.item_first = i;
      block.raw_bytes = at + chunk_raw_size(item, number);
      block.encoded |= item.codec.codec != Codec::kRaw;
      block.chunk_count++;
    }
  }
  if (block.chunk_count != 0) layout->blocks.push_back(block);
}

Result<PartLayout> lay_out(const SaveContent& content, const LayoutOptions& options) {
  PartLayout layout;
  std::vector<PiecePlan> pieces;
  CKPT_ASSIGN(auto groups, collect_groups(content));
  for (const auto& [key, members] : groups)
    CKPT_TRY(deal_group(content, key, members, options, &pieces, &layout.groups));
  for (size_t i = 0; i < content.tensors.size(); i++) {
    const SaveTensor& tensor = content.tensors[i];
    if (tensor.replica_count == 1 && tensor.bytes != 0) pieces.push_back({i, tensor.units, 0, tensor.bytes});
  }
  std::sort(pieces.begin(), pieces.end(),
            [](const auto& a, const auto& b) { return std::tie(a.tensor, a.first) < std::tie(b.tensor, b.first); });
  std::vector<std::byte> scratch;
  layout.items.reserve(pieces.size());
  for (auto& piece : pieces) {
    const SaveTensor& tensor = content.tensors[piece.tensor];
    Item item{.tensor = &tensor,
              .units = piece.units,
              .first = piece.first,
              .bytes = {},
              .size = units_of(tensor.geometry, piece.units) * tensor.geometry.width};
    item.codec = codec_for(item, options.compression, &scratch);
    add_item(&layout, std::move(item), options.chunk_bytes / tensor.geometry.width * tensor.geometry.width);
  }
  for (const auto& [name, object] : content.objects) {
    bool written = (object.scope == CKPT_OBJECT_PER_RANK || options.rank == 0) && object.data.size() > kMaxInlineObject;
    layout.object_items.push_back(written ? layout.items.size() : kNoItem);
    if (written)
      add_item(&layout, Item{.tensor = nullptr, .units = {}, .bytes = object.data, .size = object.data.size()},
               options.chunk_bytes);
  }
  for (auto& group : layout.groups) {
    group.item = layout.items.size();
    Item item{.tensor = nullptr, .units = {}, .bytes = group.list, .size = group.list.size()};
    item.codec.codec = Codec::kLz4;
    // Lists are one chunk; the block is as large as its only chunk then.
    add_item(&layout, std::move(item), std::max<uint64_t>(group.list.size(), 1));
  }
  cut_blocks(&layout, options.block_bytes);
  return layout;
}

uint64_t chunk_raw_size(const Item& item, uint64_t number) {
  return std::min(item.chunk_raw, item.size - number * item.chunk_raw);
}

uint64_t place_chunk(const Item& item, uint64_t number, uint64_t position) {
  if (number != 0) return position;
  return round_up(position, item.size >= kLargeSegment ? kAlign : kSmallAlign);
}

Bytes contiguous_source(const Item& item, uint64_t number, uint64_t count) {
  uint64_t begin = number * item.chunk_raw, end = std::min(item.size, (number + count) * item.chunk_raw);
  if (!item.tensor) return item.bytes.subspan(begin, end - begin);
  const SaveTensor& tensor = *item.tensor;
  uint64_t expected = 1;
  for (int i = tensor.memory_extent.ndim - 1; i >= 0; i--) {
    if (tensor.memory_extent[i] != 1 && tensor.memory.strides[static_cast<size_t>(i)] != expected) return {};
    expected *= tensor.memory_extent[i];
  }
  return {tensor.memory.data + item.first * tensor.geometry.width + begin, end - begin};
}

}  // namespace ckpt::session
