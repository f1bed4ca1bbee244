// The trees are walked side by side. Recursion goes as deep as a state tree may.
#include "interop/src/shards/merge.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <unordered_map>

#include "interop/src/json.h"
#include "interop/src/pieces.h"
#include "interop/src/pt/sharing.h"
#include "tree/merge.h"

namespace ckpt::interop {

using tree::kNoNode;
using tree::Tree;
using tree::TreeNode;

namespace {

constexpr uint64_t kMostOwnText = 64 << 20;

// A node of one rank's tree.
struct Member {
  size_t file;
  uint32_t node;
};
using Members = std::vector<Member>;

// A tensor that is no shard: where a rank has it, and its name in the merged state.
struct Kept {
  const PtTensor* tensor;
  std::string name;
};

class RankMerger {
 public:
  RankMerger(const std::string& directory, const std::vector<RankFile>& ranks, const RankFilesOptions& merging,
             const ReadOptions& options)
      : directory_(directory),
        ranks_(ranks),
        merging_(merging),
        joiner_(directory, options),
        folder_(options.folder),
        kept_(ranks.size()) {
    for (const RankFile& rank : ranks) {
      state_.files.add(directory + '/' + rank.name, rank.input);
      auto& plain = plain_.emplace_back();
      for (const NamedPtTensor& tensor : rank.content.tensors) plain.emplace(tensor.name, &tensor.tensor);
    }
  }

  Result<ForeignCheckpoint> run() {
    Members roots;
    for (size_t i = 0; i < ranks_.size(); i++) roots.push_back({i, 0});
    Status status = put_root(roots);
    // What is wrong with a tree that files asked for is wrong with the files.
    if (status.code() == CKPT_INVALID) status = Status(CKPT_FORMAT, directory_ + ": " + status.message());
    CKPT_TRY(status);
    CKPT_ASSIGN(state_.tensors, std::move(joiner_).finish(state_.files));
    for (size_t i = 0; i < ranks_.size(); i++) share(i);
    state_.tree = std::move(tree_);
    size_t unchecked = 0;
    for (const RankFile& rank : ranks_) unchecked += rank.source->unchecked();
    if (unchecked != 0) state_.attributes.emplace_back("import.unchecked", std::to_string(unchecked));
    return std::move(state_);
  }

 private:
  using Key = std::tuple<uint8_t, int64_t, std::string_view>;

  const Tree& tree(const Member& member) const { return ranks_[member.file].content.tree; }
  const TreeNode& at(const Member& member) const { return tree(member)[member.node]; }

  // ---- what ranks have alike ----

  const Sharded* sharded(const Member& member) const {
    const auto& all = ranks_[member.file].sharded;
    const auto found = all.find(std::string(at(member).text_view()));
    return found == all.end() ? nullptr : &found->second;
  }
  const PtTensor& plain(const Member& member) const {
    return *plain_[member.file].at(std::string(at(member).text_view()));
  }

  // Tensors in shards are alike: whether they fit is for the joiner to say.
  Result<bool> same_tensors(const Members& members) const {
    const auto is_sharded = [&](const Member& member) { return sharded(member) != nullptr; };
    if (std::ranges::any_of(members, is_sharded)) return std::ranges::all_of(members, is_sharded);
    const PtTensor& first = plain(members[0]);
    std::vector<Held> all;
    for (const Member& member : members) {
      const PtTensor& tensor = plain(member);
      if (tensor.dtype != first.dtype || tensor.shape != first.shape) return false;
      const bool in_a_row = tensor.contiguous() || dtype_bits(tensor.dtype) < 8;
      all.push_back({tensor.bytes(), in_a_row ? std::nullopt : std::optional<Strides>(tensor.strides)});
    }
    return same_elements(first.dtype, first.shape, all, folder_);
  }

  // All of them side by side, so that the bytes of each are wanted once.
  Result<bool> same(const Members& members) const {
    const TreeNode& first = at(members[0]);
    for (const Member& member : members)
      if (at(member).kind != first.kind || at(member).child_count != first.child_count) return false;
    if (first.kind == CKPT_NODE_TENSOR) return same_tensors(members);
    for (const Member& member : members)
      if (first.container() ? at(member).text_view() != first.text_view() : !tree::same_leaf(first, at(member)))
        return false;
    if (!first.container()) return true;
    Members children = members;
    for (Member& child : children) child.node = tree(child).first_child(child.node);
    while (children[0].node != kNoNode) {
      const Key key = key_of(at(children[0]));
      for (const Member& child : children)
        if (key_of(at(child)) != key) return false;
      CKPT_ASSIGN(const bool alike, same(children));
      if (!alike) return false;
      for (Member& child : children) child.node = at(child).next;
    }
    return true;
  }

  bool has_shards(const Member& member) const {
    if (at(member).kind == CKPT_NODE_TENSOR) return sharded(member) != nullptr;
    if (!at(member).container()) return false;
    for (uint32_t i = tree(member).first_child(member.node); i != kNoNode; i = tree(member)[i].next)
      if (has_shards({member.file, i})) return true;
    return false;
  }

  static Key key_of(const TreeNode& node) { return {node.key_kind, node.place, node.key_view()}; }

  // ---- the merged tree ----

  Status put_key(const TreeNode& node) {
    return node.key_kind == CKPT_KEY_INT    ? tree_.key(node.place)
           : node.key_kind == CKPT_KEY_TEXT ? tree_.key(node.key_view())
                                            : Ok();
  }

  std::string name_of(std::string_view old, std::string_view rank) const {
    return rank.empty() ? std::string(old) : put_rank(old, rank);
  }

  // "rng/rank3/cpu" of "rng/cpu": behind the path of the record.
  std::string put_rank(std::string_view old, std::string_view rank) const {
    if (own_.empty()) return std::string(rank) + '/' + std::string(old);
    const size_t place = old.starts_with(own_) ? own_.size() : old.size();  // some keys have no segment
    return std::string(old.substr(0, place)) + '/' + std::string(rank) + std::string(old.substr(place));
  }

  Status put_root(const Members& roots) {
    if (merging_.keys.empty() && merging_.without.empty()) return put(roots);
    for (const Member& root : roots)
      if (at(root).kind != CKPT_NODE_DICT)
        return Status(CKPT_FORMAT, directory_ + '/' + ranks_[root.file].name + ": expected a dict")
            .with("path", directory_ + '/' + ranks_[root.file].name);
    return put_dict(roots, true);
  }

  bool wanted(const TreeNode& node) const {
    const std::string key(node.key_view());
    if (!merging_.keys.empty()) return std::ranges::find(merging_.keys, key) != merging_.keys.end();
    return std::ranges::find(merging_.without, key) == merging_.without.end();
  }

  Status put(const Members& members) {
    const TreeNode& first = at(members[0]);
    const bool alike_kinds = std::ranges::all_of(members, [&](const Member& member) {
      return at(member).kind == first.kind && at(member).text_view() == first.text_view();
    });
    // What one rank's file cannot give is told, and not that the others have another kind of value there.
    const auto lost = std::ranges::find_if(members, [&](const Member& member) {
      return at(member).kind == CKPT_NODE_RECORD && at(member).text_view() == kCannotClass;
    });
    if (lost != members.end()) return put_equal({*lost});
    if (first.kind == CKPT_NODE_DICT && alike_kinds) return put_dict(members, false);
    if (first.kind == CKPT_NODE_RECORD && alike_kinds && first.text_view() == "collections.OrderedDict")
      return put_each(members);
    CKPT_ASSIGN(const bool equal, same(members));
    if (equal) return put_equal(members);
    const bool shards = std::ranges::any_of(members, [&](const Member& member) { return has_shards(member); });
    if (!shards) return put_own(members);
    const bool fit = std::ranges::all_of(members, [&](const Member& member) {
      return at(member).container() && at(member).kind == first.kind && at(member).child_count == first.child_count;
    });
    if (fit) return put_each(members);
    const std::string place = tree(members[0]).path_of(members[0].node);
    return Status(CKPT_MISMATCH, directory_ + ": at " + shown(place) +
                                     ": shards that stand in values of other kinds "
                                     "or lengths from rank to rank")
        .with("path", directory_)
        .with("tensor", place);
  }

  // The keys of all, in the order in which ranks bring them.
  Status put_dict(const Members& members, bool chosen) {
    CKPT_TRY(tree_.begin(CKPT_NODE_DICT));
    CKPT_TRY(put_children(members, chosen));
    return tree_.end();
  }

  Status put_children(const Members& members, bool chosen) {
    std::map<Key, size_t> places;  // no hash table: a file chooses the keys
    std::vector<Members> children;
    for (const Member& member : members)
      for (uint32_t i = tree(member).first_child(member.node); i != kNoNode; i = tree(member)[i].next) {
        const TreeNode& node = tree(member)[i];
        if (chosen && !wanted(node)) continue;
        const auto [found, is_new] = places.try_emplace(key_of(node), children.size());
        if (is_new) children.emplace_back();
        children[found->second].push_back({member.file, i});
      }
    for (const Members& child : children) {
      CKPT_TRY(put_key(at(child[0])));
      CKPT_TRY(put(child));
    }
    return Ok();
  }

  // Containers of one kind, item by item.
  Status put_each(const Members& members) {
    const TreeNode& first = at(members[0]);
    CKPT_TRY(tree_.begin(first.kind, first.kind == CKPT_NODE_RECORD ? first.text_view() : std::string_view()));
    CKPT_TRY(put_children(members, false));
    return tree_.end();
  }

  // The first one's, with the shards of all.
  Status put_equal(const Members& members) {
    const TreeNode& node = at(members[0]);
    if (node.kind == CKPT_NODE_TENSOR) return sharded(members[0]) ? join(members) : keep(members[0], "");
    if (!node.container()) return put_scalar(members[0]);
    CKPT_TRY(tree_.begin(node.kind, node.kind == CKPT_NODE_RECORD ? node.text_view() : std::string_view()));
    Members children = members;
    for (Member& child : children) child.node = tree(child).first_child(child.node);
    while (children[0].node != kNoNode) {
      CKPT_TRY(put_key(at(children[0])));
      CKPT_TRY(put_equal(children));
      for (Member& child : children) child.node = at(child).next;
    }
    return tree_.end();
  }

  Status put_own(const Members& members) {
    CKPT_TRY(tree_.begin(CKPT_NODE_RECORD, tree::kPerRankClass));
    own_ = tree(members[0]).path_of(members[0].node);
    own_text_ += own_.size();
    if (own_text_ > kMostOwnText)
      return Status(CKPT_UNSUPPORTED, directory_ + ": the keys of what is each rank's own are too long");
    for (const Member& member : members) {
      const std::string key = tree::per_rank_key(ranks_[member.file].rank);
      CKPT_TRY(tree_.key(key));
      CKPT_TRY(copy(member, key));
    }
    return tree_.end();
  }

  Status copy(const Member& member, const std::string& rank) {
    const TreeNode& node = at(member);
    if (node.kind == CKPT_NODE_TENSOR) return keep(member, rank);
    if (!node.container()) return put_scalar(member);
    CKPT_TRY(tree_.begin(node.kind, node.kind == CKPT_NODE_RECORD ? node.text_view() : std::string_view()));
    for (uint32_t i = tree(member).first_child(member.node); i != kNoNode; i = tree(member)[i].next) {
      CKPT_TRY(put_key(tree(member)[i]));
      CKPT_TRY(copy({member.file, i}, rank));
    }
    return tree_.end();
  }

  Status put_scalar(const Member& member) {
    const TreeNode& node = at(member);
    if (node.kind != CKPT_NODE_TEXT || merging_.drop_text.empty())
      return tree::copy_node(tree(member), member.node, tree_);
    std::string text(node.text_view());
    for (size_t found = text.find(merging_.drop_text); found != text.npos; found = text.find(merging_.drop_text, found))
      text.erase(found, merging_.drop_text.size());
    return tree_.add_text(text);
  }

  // ---- tensors ----

  Status add_leaf(const std::string& name) {
    if (name.size() > kMaxName)
      return Status(CKPT_UNSUPPORTED,
                    directory_ + strformat(": a tensor's path of {} bytes, at most {}", name.size(), kMaxName));
    if (!names_.insert(name).second)
      return Status(CKPT_UNSUPPORTED, directory_ + ": two tensors have the path " + shown(name)).with("tensor", name);
    return tree_.add_tensor(name);
  }

  Status keep(const Member& member, const std::string& rank) {
    std::string name = name_of(at(member).text_view(), rank);
    CKPT_TRY(add_leaf(name));
    kept_[member.file].push_back({&plain(member), std::move(name)});
    return Ok();
  }

  Status join(const Members& members) {
    const std::string name = name_of(at(members[0]).text_view(), "");
    CKPT_TRY(add_leaf(name));
    for (const Member& member : members) {
      const Sharded& found = *sharded(member);
      const std::string& file = ranks_[member.file].name;
      CKPT_ASSIGN(const size_t tensor, joiner_.tensor(name, found.dtype, found.shape, file));
      for (const Shard& shard : found.shards)
        CKPT_TRY(joiner_.add(tensor, shard.region, shard.bytes, shard.strides, file));
    }
    return Ok();
  }

  // Adds what was kept of one file.
  void share(size_t file) {
    std::vector<NamedPtTensor> tensors;
    for (Kept& kept : kept_[file]) {
      tensors.push_back({std::move(kept.name), *kept.tensor});
      // Storages of other files have the same keys.
      tensors.back().tensor.storage_key = strformat("r{}_", ranks_[file].rank) + kept.tensor->storage_key;
    }
    const size_t before = state_.tensors.size();
    for (ForeignTensor& tensor : plan_sharing(std::move(tensors), ranks_[file].source->file_bytes(), state_.files)) {
      if (tensor.is_alias()) tensor.target += before;
      state_.tensors.push_back(std::move(tensor));
    }
    state_.keep.push_back(ranks_[file].source);
  }

  const std::string& directory_;
  const std::vector<RankFile>& ranks_;
  const RankFilesOptions& merging_;
  PieceJoiner joiner_;
  const Folder folder_;
  std::vector<std::vector<Kept>> kept_;                                  // by file
  std::vector<std::unordered_map<std::string, const PtTensor*>> plain_;  // by file
  std::set<std::string> names_;
  std::string own_;        // path of the record of ranks that is being filled
  uint64_t own_text_ = 0;  // bytes of all these paths, which a checkpoint keeps
  ForeignCheckpoint state_;
  Tree tree_;
};

}  // namespace

Result<ForeignCheckpoint> merge_rank_files(const std::string& directory, const std::vector<RankFile>& ranks,
                                           const RankFilesOptions& merging, const ReadOptions& options) {
  return RankMerger(directory, ranks, merging, options).run();
}

}  // namespace ckpt::interop
