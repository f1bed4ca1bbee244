#include <algorithm>

#include "load_plan.h"

namespace ckpt_torch {
namespace internal {

ckpt_node TreeView::operator[](uint64_t node) const {
  ckpt_node out{};
  out.struct_size = sizeof out;
  check([&](ckpt_error** err) { return ckpt_tree_at(tree_, node, &out, err); });
  return out;
}

uint64_t TreeView::tensor_at(uint64_t node) const {
  while (node != CKPT_NODE_END) {
    ckpt_node n = (*this)[node];
    if (n.kind == CKPT_NODE_TENSOR) return node;
    if (n.kind != CKPT_NODE_RECORD) break;
    std::string name = text(node);
    bool wraps = name == "torch.nn.parameter.Parameter" || name == "numpy.ndarray";
    if (name == "torch.Tensor") wraps = field(node, "conj") == CKPT_NODE_END && field(node, "neg") == CKPT_NODE_END;
    // Of another dtype than is stored, or in another order: LibTorch has no name for such elements.
    if (name != "torch.QTensor" && (field(node, "dtype") != CKPT_NODE_END || field(node, "order") != CKPT_NODE_END))
      break;
    if (!wraps) return is_tensor_record(name) ? node : CKPT_NODE_END;
    node = field(node, "data");
  }
  return CKPT_NODE_END;
}

uint64_t TreeView::dict_at(uint64_t node) const {
  if ((*this)[node].kind != CKPT_NODE_RECORD || text(node) != "collections.OrderedDict") return node;
  uint64_t items = field(node, "items");
  return items != CKPT_NODE_END && (*this)[items].kind == CKPT_NODE_DICT ? items : node;
}

uint64_t TreeView::field(uint64_t parent, const std::string& key) const {
  uint64_t out = CKPT_NODE_END;
  bool found = is_dict((*this)[parent]) && ckpt_tree_find(tree_, parent, key.c_str(), &out, nullptr) == CKPT_OK;
  return found ? out : CKPT_NODE_END;
}

uint64_t TreeView::find(uint64_t parent, int64_t key) const {
  uint64_t out = CKPT_NODE_END;
  return ckpt_tree_find_int(tree_, dict_at(parent), key, &out, nullptr) == CKPT_OK ? out : CKPT_NODE_END;
}

std::vector<uint64_t> TreeView::children(uint64_t node) const {
  std::vector<uint64_t> out;
  for (uint64_t child = (*this)[node].first_child; child != CKPT_NODE_END; child = (*this)[child].next_sibling)
    out.push_back(child);
  return out;
}

std::string TreeView::key(uint64_t node) const {
  ckpt_node n = (*this)[node];
  if (n.key_kind == CKPT_KEY_TEXT) return std::string(n.key, n.key_size);
  if (n.key_kind == CKPT_KEY_INT) return std::to_string(n.key_int);
  if (n.parent == CKPT_NODE_END) return "";
  auto siblings = children(n.parent);
  return std::to_string(std::find(siblings.begin(), siblings.end(), node) - siblings.begin());
}

std::string TreeView::path(uint64_t node) const {
  std::string out;
  for (uint64_t at = node; (*this)[at].parent != CKPT_NODE_END; at = (*this)[at].parent)
    out = key(at) + (out.empty() ? "" : "/") + out;
  return out.empty() ? "the root" : out;
}

std::string TreeView::text(uint64_t node) const {
  ckpt_node n = (*this)[node];
  return n.text ? std::string(n.text, n.text_size) : std::string();
}

std::string TreeView::kind_name(uint64_t node) const {
  switch ((*this)[node].kind) {
    case CKPT_NODE_NULL:
      return "None";
    case CKPT_NODE_BOOL:
      return "a bool";
    case CKPT_NODE_INT:
    case CKPT_NODE_BIGINT:
      return "an integer";
    case CKPT_NODE_FLOAT:
      return "a float";
    case CKPT_NODE_TEXT:
      return "text";
    case CKPT_NODE_BYTES:
      return "bytes";
    case CKPT_NODE_TENSOR:
      return "a tensor";
    case CKPT_NODE_LIST:
      return "a list";
    case CKPT_NODE_TUPLE:
      return "a tuple";
    case CKPT_NODE_SET:
      return "a set";
    case CKPT_NODE_DICT:
      return "a dict";
    case CKPT_NODE_RECORD:
      return "a " + text(node);
    default:
      return "a node of unknown kind";
  }
}

}  // namespace internal
}  // namespace ckpt_torch
