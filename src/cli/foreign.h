// ckpt info and ckpt cat of a file or directory of another format, without a store. without_interop.cpp replaces it
// where libckpt lacks ckpt_file.h.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cli/command.h"
#include "cli/tensor_source.h"

namespace cli {

struct ForeignQuery {
  std::string path;
  std::string pattern;      // for tensors' names; empty: all tensors
  uint64_t tree_lines = 0;  // of the outline, at most
};
// Prints format, sizes, the outline of the tree and the tensors. Checks the file's checksums only with -o verify=1.
void show_foreign(const ForeignQuery& query, const Common& common);

// Calls `show` with the elements of a tensor, which are read from the files as it asks for them. NOT_FOUND.
void with_foreign_tensor(const std::string& path, const std::string& name, const std::string& as, const Common& common,
                         const std::function<void(const TensorSource& source)>& show);

}  // namespace cli
