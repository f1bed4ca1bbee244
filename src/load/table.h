// A sparse table of a checkpoint: its tensors, and the rows that each part has of it (FORMAT §4, tables).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace ckpt::load {

// The rows of a part: `rows` of all tensors of the table from row `first` on, and `entries` of T/buckets.
struct TablePart {
  uint32_t part;
  uint64_t first, rows;
  uint64_t entry_first, entries, entry_buckets;
};

struct Table {
  struct Column {
    std::string_view name;  // a zero byte follows
    checkpoint::TensorRef tensor;
    uint64_t row_bytes = 0;
  };
  std::string_view name;  // a zero byte follows
  uint64_t bucket_count = 0;
  Column ids, buckets;
  std::vector<Column> columns;

  uint64_t rows() const { return ids.tensor.extents()[0]; }
  const Column* find(std::string_view column) const;
};

// NOT_FOUND: no such name, or no table; FORMAT: its tensors are not what makes a table. Views of the checkpoint.
Result<Table> find_table(const checkpoint::Checkpoint& checkpoint, std::string_view name);
// Calls visit(name) for each table in the order of names; reads all pages of names.
Status for_each_table(const checkpoint::Checkpoint& checkpoint,
                      const std::function<Status(std::string_view name)>& visit);
// Reads the indexes of the parts that hold some of it. FORMAT if they do not hold the same rows of all its tensors.
Result<std::vector<TablePart>> parts_of(const checkpoint::Checkpoint& checkpoint, const Table& table);

// FORMAT, of a table.
Status bad_table(std::string_view table, std::string what);

}  // namespace ckpt::load
