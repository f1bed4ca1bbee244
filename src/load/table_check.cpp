#include "load/table_check.h"

#include <algorithm>
#include <bit>
#include <mutex>
#include <vector>

#include "base/parallel.h"

namespace ckpt::load {

static constexpr uint64_t kRowsAtOnce = 16 << 10;  // so many rows and their hash table stay in the processor's cache

uint64_t PartIds::lower_bound(const RowKey& key, uint64_t bucket_count) const {
  uint64_t first = 0, end = count;
  while (first < end) {
    const uint64_t middle = first + (end - first) / 2;
    if (this->key(middle, bucket_count) < key)
      first = middle + 1;
    else
      end = middle;
  }
  return first;
}

Status check_sorted(const Table& table, std::span<const PartIds> parts, const RowKey& from, const RowKey& to,
                    unsigned threads) {
  return for_each_parallel(threads, parts.size(), [&](size_t i) -> Status {
    const PartIds& part = parts[i];
    RowKey before = from;
    for (uint64_t at = 0; at < part.count; at++) {
      const RowKey key = part.key(at, table.bucket_count);
      if (key >= to || (at == 0 ? key < from : key <= before))
        return bad_table(table.name,
                         strformat("in part {} id {} (bucket {}) is out of order", part.part, key.id, key.bucket))
            .with("ranks", std::to_string(part.part))
            .with("found", key.id);
      before = key;
    }
    return Ok();
  });
}

Status saved_twice(const Table& table, uint64_t id, uint32_t a, uint32_t b) {
  return error_about(CKPT_MISMATCH, table.name,
                     strformat("table {}: ranks {} and {} both saved id {}", in_quotes(table.name), a, b, id))
      .with("found", id)
      .with("ranks", strformat("{}, {}", a, b));
}

namespace {

// A set of ids with open addressing.
class IdSet {
 public:
  explicit IdSet(uint64_t count)
      : cells_(std::bit_ceil(2 * count + 2), kFree), shift_(std::countl_zero(cells_.size() - 1)) {}
  // False if it was there.
  bool insert(uint64_t id) {
    if (id == kFree) return !std::exchange(has_free_, true);
    uint64_t at = id * 0x9e3779b97f4a7c15 >> shift_;
    for (; cells_[at] != kFree; at = (at + 1) & (cells_.size() - 1))
      if (cells_[at] == id) return false;
    cells_[at] = id;
    return true;
  }

 private:
  static constexpr uint64_t kFree = UINT64_MAX;
  std::vector<uint64_t> cells_;
  int shift_;
  bool has_free_ = false;
};

}  // namespace

static Status check_range(const Table& table, std::span<const PartIds> parts) {
  uint64_t count = 0;
  for (const PartIds& part : parts) count += part.count;
  IdSet seen(count);
  for (const PartIds& part : parts)
    for (uint64_t i = 0; i < part.count; i++) {
      if (seen.insert(part[i])) continue;
      const RowKey key = part.key(i, table.bucket_count);
      for (const PartIds& other : parts)
        if (const uint64_t at = other.lower_bound(key, table.bucket_count); at < other.count && other[at] == key.id)
          return saved_twice(table, key.id, other.part, part.part);
    }
  return Ok();
}

Status check_distinct(const Table& table, std::span<const PartIds> parts, unsigned threads) {
  if (parts.size() < 2) return Ok();
  // Ranges of keys, cut at those of the part with the most rows.
  const PartIds& most = *std::ranges::max_element(parts, {}, &PartIds::count);
  const uint64_t step = std::max<uint64_t>(kRowsAtOnce / parts.size(), 1);
  const uint64_t ranges = most.count / step + 1;
  return for_each_parallel(threads, ranges, [&](size_t range) {
    std::vector<PartIds> cut;
    for (const PartIds& part : parts) {
      const uint64_t first =
          range == 0 ? 0 : part.lower_bound(most.key(range * step - 1, table.bucket_count), table.bucket_count);
      const uint64_t end = range + 1 == ranges ? part.count
                                               : part.lower_bound(most.key((range + 1) * step - 1, table.bucket_count),
                                                                  table.bucket_count);
      if (first < end) cut.push_back({part.part, part.ids + first * sizeof(uint64_t), end - first});
    }
    return cut.size() < 2 ? Ok() : check_range(table, cut);
  });
}

}  // namespace ckpt::load
