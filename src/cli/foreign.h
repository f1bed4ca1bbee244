// ckpt info, cat and diff of a file or directory of another format, without a store.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/rows.h"
#include "cli/tensor_source.h"

namespace cli {

struct ForeignQuery {
  std::string path;
  std::string pattern;      // for tensors' names; empty: all tensors
  uint64_t tree_lines = 0;  // of the outline, at most
};
// Prints format, sizes, the outline of the tree and the tensors. Checks the file's checksums only with -o verify=1.
void show_foreign(const ForeignQuery& query, const Common& common);

Json tensor_json(const ckpt::FileTensor& tensor);

// Names of files, a dozen of them: "a, b and 3 more".
std::string some_names(std::vector<std::string> names);

// The tensors of a file or directory, whose elements are read as they are asked for, sparse tables that are among them,
// and its tree as JSON.
struct ForeignContent {
  std::vector<TensorSource> tensors;
  std::vector<SparseTable> tables;
  std::string tree;
};
ForeignContent foreign_content(const std::string& path, const Common& common);
std::vector<SparseTable> foreign_tables(const std::string& path, const Common& common);
// One tensor of it, converted to `as` ("": as it is). NOT_FOUND.
TensorSource foreign_tensor(const std::string& path, const std::string& name, const std::string& as,
                            const Common& common);

}  // namespace cli
