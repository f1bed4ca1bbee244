// What `index` and `tensorkey.json` say of RecIS' sparse files: which blocks make up which table. Untrusted text. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ckpt::interop {

inline constexpr const char *kRecisIndex = "index", *kRecisKeys = "tensorkey.json", *kRecisCheckpoint = "checkpoint",
                            *kRecisCount = "io_state_count", *kRecisIds = "id", *kRecisEmbedding = "embedding";
inline constexpr uint64_t kMaxRecisText = 1ULL << 30;  // of a text
inline constexpr uint64_t kRecisBuckets = 65536;       // what its tables have, unless their makers chose otherwise

// The buckets [begin, end) of `count`.
struct RecisSlice {
  uint64_t begin = 0, end = 0, count = 0;
  bool operator==(const RecisSlice&) const = default;
};
// Those of shard i of n: equal ranges, the first ones one longer.
RecisSlice recis_slice(uint64_t shard, uint64_t shards, uint64_t buckets);
// "00000@32768@65536"
std::string recis_text(const RecisSlice& slice);

struct RecisBlock {
  std::string name;  // in the header of its file: "T.id/part_0_2"
  size_t file = 0;
};

struct RecisTable {
  std::string name;
  uint64_t buckets = 0;
  std::vector<std::string> columns;             // "id", "embedding", then the slots by name
  std::vector<RecisSlice> shards;               // disjoint; together all buckets
  std::vector<std::vector<RecisBlock>> blocks;  // of each shard, one for each column
};

struct RecisLayout {
  std::vector<std::string> files;  // plain names
  std::vector<RecisTable> tables;  // by name
  std::vector<RecisBlock> dense;   // "sparse_adamw_step^ "
};

// FORMAT, INCOMPLETE (a block that only one of the texts names, a shard that is missing), UNSUPPORTED.
Result<RecisLayout> parse_recis_layout(std::string_view index, std::string_view keys);

// "T.id/part_0_2"
std::string recis_block(const std::string& table, const std::string& column, uint64_t shard, uint64_t shards);

}  // namespace ckpt::interop
