// What nodes of a state tree mean to LibTorch.
#ifndef CKPT_TORCH_NODES_H
#define CKPT_TORCH_NODES_H

#include "tensors.h"

namespace ckpt_torch {
namespace internal {

using ckpt::Node;

// The record of a sparse table, whose rows load_table loads.
constexpr const char* kTableClass = "ckpt.Table";
inline bool is_table(const Node& node) {
  return node.kind == CKPT_NODE_RECORD && std::string(node.text_view()) == kTableClass;
}

inline bool is_dict(const Node& node) { return node.kind == CKPT_NODE_DICT || node.kind == CKPT_NODE_RECORD; }
inline bool is_list(const Node& node) { return node.kind == CKPT_NODE_LIST || node.kind == CKPT_NODE_TUPLE; }
inline std::string text_of(const Node& node) { return std::string(node.text_view()); }
inline std::vector<Node> children(const Node& node) { return {node.begin(), node.end()}; }

// The node of a tensor: a TENSOR, or the record of a tensor that is not dense; of a Parameter the one inside it.
std::optional<Node> tensor_at(Node node);
// The order of a tensor's elements in memory, as its record has it: "torch.channels_last"; "" for none.
std::string memory_format_at(Node node);
// The dict inside an OrderedDict, which has the entries; any other node is returned as it is.
Node dict_at(const Node& node);
inline bool has_entries(const Node& node) { return is_dict(dict_at(node)); }
// The child with a key: `field` looks in the node itself, `find` in dict_at(parent).
inline std::optional<Node> field(const Node& parent, const std::string& key) {
  return is_dict(parent) ? parent.find(key) : std::nullopt;
}
inline std::optional<Node> find(const Node& parent, const std::string& key) { return field(dict_at(parent), key); }
inline std::optional<Node> find(const Node& parent, int64_t key) { return dict_at(parent).find(key); }
// The node at a key of the root, or at a path "model/state_dict", through the value of a rank; "": the root.
std::optional<Node> node_at(const Node& root, const std::string& path);
// For messages: "optimizer/state/0", "a dict".
std::string path_of(const Node& node);
std::string kind_name(const Node& node);

}  // namespace internal
}  // namespace ckpt_torch
#endif
