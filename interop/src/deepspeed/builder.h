// The state that DeepSpeed's files become: tensors under new names, values as they are. One thread.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>

#include "interop/src/deepspeed/files.h"

namespace ckpt::interop {

class StateBuilder {
 public:
  explicit StateBuilder(ForeignCheckpoint& to) : to_(to) {}

  tree::Tree tree;
  // A tensor of its own, which the tree has here. UNSUPPORTED for a name that is too long, FORMAT for one that comes
  // twice.
  Status add(ForeignTensor tensor);
  // A tensor of a file, under another name; one that was taken before, and what shares its memory, as an alias.
  Status take(const DeepSpeedFile& file, size_t tensor, const std::string& name);
  // The value of a node. Tensors in it are called `at` + what they are called in the file from byte `cut` on.
  Status copy(const DeepSpeedFile& file, uint32_t node, const std::string& at, size_t cut);
  // The same with its key.
  Status copy_entry(const DeepSpeedFile& file, uint32_t node, const std::string& at, size_t cut);
  // The value of a node as that of one parameter of several: tensors are copies, since programs change them in place.
  Status copy_own(const DeepSpeedFile& file, uint32_t node, const std::string& name);
  // All of the tensor `target` once more, once that is there: finish().
  Status share(const std::string& name, const std::string& target);
  // MISMATCH for a target that is not there.
  Status finish();

  // "model/hidden.weight"
  static std::string joined(const std::string& at, std::string_view key) { return at + '/' + tree::path_segment(key); }

 private:
  Status put(ForeignTensor tensor);
  ForeignTensor alias_of(size_t target, std::string name) const;

  ForeignCheckpoint& to_;
  std::unordered_map<std::string, size_t> places_;          // of tensors, by name
  std::unordered_map<const ForeignTensor*, size_t> taken_;  // those of files
  std::vector<std::pair<std::string, std::string>> shared_;
};

}  // namespace ckpt::interop
