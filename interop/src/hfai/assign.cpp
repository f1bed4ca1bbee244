#include "interop/src/hfai/assign.h"

#include <algorithm>

#include "interop/src/hfai/layout.h"
#include "interop/src/hfai/parts.h"
#include "interop/src/pt/encoder.h"

namespace ckpt::interop {

using tree::kNoNode;
using tree::Tree;
using tree::TreeNode;

namespace {

Status mismatch(const std::string& what, const std::string& found) {
  return Status(CKPT_MISMATCH, "hfai: " + what + ", found " + found).with("found", found);
}

std::string kind_text(const TreeNode& node) {
  switch (node.kind) {
    case CKPT_NODE_DICT:
      return "a dict";
    case CKPT_NODE_LIST:
      return "a list";
    case CKPT_NODE_TUPLE:
      return "a tuple";
    case CKPT_NODE_TENSOR:
      return "a tensor";
    case CKPT_NODE_RECORD:
      return "a record of class " + std::string(node.text_view());
    default:
      return "a plain value";
  }
}

class Assigner {
 public:
  Assigner(const State& state, const Tree& tree, uint32_t parts, uint64_t large_bytes)
      : state_(state), tree_(tree), large_bytes_(large_bytes), load_(parts, 0) {}

  Result<HfaiPlan> run() {
    CKPT_ASSIGN(const uint32_t root, dict_at(0));
    const uint32_t model = tree_.find(root, kHfaiModel), optimizer = tree_.find(root, kHfaiOptimizer);
    if (model == kNoNode) return mismatch("the tree must have \"model\"", "none");
    CKPT_TRY(add_models(model));
    if (optimizer != kNoNode && tree_[optimizer].kind != CKPT_NODE_NULL) CKPT_TRY(add_optimizers(optimizer));
    for (HfaiAssigned& assigned : plan_.models) CKPT_TRY(assign_entries(&assigned));
    for (HfaiAssigned& assigned : plan_.optimizers) CKPT_TRY(assign_entries(&assigned));
    for (uint32_t child = tree_.first_child(root); child != kNoNode; child = tree_[child].next)
      if (child != model && child != optimizer && !is_header(tree_[child])) plan_.others.push_back(child);
    return std::move(plan_);
  }

 private:
  // What an import of an hfai directory kept of the old one.
  static bool is_header(const TreeNode& node) {
    return node.key_kind == CKPT_KEY_TEXT && (node.key_view() == kHfaiShards || node.key_view() == kHfaiVersionKey);
  }

  Result<uint32_t> dict_at(uint32_t node) const {
    const uint32_t entries = hfai_entries_of(tree_, node);
    if (entries != kNoNode) return entries;
    return mismatch(place_of(tree_, node) + " must be a dict", kind_text(tree_[node]));
  }

  // One dict, or a list of them.
  Result<std::vector<uint32_t>> dicts_at(uint32_t node) const {
    const TreeNode& found = tree_[node];
    std::vector<uint32_t> dicts;
    if (found.kind != CKPT_NODE_LIST && found.kind != CKPT_NODE_TUPLE) {
      CKPT_ASSIGN(const uint32_t dict, dict_at(node));
      dicts.push_back(dict);
      return dicts;
    }
    for (uint32_t child = tree_.first_child(node); child != kNoNode; child = tree_[child].next) {
      CKPT_ASSIGN(const uint32_t dict, dict_at(child));
      dicts.push_back(dict);
    }
    return dicts;
  }

  Status add_models(uint32_t model) {
    CKPT_ASSIGN(const std::vector<uint32_t> dicts, dicts_at(model));
    for (uint32_t dict : dicts) {
      HfaiAssigned assigned{dict, dict, {}, {}};
      for (uint32_t child = tree_.first_child(dict); child != kNoNode; child = tree_[child].next)
        CKPT_TRY(cut_if_large(child, child, &assigned));
      plan_.models.push_back(std::move(assigned));
    }
    return Ok();
  }

  Status add_optimizers(uint32_t optimizer) {
    CKPT_ASSIGN(const std::vector<uint32_t> dicts, dicts_at(optimizer));
    for (uint32_t dict : dicts) {
      const uint32_t state = tree_.find(dict, "state");
      if (state == kNoNode) return mismatch(place_of(tree_, dict) + " must have \"state\"", "none");
      CKPT_ASSIGN(const uint32_t entries, dict_at(state));
      HfaiAssigned assigned{dict, entries, {}, {}};
      for (uint32_t outer = tree_.first_child(entries); outer != kNoNode; outer = tree_[outer].next) {
        const uint32_t inner = hfai_entries_of(tree_, outer);
        if (inner == kNoNode) continue;
        for (uint32_t child = tree_.first_child(inner); child != kNoNode; child = tree_[child].next)
          CKPT_TRY(cut_if_large(outer, child, &assigned));
      }
      plan_.optimizers.push_back(std::move(assigned));
    }
    return Ok();
  }

  Status cut_if_large(uint32_t outer, uint32_t node, HfaiAssigned* assigned) {
    const TreeNode& found = tree_[node];
    if (found.kind != CKPT_NODE_TENSOR) return Ok();
    CKPT_ASSIGN(TensorRange whole, whole_of(state_, std::string(found.text_view())));
    CKPT_ASSIGN(const uint64_t bytes, element_bytes(whole.size, whole.dtype));
    if (bytes <= large_bytes_) return Ok();
    plan_.cut_names.insert(whole.name);
    plan_.cut_nodes.insert(node);
    assigned->cuts.push_back({outer, node, std::move(whole)});
    return Ok();
  }

  Status assign_entries(HfaiAssigned* assigned) {
    for (uint32_t child = tree_.first_child(assigned->entries); child != kNoNode; child = tree_[child].next)
      if (!plan_.cut_nodes.contains(child)) CKPT_TRY(assign_entry(child, assigned));
    return Ok();
  }

  // To the part where something lies that it shares memory with, else to the one with the fewest bytes.
  Status assign_entry(uint32_t entry, HfaiAssigned* assigned) {
    std::vector<std::string> targets;
    uint64_t bytes = 0;
    CKPT_TRY(look(entry, &targets, &bytes));
    auto part = static_cast<uint32_t>(std::min_element(load_.begin(), load_.end()) - load_.begin());
    for (const std::string& target : targets)
      if (const auto found = part_of_target_.find(target); found != part_of_target_.end()) part = found->second;
    for (const std::string& target : targets) part_of_target_.try_emplace(target, part);
    assigned->part_of[entry] = part;
    load_[part] += bytes;
    return Ok();
  }

  // The tensors at and below `node` that are not cut: whose memory they are, and their bytes.
  Status look(uint32_t node, std::vector<std::string>* targets, uint64_t* bytes) const {
    const TreeNode& found = tree_[node];
    for (uint32_t child = tree_.first_child(node); child != kNoNode; child = tree_[child].next)
      CKPT_TRY(look(child, targets, bytes));
    if (found.kind != CKPT_NODE_TENSOR || plan_.cut_nodes.contains(node)) return Ok();
    CKPT_ASSIGN(const TensorRange whole, whole_of(state_, std::string(found.text_view())));
    CKPT_ASSIGN(const std::string target, target_of(state_, whole.name));
    CKPT_ASSIGN(const uint64_t size, element_bytes(whole.size, whole.dtype));
    if (!plan_.cut_names.contains(target)) targets->push_back(target.empty() ? whole.name : target);
    *bytes += size;
    return Ok();
  }

  const State state_;
  const Tree& tree_;
  uint64_t large_bytes_;
  std::vector<uint64_t> load_;  // bytes of each part
  std::map<std::string, uint32_t> part_of_target_;
  HfaiPlan plan_;
};

}  // namespace

Result<HfaiPlan> assign_hfai(const State& state, const Tree& tree, uint32_t parts, uint64_t large_bytes) {
  return Assigner(state, tree, parts, large_bytes).run();
}

}  // namespace ckpt::interop
