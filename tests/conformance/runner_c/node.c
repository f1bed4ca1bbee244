/* tree.*: reading a state tree node by node, and building another from what was read. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runner.h"

static ckpt_status run_count(runner* r, line* l) {
  uint64_t found = ckpt_tree_node_count(object_get(r, &l->words[0], TREE));
  const char* wanted = l->words[1].text;
  if (parse_unsigned(r, wanted) != found) fail(r, "expected %s nodes, found %" PRIu64, wanted, found);
  return CKPT_OK;
}

static void expect_link(runner* r, line* l, const char* key, uint64_t found) {
  const char* wanted = pair_text(l, key);
  if (wanted && (strcmp(wanted, "-") == 0 ? CKPT_NODE_END : parse_unsigned(r, wanted)) != found)
    fail(r, "expected %s=%s, found %" PRId64, key, wanted, found == CKPT_NODE_END ? -1 : (int64_t)found);
}

static void expect_hex(runner* r, line* l, const char* key, const ckpt_node* node) {
  const char* wanted = pair_text(l, key);
  if (!wanted) return;
  word bytes = parse_hex(r, wanted);
  bool same =
      node->kind == CKPT_NODE_BYTES && bytes.size == node->text_size && memcmp(bytes.text, node->text, bytes.size) == 0;
  free(bytes.text);
  if (!same) fail(r, "expected bytes %s, found %" PRIu64 " others", wanted, node->text_size);
}

static ckpt_status run_node(runner* r, line* l) {
  static const char* const key_kinds[] = {"none", "text", "int", NULL};
  ckpt_node node = {.struct_size = sizeof node};
  uint64_t index = parse_unsigned(r, l->words[1].text);
  ckpt_status status = ckpt_tree_at(object_get(r, &l->words[0], TREE), index, &node, &r->error);
  if (status) return status;
  expect_name(r, l, "kind", node_kinds, node.kind);
  expect_name(r, l, "key_kind", key_kinds, node.key_kind);
  expect_bytes(r, l, "key", node.key, node.key_kind == CKPT_KEY_TEXT ? node.key_size : 0);
  expect_int(r, l, "key_int", node.key_int);
  expect_int(r, l, "bool", node.bool_value);
  expect_int(r, l, "int", node.int_value);
  expect_float(r, l, "float", node.float_value);
  expect_bytes(r, l, "text", node.text, node.kind == CKPT_NODE_BYTES ? 0 : node.text_size);
  expect_hex(r, l, "bytes", &node);
  expect_unsigned(r, l, "child_count", node.child_count);
  expect_link(r, l, "first_child", node.first_child);
  expect_link(r, l, "next_sibling", node.next_sibling);
  expect_link(r, l, "parent", node.parent);
  return CKPT_OK;
}

static void expect_node(runner* r, const char* wanted, uint64_t found) {
  if (parse_unsigned(r, wanted) != found) fail(r, "expected node %s, found %" PRIu64, wanted, found);
}

static ckpt_status run_find(runner* r, line* l) {
  uint64_t found = 0;
  const ckpt_tree* tree = object_get(r, &l->words[0], TREE);
  uint64_t parent = parse_unsigned(r, l->words[1].text);
  ckpt_status status = ckpt_tree_find(tree, parent, l->words[2].text, &found, &r->error);
  if (!status) expect_node(r, l->words[3].text, found);
  return status;
}

static ckpt_status run_find_int(runner* r, line* l) {
  uint64_t found = 0;
  const ckpt_tree* tree = object_get(r, &l->words[0], TREE);
  uint64_t parent = parse_unsigned(r, l->words[1].text);
  ckpt_status status = ckpt_tree_find_int(tree, parent, parse_int(r, l->words[2].text), &found, &r->error);
  if (!status) expect_node(r, l->words[3].text, found);
  return status;
}

/* ---- tree.native: C has no such values of its own, so node by node ---- */

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

static ckpt_status run_native(runner* r, line* l) {
  ckpt_tree* made = NULL;
  const ckpt_tree* from = object_get(r, &l->words[0], TREE);
  ckpt_status status = ckpt_tree_new(&made, &r->error);
  if (!status) status = add_copy(made, from, 0, &r->error);
  if (status)
    ckpt_tree_free(made);
  else
    object_put(r, &l->words[1], TREE, made);
  return status;
}

const command node_commands[] = {{"tree.count", 2, 0, run_count},   {"tree.node", 2, PAIRS, run_node},
                                 {"tree.find", 4, 0, run_find},     {"tree.find_int", 4, 0, run_find_int},
                                 {"tree.native", 2, 0, run_native}, {NULL, 0, 0, NULL}};
