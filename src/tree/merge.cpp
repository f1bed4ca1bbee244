#include "tree/merge.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <tuple>

#include "base/text.h"
#include "tree/json_text.h"

namespace ckpt::tree {

static constexpr std::string_view kRankKey = "rank";

std::string per_rank_key(uint32_t rank) { return strformat("{}{}", kRankKey, rank); }
std::string per_rank_object(std::string_view tree_object) { return std::string(tree_object) + ".per_rank"; }

static bool is_per_rank(const TreeNode& node) {
  return node.kind == CKPT_NODE_RECORD && node.text_view() == kPerRankClass;
}

// ---- copying ----

static Status copy_key(const TreeNode& node, Tree& to) {
  return node.key_kind == CKPT_KEY_TEXT  ? to.key(node.key_view())
         : node.key_kind == CKPT_KEY_INT ? to.key(node.place)
                                         : Ok();
}

static Status copy_leaf(const TreeNode& node, Tree& to) {
  switch (node.kind) {
    case CKPT_NODE_NULL:
      return to.add_null();
    case CKPT_NODE_BOOL:
      return to.add_bool(node.integer != 0);
    case CKPT_NODE_INT:
      return to.add_int(node.integer);
    case CKPT_NODE_BIGINT:
      return to.add_bigint(node.text_view());
    case CKPT_NODE_FLOAT:
      return to.add_float(node.real);
    case CKPT_NODE_TEXT:
      return to.add_text(node.text_view());
    case CKPT_NODE_BYTES:
      return to.add_bytes(as_bytes(node.text_view()));
    default:
      return to.add_tensor(node.text_view());
  }
}

static Status begin_like(const TreeNode& node, Tree& to) {
  return to.begin(node.kind, node.kind == CKPT_NODE_RECORD ? node.text_view() : std::string_view());
}

// Copies a node and what is in it. `per_rank` may fill a record of ranks in its own way, and then returns true.
template <typename PerRank>
static Status copy_node(const Tree& from, uint32_t number, Tree& to, PerRank&& per_rank) {
  const TreeNode& node = from[number];
  if (!node.container()) return copy_leaf(node, to);
  CKPT_TRY(begin_like(node, to));
  if (is_per_rank(node)) {
    CKPT_ASSIGN(const bool done, per_rank(number));
    if (done) return to.end();
  }
  for (uint32_t child = from.first_child(number); child != kNoNode; child = from[child].next) {
    CKPT_TRY(copy_key(from[child], to));
    CKPT_TRY(copy_node(from, child, to, per_rank));
  }
  return to.end();
}

Status copy_node(const Tree& from, uint32_t number, Tree& to) {
  return copy_node(from, number, to, [](uint32_t) { return Result<bool>(false); });
}

// ---- what is each rank's own ----

Result<SplitTree> split_ranks(const Tree& tree, uint32_t rank) {
  SplitTree split;
  const std::string key = per_rank_key(rank);
  auto take = [&](uint32_t record) -> Result<bool> {
    const uint32_t value = tree.find(record, key);
    if (value == kNoNode || tree[record].child_count != 1)
      return Status(CKPT_INVALID, strformat("state tree at {}: expected a {} with the one key {}, found {} keys",
                                            shown(tree.path_of(record)), kPerRankClass, key, tree[record].child_count));
    if (!split.own) CKPT_TRY(split.own.emplace().begin(CKPT_NODE_DICT));
    CKPT_TRY(split.own->key(tree.path_of(record)));
    CKPT_TRY(copy_node(tree, value, *split.own));
    return true;
  };
  CKPT_TRY(copy_node(tree, 0, split.common, take));
  if (split.own) CKPT_TRY(split.own->end());
  return split;
}

Result<Tree> join_ranks(const Tree& common, std::span<const RankTree> own) {
  Tree joined;
  auto put = [&](uint32_t record) -> Result<bool> {
    if (common[record].child_count != 0) return false;
    const std::string path = common.path_of(record);
    for (const RankTree& from : own) {
      const uint32_t value = from.tree->find(0, path);
      if (value == kNoNode) continue;
      CKPT_TRY(joined.key(per_rank_key(from.rank)));
      CKPT_TRY(copy_node(*from.tree, value, joined));
    }
    return true;
  };
  CKPT_TRY(copy_node(common, 0, joined, put));
  return joined;
}

// Of a rank that was not there, rank 0's.
static uint32_t value_of_rank(const Tree& tree, uint32_t record, uint32_t rank) {
  uint32_t last = 0;
  for (uint32_t child = tree.first_child(record); child != kNoNode; child = tree[child].next) {
    const std::string_view key = tree[child].key_view();
    uint32_t one = 0;
    if (key.starts_with(kRankKey)) std::from_chars(key.data() + kRankKey.size(), key.data() + key.size(), one);
    last = std::max(last, one);
  }
  return tree.find(record, per_rank_key(rank > last ? 0 : rank));
}

Result<Tree> only_rank(Tree tree, uint32_t rank) {
  bool any = false;
  for (size_t i = 0; i < tree.size() && !any; i++) any = is_per_rank(tree[i]) && tree[i].child_count != 0;
  if (!any) return tree;
  Tree out;
  auto put = [&](uint32_t record) -> Result<bool> {
    const uint32_t value = value_of_rank(tree, record, rank);
    if (value == kNoNode) return true;  // the rank has nothing there
    CKPT_TRY(copy_key(tree[value], out));
    CKPT_TRY(copy_node(tree, value, out));
    return true;
  };
  CKPT_TRY(copy_node(tree, 0, out, put));
  return out;
}

// ---- merging ----

bool same_leaf(const TreeNode& a, const TreeNode& b) {
  if (a.kind == CKPT_NODE_FLOAT)
    return a.real == b.real ? std::signbit(a.real) == std::signbit(b.real) : std::isnan(a.real) && std::isnan(b.real);
  return a.integer == b.integer && a.text_view() == b.text_view();
}

namespace {

// The node that a rank has at some place.
struct Member {
  const RankTree* of;
  uint32_t number;
  const TreeNode& node() const { return (*of->tree)[number]; }
};
using Members = std::vector<Member>;

using Key = std::tuple<uint8_t, int64_t, std::string_view>;  // kind, place, text

// A value in an error.
std::string describe(const TreeNode& node) {
  switch (node.kind) {
    case CKPT_NODE_BOOL:
      return node.integer ? "true" : "false";
    case CKPT_NODE_INT:
      return std::to_string(node.integer);
    case CKPT_NODE_BIGINT:
      return std::string(node.text_view().substr(0, 80));
    case CKPT_NODE_FLOAT:
      return strformat("{}", node.real);
    case CKPT_NODE_TEXT:
      return in_quotes(node.text_view().substr(0, 80));
    case CKPT_NODE_BYTES:
      return strformat("{} bytes", node.text_size);
    case CKPT_NODE_TENSOR:
      return "tensor " + in_quotes(node.text_view());
    case CKPT_NODE_RECORD:
      return strformat("a {} of {} items", node.text_view(), node.child_count);
    case CKPT_NODE_NULL:
      return "None";
    case CKPT_NODE_DICT:
      return "a dict";
    default:
      const char* kind = node.kind == CKPT_NODE_LIST ? "list" : node.kind == CKPT_NODE_TUPLE ? "tuple" : "set";
      return strformat("a {} of {}", kind, node.child_count);
  }
}

class Merger {
 public:
  explicit Merger(Tree* out) : out_(out) {}

  // Adds what these have in common, or one of them alone.
  Status add(const Members& members) {
    const Member& first = members[0];
    if (members.size() == 1) return copy_node(*first.of->tree, first.number, *out_);
    const TreeNode& node = first.node();
    for (const Member& other : members)
      if (!alike(node, other.node())) return differ(first, other);
    if (!node.container()) return copy_leaf(node, *out_);
    CKPT_TRY(begin_like(node, *out_));
    CKPT_TRY(add_children(members));
    return out_->end();
  }

 private:
  static bool alike(const TreeNode& a, const TreeNode& b) {
    if (a.kind != b.kind) return false;
    if (!a.container()) return same_leaf(a, b);
    if (a.kind == CKPT_NODE_DICT) return true;
    return a.text_view() == b.text_view() && (a.child_count == b.child_count || is_per_rank(a));
  }

  // The keys in the order in which ranks bring them.
  Status add_children(const Members& members) {
    std::map<Key, size_t> places;  // no hash table: a file chooses the keys
    std::vector<Members> children;
    for (const Member& member : members) {
      const Tree& tree = *member.of->tree;
      for (uint32_t child = tree.first_child(member.number); child != kNoNode; child = tree[child].next) {
        const TreeNode& node = tree[child];
        const auto [at, fresh] = places.try_emplace({node.key_kind, node.place, node.key_view()}, children.size());
        if (fresh) children.emplace_back();
        children[at->second].push_back({member.of, child});
      }
    }
    const bool open = members[0].node().kind == CKPT_NODE_DICT || is_per_rank(members[0].node());
    for (const Members& child : children) {
      if (!open && child.size() != members.size()) return lacks(members, child);
      CKPT_TRY(copy_key(child[0].node(), *out_));
      CKPT_TRY(add(child));
    }
    return Ok();
  }

  static Status differ(const Member& a, const Member& b) {
    return mismatch(a, b, a.of->tree->path_of(a.number), describe(a.node()), describe(b.node()));
  }

  // A record's key that only some members have.
  static Status lacks(const Members& all, const Members& some) {
    size_t at = 0;
    while (at < some.size() && all[at].of == some[at].of) at++;
    const Member &with = some[0], &without = all[at];
    return mismatch(with, without, with.of->tree->path_of(with.number), describe(with.node()), "nothing");
  }

  static Status mismatch(const Member& a, const Member& b, const std::string& path, std::string first,
                         std::string second) {
    return Status(CKPT_MISMATCH, strformat("state at {}: rank {} has {}, rank {} has {}; what is each rank's own is "
                                           "saved as a {}",
                                           ckpt::in_quotes(path), a.of->rank, first, b.of->rank, second, kPerRankClass))
        .with("ranks", strformat("{}, {}", a.of->rank, b.of->rank))
        .with("tensor", path)
        .with("expected", std::move(first))
        .with("found", std::move(second));
  }

  Tree* out_;
};

}  // namespace

Result<Tree> merge_trees(std::span<const RankTree> trees) {
  Members roots;
  for (const RankTree& tree : trees) roots.push_back({&tree, 0});
  Tree merged;
  CKPT_TRY(Merger(&merged).add(roots));
  return merged;
}

}  // namespace ckpt::tree
