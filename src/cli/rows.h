// Sparse tables for the commands: their tensors, their rows window by window, and rows as text. One thread.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include <ckpt.hpp>

#include "cli/json.h"

namespace cli {

// A sparse table of a checkpoint. `reader` must outlive it, and what was opened of it.
struct SparseTable {
  ckpt::TableInfo info;
  std::vector<ckpt::ColumnInfo> columns;

  std::string name() const { return info.name; }
};

std::vector<SparseTable> tables_of(const ckpt::Reader& reader);
// The table `name`; nothing if that is no table.
std::optional<SparseTable> find_table(const ckpt::Reader& reader, const std::string& name);
// The names of the tensors that a table is stored as, and its own.
std::set<std::string> tensors_of(const SparseTable& table);
// Only these columns, in this order; NOT_FOUND names those that there are.
SparseTable with_columns(SparseTable table, const std::vector<std::string>& names);

// "5,-7": as the ids of a table, which count as unsigned. INVALID.
std::vector<uint64_t> parse_ids(const std::string& text);
std::string id_text(const SparseTable& table, uint64_t id);

// Rows in memory: of each column all of them.
struct LoadedRows {
  std::vector<uint64_t> ids;
  std::vector<std::vector<std::byte>> columns;
};

// Reads the rows of a share, of the table's columns, window by window.
class RowReader {
 public:
  RowReader(const ckpt::Reader& reader, const SparseTable& table, const ckpt::Rowset& rows,
            const ckpt::Options& options);
  uint64_t row_count() const { return info_.row_count; }
  uint64_t window_count() const { return info_.window_count; }
  std::vector<uint64_t> missing() const { return share_.missing(); }
  LoadedRows read(uint64_t window) const;

 private:
  const ckpt::Reader& reader_;
  const SparseTable& table_;
  const ckpt::Options& options_;
  ckpt::Share share_;
  ckpt::ShareInfo info_;
};

// How the rows of a table fill its buckets. Reads all ids, in bounded memory.
struct Skew {
  uint64_t buckets_with_rows = 0, rows_of_fullest = 0;
};
Skew skew_of(const ckpt::Reader& reader, const SparseTable& table, const ckpt::Options& options);

// The most rows of a window that takes a bounded amount of memory.
uint64_t window_rows(const SparseTable& table);

// Row `row` of column `column`: a number, or numbers in brackets, the middle of long dimensions left out if `cut`.
std::string row_text(const SparseTable& table, const LoadedRows& rows, size_t column, size_t row, bool cut);
// As RFC 4180 has it, with line ends: the id, and each element of each column by itself: "id,emb.0,emb.1,seen".
std::string csv_header(const SparseTable& table);
std::string csv_row(const SparseTable& table, const LoadedRows& rows, size_t row);
Json row_json(const SparseTable& table, const LoadedRows& rows, size_t column, size_t row);

}  // namespace cli
