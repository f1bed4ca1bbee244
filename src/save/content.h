// What a rank adds to a save.
#pragma once

#include <deque>
#include <map>
#include <memory_resource>
#include <string>
#include <vector>

#include "base/large_memory.h"
#include "device/descriptor.h"

namespace ckpt::save {

// Which replica group holds a region, and which of its members this rank is. first_only: see plan::ReplicaRegion.
struct Replica {
  uint64_t group = 0;
  uint32_t index = 0, count = 1;
  bool first_only = false;
  bool assumed = false;  // the caller said nothing: all ranks, or those that are found to hold it
};

// Rows that lie anywhere in the caller's memory, in the order in which they are saved.
struct RowSource {
  const std::byte* const* blocks = nullptr;
  uint64_t rows_per_block = UINT64_MAX;
  uint64_t row_bytes = 0;
  const uint64_t* positions = nullptr;  // of the row with each number; null: its number
  const uint64_t* order = nullptr;      // row numbers in the order of saving; null: as they are
  std::span<const uint64_t> waves{};    // of the table

  // Among the rows of all blocks.
  uint64_t position_of(uint64_t at) const {
    if (order) at = order[at];
    return positions ? positions[at] : at;
  }
  const std::byte* row_at(uint64_t at) const {
    return at < rows_per_block ? blocks[0] + at * row_bytes
                               : blocks[at / rows_per_block] + at % rows_per_block * row_bytes;
  }
  const std::byte* row(uint64_t at) const { return row_at(position_of(at)); }
};

// How the caller's memory has the elements of a region: in a row, with strides, or as rows of a table.
enum class Arrangement : uint8_t { kRow, kStrided, kTable };

// A region of a tensor in the caller's memory, which a Source (source.h) reads. Trainers add very many, so this is kept
// small: what only some tensors need is in `numbers`.
struct SaveTensor {
  std::string_view name;
  // The shape; then a box's offset and extent, or a flat range's offset and size; then, if the memory is strided, its
  // strides in byte units. Regions are in elements.
  const uint64_t* numbers = nullptr;
  union {
    std::byte* data = nullptr;
    const RowSource* rows;  // of a table
  };
  uint64_t bytes = 0;  // of the region
  Replica replica;
  uint16_t dtype = 0;
  uint8_t ndim = 0;
  RegionKind kind = RegionKind::kWhole;
  uint8_t width = 0;  // bytes of a byte unit
  Arrangement arrangement = Arrangement::kRow;
  uint8_t chunk_kib = 0;  // of a table, which is looked up row by row: its chunks are no larger; 0: as any tensor's
  uint8_t device = 0;     // see device::Memory

  std::span<const uint64_t> extents() const { return {numbers, ndim}; }
  Shape shape() const { return Shape::of(extents()); }
  Region region() const;
  std::span<const uint64_t> region_numbers() const { return {numbers + ndim, region_number_count(kind, ndim)}; }
  // Of memory that is strided.
  std::span<const uint64_t> strides(size_t count) const {
    return {numbers + ndim + region_number_count(kind, ndim), count};
  }
  uint64_t elements() const;  // of the region
};
static_assert(sizeof(SaveTensor) == 72);

// Copies a checked tensor into `memory`. `name` must live as long as `memory`.
SaveTensor* keep_tensor(std::string_view name, const device::RegionRequest& request, const Replica& replica,
                        std::pmr::memory_resource* memory);

// Sorts by name, then by region (FORMAT §4). Returns a tensor whose region is there twice; null if there is none.
const SaveTensor* sort_tensors(LargeVector<SaveTensor*>* tensors);

// Allocates by allocate_large.
std::pmr::memory_resource* large_memory();

struct SaveObject {
  std::string name, media_type;
  uint8_t scope = 0;
  std::vector<std::byte> data;
};

// This rank's rows of a sparse table. Its tensors are among those of the content.
struct SaveTable {
  std::string name;
  uint64_t row_count = 0, bucket_count = 0, capacity = 0;  // capacity: rows in the blocks, that positions name
  const std::byte* ids = nullptr;                          // 8 bytes each, not aligned
  const uint64_t* positions = nullptr;                     // or null
  std::span<uint64_t> buckets;                             // the memory of T/buckets
  SaveTensor* buckets_tensor = nullptr;
  RowSource id_source;
  std::deque<RowSource> column_sources;
  std::vector<SaveTensor*> tensors;  // T/ids, then the columns
  UntouchedVector<uint64_t> order;   // row numbers, once the table is sorted; empty: they are in order
  std::vector<uint64_t> waves;       // where the rows end that are sorted by wave 1, 2, … (table_sort.h); none: wave 0
  // What the caller says has changed since the save `since`, a directory; "" if this session has saved no such table.
  // Of all rows: a save may turn the fields above into those of a run (table_runs.h).
  bool has_changes = false, by_digest = false;
  std::vector<uint64_t> changed;  // numbers of rows
  std::vector<uint64_t> removed;  // ids
  std::string since;
  uint64_t all_rows = 0;
  const std::byte* all_ids = nullptr;
};

struct SaveAlias {
  std::string name, target;
  bool is_view = false;
  int ndim = 0;
  std::vector<uint64_t> view;  // as in FORMAT: offset, extents, strides
};

// Everything that was added. Cannot be copied or moved, since `tensors` points into `memory`.
struct SaveContent {
  std::pmr::monotonic_buffer_resource memory{size_t{64} << 10, large_memory()};
  LargeVector<SaveTensor*> tensors;  // sorted by name once the save has begun
  std::map<std::string, SaveObject> objects;
  std::map<std::string, SaveAlias> aliases;
  std::deque<SaveTable> tables;
  std::map<std::string, std::map<std::string, std::string>> attrs;  // by owner, "" = the checkpoint

  // A text for as long as the content.
  std::string_view keep_text(std::string_view text);
  // Adds a tensor of a table like another one, of so many rows.
  SaveTensor* with_rows(const SaveTensor& like, std::string_view name, uint64_t rows);
};

}  // namespace ckpt::save
