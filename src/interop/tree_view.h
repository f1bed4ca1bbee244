// A state tree through the public API, as exports walk it. Const calls are thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "ckpt_tree.h"
#include "interop/calls.h"

namespace ckpt::interop {

using TreeHandle = std::unique_ptr<ckpt_tree, Freer<ckpt_tree_free>>;

// The main tree of a checkpoint.
Result<TreeHandle> tree_of(const ckpt_reader* reader);

// A node that knows its number.
struct TreeEntry : ckpt_node {
  uint64_t number = 0;
};

class TreeView {
 public:
  explicit TreeView(const ckpt_tree* tree) : tree_(tree) {}

  TreeEntry operator[](uint64_t node) const;
  // CKPT_NODE_END where there is none, or where `parent` has no keys.
  uint64_t find(uint64_t parent, const char* key) const;
  // "model/layers.0.w"; "the root".
  std::string path_of(uint64_t node) const;

 private:
  const ckpt_tree* tree_;
};

inline std::string_view text_of(const ckpt_node& node) { return {node.text, node.text_size}; }
inline std::string_view key_of(const ckpt_node& node) { return {node.key, node.key_size}; }
inline bool has_keys(const ckpt_node& node) { return node.kind == CKPT_NODE_DICT || node.kind == CKPT_NODE_RECORD; }

}  // namespace ckpt::interop
