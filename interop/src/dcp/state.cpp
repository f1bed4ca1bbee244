#include "interop/src/dcp/state.h"

#include <algorithm>

#include "interop/src/json.h"

namespace ckpt::interop {

using tree::Tree;

namespace {

struct StateNode {
  const DcpKey* key = nullptr;
  const DcpItem* item = nullptr;  // a leaf; null: a dict or a list
  bool is_list = false;
  std::vector<uint32_t> children;  // of a dict in their order, of a list by position
};

// A child by its parent and key. The text is an item's.
struct StateChild {
  uint32_t parent;
  int64_t place;  // -1: `text` counts
  std::string_view text;
  bool operator==(const StateChild&) const = default;
};
struct StateChildHash {
  size_t operator()(const StateChild& child) const {
    const size_t hash = child.place < 0 ? SeededHash()(child.text) : SeededHash()(child.place);
    return hash ^ (child.parent * 0x9e3779b97f4a7c15ULL);
  }
};

class StateMaker {
 public:
  using Leaf = std::function<Status(const DcpItem& item, const std::string& at, Tree& tree)>;
  StateMaker(const DcpMetadata& metadata, const Leaf& leaf) : metadata_(metadata), leaf_(leaf), nodes_(1) {}

  Result<Tree> run() {
    for (const DcpItem& item : metadata_.items) {
      Status status = add(item);
      if (!status.ok()) return std::move(status).in(shown(item.name)).with("tensor", item.name);
    }
    CKPT_TRY(put(0, ""));
    return std::move(tree_);
  }

 private:
  static Status conflict() { return Status(CKPT_FORMAT, "its path leads through or to another item"); }

  Status add(const DcpItem& item) {
    uint32_t at = 0;
    for (size_t i = 0; i < item.path.size(); i++) {
      const DcpKey& key = item.path[i];
      if (nodes_[at].item) return conflict();
      if (nodes_[at].children.empty() && at != 0) nodes_[at].is_list = key.is_place();
      if (nodes_[at].is_list != key.is_place()) return conflict();
      const StateChild child{at, key.place, key.text};
      const auto [found, is_new] = children_.try_emplace(child, static_cast<uint32_t>(nodes_.size()));
      if (is_new) {
        nodes_[at].children.push_back(found->second);
        nodes_.emplace_back().key = &key;
      }
      at = found->second;
    }
    if (nodes_[at].item || !nodes_[at].children.empty()) return conflict();
    nodes_[at].item = &item;
    return Ok();
  }

  Status put(uint32_t number, const std::string& at) {
    StateNode& node = nodes_[number];
    if (node.item) {
      Status status = leaf_(*node.item, at, tree_);
      return status.ok() ? Ok() : std::move(status).with("tensor", node.item->name);
    }
    if (node.is_list) return put_list(node, at);
    CKPT_TRY(tree_.begin(CKPT_NODE_DICT));
    for (const uint32_t child : node.children) {
      const std::string& text = nodes_[child].key->text;
      CKPT_TRY(tree_.key(text));
      CKPT_TRY(put(child, joined(at, tree::path_segment(text))));
    }
    return tree_.end();
  }

  // What torch did not write, since it was empty, is None where torch puts the list together.
  Status put_list(StateNode& node, const std::string& at) {
    std::ranges::sort(node.children, {}, [&](uint32_t child) { return nodes_[child].key->place; });
    const auto size = static_cast<uint64_t>(nodes_[node.children.back()].key->place) + 1;
    nulls_ += size - node.children.size();
    if (nulls_ > nodes_.size() + kMaxNulls)
      return Status(CKPT_FORMAT, strformat("the list {} of {} values has {}", shown(at), size, node.children.size()));
    CKPT_TRY(tree_.begin(CKPT_NODE_LIST));
    uint64_t next = 0;
    for (const uint32_t child : node.children) {
      const auto place = static_cast<uint64_t>(nodes_[child].key->place);
      for (; next < place; next++) CKPT_TRY(tree_.add_null());
      CKPT_TRY(put(child, joined(at, std::to_string(next++))));
    }
    return tree_.end();
  }

  static std::string joined(const std::string& at, const std::string& segment) {
    return at.empty() ? segment : at + '/' + segment;
  }

  static constexpr uint64_t kMaxNulls = 1 << 16;
  const DcpMetadata& metadata_;
  const Leaf& leaf_;
  std::vector<StateNode> nodes_;
  std::unordered_map<StateChild, uint32_t, StateChildHash> children_;
  uint64_t nulls_ = 0;
  Tree tree_;
};

}  // namespace

Result<Tree> dcp_tree(const DcpMetadata& metadata, const StateMaker::Leaf& leaf) {
  Result<Tree> tree = StateMaker(metadata, leaf).run();
  // What is wrong with a tree that files asked for is wrong with the files.
  if (!tree.ok() && tree.status().code() == CKPT_INVALID) return Status(CKPT_FORMAT, tree.status().message());
  return tree;
}

}  // namespace ckpt::interop
