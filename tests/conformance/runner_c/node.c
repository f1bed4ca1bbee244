/* tree.*: reading a state tree node by node, and building another from what was read. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runner.h"

static ckpt_status run_count(runner* r) {
  uint64_t found = ckpt_tree_node_count(get(r, 0, TREE));
  if (unsigned_integer(r, 1) != found) fail(r, "expected %s nodes, found %" PRIu64, word(r, 1), found);
  return CKPT_OK;
}

static void expect_link(runner* r, const char* key, uint64_t found) {
  if (found == CKPT_NODE_END)
    expect_text(r, key, "-");
  else
    expect_unsigned(r, key, found);
}

static ckpt_status run_node(runner* r) {
  static const char* const key_kinds[] = {"none", "text", "int"};
  ckpt_node node = {.struct_size = sizeof node};
  ckpt_status status = ckpt_tree_at(get(r, 0, TREE), unsigned_integer(r, 1), &node, &r->error);
  if (status) return status;
  expect_text(r, "kind", node_kinds[node.kind]);
  expect_text(r, "key_kind", key_kinds[node.key_kind]);
  expect_bytes(r, "key", node.key, node.key_kind == CKPT_KEY_TEXT ? node.key_size : 0);
  expect_int(r, "key_int", node.key_int);
  expect_int(r, "bool", node.bool_value);
  expect_int(r, "int", node.int_value);
  expect_float(r, "float", node.float_value);
  bool is_bytes = node.kind == CKPT_NODE_BYTES;
  expect_bytes(r, "text", node.text, is_bytes ? 0 : node.text_size);
  if (!is_bytes && key_of(r, "bytes")) fail(r, "expected bytes, found %s", node_kinds[node.kind]);
  expect_bytes(r, "bytes", node.text, node.text_size);
  expect_unsigned(r, "child_count", node.child_count);
  expect_link(r, "first_child", node.first_child);
  expect_link(r, "next_sibling", node.next_sibling);
  expect_link(r, "parent", node.parent);
  return CKPT_OK;
}

static ckpt_status expect_node(runner* r, ckpt_status status, uint64_t found) {
  if (!status && unsigned_integer(r, 3) != found) fail(r, "expected node %s, found %" PRIu64, word(r, 3), found);
  return status;
}

static ckpt_status run_find(runner* r) {
  uint64_t found = 0;
  ckpt_status status = ckpt_tree_find(get(r, 0, TREE), unsigned_integer(r, 1), word(r, 2), &found, &r->error);
  return expect_node(r, status, found);
}

static ckpt_status run_find_int(runner* r) {
  uint64_t found = 0;
  ckpt_status status = ckpt_tree_find_int(get(r, 0, TREE), unsigned_integer(r, 1), integer(r, 2), &found, &r->error);
  return expect_node(r, status, found);
}

/* ---- tree.native: C has no such values, so node by node ---- */

static ckpt_status add_key(ckpt_tree* to, const ckpt_node* node, ckpt_error** err) {
  if (node->key_kind == CKPT_KEY_TEXT) return ckpt_tree_key(to, node->key, node->key_size, err);
  if (node->key_kind == CKPT_KEY_INT) return ckpt_tree_key_int(to, node->key_int, err);
  return CKPT_OK;
}

static ckpt_status add_leaf(ckpt_tree* to, const ckpt_node* node, ckpt_error** err) {
  switch (node->kind) {
    case CKPT_NODE_NULL:
      return ckpt_tree_add_null(to, err);
    case CKPT_NODE_BOOL:
      return ckpt_tree_add_bool(to, node->bool_value, err);
    case CKPT_NODE_INT:
      return ckpt_tree_add_int(to, node->int_value, err);
    case CKPT_NODE_BIGINT:
      return ckpt_tree_add_bigint(to, node->text, err);
    case CKPT_NODE_FLOAT:
      return ckpt_tree_add_float(to, node->float_value, err);
    case CKPT_NODE_TEXT:
      return ckpt_tree_add_text(to, node->text, node->text_size, err);
    case CKPT_NODE_BYTES:
      return ckpt_tree_add_bytes(to, node->text, node->text_size, err);
    default:
      return ckpt_tree_add_tensor(to, node->text, NULL, err);
  }
}

static ckpt_status add_copy(ckpt_tree* to, const ckpt_tree* from, uint64_t at, ckpt_error** err) {
  ckpt_node node = {.struct_size = sizeof node};
  ckpt_status status = ckpt_tree_at(from, at, &node, err);
  if (!status) status = add_key(to, &node, err);
  if (status) return status;
  if (node.kind < CKPT_NODE_LIST) return add_leaf(to, &node, err);
  status = ckpt_tree_begin(to, node.kind, node.kind == CKPT_NODE_RECORD ? node.text : NULL, err);
  for (uint64_t child = node.first_child; child != CKPT_NODE_END && !status;) {
    ckpt_node next = {.struct_size = sizeof next};
    status = add_copy(to, from, child, err);
    if (!status) status = ckpt_tree_at(from, child, &next, err);
    child = next.next_sibling;
  }
  return status ? status : ckpt_tree_end(to, err);
}

static ckpt_status run_native(runner* r) {
  ckpt_tree* made = NULL;
  const ckpt_tree* from = get(r, 0, TREE);
  ckpt_status status = ckpt_tree_new(&made, &r->error);
  if (!status) status = add_copy(made, from, 0, &r->error);
  if (status) ckpt_tree_free(made);
  return keep(r, 1, TREE, made, status);
}

const command node_commands[] = {{"tree.count", run_count},       {"tree.node", run_node},     {"tree.find", run_find},
                                 {"tree.find_int", run_find_int}, {"tree.native", run_native}, {NULL, NULL}};
