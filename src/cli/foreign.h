// ckpt info of other people's files: .pt and .safetensors, without a store. Where libckpt lacks ckpt_file.h,
// without_interop.cpp has it.
#pragma once

#include <cstdint>
#include <string>

#include "cli/command.h"

namespace cli {

struct ForeignQuery {
  std::string path;
  std::string pattern;      // of tensors' names; empty for all
  uint64_t tree_lines = 0;  // of the tree's outline
};
// Prints format, sizes, the tree in outline and the tensors. The file's checksums are compared with -o verify=1 only.
void show_foreign(const ForeignQuery& query, const Common& common);

}  // namespace cli
