// Sorts the row numbers of a rank's sparse tables by bucket, then by id: the first ones before anything is staged, the
// others beside that, so that the disk hardly waits for it.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

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

class TableSort;

// Sorts the rows of each table, without a copy of any column, in 8 bytes for each row and little more; fills T/buckets.
// A table that is in order and lies in one block is saved from where it is. Large tables are sorted in waves, each some
// rows of every table behind those of the wave before (SaveTable::waves).
class TableOrder {
 public:
  // All must outlive it.
  TableOrder(SaveContent& content, unsigned threads, const Job& job);
  ~TableOrder();
  // Tells which tables are in order and where waves end, and sorts wave 0: the tables that have no others. INVALID
  // names a position beyond the blocks, MISMATCH here and below an id that is there twice.
  Status begin();
  // Returns once the rows of a wave, and of those before, are in order. Any thread may call it: one of them sorts.
  Status sort(size_t wave);
  size_t waves() const { return waves_; }

 private:
  SaveContent& content_;
  const unsigned threads_;
  const Job& job_;
  std::vector<std::unique_ptr<TableSort>> large_;
  size_t waves_ = 1;
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t sorted_ = 1;     // waves
  bool sorting_ = false;  // the next one
  Status error_;
};

inline uint64_t id_at(const std::byte* ids, uint64_t row) {
  uint64_t id;
  std::memcpy(&id, ids + row * sizeof id, sizeof id);
  return id;
}

// INVALID unless a row lies in the blocks.
Status check_position(const SaveTable& table, uint64_t row);

}  // namespace ckpt::save
