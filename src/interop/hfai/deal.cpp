#include "interop/hfai/deal.h"

#include <algorithm>

#include "interop/hfai/layout.h"
#include "interop/pt/encoder.h"

namespace ckpt::interop {

namespace {

Status mismatch(const std::string& what, const std::string& found) {
  return Status(CKPT_MISMATCH, "hfai: " + what + ", found " + found).with("found", found);
}

std::string kind_text(const ckpt_node& node) {
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
      return "a record of class " + std::string(text_of(node));
    default:
      return "a plain value";
  }
}

class Dealer {
 public:
  Dealer(const ckpt_reader* reader, TreeView tree, uint32_t parts, uint64_t large_bytes)
      : reader_(reader), tree_(tree), large_bytes_(large_bytes), load_(parts, 0) {}

  Result<HfaiDeal> run() {
    CKPT_ASSIGN(const uint64_t root, dict_at(0));
    const uint64_t model = tree_.find(root, kHfaiModel), optimizer = tree_.find(root, kHfaiOptimizer);
    if (model == CKPT_NODE_END) return mismatch("the tree must have \"model\"", "none");
    CKPT_TRY(add_models(model));
    if (optimizer != CKPT_NODE_END && tree_[optimizer].kind != CKPT_NODE_NULL) CKPT_TRY(add_optimizers(optimizer));
    for (HfaiDealt& dealt : deal_.models) CKPT_TRY(deal_entries(&dealt));
    for (HfaiDealt& dealt : deal_.optimizers) CKPT_TRY(deal_entries(&dealt));
    for (uint64_t child = tree_[root].first_child; child != CKPT_NODE_END; child = tree_[child].next_sibling)
      if (child != model && child != optimizer && !is_header(tree_[child])) deal_.others.push_back(child);
    return std::move(deal_);
  }

 private:
  // What an import of an hfai directory kept of the old one.
  static bool is_header(const ckpt_node& node) {
    return node.key_kind == CKPT_KEY_TEXT && (key_of(node) == kHfaiShards || key_of(node) == kHfaiVersionKey);
  }

  // The DICT with the entries of a dict or an OrderedDict; CKPT_NODE_END.
  uint64_t entries_of(uint64_t node) const {
    const TreeEntry found = tree_[node];
    if (found.kind == CKPT_NODE_DICT) return node;
    if (found.kind != CKPT_NODE_RECORD || text_of(found) != kOrderedDict) return CKPT_NODE_END;
    const uint64_t items = tree_.find(node, "items");
    return items != CKPT_NODE_END && tree_[items].kind == CKPT_NODE_DICT ? items : CKPT_NODE_END;
  }

  Result<uint64_t> dict_at(uint64_t node) const {
    const uint64_t entries = entries_of(node);
    if (entries != CKPT_NODE_END) return entries;
    return mismatch(tree_.path_of(node) + " must be a dict", kind_text(tree_[node]));
  }

  // One dict, or a list of them.
  Result<std::vector<uint64_t>> dicts_at(uint64_t node) const {
    const TreeEntry found = tree_[node];
    std::vector<uint64_t> dicts;
    if (found.kind != CKPT_NODE_LIST && found.kind != CKPT_NODE_TUPLE) {
      CKPT_ASSIGN(const uint64_t dict, dict_at(node));
      dicts.push_back(dict);
      return dicts;
    }
    for (uint64_t child = found.first_child; child != CKPT_NODE_END; child = tree_[child].next_sibling) {
      CKPT_ASSIGN(const uint64_t dict, dict_at(child));
      dicts.push_back(dict);
    }
    return dicts;
  }

  Status add_models(uint64_t model) {
    CKPT_ASSIGN(const std::vector<uint64_t> dicts, dicts_at(model));
    for (uint64_t dict : dicts) {
      HfaiDealt dealt{dict, dict, {}, {}};
      for (uint64_t child = tree_[dict].first_child; child != CKPT_NODE_END; child = tree_[child].next_sibling)
        CKPT_TRY(cut_if_large(child, child, &dealt));
      deal_.models.push_back(std::move(dealt));
    }
    return Ok();
  }

  Status add_optimizers(uint64_t optimizer) {
    CKPT_ASSIGN(const std::vector<uint64_t> dicts, dicts_at(optimizer));
    for (uint64_t dict : dicts) {
      const uint64_t state = tree_.find(dict, "state");
      if (state == CKPT_NODE_END) return mismatch(tree_.path_of(dict) + " must have \"state\"", "none");
      CKPT_ASSIGN(const uint64_t entries, dict_at(state));
      HfaiDealt dealt{dict, entries, {}, {}};
      for (uint64_t outer = tree_[entries].first_child; outer != CKPT_NODE_END; outer = tree_[outer].next_sibling) {
        const uint64_t inner = entries_of(outer);
        if (inner == CKPT_NODE_END) continue;
        for (uint64_t child = tree_[inner].first_child; child != CKPT_NODE_END; child = tree_[child].next_sibling)
          CKPT_TRY(cut_if_large(outer, child, &dealt));
      }
      deal_.optimizers.push_back(std::move(dealt));
    }
    return Ok();
  }

  Status cut_if_large(uint64_t outer, uint64_t node, HfaiDealt* dealt) {
    const TreeEntry found = tree_[node];
    if (found.kind != CKPT_NODE_TENSOR) return Ok();
    CKPT_ASSIGN(TensorRange whole, whole_of(reader_, std::string(text_of(found))));
    CKPT_ASSIGN(const uint64_t bytes, element_bytes(whole.size, whole.dtype));
    if (bytes <= large_bytes_) return Ok();
    deal_.cut_names.insert(whole.name);
    deal_.cut_nodes.insert(node);
    dealt->cuts.push_back({outer, node, std::move(whole)});
    return Ok();
  }

  Status deal_entries(HfaiDealt* dealt) {
    for (uint64_t child = tree_[dealt->entries].first_child; child != CKPT_NODE_END; child = tree_[child].next_sibling)
      if (!deal_.cut_nodes.contains(child)) CKPT_TRY(deal_entry(child, dealt));
    return Ok();
  }

  // To the part where something lies that it shares memory with, else to the one with the fewest bytes.
  Status deal_entry(uint64_t entry, HfaiDealt* dealt) {
    std::vector<std::string> targets;
    uint64_t bytes = 0;
    CKPT_TRY(look(entry, &targets, &bytes));
    auto part = static_cast<uint32_t>(std::min_element(load_.begin(), load_.end()) - load_.begin());
    for (const std::string& target : targets)
      if (const auto found = part_of_target_.find(target); found != part_of_target_.end()) part = found->second;
    for (const std::string& target : targets) part_of_target_.try_emplace(target, part);
    dealt->part_of[entry] = part;
    load_[part] += bytes;
    return Ok();
  }

  // The tensors at and below `node` that are not cut: whose memory they are, and their bytes.
  Status look(uint64_t node, std::vector<std::string>* targets, uint64_t* bytes) const {
    const TreeEntry found = tree_[node];
    for (uint64_t child = found.first_child; child != CKPT_NODE_END; child = tree_[child].next_sibling)
      CKPT_TRY(look(child, targets, bytes));
    if (found.kind != CKPT_NODE_TENSOR || deal_.cut_nodes.contains(node)) return Ok();
    CKPT_ASSIGN(const TensorRange whole, whole_of(reader_, std::string(text_of(found))));
    CKPT_ASSIGN(const std::string target, target_of(reader_, whole.name));
    CKPT_ASSIGN(const uint64_t size, element_bytes(whole.size, whole.dtype));
    if (!deal_.cut_names.contains(target)) targets->push_back(target.empty() ? whole.name : target);
    *bytes += size;
    return Ok();
  }

  const ckpt_reader* reader_;
  TreeView tree_;
  uint64_t large_bytes_;
  std::vector<uint64_t> load_;  // bytes of each part
  std::map<std::string, uint32_t> part_of_target_;
  HfaiDeal deal_;
};

}  // namespace

Result<HfaiDeal> deal_hfai(const ckpt_reader* reader, TreeView tree, uint32_t parts, uint64_t large_bytes) {
  return Dealer(reader, tree, parts, large_bytes).run();
}

}  // namespace ckpt::interop
