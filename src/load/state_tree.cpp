#include "load/state_tree.h"

#include "load/load.h"
#include "tree/merge.h"

namespace ckpt::load {

using checkpoint::Checkpoint;
using tree::RankTree;
using tree::Tree;

namespace {

// A tree that one part holds.
struct HeldTree {
  uint32_t part;
  std::string json;
  Tree tree;
};

}  // namespace

// ---- reading ----

// The parts that hold object `name` as a tree; none if there is no such object, or if it is none of these scopes.
static Result<std::vector<uint32_t>> holders_of(const Checkpoint& checkpoint, const std::string& name,
                                                std::initializer_list<int> scopes) {
  CKPT_ASSIGN(Checkpoint::Held held, checkpoint.holders_of(name));
  if (std::ranges::find(scopes, held.scope) == scopes.end()) held.parts.clear();
  return std::move(held.parts);
}

// The tree that a part holds under that name; FORMAT if it is something else.
static Result<checkpoint::ObjectRef> find_tree(const Checkpoint& checkpoint, const std::string& name, uint32_t part) {
  CKPT_ASSIGN(const checkpoint::ObjectRef object, checkpoint.find_object(name, part));
  const auto type = object.page->text(object.object->media_type());
  if (type == CKPT_TREE_MEDIA_TYPE) return object;
  return Status(CKPT_FORMAT,
                "object " + in_quotes(name) + ": expected " CKPT_TREE_MEDIA_TYPE ", found " + in_quotes(type))
      .with("found", std::string(type));
}

// Reads and parses the trees that these parts hold under that name.
static Result<std::vector<HeldTree>> read_trees(const std::shared_ptr<Checkpoint>& checkpoint, const std::string& name,
                                                std::span<const uint32_t> parts) {
  std::vector<HeldTree> trees(parts.size());
  CKPT_ASSIGN(auto load, Load::make(checkpoint, {}));
  for (size_t i = 0; i < parts.size(); i++) {
    CKPT_ASSIGN(const checkpoint::ObjectRef from, find_tree(*checkpoint, name, parts[i]));
    // Checked before memory is allocated, since an index may claim any size.
    if (Status there = checkpoint->check_object(from, name); !there.ok())
      return std::move(there).in("object " + in_quotes(name));
    trees[i].part = parts[i];
    trees[i].json.resize(from.object->size());
    CKPT_TRY(load->add_object(name, parts[i], std::as_writable_bytes(std::span(trees[i].json))));
  }
  CKPT_TRY(load->begin());
  Job job;
  CKPT_TRY(job.run(CKPT_JOB_DONE, [&](Job& running) { return load->work(running); }));
  for (HeldTree& held : trees) {
    auto tree = tree::parse_tree_json(held.json);
    if (!tree.ok()) return std::move(tree).status().in("object " + in_quotes(name));
    held.tree = tree.take();
    held.json = {};
  }
  return trees;
}

static std::vector<RankTree> by_rank(const std::vector<HeldTree>& trees) {
  std::vector<RankTree> ranks;
  for (const HeldTree& held : trees) ranks.push_back({held.part, &held.tree});
  return ranks;
}

// ---- putting together ----

static Result<Tree> with_own(const std::shared_ptr<Checkpoint>& checkpoint, const std::string& name, Tree common,
                             std::optional<uint32_t> rank) {
  const std::string object = tree::per_rank_object(name);
  CKPT_ASSIGN(auto parts, holders_of(*checkpoint, object, {CKPT_OBJECT_PER_RANK}));
  if (rank && *rank >= checkpoint->summary().world_size) rank = 0;
  if (rank) std::erase_if(parts, [&](uint32_t part) { return part != *rank; });
  if (parts.empty()) return common;
  CKPT_ASSIGN(const auto own, read_trees(checkpoint, object, parts));
  return tree::join_ranks(common, by_rank(own));
}

static Status check_tensors(const Checkpoint& checkpoint, const std::string& name, const Tree& tree) {
  for (uint32_t i = 0; i < tree.size(); i++) {
    if (tree[i].kind != CKPT_NODE_TENSOR) continue;
    const std::string_view tensor = tree[i].text_view();
    CKPT_ASSIGN(Checkpoint::Named named, checkpoint.find(tensor));
    if (!named.tensor)
      return error_about(CKPT_INCOMPLETE, tensor,
                         "object " + in_quotes(name) + ": tensor " + in_quotes(tensor) + " at " +
                             in_quotes(tree.path_of(i)) + " is not in the checkpoint");
  }
  return Ok();
}

// A dict of all tensors, for checkpoints without a tree.
static Result<Tree> flat_tree(const Checkpoint& checkpoint) {
  Tree tree;
  CKPT_TRY(tree.begin(CKPT_NODE_DICT));
  for (uint64_t i = 0; i < checkpoint.name_count(); i++) {
    CKPT_ASSIGN(Checkpoint::Named named, checkpoint.named_at(i));
    CKPT_TRY(tree.key(named.name()));
    CKPT_TRY(tree.add_tensor(named.name()));
  }
  CKPT_TRY(tree.end());
  return tree;
}

Result<Tree> read_state_tree(const std::shared_ptr<Checkpoint>& checkpoint, const char* name,
                             std::optional<uint32_t> rank) {
  const std::string object = name ? name : CKPT_TREE_OBJECT;
  CKPT_ASSIGN(auto parts, holders_of(*checkpoint, object, {CKPT_OBJECT_SHARED, CKPT_OBJECT_TREE}));
  // The main tree may be missing, and its name taken by something else.
  if (!name && (parts.empty() || find_tree(*checkpoint, object, parts[0]).status().code() == CKPT_FORMAT))
    return flat_tree(*checkpoint);
  if (parts.empty())
    return Status(CKPT_NOT_FOUND, "object " + in_quotes(object) + ": no tree and no shared object of the checkpoint");
  CKPT_ASSIGN(auto trees, read_trees(checkpoint, object, parts));
  auto common = trees.size() == 1 ? Result<Tree>(std::move(trees[0].tree)) : tree::merge_trees(by_rank(trees));
  if (!common.ok()) return std::move(common).status().in("object " + in_quotes(object));
  CKPT_ASSIGN(Tree whole, with_own(checkpoint, object, common.take(), rank));
  // What one process wrote for many, such as an import, has the values of all of them in its one tree.
  if (rank) {
    CKPT_ASSIGN(whole, tree::only_rank(std::move(whole), *rank));
  }
  CKPT_TRY(check_tensors(*checkpoint, object, whole));
  return whole;
}

}  // namespace ckpt::load
