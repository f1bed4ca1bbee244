// ckpt/tree.hpp - state trees: nested dicts, lists, numbers, text and tensors. Include <ckpt.hpp>.
#ifndef CKPT_TREE_HPP
#define CKPT_TREE_HPP

#include <ckpt_tree.h>

#include "memory.hpp"

namespace CKPT_HPP_NAMESPACE {
inline namespace CKPT_HPP_MODE {

// "int", "text", "dict", … for CKPT_NODE_*; "node" for a kind that this header does not know.
inline const char* node_kind_name(int32_t kind) {
  static constexpr const char* kNames[] = {"null",   "bool", "int",   "bigint", "float", "text",  "bytes",
                                           "tensor", "list", "tuple", "set",    "dict",  "record"};
  const int32_t place = kind >= CKPT_NODE_LIST ? kind - CKPT_NODE_LIST + CKPT_NODE_TENSOR + 1 : kind;
  const bool known = kind >= 0 && kind <= CKPT_NODE_RECORD && (kind >= CKPT_NODE_LIST || kind <= CKPT_NODE_TENSOR);
  return known ? kNames[place] : "node";
}

// One node: the fields of ckpt_node, its children, and its value. Valid as long as the tree.
//
//   int64_t epoch = tree.root()["epoch"].as_int();
//   for (ckpt::Node group : tree.root()["optimizer"]["param_groups"]) lr.push_back(group["lr"].as_float());
class Node : public ckpt_node {
 public:
  static Result<Node> at(const ckpt_tree* tree, uint64_t number) {
    Node node(tree, number);
    return detail::Call()(ckpt_tree_at, tree, number, static_cast<ckpt_node*>(&node)).result(std::move(node));
  }
  uint64_t number() const { return number_; }
  const char* kind_name() const { return node_kind_name(kind); }
  bool is_container() const { return kind >= CKPT_NODE_LIST; }
  // `text` and `key` with their sizes; they may hold NULs.
  std::string_view text_view() const { return text ? std::string_view(text, text_size) : std::string_view(); }
  std::string_view key_view() const { return key ? std::string_view(key, key_size) : std::string_view(); }

  // The child by its text key or integer key; in a list, tuple or set by its index. NOT_FOUND if there is none.
  Result<Node> operator[](const std::string& wanted) const { return found(find(wanted), detail::as_literal(wanted)); }
  Result<Node> operator[](int64_t wanted) const { return found(find(wanted), std::to_string(wanted)); }
  // The same, but no error if there is none.
  std::optional<Node> find(const std::string& wanted) const;
  std::optional<Node> find(int64_t wanted) const;

  // The value of one rank, where each rank has its own (Tree::begin_per_rank), in a tree of Reader::tree_of_rank.
  // MISMATCH if the node is something else, or has the values of several ranks.
  Result<Node> own() const {
    const bool is = kind == CKPT_NODE_RECORD && text_view() == CKPT_PER_RANK_CLASS && child_count == 1;
    if (is) return other(first_child);
    const std::string found = std::string(kind_name()) + " of " + std::to_string(child_count) + " items";
    return detail::failed<Node>(Error(
        CKPT_MISMATCH, path() + ": expected a " CKPT_PER_RANK_CLASS " with the value of one rank, found a " + found,
        {{"path", path()}, {"expected", CKPT_PER_RANK_CLASS}, {"found", found}}));
  }

  class iterator;  // over the children
  iterator begin() const;
  iterator end() const;

  // The value. MISMATCH, naming path(), if the node is of another kind; as_float() takes an int as well.
  Result<bool> as_bool() const { return as<bool>(kind == CKPT_NODE_BOOL, bool_value != 0, "bool"); }
  Result<int64_t> as_int() const { return as<int64_t>(kind == CKPT_NODE_INT, int_value, "int"); }
  Result<double> as_float() const {
    return kind == CKPT_NODE_INT ? Result<double>(static_cast<double>(int_value))
                                 : as<double>(kind == CKPT_NODE_FLOAT, float_value, "float");
  }
  Result<std::string> as_text() const {
    return as<std::string>(kind == CKPT_NODE_TEXT, std::string(text_view()), "text");
  }
  // name() is the key or index as text; path() has those of all parents too: "optimizer/state/0". "" for the root.
  std::string name() const;
  std::string path() const;

 private:
  Node(const ckpt_tree* tree, uint64_t number) : ckpt_node(detail::sized<ckpt_node>()), tree_(tree), number_(number) {}
  template <class T>
  Result<T> as(bool is, T value, const char* expected) const {
    if (is) return value;
    return detail::failed<T>(Error(CKPT_MISMATCH, path() + ": expected " + expected + ", found " + kind_name(),
                                   {{"path", path()}, {"expected", expected}, {"found", kind_name()}}));
  }
  Result<Node> found(const std::optional<Node>& child, const std::string& wanted) const {
    if (child) return *child;
    return detail::failed<Node>(Error(CKPT_NOT_FOUND, (path().empty() ? "the root" : path()) + " has no key " + wanted,
                                      {{"path", path()}, {"expected", wanted}, {"found", "none"}}));
  }
  Node other(uint64_t number) const { return detail::demand<Node>(at(tree_, number)); }  // must exist

  const ckpt_tree* tree_;
  uint64_t number_;
};

class Node::iterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = Node;
  using difference_type = std::ptrdiff_t;
  using pointer = const Node*;
  using reference = Node;
  iterator(const ckpt_tree* tree, uint64_t number) : tree_(tree), number_(number) {}
  Node operator*() const { return detail::demand<Node>(Node::at(tree_, number_)); }
  iterator& operator++() { return number_ = (**this).next_sibling, *this; }
  iterator operator++(int) { return {tree_, std::exchange(number_, (**this).next_sibling)}; }
  bool operator==(const iterator& other) const { return number_ == other.number_; }
  bool operator!=(const iterator& other) const { return number_ != other.number_; }

 private:
  const ckpt_tree* tree_;
  uint64_t number_;
};
inline Node::iterator Node::begin() const { return {tree_, first_child}; }
inline Node::iterator Node::end() const { return {tree_, CKPT_NODE_END}; }

inline std::string Node::name() const {
  if (parent == CKPT_NODE_END) return "";
  if (key_kind == CKPT_KEY_TEXT) return std::string(key_view());
  if (key_kind == CKPT_KEY_INT) return std::to_string(key_int);
  uint64_t place = 0;
  for (uint64_t at = other(parent).first_child; at != number_; at = other(at).next_sibling) place++;
  return std::to_string(place);
}
inline std::string Node::path() const {
  if (parent == CKPT_NODE_END) return "";
  const std::string above = other(parent).path();
  return above.empty() ? name() : above + "/" + name();
}

namespace detail {

// The number of a child; if there is none, NOT_FOUND or CKPT_NODE_END. ckpt_tree_find takes no size, so a key that
// holds a NUL is searched here.
inline ckpt_status find_child(const ckpt_tree* tree, uint64_t parent, const std::string& key, uint64_t* out,
                              ckpt_error** err) {
  if (!holds_nul(key)) return ckpt_tree_find(tree, parent, key.c_str(), out, err);
  auto node = sized<ckpt_node>();
  ckpt_status status = ckpt_tree_at(tree, parent, &node, err);
  for (*out = node.first_child; status == CKPT_OK && *out != CKPT_NODE_END; *out = node.next_sibling) {
    status = ckpt_tree_at(tree, *out, &node, err);
    if (status == CKPT_OK && node.key_kind == CKPT_KEY_TEXT && std::string_view(node.key, node.key_size) == key) break;
  }
  return status;
}
inline Result<uint64_t> find(const ckpt_tree* tree, uint64_t parent, const std::string& key) {
  uint64_t child = CKPT_NODE_END;
  Call call;
  call([&](ckpt_error** err) { return find_child(tree, parent, key, &child, err); });
  if (call.ok() && child == CKPT_NODE_END)
    call.refuse(CKPT_NOT_FOUND, "node " + std::to_string(parent) + " has no key " + as_literal(key),
                {{"found", "none"}});
  return call.result(std::move(child));
}
inline Result<uint64_t> find(const ckpt_tree* tree, uint64_t parent, int64_t key) {
  uint64_t child = 0;
  return Call()(ckpt_tree_find_int, tree, parent, key, &child).result(std::move(child));
}

// Reading a tree, whoever owns it.
template <class Self>
class TreeReading {
 public:
  uint64_t size() const { return ckpt_tree_node_count(self()); }
  Result<Node> root() const { return Node::at(self(), 0); }
  // By number, in document order; the root is 0. The tree owns the texts.
  Result<Node> at(uint64_t node) const { return Node::at(self(), node); }
  Result<uint64_t> find(uint64_t parent, const std::string& key) const { return detail::find(self(), parent, key); }
  Result<uint64_t> find(uint64_t parent, int64_t key) const { return detail::find(self(), parent, key); }
  // The tree owns the text.
  Result<std::string_view> json() const {
    const char* text = nullptr;
    uint64_t size = 0;
    Call call;
    call(ckpt_tree_json, self(), &text, &size);
    return call.result(std::string_view(text, size));
  }

 private:
  const ckpt_tree* self() const { return static_cast<const Self*>(this)->get(); }
};
}  // namespace detail

inline std::optional<Node> Node::find(const std::string& wanted) const {
  uint64_t child = CKPT_NODE_END;
  const bool failed = detail::find_child(tree_, number_, wanted, &child, nullptr) != CKPT_OK;
  return failed || child == CKPT_NODE_END ? std::nullopt : std::optional<Node>(other(child));
}
inline std::optional<Node> Node::find(int64_t wanted) const {
  uint64_t child = CKPT_NODE_END;
  const bool failed = ckpt_tree_find_int(tree_, number_, wanted, &child, nullptr) != CKPT_OK;
  return failed ? std::nullopt : std::optional<Node>(other(child));
}

// A tree that another object owns. Valid as long as that object.
class TreeView : public detail::TreeReading<TreeView> {
 public:
  explicit TreeView(const ckpt_tree* borrowed) : borrowed_(borrowed) {}
  const ckpt_tree* get() const noexcept { return borrowed_; }

 private:
  const ckpt_tree* borrowed_;
};

class Tree : public detail::Handle<ckpt_tree, ckpt_tree_free>, public detail::TreeReading<Tree> {
 public:
  using Handle::Handle;
  TreeView view() const { return TreeView(get()); }
  static Result<Tree> create() { return detail::make_first<Tree>(ckpt_tree_new); }
  static Result<Tree> parse(std::string_view json) {
    return detail::make_first<Tree>(ckpt_tree_parse, json.data(), uint64_t{json.size()});
  }

  // Call these in document order; inside a dict or record, key() comes before each value.
  Result<void> key(std::string_view key) {
    return detail::call(ckpt_tree_key, get(), key.data(), uint64_t{key.size()});
  }
  Result<void> key(int64_t key) { return detail::call(ckpt_tree_key_int, get(), key); }
  Result<void> add_null() { return detail::call(ckpt_tree_add_null, get()); }
  Result<void> add_bool(bool value) { return detail::call(ckpt_tree_add_bool, get(), value); }
  Result<void> add_int(int64_t value) { return detail::call(ckpt_tree_add_int, get(), value); }
  Result<void> add_bigint(const std::string& digits) {
    return detail::call(ckpt_tree_add_bigint, get(), detail::Text{"digits", digits});
  }
  Result<void> add_float(double value) { return detail::call(ckpt_tree_add_float, get(), value); }
  Result<void> add_text(std::string_view text) {
    return detail::call(ckpt_tree_add_text, get(), text.data(), uint64_t{text.size()});
  }
  Result<void> add_bytes(Memory bytes) { return detail::call(ckpt_tree_add_bytes, get(), bytes.data, bytes.bytes); }
  // Returns the name to save the tensor under: its path in the tree, or `name`.
  Result<std::string> add_tensor() { return add_tensor_as(nullptr); }
  Result<std::string> add_tensor(const std::string& name) { return add_tensor_as(detail::Text{"name", name}); }
  // `kind`: CKPT_NODE_DICT, …; a record also has a class name.
  Result<void> begin(int32_t kind) { return detail::call(ckpt_tree_begin, get(), kind, nullptr); }
  Result<void> begin(int32_t kind, const std::string& class_name) {
    return detail::call(ckpt_tree_begin, get(), kind, detail::Text{"class name", class_name});
  }
  Result<void> begin_dict() { return begin(CKPT_NODE_DICT); }
  Result<void> begin_list() { return begin(CKPT_NODE_LIST); }
  Result<void> begin_tuple() { return begin(CKPT_NODE_TUPLE); }
  Result<void> begin_set() { return begin(CKPT_NODE_SET); }
  Result<void> begin_record(const std::string& class_name) { return begin(CKPT_NODE_RECORD, class_name); }
  // What is each rank's own (a random state, a position in the data): one value of this rank follows, then end().
  Result<void> begin_per_rank(uint32_t rank) {
    const std::string class_name = CKPT_PER_RANK_CLASS, key = "rank" + std::to_string(rank);
    detail::Call call;
    call(ckpt_tree_begin, get(), CKPT_NODE_RECORD, detail::Text{"class name", class_name});
    return call(ckpt_tree_key, get(), key.data(), uint64_t{key.size()}).done();
  }
  Result<void> end() { return detail::call(ckpt_tree_end, get()); }

 private:
  template <class Name>
  Result<std::string> add_tensor_as(const Name& name) {
    const char* path = nullptr;
    detail::Call call;
    call(ckpt_tree_add_tensor, get(), name, &path);
    return call.result(std::string(path ? path : ""));
  }
};

}  // namespace CKPT_HPP_MODE
}  // namespace CKPT_HPP_NAMESPACE
#endif  // CKPT_TREE_HPP
