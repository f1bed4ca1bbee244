// A sparse table of a checkpoint: its tensors, and the rows that each part has of it (FORMAT §4, tables).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace ckpt::load {

// The rows of a part in one layer of a table: `rows` of all its tensors from row `first` on, and `entries` of its
// buckets.
struct TablePart {
  uint32_t part;
  uint64_t first, rows;
  uint64_t entry_first = 0, entries = 0, entry_buckets = 0;
  uint32_t layer = 0;
};

// Rows by id, stored as tensors: a run of a table; or, without columns, the ids that a run removes.
struct Layer {
  struct Column {
    std::string_view name;  // a zero byte follows
    checkpoint::TensorRef tensor;
    uint64_t row_bytes = 0;
  };
  Column ids, buckets;
  std::vector<Column> columns;

  uint64_t rows() const { return ids.tensor.extents()[0]; }
};

struct Table : Layer {    // run 0
  std::string_view name;  // a zero byte follows
  uint64_t bucket_count = 0;
  // Of later runs, in their order: the rows of each, and what it removes. In each part the newest one that has an id
  // decides; of T/run-live each part with later runs has one number.
  std::vector<Layer> later;
  Column live;

  const Layer& layer(size_t number) const { return number == 0 ? *this : later[number - 1]; }
  static bool removes(size_t layer) { return layer != 0 && layer % 2 == 0; }
  uint32_t run_count() const { return static_cast<uint32_t>(later.size() / 2 + 1); }
  // Of all runs: an id may be in several.
  uint64_t stored_rows() const;
  const Column* find(std::string_view column) const;
};

// NOT_FOUND: no such name, or no table; FORMAT: its tensors are not what makes a table. Views of the checkpoint.
Result<Table> find_table(const checkpoint::Checkpoint& checkpoint, std::string_view name);
// Calls visit(name) for each table in the order of names; reads all pages of names.
Status for_each_table(const checkpoint::Checkpoint& checkpoint,
                      const std::function<Status(std::string_view name)>& visit);
// By part, the newest layer of each first. Reads the indexes of the parts that hold some of it. FORMAT if they do not
// hold the same rows of all its tensors.
Result<std::vector<TablePart>> parts_of(const checkpoint::Checkpoint& checkpoint, const Table& table);

// The parts that have a number in T/run-live, which is row `first` there. There must be later runs.
Result<std::vector<TablePart>> live_of(const checkpoint::Checkpoint& checkpoint, const Table& table);

// FORMAT, of a table.
Status bad_table(std::string_view table, std::string what);

}  // namespace ckpt::load
