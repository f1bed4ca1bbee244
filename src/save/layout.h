// What one rank writes into its part, and in which pieces. Pure: turns the content of a save into a list of items,
// chunks and blocks.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "codec/codec.h"
#include "format/index_builder.h"
#include "save/limits.h"
#include "save/save.h"
#include "save/source.h"

namespace ckpt::save {

// A range of bytes that becomes consecutive chunks: a segment of a tensor, an object, or a group's declaration list.
struct Item {
  Source source{};         // without a tensor: an object or a list
  uint64_t size = 0;       // in bytes
  uint64_t chunk_raw = 0;  // raw size of all chunks but the last
  size_t chunk_first = 0, chunk_count = 0;
  codec::CodecSpec codec{};

  // Of chunk `number`, counted from the item's first one.
  uint64_t first_byte(uint64_t number) const { return number * chunk_raw; }
  uint64_t raw_size(uint64_t number) const { return std::min(chunk_raw, size - first_byte(number)); }
};

// Where a region's bytes lie: from this one on in the tensor, flattened, or in a box of it that is no range there.
struct Place {
  std::optional<Region> box;
  uint64_t first = 0;
};
Place place_of(const Region& region, const Shape& shape, uint16_t dtype);

struct GroupPlan {
  uint64_t id = 0;
  uint32_t index = 0, count = 0;
  uint64_t entries = 0;
  Digest digest;
  std::vector<std::byte> list;
  size_t item = 0;
};

// Chunks that are staged and written together. They are consecutive in the part, and every block starts at a multiple
// of kAlign. Blocks are written in the order of their waves, so those of no table come before any that must be sorted.
struct Block {
  size_t chunk_first = 0, chunk_count = 0;
  size_t item_first = 0;
  uint64_t raw_bytes = 0;  // with all chunks raw, and with the gaps that alignment needs
  bool encoded = false;    // at least one of its items has a codec
  bool on_device = false;  // at least one of its items is in a device's memory
  size_t wave = 0;         // of a table's rows that must be in order (table_sort.h)
};

struct PartLayout {
  LargeVector<Item> items;           // tensors by name, then objects, then lists
  std::vector<size_t> object_items;  // item of each object of content.objects, or npos
  std::vector<GroupPlan> groups;
  std::vector<Block> blocks;
  size_t chunk_count = 0;
  uint64_t data_bytes = 0;  // of all items
};
inline constexpr size_t kNoItem = static_cast<size_t>(-1);

struct LayoutOptions {
  ByName by_name{};
  uint64_t chunk_bytes = 0, large_tensor_bytes = 0, block_bytes = 0;
  std::string compression{};
  uint32_t rank = 0;
  // Whether blocks of large items hold nothing else, so that they can be written from the caller's memory. Otherwise
  // every block is as full as possible, for a buffer.
  bool in_place = false;
  // Whether chunks end at multiples of their size in the tensor, whatever region of it this rank has: then a save of
  // other regions, by other ranks, has the same chunks.
  bool on_grid = false;
  PartLimits limits{};
  std::span<const Digest> values{};        // of digest_replicas; empty: no values are compared
  bool sampled = false;                    // they are of samples, where regions are large enough
  LateMemory* memory = nullptr;            // see SaveSettings
  device::Transfers* transfers = nullptr;  // null: no tensor is on a device
  // What is left at the end of an item that is written from the caller's memory goes with the block before it, if it
  // is less than this.
  uint64_t least_block_bytes = 0;
};

// `content` must outlive the layout. INVALID if a replica group is described in two ways; UNSUPPORTED if a part cannot
// hold so much.
Result<PartLayout> lay_out(const SaveContent& content, const LayoutOptions& options);

// Where in a block the next chunk goes after `position`. Chunks of an item follow each other; its first chunk is
// aligned.
uint64_t place_chunk(const Item& item, uint64_t number, uint64_t position);

}  // namespace ckpt::save
