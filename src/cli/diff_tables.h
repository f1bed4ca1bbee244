// How the sparse tables of two checkpoints differ, row by row, whatever ranks saved them. One thread.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "cli/rows.h"

namespace cli {

struct TableDifference {
  std::string name;
  std::vector<std::string> texts;                           // a line for people each
  uint64_t only_first = 0, only_second = 0, differing = 0;  // ids, and rows that both have
};

struct TableDifferences {
  std::vector<TableDifference> found;  // of tables that differ
  // Names of findings of ckpt::Reader::diff, or of tensors, that are said by these: tensors that compared tables are
  // stored as, and the attribute that describes a table.
  std::set<std::string> said;
};

// One of the two: a checkpoint or a file.
struct TableSide {
  std::vector<SparseTable> tables;
  std::function<bool(const std::string& name)> has_tensor;
};
// Of a checkpoint, whose reader must outlive it.
TableSide checkpoint_side(const ckpt::Reader& reader);

// Of tables below `at` that one has, or both with the same columns. Others differ as the tensors do that they are
// stored as. `values`: rows are read and compared, window by window.
TableDifferences diff_tables(const TableSide& a, const TableSide& b, const std::string& at, bool values,
                             const ckpt::Options& options);

}  // namespace cli
