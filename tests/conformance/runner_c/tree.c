/* tree.*: building a state tree, its text, and reading one node by node. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runner.h"

static ckpt_tree* tree_of(runner* r) { return get(r, 0, TREE); }

static const char* const kKinds[] = {"null", "bool",  "int", "bigint", "float",  "text", "bytes", "tensor",
                                     "",     "",      "",    "",       "",       "",     "",      "",
                                     "list", "tuple", "set", "dict",   "record", NULL};

MAKES(run_new, 0, TREE, ckpt_tree, ckpt_tree_new(&made, &r->error))
MAKES(run_parse, 0, TREE, ckpt_tree, ckpt_tree_parse(&made, word(r, 1), r->tokens[1].size, &r->error))
CALLS(run_key, ckpt_tree_key(tree_of(r), word(r, 1), r->tokens[1].size, &r->error))
CALLS(run_key_int, ckpt_tree_key_int(tree_of(r), integer(r, 1), &r->error))
CALLS(run_null, ckpt_tree_add_null(tree_of(r), &r->error))
CALLS(run_bool, ckpt_tree_add_bool(tree_of(r), (int32_t)integer(r, 1), &r->error))
CALLS(run_int, ckpt_tree_add_int(tree_of(r), integer(r, 1), &r->error))
CALLS(run_bigint, ckpt_tree_add_bigint(tree_of(r), word(r, 1), &r->error))
CALLS(run_float, ckpt_tree_add_float(tree_of(r), strtod(word(r, 1), NULL), &r->error))
CALLS(run_text, ckpt_tree_add_text(tree_of(r), word(r, 1), r->tokens[1].size, &r->error))
CALLS(run_bytes, ckpt_tree_add_bytes(tree_of(r), word(r, 1), r->tokens[1].size, &r->error))
CALLS(run_begin, ckpt_tree_begin(tree_of(r), named(r, kKinds, word(r, 1)), text_of(r, "class"), &r->error))
CALLS(run_end, ckpt_tree_end(tree_of(r), &r->error))

static ckpt_status run_tensor(runner* r) {
  const char* path = NULL;
  ckpt_status status = ckpt_tree_add_tensor(tree_of(r), text_of(r, "name"), &path, &r->error);
  if (!status) say_text(r, "path", path);
  return status;
}

static ckpt_status run_json(runner* r) {
  const char* json;
  uint64_t size;
  ckpt_status status = ckpt_tree_json(tree_of(r), &json, &size, &r->error);
  if (!status) say_bytes(r, NULL, json, size);
  return status;
}

/* C's own value of a tree is its text. */
static ckpt_status run_native(runner* r) {
  const char* json;
  uint64_t size;
  ckpt_tree* made = NULL;
  ckpt_status status = ckpt_tree_json(tree_of(r), &json, &size, &r->error);
  if (!status) status = ckpt_tree_parse(&made, json, size, &r->error);
  return keep(r, 1, TREE, made, status);
}

/* ---- reading ---- */

SAYS(run_count, say_unsigned(r, NULL, ckpt_tree_node_count(tree_of(r))))

static void say_link(runner* r, const char* key, uint64_t found) {
  say(r, key, found == CKPT_NODE_END ? "-" : "%" PRIu64, found);
}

#define F(key, kind, name) {key, kind, offsetof(ckpt_node, name)}
static const field kNode[] = {F("key_int", I64, key_int),         F("bool", I32, bool_value),
                              F("int", I64, int_value),           F("float", F64, float_value),
                              F("child_count", U64, child_count), {0}};
#undef F

static ckpt_status run_node(runner* r) {
  static const char* const key_kinds[] = {"none", "text", "int"};
  ckpt_node node = {.struct_size = sizeof node};
  ckpt_status status = ckpt_tree_at(tree_of(r), unsigned_integer(r, 1), &node, &r->error);
  if (status) return status;
  bool is_bytes = node.kind == CKPT_NODE_BYTES;
  say_text(r, "kind", kKinds[node.kind]);
  say_text(r, "key_kind", key_kinds[node.key_kind]);
  say_bytes(r, "key", node.key, node.key_kind == CKPT_KEY_TEXT ? node.key_size : 0);
  say_bytes(r, "text", node.text, is_bytes ? 0 : node.text_size);
  if (is_bytes) say_bytes(r, "bytes", node.text, node.text_size);
  say_record(r, kNode, &node);
  say_link(r, "first_child", node.first_child);
  say_link(r, "next_sibling", node.next_sibling);
  say_link(r, "parent", node.parent);
  return CKPT_OK;
}

static ckpt_status run_find(runner* r) {
  uint64_t found = 0;
  ckpt_status status = ckpt_tree_find(tree_of(r), unsigned_integer(r, 1), word(r, 2), &found, &r->error);
  if (!status) say_unsigned(r, NULL, found);
  return status;
}

static ckpt_status run_find_int(runner* r) {
  uint64_t found = 0;
  ckpt_status status = ckpt_tree_find_int(tree_of(r), unsigned_integer(r, 1), integer(r, 2), &found, &r->error);
  if (!status) say_unsigned(r, NULL, found);
  return status;
}

const command tree_commands[] = {
    {"tree.new", run_new},           {"tree.parse", run_parse},     {"tree.json", run_json},
    {"tree.key", run_key},           {"tree.key_int", run_key_int}, {"tree.null", run_null},
    {"tree.bool", run_bool},         {"tree.int", run_int},         {"tree.bigint", run_bigint},
    {"tree.float", run_float},       {"tree.text", run_text},       {"tree.bytes", run_bytes},
    {"tree.tensor", run_tensor},     {"tree.begin", run_begin},     {"tree.end", run_end},
    {"tree.count", run_count},       {"tree.node", run_node},       {"tree.find", run_find},
    {"tree.find_int", run_find_int}, {"tree.native", run_native},   {NULL, NULL}};
