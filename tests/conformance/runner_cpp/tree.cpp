// tree.*: building a state tree, and its text; node.cpp reads one.
#include "runner.hpp"

namespace conformance {
namespace {

ckpt::Tree& tree_of(Runner& runner, const Line& line) { return runner.get<ckpt::Tree>(line.words[0]); }

void run_new(Runner& runner, Line& line) { runner.put(line.words[0], ckpt::Tree::create()); }
void run_parse(Runner& runner, Line& line) { runner.put(line.words[0], ckpt::Tree::parse(line.words[1])); }

void run_json(Runner& runner, Line& line) {
  const std::string_view found = runner.tree(line.words[0]).json();
  if (found != line.words[1]) fail("expected ", line.words[1], ", found ", found);
}

void run_key(Runner& runner, Line& line) { tree_of(runner, line).key(line.words[1]); }
void run_key_int(Runner& runner, Line& line) { tree_of(runner, line).key(parse_int(line.words[1])); }
void run_null(Runner& runner, Line& line) { tree_of(runner, line).add_null(); }
void run_bool(Runner& runner, Line& line) { tree_of(runner, line).add_bool(parse_int(line.words[1]) != 0); }
void run_int(Runner& runner, Line& line) { tree_of(runner, line).add_int(parse_int(line.words[1])); }
void run_bigint(Runner& runner, Line& line) { tree_of(runner, line).add_bigint(line.words[1]); }
void run_float(Runner& runner, Line& line) { tree_of(runner, line).add_float(parse_float(line.words[1])); }
void run_text(Runner& runner, Line& line) { tree_of(runner, line).add_text(line.words[1]); }
void run_bytes(Runner& runner, Line& line) { tree_of(runner, line).add_bytes(parse_hex(line.words[1])); }

void run_tensor(Runner& runner, Line& line) {
  const auto name = line.find("name");
  ckpt::Tree& tree = tree_of(runner, line);
  line.expect("path", name ? tree.add_tensor(*name) : tree.add_tensor());
}

void run_begin(Runner& runner, Line& line) {
  ckpt::Tree& tree = tree_of(runner, line);
  const auto class_name = line.find("class");
  switch (number_of(kNodeKinds, line.words[1])) {
    case CKPT_NODE_LIST:
      return tree.begin_list();
    case CKPT_NODE_TUPLE:
      return tree.begin_tuple();
    case CKPT_NODE_SET:
      return tree.begin_set();
    case CKPT_NODE_DICT:
      return tree.begin_dict();
    case CKPT_NODE_RECORD:
      return tree.begin_record(class_name.value_or(""));
    default:
      fail("expected a kind of container, found ", line.words[1]);
  }
}

void run_end(Runner& runner, Line& line) { tree_of(runner, line).end(); }

}  // namespace

void add_tree_commands(Commands& commands) {
  commands["tree.new"] = {1, 0, run_new};
  commands["tree.parse"] = {2, 0, run_parse};
  commands["tree.json"] = {2, 0, run_json};
  commands["tree.key"] = {2, 0, run_key};
  commands["tree.key_int"] = {2, 0, run_key_int};
  commands["tree.null"] = {1, 0, run_null};
  commands["tree.bool"] = {2, 0, run_bool};
  commands["tree.int"] = {2, 0, run_int};
  commands["tree.bigint"] = {2, 0, run_bigint};
  commands["tree.float"] = {2, 0, run_float};
  commands["tree.text"] = {2, 0, run_text};
  commands["tree.bytes"] = {2, 0, run_bytes};
  commands["tree.tensor"] = {1, kPairs, run_tensor};
  commands["tree.begin"] = {2, kPairs, run_begin};
  commands["tree.end"] = {1, 0, run_end};
}

}  // namespace conformance
