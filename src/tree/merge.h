// The trees of several ranks as one (STATE_TREE.md, "Trees of several ranks").
#pragma once

#include <span>

#include "tree/tree.h"

namespace ckpt::tree {

// Copies a node and what is in it, without its key, to where `to` takes a value.
Status copy_node(const Tree& from, uint32_t node, Tree& to);

// The class of a record that holds a value for each rank: rank 3's under the key "rank3".
inline constexpr std::string_view kPerRankClass = CKPT_PER_RANK_CLASS;
std::string per_rank_key(uint32_t rank);
// The object that holds what the ranks have in the records of that class: a dict from a record's path to the value.
std::string per_rank_object(std::string_view tree_object);

// Whether two nodes of one kind, no containers, are equal.
bool same_leaf(const TreeNode& a, const TreeNode& b);

struct RankTree {
  uint32_t rank;
  const Tree* tree;
};
// `trees` by rank, at least one; all complete. MISMATCH names the place and two ranks that differ there.
Result<Tree> merge_trees(std::span<const RankTree> trees);

struct SplitTree {
  Tree common;              // its records of ranks are empty
  std::optional<Tree> own;  // what this rank has in them; none if there are no such records
};
// INVALID: such a record has another key than this rank's.
Result<SplitTree> split_ranks(const Tree& tree, uint32_t rank);
// `common` with what these ranks have in its records; `own` by rank.
Result<Tree> join_ranks(const Tree& common, std::span<const RankTree> own);
// Of records of that class only this rank's value is left: none, if it has none; rank 0's, if all in the record are of
// lower ranks.
Result<Tree> only_rank(Tree tree, uint32_t rank);

}  // namespace ckpt::tree
