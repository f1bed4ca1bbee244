// ckpt info of a .pt or .safetensors file, without a store. without_interop.cpp replaces it where libckpt lacks
// ckpt_file.h.
#pragma once

#include <cstdint>
#include <string>

#include "cli/command.h"

namespace cli {

struct ForeignQuery {
  std::string path;
  std::string pattern;      // for tensors' names; empty: all tensors
  uint64_t tree_lines = 0;  // of the outline, at most
};
// Prints format, sizes, the outline of the tree and the tensors. Checks the file's checksums only with -o verify=1.
void show_foreign(const ForeignQuery& query, const Common& common);

}  // namespace cli
