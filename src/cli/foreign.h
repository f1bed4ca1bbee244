// ckpt info of other people's files: .pt and .safetensors, without a store.
#pragma once

#include <cstdint>
#include <string>

#include "cli/command.h"

namespace cli {

// Whether `argument` is one file, where a checkpoint would be a directory.
bool is_foreign_file(const std::string& argument);

struct ForeignQuery {
  std::string path;
  std::string pattern;      // of tensors' names; empty for all
  uint64_t tree_lines = 0;  // of the tree's outline
};
// Prints format, sizes, the tree in outline and the tensors. The file's checksums are compared with -o verify=1 only.
Error show_foreign(const ForeignQuery& query, const Common& common);

}  // namespace cli
