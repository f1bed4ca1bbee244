// What one rank writes into its part, and in which pieces. Pure: turns the content of a save into a list of items,
// chunks and blocks.
#pragma once

#include <vector>

#include "codec/codec.h"
#include "format/index_builder.h"
#include "save/limits.h"
#include "save/save.h"

namespace ckpt::save {

// A range of bytes that becomes consecutive chunks: a segment of a tensor, an object, or a group's declaration list.
struct Item {
  const SaveTensor* tensor = nullptr;  // null: an object or a list
  const std::byte* data = nullptr;     // its first byte; null: a tensor whose memory is not contiguous, or a device's
  uint64_t first = 0;                  // of a tensor: its first unit, in the row-major order of the region
  uint64_t size = 0;                   // in bytes
  uint64_t chunk_raw = 0;              // raw size of all chunks but the last
  size_t chunk_first = 0, chunk_count = 0;
  codec::CodecSpec codec{};

  uint8_t device() const { return tensor ? tensor->device : 0; }
};

struct GroupPlan {
  uint64_t id = 0;
  uint32_t index = 0, count = 0;
  uint64_t entries = 0;
  Digest digest;
  std::vector<std::byte> list;
  size_t item = 0;
};

// Chunks that are staged and written together. They are consecutive in the part, and every block starts at a multiple
// of kAlign.
struct Block {
  size_t chunk_first = 0, chunk_count = 0;
  size_t item_first = 0;
  uint64_t raw_bytes = 0;  // with all chunks raw, and with the gaps that alignment needs
  bool encoded = false;    // at least one of its items has a codec
  bool on_device = false;  // at least one of its items is in a device's memory
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

// The raw bytes of `count` chunks of an item from chunk `number` on, if the caller's memory has them in one piece; else
// an empty span.
Bytes contiguous_source(const Item& item, uint64_t number, uint64_t count);
uint64_t chunk_raw_size(const Item& item, uint64_t number);
// Gathers chunk `number` of a tensor's item into `to`, whatever the strides of the caller's memory. Of a device's
// memory it only begins to, and `to` is pinned.
void gather_chunk(const Item& item, uint64_t number, MutableBytes to);
Status begin_gather_chunk(const Item& item, uint64_t number, MutableBytes to, device::Transfers& transfers);
void end_gather_chunk(const Item& item, uint64_t number, MutableBytes fetched, std::vector<std::byte>* scratch);
// Where in a block the next chunk goes after `position`. Chunks of an item follow each other; its first chunk is
// aligned.
uint64_t place_chunk(const Item& item, uint64_t number, uint64_t position);

}  // namespace ckpt::save
