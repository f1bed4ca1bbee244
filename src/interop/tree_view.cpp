#include "interop/tree_view.h"

#include <algorithm>
#include <vector>

namespace ckpt::interop {

Result<TreeHandle> tree_of(const ckpt_reader* reader) {
  ckpt_tree* tree = nullptr;
  CKPT_TRY(call([&](ckpt_error** err) { return ckpt_reader_tree(reader, nullptr, &tree, err); }));
  return TreeHandle(tree);
}

// Node numbers come from the tree itself, so there is such a node.
TreeEntry TreeView::operator[](uint64_t number) const {
  TreeEntry node{};
  node.struct_size = sizeof(ckpt_node);
  node.number = number;
  (void)ckpt_tree_at(tree_, number, &node, nullptr);
  return node;
}

uint64_t TreeView::find(uint64_t parent, const char* key) const {
  if (!has_keys((*this)[parent])) return CKPT_NODE_END;
  uint64_t found = CKPT_NODE_END;
  return ckpt_tree_find(tree_, parent, key, &found, nullptr) == CKPT_OK ? found : CKPT_NODE_END;
}

static std::string place_of(const TreeView& tree, const TreeEntry& node) {
  if (node.key_kind == CKPT_KEY_TEXT) return std::string(key_of(node));
  if (node.key_kind == CKPT_KEY_INT) return std::to_string(node.key_int);
  uint64_t place = 0;
  for (uint64_t child = tree[node.parent].first_child; child != node.number; child = tree[child].next_sibling) place++;
  return std::to_string(place);
}

std::string TreeView::path_of(uint64_t number) const {
  std::vector<std::string> parts;
  for (TreeEntry node = (*this)[number]; node.parent != CKPT_NODE_END; node = (*this)[node.parent])
    parts.push_back(place_of(*this, node));
  if (parts.empty()) return "the root";
  std::string path;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) path += (path.empty() ? "" : "/") + *part;
  return path;
}

}  // namespace ckpt::interop
