#include "nodes.h"

namespace ckpt_torch {
namespace internal {

std::optional<Node> tensor_at(Node node) {
  for (;;) {
    if (node.kind == CKPT_NODE_TENSOR) return node;
    if (node.kind != CKPT_NODE_RECORD) return std::nullopt;
    const std::string name = text_of(node);
    bool wraps = name == "torch.nn.parameter.Parameter" || name == "numpy.ndarray";
    if (name == "torch.Tensor") wraps = !field(node, "conj") && !field(node, "neg") && !field(node, "dtype");
    // Its elements differ in dtype or order from those stored; LibTorch has no type for that.
    if (name == "numpy.ndarray" && (field(node, "dtype") || field(node, "order"))) return std::nullopt;
    if (!wraps) return is_tensor_record(name) ? std::optional<Node>(node) : std::nullopt;
    const auto data = field(node, "data");
    if (!data) return std::nullopt;
    node = *data;
  }
}

std::string memory_format_at(Node node) {
  while (node.kind == CKPT_NODE_RECORD) {
    if (const auto format = field(node, "memory_format")) return text_of(*format);
    const auto data = field(node, "data");
    if (!data) break;
    node = *data;
  }
  return "";
}

Node dict_at(const Node& node) {
  if (node.kind != CKPT_NODE_RECORD || node.text_view() != "collections.OrderedDict") return node;
  const auto items = field(node, "items");
  return items && items->kind == CKPT_NODE_DICT ? *items : node;
}

std::optional<Node> node_at(const Node& root, const std::string& path) {
  if (path.empty()) return root;
  auto node = find(root, path);
  if (node) return node;
  node = root;
  for (size_t start = 0, slash = 0; node && slash != path.npos; start = slash + 1) {
    slash = path.find('/', start);
    if (node->kind == CKPT_NODE_RECORD && text_of(*node) == CKPT_PER_RANK_CLASS) node = node->own();
    node = find(*node, path.substr(start, slash == path.npos ? path.npos : slash - start));
  }
  return node;
}

std::string path_of(const Node& node) { return node.number() == 0 ? "the root" : node.path(); }

std::string kind_name(const Node& node) {
  switch (node.kind) {
    case CKPT_NODE_NULL:
      return "None";
    case CKPT_NODE_INT:
    case CKPT_NODE_BIGINT:
      return "an integer";
    case CKPT_NODE_TEXT:
    case CKPT_NODE_BYTES:
      return node.kind_name();
    case CKPT_NODE_RECORD:
      return "a " + text_of(node);
    default:
      return std::string("a ") + node.kind_name();
  }
}

}  // namespace internal
}  // namespace ckpt_torch
