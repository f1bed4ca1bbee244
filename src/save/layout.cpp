#include "save/layout.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "codec/checksum.h"
#include "plan/assign.h"
#include "plan/box.h"
#include "plan/declare.h"
#include "save/codec_choice.h"
#include "save/replica_values.h"

namespace ckpt::save {

// ---- which regions are ours ----

// A piece of a region that other ranks hold too. They write the rest of it.
struct CutPlan {
  size_t tensor;
  uint64_t first, bytes;  // in the row-major order of the region
};

struct Shares {
  std::vector<uint8_t> whole;  // for each tensor, whether its whole region is ours
  std::vector<CutPlan> cuts;
};

using GroupKey = std::tuple<uint64_t, uint32_t>;  // id, count
struct GroupMembers {
  uint32_t index = 0;
  std::vector<size_t> tensors;
};

static Result<std::map<GroupKey, GroupMembers>> collect_groups(const SaveContent& content) {
  std::map<GroupKey, GroupMembers> groups;
  for (size_t i = 0; i < content.tensors.size(); i++) {
    const SaveTensor& tensor = *content.tensors[i];
    const Replica& replica = tensor.replica;
    if (replica.count == 1) continue;
    auto [entry, fresh] = groups.try_emplace({replica.group, replica.count});
    if (fresh) entry->second.index = replica.index;
    if (entry->second.index != replica.index)
      return tensor_error(CKPT_INVALID, tensor.name,
                          strformat("replica index {}, but {} for other tensors of replica group {}", replica.index,
                                    entry->second.index, replica.group));
    entry->second.tensors.push_back(i);
  }
  return groups;
}

// The regions of a group in the order of assignment. Tensors are sorted by name and region, so a stable
// sort by bytes is enough.
static std::vector<plan::ReplicaRegion> replica_regions(const SaveContent& content, const LayoutOptions& options,
                                                        std::vector<size_t>* tensors) {
  std::stable_sort(tensors->begin(), tensors->end(),
                   [&](size_t a, size_t b) { return content.tensors[a]->bytes > content.tensors[b]->bytes; });
  std::vector<plan::ReplicaRegion> entries;
  entries.reserve(tensors->size());
  for (size_t i : *tensors) {
    const SaveTensor& tensor = *content.tensors[i];
    entries.push_back({.name = tensor.name,
                       .bytes = tensor.bytes,
                       .numbers = tensor.numbers,
                       .dtype = tensor.dtype,
                       .kind = tensor.kind,
                       .ndim = tensor.ndim,
                       .first_only = tensor.replica.first_only,
                       .values = options.values.empty() ? Digest{} : options.values[i],
                       .sampled = options.sampled && !tensor.replica.first_only && is_sampled(tensor)});
  }
  return entries;
}

static Status assign_group(const SaveContent& content, const GroupKey& key, GroupMembers members,
                           const LayoutOptions& options, Shares* shares, std::vector<GroupPlan>* groups) {
  auto entries = replica_regions(content, options, &members.tensors);
  auto [id, count] = key;
  plan::Assignment assigned =
      plan::assign(entries, members.index, count,
                   {.chunk_bytes = options.chunk_bytes, .large_tensor_bytes = options.large_tensor_bytes});
  for (size_t entry : assigned.whole) shares->whole[members.tensors[entry]] = 1;
  for (const auto& piece : assigned.cuts)
    shares->cuts.push_back({members.tensors[piece.entry], piece.first, piece.bytes});
  GroupPlan group{.id = id,
                  .index = members.index,
                  .count = count,
                  .entries = entries.size(),
                  .digest = {},
                  .list = plan::declaration_list(entries)};
  group.digest = codec::xxh3_128(group.list);
  // The list only explains a mismatch; the digest of the whole list finds it.
  uint64_t limit = std::min(options.block_bytes, kMaxChunkBytes);
  if (group.list.size() > limit) group.list.resize(plan::declarations_within(group.list, limit));
  groups->push_back(std::move(group));
  return Ok();
}

static Result<Shares> assign_shares(const SaveContent& content, const LayoutOptions& options,
                                    std::vector<GroupPlan>* groups) {
  Shares shares;
  shares.whole.resize(content.tensors.size());
  for (size_t i = 0; i < shares.whole.size(); i++)
    shares.whole[i] = content.tensors[i]->replica.count == 1 && content.tensors[i]->bytes != 0;
  CKPT_ASSIGN(auto collected, collect_groups(content));
  for (auto& [key, members] : collected)
    CKPT_TRY(assign_group(content, key, std::move(members), options, &shares, groups));
  std::sort(shares.cuts.begin(), shares.cuts.end(),
            [](const auto& a, const auto& b) { return std::tie(a.tensor, a.first) < std::tie(b.tensor, b.first); });
  return shares;
}

// ---- from regions to items, chunks and blocks ----

Place place_of(const Region& region, const Shape& shape, uint16_t dtype) {
  auto bytes = [&](uint64_t elements) { return elements * static_cast<uint64_t>(dtype_bits(dtype)) / 8; };
  if (region.kind == RegionKind::kFlat) return {{}, bytes(region.flat_offset)};
  if (region.kind != RegionKind::kBox) return {};
  const Shape strides = plan::contiguous_strides(shape);
  if (!plan::is_contiguous(region.box.extent.span(), strides.span())) return {region};
  uint64_t first = 0;
  for (int i = 0; i < shape.ndim; i++) first += region.box.offset[i] * strides[i];
  return {{}, bytes(first)};
}

static void add_item(PartLayout* layout, Item item, uint64_t chunk_raw) {
  item.chunk_raw = chunk_raw;
  item.chunk_first = layout->chunk_count;
  item.chunk_count = (item.size + chunk_raw - 1) / chunk_raw;
  layout->chunk_count += item.chunk_count;
  layout->data_bytes += item.size;
  layout->items.push_back(item);
}

// A lookup reads a chunk for each row. Rows that are not large lie in one chunk each.
static uint64_t chunk_raw_of(const SaveTensor& tensor, uint64_t chunk_bytes) {
  if (tensor.chunk_kib == 0) return chunk_bytes / tensor.width * tensor.width;
  chunk_bytes = std::min<uint64_t>(chunk_bytes, tensor.chunk_kib << 10);
  const uint64_t row = tensor.bytes / std::max<uint64_t>(tensor.numbers[0], 1);
  const uint64_t unit = row <= chunk_bytes ? row : tensor.width;
  return chunk_bytes / unit * unit;
}

// How many of `bytes`, from byte `first` of the region on, come before the next multiple of a chunk in the tensor.
static uint64_t before_grid(const SaveTensor& tensor, uint64_t first, uint64_t bytes, uint64_t chunk_raw) {
  const Place place = place_of(tensor.region(), tensor.shape(), tensor.dtype);
  if (place.box || dtype_bits(tensor.dtype) % 8 != 0) return 0;
  const uint64_t lead = (chunk_raw - (place.first + first) % chunk_raw) % chunk_raw;
  return lead < bytes ? lead : 0;
}

static void add_tensor_items(const SaveContent& content, const LayoutOptions& options, Shares shares,
                             PartLayout* layout) {
  auto add = [&](const SaveTensor& tensor, uint64_t first, uint64_t bytes) {
    const uint64_t chunk_raw = chunk_raw_of(tensor, options.chunk_bytes);
    const uint64_t lead = options.on_grid ? before_grid(tensor, first, bytes, chunk_raw) : 0;
    if (lead != 0) add_item(layout, {.source = Source::of(tensor, first), .size = lead}, chunk_raw);
    add_item(layout, {.source = Source::of(tensor, first + lead), .size = bytes - lead}, chunk_raw);
  };
  size_t whole = static_cast<size_t>(std::count(shares.whole.begin(), shares.whole.end(), 1));
  layout->items.reserve(whole + shares.cuts.size() + content.objects.size() + layout->groups.size());
  auto cut = shares.cuts.begin();
  for (size_t i = 0; i < content.tensors.size(); i++) {
    const SaveTensor& tensor = *content.tensors[i];
    if (shares.whole[i]) add(tensor, 0, tensor.bytes);
    for (; cut != shares.cuts.end() && cut->tensor == i; ++cut) add(tensor, cut->first, cut->bytes);
  }
}

static void add_object_items(const SaveContent& content, const LayoutOptions& options, PartLayout* layout) {
  for (const auto& [name, object] : content.objects) {
    bool written = (object.scope != CKPT_OBJECT_SHARED || options.rank == 0) && object.data.size() > kMaxInlineObject;
    layout->object_items.push_back(written ? layout->items.size() : kNoItem);
    if (written) add_item(layout, {.source = Source::of(object.data), .size = object.data.size()}, options.chunk_bytes);
  }
}

static void add_list_items(PartLayout* layout) {
  for (auto& group : layout->groups) {
    group.item = layout->items.size();
    Item item{.source = Source::of(group.list), .size = group.list.size()};
    item.codec.codec = Codec::kLz4;
    // A list is one chunk, so its block is as large as that chunk.
    add_item(layout, item, std::max<uint64_t>(group.list.size(), 1));
  }
}

// From this size on an item gets blocks of its own, even though that makes the write before it shorter.
static constexpr uint64_t kOwnBlock = 1 << 20;

// Which wave of sorting brings the last row of some bytes of an item, or all that T/buckets counts.
static size_t wave_of(const Item& item, uint64_t end, const std::map<const SaveTensor*, size_t>& counted) {
  const SaveTensor* tensor = item.source.tensor;
  if (!tensor) return 0;
  if (const auto at = counted.find(tensor); at != counted.end()) return at->second;
  if (tensor->arrangement != Arrangement::kTable) return 0;
  const std::span waves = tensor->rows->waves;
  if (waves.empty()) return 0;
  const uint64_t last = (item.source.first + end - 1) / tensor->rows->row_bytes;
  return static_cast<size_t>(std::ranges::upper_bound(waves, last) - waves.begin()) + 1;
}

static std::map<const SaveTensor*, size_t> last_waves(const SaveContent& content) {
  std::map<const SaveTensor*, size_t> waves;
  for (const SaveTable& table : content.tables)
    if (!table.waves.empty()) waves.emplace(table.buckets_tensor, table.waves.size());
  return waves;
}

static void cut_blocks(const SaveContent& content, PartLayout* layout, const LayoutOptions& options) {
  const auto counted = last_waves(content);
  Block block;
  auto end_block = [&] {
    if (block.chunk_count != 0) layout->blocks.push_back(block);
    block = Block{};
  };
  for (size_t i = 0; i < layout->items.size(); i++) {
    const Item& item = layout->items[i];
    bool alone =
        options.in_place && item.size >= kOwnBlock && item.codec.codec == Codec::kRaw && !item.source.on_device();
    if (alone) end_block();
    for (uint64_t number = 0; number < item.chunk_count; number++) {
      uint64_t size = item.raw_size(number);
      const bool rest_is_small = alone && item.size - item.first_byte(number) < options.least_block_bytes;
      if (place_chunk(item, number, block.raw_bytes) + size > options.block_bytes && !rest_is_small) end_block();
      if (block.chunk_count == 0) {
        block.chunk_first = item.chunk_first + number;
        block.item_first = i;
      }
      block.raw_bytes = place_chunk(item, number, block.raw_bytes) + size;
      block.encoded |= item.codec.codec != Codec::kRaw;
      block.on_device |= item.source.on_device();
      block.wave = std::max(block.wave, wave_of(item, item.first_byte(number) + size, counted));
      block.chunk_count++;
    }
    if (alone) end_block();
  }
  end_block();
  std::ranges::stable_sort(layout->blocks, {}, &Block::wave);
}

Result<PartLayout> lay_out(const SaveContent& content, const LayoutOptions& options) {
  PartLayout layout;
  CKPT_ASSIGN(Shares shares, assign_shares(content, options, &layout.groups));
  add_tensor_items(content, options, std::move(shares), &layout);
  CKPT_TRY(choose_codecs(options.compression, layout.items, options.memory, options.transfers));
  add_object_items(content, options, &layout);
  add_list_items(&layout);
  CKPT_TRY(check_limits(content, layout, options.rank, options.limits));
  cut_blocks(content, &layout, options);
  return layout;
}

uint64_t place_chunk(const Item& item, uint64_t number, uint64_t position) {
  if (number != 0) return position;
  return round_up(position, item.size >= kLargeSegment ? kAlign : kSmallAlign);
}

}  // namespace ckpt::save
