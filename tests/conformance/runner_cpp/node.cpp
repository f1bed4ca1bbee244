// tree.*: reading a state tree node by node, and building another from what was read.
#include "runner.hpp"

namespace conformance {
namespace {

void run_count(Runner& runner, Line& line) {
  const uint64_t found = runner.tree(line.words[0]).size();
  if (found != parse_count(line.words[1])) fail("expected ", line.words[1], " nodes, found ", found);
}

std::string link_text(uint64_t node) { return node == CKPT_NODE_END ? "-" : std::to_string(node); }
std::string text_in(const ckpt::Node& node) { return {node.text ? node.text : "", node.text_size}; }

void run_node(Runner& runner, Line& line) {
  static const Names key_kinds = {{CKPT_KEY_NONE, "none"}, {CKPT_KEY_TEXT, "text"}, {CKPT_KEY_INT, "int"}};
  const ckpt::Node node = runner.tree(line.words[0]).at(parse_count(line.words[1]));
  line.expect("kind", name_of(kNodeKinds, node.kind));
  line.expect("key_kind", name_of(key_kinds, node.key_kind));
  line.expect("key", node.key_kind == CKPT_KEY_TEXT ? std::string(node.key, node.key_size) : "");
  line.expect_number("key_int", node.key_int);
  line.expect_number("bool", node.bool_value);
  line.expect_number("int", node.int_value);
  line.expect_float("float", node.float_value);
  const bool bytes = node.kind == CKPT_NODE_BYTES;
  line.expect("text", bytes ? "" : text_in(node));
  if (const auto hex = line.find("bytes"); hex && (!bytes || parse_hex(*hex) != text_in(node)))
    fail("expected bytes ", *hex, ", found ", node.text_size, " others");
  line.expect_count("child_count", node.child_count);
  line.expect("first_child", link_text(node.first_child));
  line.expect("next_sibling", link_text(node.next_sibling));
  line.expect("parent", link_text(node.parent));
}

void expect_node(const std::string& wanted, uint64_t found) {
  if (parse_count(wanted) != found) fail("expected node ", wanted, ", found ", found);
}

void run_find(Runner& runner, Line& line) {
  expect_node(line.words[3], runner.tree(line.words[0]).find(parse_count(line.words[1]), line.words[2]));
}

void run_find_int(Runner& runner, Line& line) {
  const int64_t key = parse_int(line.words[2]);
  expect_node(line.words[3], runner.tree(line.words[0]).find(parse_count(line.words[1]), key));
}

// ---- tree.native: ckpt.hpp has no nested values of its own, so node by node ----

void begin(ckpt::Tree& to, const ckpt::Node& node) {
  switch (node.kind) {
    case CKPT_NODE_LIST:
      return to.begin_list();
    case CKPT_NODE_TUPLE:
      return to.begin_tuple();
    case CKPT_NODE_SET:
      return to.begin_set();
    case CKPT_NODE_DICT:
      return to.begin_dict();
    default:
      return to.begin_record(text_in(node));
  }
}

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
  begin(to, node);
  for (uint64_t child = node.first_child; child != CKPT_NODE_END; child = from.at(child).next_sibling)
    add_copy(to, from, child);
  to.end();
}

void run_native(Runner& runner, Line& line) {
  ckpt::Tree made = ckpt::Tree::create();
  add_copy(made, runner.tree(line.words[0]), 0);
  runner.put(line.words[1], std::move(made));
}

}  // namespace

void add_node_commands(Commands& commands) {
  commands["tree.count"] = {2, 0, run_count};
  commands["tree.node"] = {2, kPairs, run_node};
  commands["tree.find"] = {4, 0, run_find};
  commands["tree.find_int"] = {4, 0, run_find_int};
  commands["tree.native"] = {2, 0, run_native};
}

}  // namespace conformance
