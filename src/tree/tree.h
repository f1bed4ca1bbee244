// A state tree (schemas/STATE_TREE.md, ckpt_tree.h): built in document order, then read by node number. All nodes are
// in one vector and all text is in one arena. A call that fails leaves the tree as it was. No I/O; const calls are
// thread-safe.
#pragma once

#include <memory>
#include <memory_resource>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "ckpt_tree.h"

namespace ckpt::tree {

inline constexpr uint32_t kNoNode = UINT32_MAX;

struct TreeNode {
  uint8_t kind = CKPT_NODE_NULL;     // CKPT_NODE_*
  uint8_t key_kind = CKPT_KEY_NONE;  // CKPT_KEY_*
  uint32_t child_count = 0;
  uint32_t parent = kNoNode, next = kNoNode;  // next: the next child of the same parent
  uint32_t key_size = 0, text_size = 0;
  const char* key = nullptr;   // NUL-terminated, like `text`
  const char* text = nullptr;  // a TEXT, BIGINT, BYTES; the name of a TENSOR, the class of a RECORD
  int64_t place = 0;           // an INT key, or the place in a LIST, TUPLE or SET
  union {
    int64_t integer = 0;  // INT, BOOL
    double real;          // FLOAT
  };

  bool container() const { return kind >= CKPT_NODE_LIST; }
  bool keyed() const { return kind == CKPT_NODE_DICT || kind == CKPT_NODE_RECORD; }
  std::string_view key_view() const { return {key, key_size}; }
  std::string_view text_view() const { return {text, text_size}; }
};

class Tree {
 public:
  Tree();
  Tree(Tree&&) = default;
  Tree& operator=(Tree&&) = default;

  // ---- build: INVALID as documented in ckpt_tree.h ----
  Status key(std::string_view key);
  Status key(int64_t key);
  Status add_null() { return add_number(CKPT_NODE_NULL, 0); }
  Status add_bool(bool value) { return add_number(CKPT_NODE_BOOL, value); }
  Status add_int(int64_t value) { return add_number(CKPT_NODE_INT, value); }
  Status add_bigint(std::string_view digits);
  Status add_float(double value);
  Status add_text(std::string_view text);
  Status add_bytes(Bytes bytes);
  Status add_tensor(std::string_view name);
  Status add_tensor();  // named by its path
  Status begin(int kind, std::string_view class_name = {});
  Status end();
  // Whether the tree has its one value and no container is open.
  bool complete() const { return open_.empty() && !nodes_.empty(); }
  Status check_complete() const;  // INVALID

  size_t depth() const { return open_.size(); }  // containers that are open
  // What the innermost of them takes next: a key, or the value of one that it has.
  bool wants_key() const { return !open_.empty() && nodes_[open_.back().node].keyed() && !pending_; }
  bool has_key() const { return pending_.has_value(); }

  // ---- read ----
  size_t size() const { return nodes_.size(); }
  const TreeNode& operator[](size_t node) const { return nodes_[node]; }
  uint32_t first_child(uint32_t node) const { return nodes_[node].child_count ? node + 1 : kNoNode; }
  // kNoNode if there is none. Finds by place if `parent` has no keys.
  uint32_t find(uint32_t parent, std::string_view key) const;
  uint32_t find(uint32_t parent, int64_t key) const;
  // "optimizer/state/0" (STATE_TREE.md: "Paths"); empty for the root.
  std::string path_of(uint32_t node) const;
  // The path of the innermost open container, for messages.
  std::string where() const;

 private:
  struct Key {
    uint8_t kind = CKPT_KEY_NONE;
    const char* text = nullptr;
    uint32_t size = 0;
    int64_t place = 0;
  };
  struct Open {
    uint32_t node, last_child = kNoNode;
  };

  Status refuse(const std::string& what) const;
  Status check_value() const;
  Status check_key() const;
  Status check_text(std::string_view what, std::string_view text) const;
  Key next_key() const;
  Status add_number(int kind, int64_t value);
  Status add_stored(int kind, std::string_view text);
  void append(TreeNode node);
  const char* store(std::string_view text);
  std::string tensor_path() const;

  uint64_t hash(uint32_t parent, const Key& key) const;
  static bool has_key(const TreeNode& node, uint32_t parent, const Key& key);
  uint32_t lookup(uint32_t parent, const Key& key) const;
  void index(uint32_t number);
  void grow_slots();

  std::vector<TreeNode> nodes_;
  std::vector<Open> open_;
  std::optional<Key> pending_;
  std::unique_ptr<std::pmr::monotonic_buffer_resource> text_;
  std::vector<uint32_t> slots_;  // all nodes but the root, hashed by parent and key: open addressing, half empty
  uint64_t seed_;                // so that nobody can prepare colliding keys
};

// One segment of a path, escaped.
std::string path_segment(std::string_view key);

// ---- JSON ----
std::string tree_json(const Tree& tree);              // of a complete tree
Result<Tree> parse_tree_json(std::string_view json);  // FORMAT, REVISION

}  // namespace ckpt::tree
