// What an index says of a sparse table (FORMAT §4, tables): attribute `ckpt.table` of its alias. Pure; thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ckpt::format {

inline constexpr std::string_view kTableAttr = "ckpt.table";
inline constexpr std::string_view kTableClass = "ckpt.Table";  // of the record that it is in a state (STATE_TREE.md)
inline constexpr uint64_t kMaxBuckets = UINT32_MAX;

// The tensors of table T: T/ids, T/buckets, and one for each column.
inline constexpr std::string_view kTableIds = "ids", kTableBuckets = "buckets";
inline std::string table_tensor(std::string_view table, std::string_view column) {
  return std::string(table) + "/" + std::string(column);
}

// A part may have a table's rows in runs (TABLE_RUNS.md): run 0 is these tensors; run k has those of table "T/run-k",
// and the ids that it removes are those of table "T/run-k-removed", which has no columns. Then T/run-live has one
// number: how many ids the part has in all.
inline constexpr std::string_view kRunsAttr = "ckpt.table.runs", kRunsValue = "newest";
inline constexpr std::string_view kRunPrefix = "run-", kTableLive = "run-live";
inline std::string run_name(std::string_view table, uint32_t run) {
  return run == 0 ? std::string(table) : table_tensor(table, kRunPrefix) + std::to_string(run);
}
inline std::string removed_name(std::string_view table, uint32_t run) { return run_name(table, run) + "-removed"; }
inline constexpr uint32_t kMostRuns = 64;
// INVALID for a name that no column can have.
Status check_column_name(std::string_view name);

struct TableText {
  uint64_t bucket_count = 0;
  std::vector<std::string_view> columns;
};
std::string encode_table(const TableText& table);
// FORMAT; UNSUPPORTED for an unknown hash. The names are views of `text`.
Result<TableText> decode_table(std::string_view text);

// Rows are sorted by bucket, then by id.
inline uint64_t bucket_of(uint64_t id, uint64_t bucket_count) {
  const uint64_t mask = bucket_count - 1;  // a division takes ten times as long
  return (bucket_count & mask) == 0 ? id & mask : id % bucket_count;
}

// The buckets of each entry of a part's T/buckets, if it has so many entries; 0 if no number of buckets gives so many.
inline uint64_t buckets_per_entry(uint64_t bucket_count, uint64_t entries) {
  if (entries == 0 || entries > bucket_count) return 0;
  const uint64_t buckets = (bucket_count + entries - 1) / entries;
  return (bucket_count + buckets - 1) / buckets == entries ? buckets : 0;
}

}  // namespace ckpt::format
