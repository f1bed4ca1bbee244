/* tree.*: building a state tree, and its text; node.c reads one. */
#include <stdlib.h>
#include <string.h>

#include "runner.h"

static ckpt_tree* tree_of(runner* r) { return get(r, 0, TREE); }

static ckpt_status run_new(runner* r) {
  ckpt_tree* made = NULL;
  ckpt_status status = ckpt_tree_new(&made, &r->error);
  return keep(r, 0, TREE, made, status);
}

static ckpt_status run_parse(runner* r) {
  ckpt_tree* made = NULL;
  ckpt_status status = ckpt_tree_parse(&made, word(r, 1), r->tokens[1].size, &r->error);
  return keep(r, 0, TREE, made, status);
}

static ckpt_status run_json(runner* r) {
  const char* json;
  uint64_t size;
  const token* wanted = &r->tokens[1];
  ckpt_status status = ckpt_tree_json(tree_of(r), &json, &size, &r->error);
  if (!status && (size != wanted->size || memcmp(json, wanted->text, size) != 0))
    fail(r, "expected %s, found %.*s", wanted->text, (int)size, json);
  return status;
}

static ckpt_status run_key(runner* r) { return ckpt_tree_key(tree_of(r), word(r, 1), r->tokens[1].size, &r->error); }
static ckpt_status run_key_int(runner* r) { return ckpt_tree_key_int(tree_of(r), integer(r, 1), &r->error); }
static ckpt_status run_null(runner* r) { return ckpt_tree_add_null(tree_of(r), &r->error); }
static ckpt_status run_bool(runner* r) { return ckpt_tree_add_bool(tree_of(r), (int32_t)integer(r, 1), &r->error); }
static ckpt_status run_int(runner* r) { return ckpt_tree_add_int(tree_of(r), integer(r, 1), &r->error); }
static ckpt_status run_bigint(runner* r) { return ckpt_tree_add_bigint(tree_of(r), word(r, 1), &r->error); }
static ckpt_status run_float(runner* r) { return ckpt_tree_add_float(tree_of(r), strtod(word(r, 1), NULL), &r->error); }
static ckpt_status run_text(runner* r) {
  return ckpt_tree_add_text(tree_of(r), word(r, 1), r->tokens[1].size, &r->error);
}
static ckpt_status run_bytes(runner* r) {
  return ckpt_tree_add_bytes(tree_of(r), word(r, 1), r->tokens[1].size, &r->error);
}

static ckpt_status run_tensor(runner* r) {
  const char* path = NULL;
  ckpt_status status = ckpt_tree_add_tensor(tree_of(r), text_of(r, "name"), &path, &r->error);
  if (!status) expect_text(r, "path", path);
  return status;
}

static ckpt_status run_begin(runner* r) {
  int32_t kind = named(r, node_kinds, word(r, 1));
  return ckpt_tree_begin(tree_of(r), kind, text_of(r, "class"), &r->error);
}

static ckpt_status run_end(runner* r) { return ckpt_tree_end(tree_of(r), &r->error); }

const command tree_commands[] = {
    {"tree.new", run_new},         {"tree.parse", run_parse}, {"tree.json", run_json}, {"tree.key", run_key},
    {"tree.key_int", run_key_int}, {"tree.null", run_null},   {"tree.bool", run_bool}, {"tree.int", run_int},
    {"tree.bigint", run_bigint},   {"tree.float", run_float}, {"tree.text", run_text}, {"tree.bytes", run_bytes},
    {"tree.tensor", run_tensor},   {"tree.begin", run_begin}, {"tree.end", run_end},   {NULL, NULL}};
