// ckpt_tree: state trees on their own, in a save, and from a reader.
#include "api/handles.h"
#include "base/text.h"
#include "load/state_tree.h"

using namespace ckpt;
using namespace ckpt::api;
using tree::kNoNode;
using tree::Tree;
using tree::TreeNode;

static Result<std::string_view> view_of(const char* what, const void* data, uint64_t size) {
  if (!data && size) return null_status(what);
  return std::string_view(static_cast<const char*>(data), size);
}

// ---- build ----

template <typename Add>
static ckpt_status add(ckpt_tree* tree, ckpt_error** err, Add body) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(tree, "tree"));
    return body(tree->tree);
  });
}

ckpt_status ckpt_tree_new(ckpt_tree** out, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    if (!out) return null_status("out");
    *out = new ckpt_tree{};
    return Ok();
  });
}

ckpt_status ckpt_tree_key(ckpt_tree* tree, const char* key, uint64_t size, ckpt_error** err) {
  return add(tree, err, [&](Tree& to) -> Status {
    CKPT_ASSIGN(auto text, view_of("key", key, size));
    return to.key(text);
  });
}

ckpt_status ckpt_tree_key_int(ckpt_tree* tree, int64_t key, ckpt_error** err) {
  return add(tree, err, [&](Tree& to) { return to.key(key); });
}

ckpt_status ckpt_tree_add_null(ckpt_tree* tree, ckpt_error** err) {
  return add(tree, err, [](Tree& to) { return to.add_null(); });
}

ckpt_status ckpt_tree_add_bool(ckpt_tree* tree, int32_t value, ckpt_error** err) {
  return add(tree, err, [&](Tree& to) { return to.add_bool(value != 0); });
}

ckpt_status ckpt_tree_add_int(ckpt_tree* tree, int64_t value, ckpt_error** err) {
  return add(tree, err, [&](Tree& to) { return to.add_int(value); });
}

ckpt_status ckpt_tree_add_bigint(ckpt_tree* tree, const char* digits, ckpt_error** err) {
  return add(tree, err, [&](Tree& to) { return digits ? to.add_bigint(digits) : null_status("digits"); });
}

ckpt_status ckpt_tree_add_float(ckpt_tree* tree, double value, ckpt_error** err) {
  return add(tree, err, [&](Tree& to) { return to.add_float(value); });
}

ckpt_status ckpt_tree_add_text(ckpt_tree* tree, const char* text, uint64_t size, ckpt_error** err) {
  return add(tree, err, [&](Tree& to) -> Status {
    CKPT_ASSIGN(auto value, view_of("text", text, size));
    return to.add_text(value);
  });
}

ckpt_status ckpt_tree_add_bytes(ckpt_tree* tree, const void* data, uint64_t size, ckpt_error** err) {
  return add(tree, err, [&](Tree& to) -> Status {
    CKPT_ASSIGN(auto value, view_of("data", data, size));
    return to.add_bytes(as_bytes(value));
  });
}

ckpt_status ckpt_tree_add_tensor(ckpt_tree* tree, const char* name, const char** path, ckpt_error** err) {
  return add(tree, err, [&](Tree& to) -> Status {
    CKPT_TRY(name ? to.add_tensor(name) : to.add_tensor());
    if (path) *path = to[to.size() - 1].text;
    return Ok();
  });
}

ckpt_status ckpt_tree_begin(ckpt_tree* tree, int32_t kind, const char* class_name, ckpt_error** err) {
  return add(tree, err, [&](Tree& to) { return to.begin(kind, class_name ? class_name : ""); });
}

ckpt_status ckpt_tree_end(ckpt_tree* tree, ckpt_error** err) {
  return add(tree, err, [](Tree& to) { return to.end(); });
}

// ---- read ----

uint64_t ckpt_tree_node_count(const ckpt_tree* tree) { return tree ? tree->tree.size() : 0; }

static uint64_t number_of(uint32_t node) { return node == kNoNode ? CKPT_NODE_END : node; }

static ckpt_node describe(const Tree& tree, uint32_t number) {
  const TreeNode& node = tree[number];
  ckpt_node info{};
  info.kind = node.kind;
  info.key_kind = node.key_kind;
  if (node.key_kind == CKPT_KEY_INT) info.key_int = node.place;
  info.key = node.key;
  info.key_size = node.key_size;
  if (node.kind == CKPT_NODE_BOOL) info.bool_value = node.integer != 0;
  if (node.kind == CKPT_NODE_INT) info.int_value = node.integer;
  if (node.kind == CKPT_NODE_FLOAT) info.float_value = node.real;
  info.text = node.text;
  info.text_size = node.text_size;
  info.child_count = node.child_count;
  info.first_child = number_of(tree.first_child(number));
  info.next_sibling = number_of(node.next);
  info.parent = number_of(node.parent);
  return info;
}

static Status check_node(const ckpt_tree* tree, uint64_t node) {
  CKPT_TRY(usable(tree, "tree"));
  if (node < tree->tree.size()) return Ok();
  return Status(CKPT_NOT_FOUND, strformat("node {} of {}", node, tree->tree.size()));
}

ckpt_status ckpt_tree_at(const ckpt_tree* tree, uint64_t node, ckpt_node* out, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(check_node(tree, node));
    return put_info(describe(tree->tree, static_cast<uint32_t>(node)), out);
  });
}

template <typename Key>
static Status find(const ckpt_tree* tree, uint64_t parent, Key key, const std::string& shown, uint64_t* out) {
  CKPT_TRY(check_node(tree, parent));
  if (!out) return null_status("out");
  const auto number = static_cast<uint32_t>(parent);
  const uint32_t child = tree->tree.find(number, key);
  if (child == kNoNode)
    return Status(CKPT_NOT_FOUND,
                  "key " + shown + ": not in " + in_quotes(tree->tree.path_of(number)) + " of the tree");
  *out = child;
  return Ok();
}

ckpt_status ckpt_tree_find(const ckpt_tree* tree, uint64_t parent, const char* key, uint64_t* out, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    if (!key) return null_status("key");
    return find(tree, parent, std::string_view(key), in_quotes(key), out);
  });
}

ckpt_status ckpt_tree_find_int(const ckpt_tree* tree, uint64_t parent, int64_t key, uint64_t* out, ckpt_error** err) {
  return guard(err, [&]() -> Status { return find(tree, parent, key, std::to_string(key), out); });
}

void ckpt_tree_free(ckpt_tree* tree) { release(tree); }

// ---- as JSON, in a checkpoint ----

static ckpt_tree* new_tree(Tree tree) {
  auto handle = std::make_unique<ckpt_tree>();
  handle->tree = std::move(tree);
  return handle.release();
}

ckpt_status ckpt_tree_parse(ckpt_tree** out, const char* json, uint64_t size, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    if (!out) return null_status("out");
    CKPT_ASSIGN(auto text, view_of("json", json, size));
    CKPT_ASSIGN(Tree tree, tree::parse_tree_json(text));
    *out = new_tree(std::move(tree));
    return Ok();
  });
}

static Result<std::string_view> json_of(const ckpt_tree* tree) {
  CKPT_TRY(usable(tree, "tree"));
  CKPT_TRY(tree->tree.check_complete());
  std::lock_guard lock(tree->mutex);
  if (!tree->json) tree->json = tree::tree_json(tree->tree);
  return std::string_view(*tree->json);
}

ckpt_status ckpt_tree_json(const ckpt_tree* tree, const char** json, uint64_t* size, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_ASSIGN(auto text, json_of(tree));
    if (!json || !size) return null_status("json or size");
    *json = text.data();
    *size = text.size();
    return Ok();
  });
}

ckpt_status ckpt_save_add_tree(ckpt_save* save, const char* name, const ckpt_tree* tree, ckpt_error** err) {
  return add_to(save, err, [&](save::Save& to) -> Status {
    CKPT_TRY(usable(tree, "tree"));
    return to.add_tree(name ? name : CKPT_TREE_OBJECT, tree->tree);
  });
}

static ckpt_status read_tree(const ckpt_reader* reader, const char* name, std::optional<uint32_t> rank, ckpt_tree** out,
                             ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(reader, "reader"));
    if (!out) return null_status("out");
    CKPT_ASSIGN(Tree tree, load::read_state_tree(reader->checkpoint, name, rank));
    *out = new_tree(std::move(tree));
    return Ok();
  });
}

ckpt_status ckpt_reader_tree(const ckpt_reader* reader, const char* name, ckpt_tree** out, ckpt_error** err) {
  return read_tree(reader, name, std::nullopt, out, err);
}

ckpt_status ckpt_reader_tree_of_rank(const ckpt_reader* reader, const char* name, uint32_t rank, ckpt_tree** out,
                                     ckpt_error** err) {
  return read_tree(reader, name, rank, out, err);
}
