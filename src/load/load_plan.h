// Turns the boxes that a load wants into chunks to read, and these into file reads. Records are compact, since a load
// may ask for a million tensors: what only some of them need is in one pool of numbers.
#pragma once

#include <span>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/read_pipeline.h"
#include "device/scatter.h"
#include "plan/geometry.h"

namespace ckpt::load {

inline constexpr uint64_t kNoNumbers = UINT64_MAX;

// One box of a tensor, in byte units, and the one piece of memory it goes to. A flat range is several boxes.
struct WantedBox {
  std::byte* data;   // where its first unit goes
  uint64_t numbers;  // in the pool: offsets, extents, strides of the memory; kNoNumbers: the whole tensor, contiguous
  uint32_t tensor;   // in LoadPlan::tensors
  uint16_t dtype;    // of the memory
  uint8_t device;    // of the memory; see device::Memory
};

// Of a box of whole rows that go each to a place of its own: row i is number places[i] from the box's memory on. All
// else that goes there must have come before.
struct PlacedRows {
  uint32_t box;
  const uint64_t* places;  // must outlive the reading
};

// A piece that holds something of a wanted box. Its units are numbered in the row-major order of a box: the region's
// own box or, for a flat range, the whole tensor.
struct StoredSegment {
  checkpoint::Piece piece;
  uint64_t first, units;  // in that order
  uint64_t chunk_units;   // of all chunks but the last
  uint64_t numbers;       // in the pool: offsets, extents of that box; kNoNumbers if no overlap needs them
  uint32_t tensor;        // in LoadPlan::tensors
  uint16_t dtype;         // of a byte unit
  uint8_t width;
};

// What one box wants of one segment.
struct Overlap {
  uint32_t box, segment;
  // Units [source, source + count) of the segment's order go to `to`, unchanged and in one piece. Count 0: it is not
  // that simple; scatter finds the elements.
  uint64_t source, count;
  std::byte* to;
};

// One chunk to read, where it lies, and the overlaps that need it.
struct ChunkRead {
  const fb::Chunk* chunk;
  uint32_t file;  // a part or base
  uint32_t target_first, target_count;
};

struct LoadPlan {
  explicit LoadPlan(const checkpoint::Checkpoint& of) : source(&of) {}

  const checkpoint::Checkpoint* source;
  std::vector<checkpoint::TensorRef> tensors;
  std::vector<WantedBox> boxes;
  std::vector<PlacedRows> placed;  // by box
  std::vector<uint64_t> numbers;
  std::vector<StoredSegment> segments;
  std::vector<Overlap> overlaps;
  std::vector<ChunkRead> reads;   // by file, then offset
  std::vector<uint32_t> targets;  // indexes into overlaps
  uint64_t units = 0;             // that all boxes want, to prove that all came
  uint64_t bytes_requested = 0, run_count = 0;
  uint64_t bytes_allowed = 0;  // limit for reading: the wanted bytes, and two chunks for each run

  const fb::Chunk& chunk_of(const ChunkRead& read) const { return *read.chunk; }
  const StoredSegment& segment_of(const ChunkRead& read) const {
    return segments[overlaps[targets[read.target_first]].segment];
  }
  const checkpoint::Piece& piece_of(const ChunkRead& read) const { return segment_of(read).piece; }
  std::string_view name_of(const ChunkRead& read) const { return tensors[segment_of(read).tensor].name(); }
  std::span<const uint32_t> targets_of(const ChunkRead& read) const {
    return {targets.data() + read.target_first, read.target_count};
  }
  // ---- load_boxes.cpp ----
  // The first of the chunk's units, in the order of its segment.
  uint64_t first_unit(const ChunkRead& read) const;
  // Where all raw bytes of a chunk belong, unchanged; null if it is not that simple.
  std::byte* whole_target(const ChunkRead& read) const;
  // Null: the box's rows follow each other.
  const uint64_t* places_of(uint32_t box) const;
  Box box_of(const WantedBox& wanted) const;
  device::Memory memory_of(const WantedBox& wanted) const;
  Box box_of(const StoredSegment& segment) const;
};

// Adds the boxes of a region of a tensor. `memory` is that of the whole region, in byte units. A whole tensor in
// contiguous memory takes no numbers.
void add_boxes(LoadPlan* plan, const checkpoint::TensorRef& tensor, const plan::Geometry& geometry, const Region& units,
               const device::Memory& memory);
// Puts lists of numbers into the pool. Returns where they start.
uint64_t put_numbers(LoadPlan* plan, std::initializer_list<std::span<const uint64_t>> lists);
// Finds the chunks that the boxes need; reads the indexes that tell. INCOMPLETE if nothing holds some of the units.
Status plan_reads(LoadPlan* plan);

// ---- reads of files: load_group.cpp ----

// Neighbouring chunks that are read together.
struct GroupedRead {
  uint32_t first, count;  // into LoadPlan::reads
  std::byte* target;      // where all of them go, raw and without a gap; or null
};
struct LoadLimits {
  checkpoint::PipelineLimits pipeline;
  uint64_t stored_bytes = 0;  // the most that a worker's buffer for stored bytes must hold
  uint64_t raw_bytes = 0;     // and its buffer for decoded ones
};
// How much may be in memory at a time, so that the budget holds (but one chunk always fits).
LoadLimits limits_of(const LoadPlan& plan, unsigned threads, uint64_t staging_bytes);
std::vector<GroupedRead> group_reads(const LoadPlan& plan, uint64_t most_bytes);

}  // namespace ckpt::load
