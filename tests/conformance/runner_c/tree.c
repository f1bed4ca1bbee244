/* tree.*: building a state tree, and its text; node.c reads one. */
#include <stdlib.h>
#include <string.h>

#include "runner.h"

static ckpt_tree* tree_of(runner* r, line* l) { return object_get(r, &l->words[0], TREE); }

static ckpt_status run_new(runner* r, line* l) {
  ckpt_tree* tree = NULL;
  ckpt_status status = ckpt_tree_new(&tree, &r->error);
  if (!status) object_put(r, &l->words[0], TREE, tree);
  return status;
}

static ckpt_status run_parse(runner* r, line* l) {
  ckpt_tree* tree = NULL;
  ckpt_status status = ckpt_tree_parse(&tree, l->words[1].text, l->words[1].size, &r->error);
  if (!status) object_put(r, &l->words[0], TREE, tree);
  return status;
}

static ckpt_status run_json(runner* r, line* l) {
  const char* json;
  uint64_t size;
  const word* wanted = &l->words[1];
  ckpt_status status = ckpt_tree_json(tree_of(r, l), &json, &size, &r->error);
  if (!status && (size != wanted->size || memcmp(json, wanted->text, size) != 0))
    fail(r, "expected %s, found %.*s", wanted->text, (int)size, json);
  return status;
}

static ckpt_status run_key(runner* r, line* l) {
  return ckpt_tree_key(tree_of(r, l), l->words[1].text, l->words[1].size, &r->error);
}

static ckpt_status run_key_int(runner* r, line* l) {
  return ckpt_tree_key_int(tree_of(r, l), parse_int(r, l->words[1].text), &r->error);
}

static ckpt_status run_null(runner* r, line* l) { return ckpt_tree_add_null(tree_of(r, l), &r->error); }

static ckpt_status run_bool(runner* r, line* l) {
  return ckpt_tree_add_bool(tree_of(r, l), (int32_t)parse_int(r, l->words[1].text), &r->error);
}

static ckpt_status run_int(runner* r, line* l) {
  return ckpt_tree_add_int(tree_of(r, l), parse_int(r, l->words[1].text), &r->error);
}

static ckpt_status run_bigint(runner* r, line* l) {
  return ckpt_tree_add_bigint(tree_of(r, l), l->words[1].text, &r->error);
}

static ckpt_status run_float(runner* r, line* l) {
  return ckpt_tree_add_float(tree_of(r, l), parse_float(r, l->words[1].text), &r->error);
}

static ckpt_status run_text(runner* r, line* l) {
  return ckpt_tree_add_text(tree_of(r, l), l->words[1].text, l->words[1].size, &r->error);
}

static ckpt_status run_bytes(runner* r, line* l) {
  word bytes = parse_hex(r, l->words[1].text);
  ckpt_status status = ckpt_tree_add_bytes(tree_of(r, l), bytes.text, bytes.size, &r->error);
  free(bytes.text);
  return status;
}

static ckpt_status run_tensor(runner* r, line* l) {
  const char* path = NULL;
  ckpt_status status = ckpt_tree_add_tensor(tree_of(r, l), pair_text(l, "name"), &path, &r->error);
  if (!status) expect_text(r, l, "path", path);
  return status;
}

static ckpt_status run_begin(runner* r, line* l) {
  int32_t kind = parse_name(r, node_kinds, l->words[1].text);
  return ckpt_tree_begin(tree_of(r, l), kind, pair_text(l, "class"), &r->error);
}

static ckpt_status run_end(runner* r, line* l) { return ckpt_tree_end(tree_of(r, l), &r->error); }

const command tree_commands[] = {{"tree.new", 1, 0, run_new},           {"tree.parse", 2, 0, run_parse},
                                 {"tree.json", 2, 0, run_json},         {"tree.key", 2, 0, run_key},
                                 {"tree.key_int", 2, 0, run_key_int},   {"tree.null", 1, 0, run_null},
                                 {"tree.bool", 2, 0, run_bool},         {"tree.int", 2, 0, run_int},
                                 {"tree.bigint", 2, 0, run_bigint},     {"tree.float", 2, 0, run_float},
                                 {"tree.text", 2, 0, run_text},         {"tree.bytes", 2, 0, run_bytes},
                                 {"tree.tensor", 1, PAIRS, run_tensor}, {"tree.begin", 2, PAIRS, run_begin},
                                 {"tree.end", 1, 0, run_end},           {NULL, 0, 0, NULL}};
