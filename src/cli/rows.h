// Sparse tables for the commands: their tensors, their rows window by window, and rows as text. One thread.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <ckpt.hpp>

#include "cli/json.h"

namespace cli {

// Some rows of a table, in windows.
struct TableRows {
  ckpt::ShareInfo info;
  std::vector<uint64_t> missing;
  std::function<uint64_t(uint64_t window)> window_rows;
  std::function<void(uint64_t window, ckpt::MutableMemory ids, const std::vector<ckpt::ColumnMemory>& columns)> read;
};

// A sparse table of a checkpoint, whose reader must outlive it and what was opened of it, or of a file.
struct SparseTable {
  ckpt::TableInfo info;  // of a file without bucket_count
  std::vector<ckpt::ColumnInfo> columns;
  std::function<TableRows(const ckpt::Rowset& rows, const ckpt::Options& options)> open;

  std::string name() const { return info.name; }
};

std::vector<SparseTable> tables_of(const ckpt::Reader& reader);
// The table `name`; nothing if that is no table.
std::optional<SparseTable> find_table(const ckpt::Reader& reader, const std::string& name);
// "embedding f32 [6], seen i64".
std::string columns_text(const SparseTable& table);
// The names before the columns: the table's, and those of its later runs and of what they remove.
std::vector<std::string> runs_of(const SparseTable& table);
// The names of the tensors that a table is stored as, and its own.
std::set<std::string> tensors_of(const SparseTable& table);
// The tensors, of a checkpoint or a file, without those that tables are stored as.
template <class Tensor>
std::vector<Tensor> without_tables(std::vector<Tensor> tensors, const std::vector<SparseTable>& tables) {
  if (tables.empty()) return tensors;
  std::set<std::string> hidden;
  for (const SparseTable& table : tables) hidden.merge(tensors_of(table));
  std::erase_if(tensors, [&](const Tensor& tensor) { return hidden.contains(tensor.name); });
  return tensors;
}
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
  RowReader(const SparseTable& table, const ckpt::Rowset& rows, const ckpt::Options& options)
      : table_(table), rows_(table.open(rows, options)) {}
  uint64_t row_count() const { return rows_.info.row_count; }
  uint64_t window_count() const { return rows_.info.window_count; }
  std::vector<uint64_t> missing() const { return rows_.missing; }
  LoadedRows read(uint64_t window) const;

 private:
  const SparseTable& table_;
  TableRows rows_;
};

// How the rows of a table fill its buckets. Reads all ids, in bounded memory.
struct Skew {
  uint64_t buckets_with_rows = 0, rows_of_fullest = 0;
};
Skew skew_of(const SparseTable& table, const ckpt::Options& options);

// The most rows of a window that takes a bounded amount of memory.
uint64_t window_rows(const SparseTable& table);

// Row `row` of column `column`: a number, or numbers in brackets, the middle of long dimensions left out if `cut`.
std::string row_text(const SparseTable& table, const LoadedRows& rows, size_t column, size_t row, bool cut);
// As RFC 4180 has it, with line ends: the id, and each element of each column by itself: "id,emb.0,emb.1,seen".
// In bounded memory, however many rows; `put` takes lines.
void write_csv(const SparseTable& table, const RowReader& reading, const std::function<void(std::string_view)>& put);
Json row_json(const SparseTable& table, const LoadedRows& rows, size_t column, size_t row);

}  // namespace cli
