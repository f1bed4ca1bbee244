// tree.*: building a state tree, its text, and reading one node by node.
#include "runner.hpp"

namespace conformance {
namespace {

ckpt::Tree& tree_of(Runner& runner, const Call& call) { return runner.get<ckpt::Tree>(call[0]); }

void run_json(Runner& runner, const Call& call) {
  const std::string found(runner.tree(call[0]).json());
  call.expect_words(1, {found});
}

void run_tensor(Runner& runner, const Call& call) {
  const auto name = call.text("name");
  ckpt::Tree& tree = tree_of(runner, call);
  call.expect("path", name ? tree.add_tensor(*name) : tree.add_tensor());
}

void begin(ckpt::Tree& to, int32_t kind, const std::string& class_name) {
  switch (kind) {
    case CKPT_NODE_LIST:
      return to.begin_list();
    case CKPT_NODE_TUPLE:
      return to.begin_tuple();
    case CKPT_NODE_SET:
      return to.begin_set();
    case CKPT_NODE_DICT:
      return to.begin_dict();
    case CKPT_NODE_RECORD:
      return to.begin_record(class_name);
    default:
      fail("expected a kind of container, found ", kind);
  }
}

void run_begin(Runner& runner, const Call& call) {
  begin(tree_of(runner, call), number_of(kNodeKinds, call[1]), call.text("class").value_or(""));
}

// ---- reading ----

std::string link_text(uint64_t node) { return node == CKPT_NODE_END ? "-" : std::to_string(node); }
std::string text_in(const ckpt::Node& node) { return {node.text ? node.text : "", node.text_size}; }

void run_node(Runner& runner, const Call& call) {
  static const Names key_kinds = {{CKPT_KEY_NONE, "none"}, {CKPT_KEY_TEXT, "text"}, {CKPT_KEY_INT, "int"}};
  const ckpt::Node node = runner.tree(call[0]).at(call.count(1));
  const bool bytes = node.kind == CKPT_NODE_BYTES;
  call.expect("kind", kNodeKinds.at(node.kind));
  call.expect("key_kind", key_kinds.at(node.key_kind));
  call.expect("key", node.key_kind == CKPT_KEY_TEXT ? std::string(node.key, node.key_size) : "");
  call.expect("key_int", node.key_int);
  call.expect("bool", node.bool_value);
  call.expect("int", node.int_value);
  call.expect("float", node.float_value);
  call.expect("text", bytes ? "" : text_in(node));
  if (!bytes && call.find("bytes")) fail("expected bytes, found ", kNodeKinds.at(node.kind));
  call.expect("bytes", text_in(node));
  call.expect("child_count", node.child_count);
  call.expect("first_child", link_text(node.first_child));
  call.expect("next_sibling", link_text(node.next_sibling));
  call.expect("parent", link_text(node.parent));
}

// ---- tree.native: ckpt.hpp has no nested values, so node by node ----

void add_leaf(ckpt::Tree& to, const ckpt::Node& node) {
  switch (node.kind) {
    case CKPT_NODE_NULL:
      return to.add_null();
    case CKPT_NODE_BOOL:
      return to.add_bool(node.bool_value != 0);
    case CKPT_NODE_INT:
      return to.add_int(node.int_value);
    case CKPT_NODE_BIGINT:
      return to.add_bigint(text_in(node));
    case CKPT_NODE_FLOAT:
      return to.add_float(node.float_value);
    case CKPT_NODE_TEXT:
      return to.add_text(text_in(node));
    case CKPT_NODE_BYTES:
      return to.add_bytes({node.text, node.text_size});
    default:
      to.add_tensor(text_in(node));
  }
}

void add_copy(ckpt::Tree& to, const ckpt::TreeView& from, uint64_t at) {
  const ckpt::Node node = from.at(at);
  if (node.key_kind == CKPT_KEY_TEXT) to.key(std::string_view(node.key, node.key_size));
  if (node.key_kind == CKPT_KEY_INT) to.key(node.key_int);
  if (node.kind < CKPT_NODE_LIST) return add_leaf(to, node);
  begin(to, node.kind, text_in(node));
  for (uint64_t child = node.first_child; child != CKPT_NODE_END; child = from.at(child).next_sibling)
    add_copy(to, from, child);
  to.end();
}

void run_native(Runner& runner, const Call& call) {
  ckpt::Tree made = ckpt::Tree::create();
  add_copy(made, runner.tree(call[0]), 0);
  runner.put(call[1], std::move(made));
}

}  // namespace

const Commands kTree = {
    {"tree.new", [](Runner& r, const Call& c) { r.put(c[0], ckpt::Tree::create()); }},
    {"tree.parse", [](Runner& r, const Call& c) { r.put(c[0], ckpt::Tree::parse(c[1])); }},
    {"tree.json", run_json},
    {"tree.key", [](Runner& r, const Call& c) { tree_of(r, c).key(c[1]); }},
    {"tree.key_int", [](Runner& r, const Call& c) { tree_of(r, c).key(c.integer(1)); }},
    {"tree.null", [](Runner& r, const Call& c) { tree_of(r, c).add_null(); }},
    {"tree.bool", [](Runner& r, const Call& c) { tree_of(r, c).add_bool(c.integer(1) != 0); }},
    {"tree.int", [](Runner& r, const Call& c) { tree_of(r, c).add_int(c.integer(1)); }},
    {"tree.bigint", [](Runner& r, const Call& c) { tree_of(r, c).add_bigint(c[1]); }},
    {"tree.float", [](Runner& r, const Call& c) { tree_of(r, c).add_float(std::strtod(c[1].c_str(), nullptr)); }},
    {"tree.text", [](Runner& r, const Call& c) { tree_of(r, c).add_text(c[1]); }},
    {"tree.bytes", [](Runner& r, const Call& c) { tree_of(r, c).add_bytes(c[1]); }},
    {"tree.tensor", run_tensor},
    {"tree.begin", run_begin},
    {"tree.end", [](Runner& r, const Call& c) { tree_of(r, c).end(); }},
    {"tree.count", [](Runner& r, const Call& c) { c.expect_count(1, r.tree(c[0]).size()); }},
    {"tree.node", run_node},
    {"tree.find", [](Runner& r, const Call& c) { c.expect_count(3, r.tree(c[0]).find(c.count(1), c[2])); }},
    {"tree.find_int", [](Runner& r, const Call& c) { c.expect_count(3, r.tree(c[0]).find(c.count(1), c.integer(2))); }},
    {"tree.native", run_native}};

}  // namespace conformance
