// Sparse tables whose rows tell their ids, so that any rows that come back can be compared.
#pragma once

#include <algorithm>
#include <map>
#include <random>

#include "api/ranks.h"

namespace ckpt_test {

using Share = std::unique_ptr<ckpt_share, Freer<ckpt_share_free>>;
using Ids = std::vector<uint64_t>;

// The row of an id: `bytes` bytes that depend on both, and on the column.
inline Bytes row_of(uint64_t id, const std::string& column, size_t bytes) {
  return pattern(bytes, id * 31 + std::hash<std::string>()(column));
}

struct TestColumn {
  std::string name;
  int32_t dtype;
  Ints shape;

  size_t row_bytes() const { return static_cast<size_t>(volume(shape) * ckpt_dtype_bits(dtype) / 8); }
  ckpt_column_desc desc() const {
    auto desc = sized<ckpt_column_desc>();
    desc.dtype = dtype;
    desc.ndim = static_cast<int32_t>(shape.size());
    std::copy(shape.begin(), shape.end(), desc.shape);
    return desc;
  }
};
inline const std::vector<TestColumn> kColumns{
    {"embedding", CKPT_DTYPE_F32, {4}}, {"adam/step", CKPT_DTYPE_I32, {}}, {"seen", CKPT_DTYPE_U8, {3}}};

// What a rank saves; its memory must live until the save has run.
struct TestTable {
  Ids ids;
  std::vector<TestColumn> columns = kColumns;
  uint64_t buckets = CKPT_TABLE_BUCKETS;
  int32_t id_dtype = CKPT_DTYPE_I64;
  std::vector<uint64_t> positions = {};  // empty: rows lie in the order of ids
  size_t positions_shift = 0;            // bytes between their beginning and the address that is given
  uint64_t rows_per_block = 0;           // 0: one block
  std::vector<Bytes> memory = {};        // by column, then block

  // Fills the memory: row i at its position.
  void fill() {
    uint64_t rows = ids.size();
    for (uint64_t at : positions) rows = std::max(rows, at + 1);
    memory.clear();
    for (const TestColumn& column : columns) {
      Bytes all(rows * column.row_bytes(), 0xee);
      for (size_t i = 0; i < ids.size(); i++) {
        const Bytes row = row_of(ids[i], column.name, column.row_bytes());
        const size_t at = positions.empty() ? i : positions[i];
        std::copy(row.begin(), row.end(), all.begin() + static_cast<ptrdiff_t>(at * row.size()));
      }
      const size_t block = rows_per_block ? rows_per_block * column.row_bytes() : all.size();
      size_t at = 0;
      do {
        const size_t end = std::min(all.size(), at + block);
        memory.emplace_back(all.begin() + static_cast<ptrdiff_t>(at), all.begin() + static_cast<ptrdiff_t>(end));
        at = end;
      } while (at < all.size());
    }
  }
  ckpt_status try_add(ckpt_save* save, const char* name, Error& error) {
    if (memory.empty()) fill();
    std::vector<const char*> names;
    std::vector<ckpt_column_desc> descs;
    std::vector<const void*> data;
    std::vector<uint64_t> sizes;
    for (const TestColumn& column : columns) {
      names.push_back(column.name.c_str());
      descs.push_back(column.desc());
    }
    for (const Bytes& block : memory) {
      data.push_back(block.data());
      sizes.push_back(block.size());
    }
    auto desc = sized<ckpt_table_desc>();
    desc.id_dtype = id_dtype;
    desc.row_count = ids.size();
    desc.bucket_count = buckets;
    desc.rows_per_block = rows_per_block;
    desc.column_count = static_cast<uint32_t>(columns.size());
    desc.block_count = columns.empty() ? 0 : static_cast<uint32_t>(memory.size() / columns.size());
    const auto* at = reinterpret_cast<const char*>(positions.data()) + positions_shift;
    return ckpt_save_add_table(save, name, &desc, ids.data(), ids.size() * 8, names.data(), descs.data(), data.data(),
                               sizes.data(), positions.empty() ? nullptr : reinterpret_cast<const uint64_t*>(at),
                               CKPT_DEVICE_CPU, 0, 0, error);
  }
  void add(ckpt_save* save, const char* name = "t") {
    Error error;
    ASSERT_EQ(try_add(save, name, error), CKPT_OK) << error.text();
  }
};

// `count` different ids of all kinds: small ones, large ones, such that fall into few buckets.
inline Ids random_ids(std::mt19937_64& random, size_t count) {
  std::set<uint64_t> ids;
  while (ids.size() < count) {
    const uint64_t kind = random() % 3;
    ids.insert(kind == 0 ? random() % (2 * count) : kind == 1 ? random() : random() << 32);
  }
  Ids shuffled(ids.begin(), ids.end());
  std::shuffle(shuffled.begin(), shuffled.end(), random);
  return shuffled;
}

// Deals ids out to ranks, as a trainer that owns them by hash would not: anywhere.
inline std::vector<TestTable> deal(std::mt19937_64& random, const Ids& ids, uint32_t world, uint64_t buckets) {
  std::vector<TestTable> tables(world);
  for (TestTable& table : tables) table.buckets = buckets;
  for (uint64_t id : ids) tables[random() % world].ids.push_back(id);
  return tables;
}

inline ckpt_share_desc share_desc(int32_t kind, uint64_t window_rows = 0) {
  auto desc = sized<ckpt_share_desc>();
  desc.kind = kind;
  desc.window_rows = window_rows;
  return desc;
}
inline ckpt_share_desc range_desc(uint64_t first, uint64_t end, uint64_t window_rows = 0) {
  ckpt_share_desc desc = share_desc(CKPT_SHARE_BUCKETS, window_rows);
  desc.bucket_first = first;
  desc.bucket_end = end;
  return desc;
}
inline ckpt_share_desc of_count(int32_t kind, uint64_t index, uint64_t count, uint64_t window_rows = 0) {
  ckpt_share_desc desc = share_desc(kind, window_rows);
  desc.index = index;
  desc.count = count;
  return desc;
}

inline Share open_share(const Reader& reader, const ckpt_share_desc& desc, const Ids& ids = {},
                        const char* table = "t") {
  ckpt_share* share = nullptr;
  Error error;
  EXPECT_EQ(ckpt_share_open(&share, reader.get(), table, &desc, ids.data(), ids.size(), nullptr, error), CKPT_OK)
      << error.text();
  return Share(share);
}
inline ckpt_share_info share_info(const Share& share) {
  auto info = sized<ckpt_share_info>();
  EXPECT_EQ(ckpt_share_get(share.get(), &info, nullptr), CKPT_OK);
  return info;
}

// Loads one window, and checks that each row is that of its id.
inline Outcome load_window(const Reader& reader, const Share& share, uint64_t window, Ids* ids,
                           const std::vector<TestColumn>& columns = kColumns, const std::vector<Setting>& settings = {},
                           ckpt_job_stats* stats = nullptr) {
  uint64_t rows = 0;
  EXPECT_EQ(ckpt_share_window_rows(share.get(), window, &rows, nullptr), CKPT_OK);
  ids->assign(rows, 0xabcdef);
  std::vector<const char*> names;
  std::vector<Bytes> memory;
  std::vector<void*> data;
  std::vector<uint64_t> sizes;
  for (const TestColumn& column : columns) {
    names.push_back(column.name.c_str());
    memory.emplace_back(rows * column.row_bytes());
  }
  for (Bytes& column : memory) {
    data.push_back(column.data());
    sizes.push_back(column.size());
  }
  Load load = new_load(reader, settings);
  Error error;
  ckpt_status status = ckpt_load_add_table(load.get(), share.get(), window, ids->data(), rows * 8, columns.size(),
                                           names.data(), data.data(), sizes.data(), CKPT_DEVICE_CPU, 0, 0, error);
  if (status != CKPT_OK) return outcome_of(status, error);
  ckpt_job* started = nullptr;
  EXPECT_EQ(ckpt_load_start(load.get(), &started, error), CKPT_OK) << error.text();
  Job job(started);
  status = ckpt_job_wait(job.get(), CKPT_JOB_DONE, -1, error);
  if (status != CKPT_OK) return outcome_of(status, error);
  if (stats) *stats = stats_of(job);
  for (size_t c = 0; c < columns.size(); c++)
    for (size_t i = 0; i < rows; i++) {
      const size_t size = columns[c].row_bytes();
      const auto at = memory[c].begin() + static_cast<ptrdiff_t>(i * size);
      if (row_of((*ids)[i], columns[c].name, size) == Bytes(at, at + static_cast<ptrdiff_t>(size))) continue;
      ADD_FAILURE() << "column " << columns[c].name << ", row " << i << " is not that of id " << (*ids)[i];
      return {};
    }
  return {};
}

// All windows of a share one after the other; each must load and hold no more rows than it may.
inline Ids load_all(const Reader& reader, const Share& share, uint64_t window_rows = 0,
                    const std::vector<TestColumn>& columns = kColumns, const std::vector<Setting>& settings = {}) {
  Ids all, ids;
  const ckpt_share_info info = share_info(share);
  for (uint64_t i = 0; i < info.window_count; i++) {
    const Outcome loaded = load_window(reader, share, i, &ids, columns, settings);
    EXPECT_EQ(loaded.status, CKPT_OK) << loaded.text;
    EXPECT_LE(ids.size(), info.most_rows);
    if (window_rows) {
      EXPECT_LE(ids.size(), window_rows);
    }
    all.insert(all.end(), ids.begin(), ids.end());
  }
  EXPECT_EQ(all.size(), info.row_count);
  return all;
}
inline Ids sorted(Ids ids) {
  std::ranges::sort(ids);
  return ids;
}
template <typename Keep>
Ids those(const Ids& ids, Keep&& keep) {
  Ids kept;
  std::ranges::copy_if(ids, std::back_inserter(kept), keep);
  return sorted(kept);
}

}  // namespace ckpt_test
