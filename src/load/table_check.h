// Checks the ids of a table once they are in memory: that the rows of each part are sorted, and that no id is in two.
#pragma once

#include <compare>
#include <cstring>
#include <span>

#include "base/job.h"
#include "format/table.h"
#include "load/table.h"

namespace ckpt::load {

// Where a row of a table belongs.
struct RowKey {
  uint64_t bucket, id;
  auto operator<=>(const RowKey&) const = default;
};

// Neighbouring rows of one part. The ids need no alignment.
struct PartIds {
  uint32_t part;
  const std::byte* ids;
  uint64_t count;

  uint64_t operator[](uint64_t i) const {
    uint64_t id;
    std::memcpy(&id, ids + i * sizeof id, sizeof id);
    return id;
  }
  RowKey key(uint64_t i, uint64_t bucket_count) const {
    return {format::bucket_of((*this)[i], bucket_count), (*this)[i]};
  }
  // The first row whose key is not less.
  uint64_t lower_bound(const RowKey& key, uint64_t bucket_count) const;
};

// FORMAT unless the keys of each part ascend, none of them less than `from`, all of them less than `to`.
Status check_sorted(const Table& table, std::span<const PartIds> parts, const RowKey& from, const RowKey& to,
                    unsigned threads);
// MISMATCH names an id that is in two parts, and both. The parts are sorted.
Status check_distinct(const Table& table, std::span<const PartIds> parts, unsigned threads);

// The same, of one id.
Status saved_twice(const Table& table, uint64_t id, uint32_t a, uint32_t b);

}  // namespace ckpt::load
