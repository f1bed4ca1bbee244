// Sorts the row numbers of a rank's sparse tables by bucket, then by id.
#pragma once

#include <algorithm>
#include <cstring>

#include "base/job.h"
#include "save/content.h"

namespace ckpt::save {

// Rows for each entry of T/buckets, at least: so T/buckets takes at most a sixteenth of T/ids.
inline constexpr uint64_t kRowsPerEntry = 16;

// The most raw bytes of a chunk of a column, and of T/ids, of which a lookup reads one in each part.
inline constexpr uint8_t kColumnChunkKib = 64, kIdsChunkKib = 16;

// So many entries T/buckets has.
inline uint64_t entries_of(uint64_t bucket_count, uint64_t rows) {
  const uint64_t entries = std::min(bucket_count, (rows + kRowsPerEntry - 1) / kRowsPerEntry);
  if (entries == 0) return 0;
  const uint64_t buckets = (bucket_count + entries - 1) / entries;
  return (bucket_count + buckets - 1) / buckets;
}

// Sorts the rows of each table, without a copy of any column, in 8 bytes for each row and little more; fills T/buckets.
// A table that is in order and lies in one block is saved from where it is. MISMATCH names an id that is there twice,
// INVALID a position beyond the blocks.
Status sort_tables(SaveContent& content, unsigned threads, const Job& job);

inline uint64_t id_at(const std::byte* ids, uint64_t row) {
  uint64_t id;
  std::memcpy(&id, ids + row * sizeof id, sizeof id);
  return id;
}

// INVALID unless a row lies in the blocks.
Status check_position(const SaveTable& table, uint64_t row);

}  // namespace ckpt::save
