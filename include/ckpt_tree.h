/* ckpt_tree.h - nested trainer state: dicts, lists, numbers and text, with tensors as leaves.
 *
 * A state tree is what {"model": {...}, "optimizer": {"state": {0: {...}}, "param_groups": [...]}, "epoch": 3} is in
 * any language. In a checkpoint its tensors are ordinary tensors under their paths ("optimizer/state/0/exp_avg"), and
 * the rest is one JSON object; schemas/STATE_TREE.md is the convention. Conventions of calls: ckpt.h.
 *
 *   ckpt_tree *tree;  ckpt_tree_new(&tree, &err);
 *   ckpt_tree_begin(tree, CKPT_NODE_DICT, NULL, &err);
 *   ckpt_tree_key(tree, "epoch", 5, &err);   ckpt_tree_add_int(tree, 3, &err);
 *   ckpt_tree_key(tree, "w", 1, &err);       ckpt_tree_add_tensor(tree, NULL, &name, &err);
 *   ckpt_save_add_tensor(save, name, &desc, data, size, CKPT_DEVICE_CPU, 0, &err);
 *   ckpt_tree_end(tree, &err);
 *   ckpt_save_add_tree(save, NULL, tree, &err);
 */
#ifndef CKPT_TREE_H
#define CKPT_TREE_H

#include "ckpt.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ckpt_tree ckpt_tree;

enum {
  CKPT_NODE_NULL = 0,
  CKPT_NODE_BOOL = 1,
  CKPT_NODE_INT = 2,    /* fits int64_t */
  CKPT_NODE_BIGINT = 3, /* does not: `text` is its decimal digits with an optional '-' */
  CKPT_NODE_FLOAT = 4,  /* NaN and infinities are values like others; the bits of a NaN are not kept */
  CKPT_NODE_TEXT = 5,
  CKPT_NODE_BYTES = 6,
  CKPT_NODE_TENSOR = 7, /* `text` is the tensor's name in the checkpoint */
  CKPT_NODE_LIST = 16,
  CKPT_NODE_TUPLE = 17,
  CKPT_NODE_SET = 18,
  CKPT_NODE_DICT = 19,  /* children in the order given; keys are text or integers, which are kept apart */
  CKPT_NODE_RECORD = 20 /* a dict of text keys that was an object of class `text`, e.g. "torch.Size" */
};
enum { CKPT_KEY_NONE = 0, CKPT_KEY_TEXT = 1, CKPT_KEY_INT = 2 };

#define CKPT_NODE_END UINT64_MAX    /* no such node */
#define CKPT_TREE_MAX_DEPTH 200     /* containers inside each other */
#define CKPT_TREE_OBJECT "state"    /* the object that holds a checkpoint's main tree */
#define CKPT_TREE_MEDIA_TYPE "application/vnd.ckpt.tree+json"

/* ---- build -------------------------------------------------------------------------------------------------
 * In document order, one value per tree; each value inside a DICT or RECORD comes after its key.
 * Statuses: INVALID (a key where none belongs, none where one does, a key given twice, text that is not UTF-8). */
CKPT_API ckpt_status ckpt_tree_new(ckpt_tree **out, ckpt_error **err);
CKPT_API ckpt_status ckpt_tree_key(ckpt_tree *tree, const char *key, uint64_t size, ckpt_error **err);
CKPT_API ckpt_status ckpt_tree_key_int(ckpt_tree *tree, int64_t key, ckpt_error **err);
CKPT_API ckpt_status ckpt_tree_add_null(ckpt_tree *tree, ckpt_error **err);
CKPT_API ckpt_status ckpt_tree_add_bool(ckpt_tree *tree, int32_t value, ckpt_error **err);
CKPT_API ckpt_status ckpt_tree_add_int(ckpt_tree *tree, int64_t value, ckpt_error **err);
/* `digits` that fit int64_t become an INT. */
CKPT_API ckpt_status ckpt_tree_add_bigint(ckpt_tree *tree, const char *digits, ckpt_error **err);
CKPT_API ckpt_status ckpt_tree_add_float(ckpt_tree *tree, double value, ckpt_error **err);
CKPT_API ckpt_status ckpt_tree_add_text(ckpt_tree *tree, const char *text, uint64_t size, ckpt_error **err);
CKPT_API ckpt_status ckpt_tree_add_bytes(ckpt_tree *tree, const void *data, uint64_t size, ckpt_error **err);
/* `name` NULL: the tensor's name is its path, which `*path` (nullable) receives, borrowed until the next call on `tree`
 * (of the whole tree it is CKPT_TREE_OBJECT). Two leaves may have one name. INVALID where the path is longer than a
 * name may be. */
CKPT_API ckpt_status ckpt_tree_add_tensor(ckpt_tree *tree, const char *name, const char **path, ckpt_error **err);
/* `kind`: LIST, TUPLE, SET, DICT or RECORD; `class_name` of a RECORD, NULL of the others. */
CKPT_API ckpt_status ckpt_tree_begin(ckpt_tree *tree, int32_t kind, const char *class_name, ckpt_error **err);
CKPT_API ckpt_status ckpt_tree_end(ckpt_tree *tree, ckpt_error **err);

/* ---- read --------------------------------------------------------------------------------------------------
 * Nodes have numbers in document order; the root is 0. */
typedef struct ckpt_node {
  uint32_t struct_size;
  int32_t kind;         /* CKPT_NODE_* */
  int32_t key_kind;     /* CKPT_KEY_*; NONE for the root and in lists, tuples and sets */
  int32_t bool_value;
  int64_t key_int;
  const char *key;      /* TEXT key; NUL-terminated, may hold NULs; borrowed from the tree, as `text` */
  uint64_t key_size;
  int64_t int_value;    /* INT */
  double float_value;   /* FLOAT */
  const char *text;     /* TEXT, BIGINT, TENSOR's name, RECORD's class; BYTES: the bytes */
  uint64_t text_size;
  uint64_t child_count;
  uint64_t first_child, next_sibling, parent; /* CKPT_NODE_END where there is none */
} ckpt_node;
CKPT_API uint64_t ckpt_tree_node_count(const ckpt_tree *tree);
CKPT_API ckpt_status ckpt_tree_at(const ckpt_tree *tree, uint64_t node, ckpt_node *out, ckpt_error **err);
/* The child of a DICT or RECORD by its text key; by its integer key, or of a LIST, TUPLE or SET by its place.
 * NOT_FOUND where there is none. */
CKPT_API ckpt_status ckpt_tree_find(const ckpt_tree *tree, uint64_t parent, const char *key, uint64_t *out,
                                    ckpt_error **err);
CKPT_API ckpt_status ckpt_tree_find_int(const ckpt_tree *tree, uint64_t parent, int64_t key, uint64_t *out,
                                        ckpt_error **err);
CKPT_API void ckpt_tree_free(ckpt_tree *tree);

/* ---- as JSON, in a checkpoint ------------------------------------------------------------------------------ */

/* From JSON text of the convention. Statuses: FORMAT, REVISION (a kind of node this library does not know). */
CKPT_API ckpt_status ckpt_tree_parse(ckpt_tree **out, const char *json, uint64_t size, ckpt_error **err);
/* The tree as JSON, same bytes for the same tree; borrowed until `tree` is freed. INVALID while it is unfinished. */
CKPT_API ckpt_status ckpt_tree_json(const ckpt_tree *tree, const char **json, uint64_t *size, ckpt_error **err);

/* Adds the tree as shared object `name` (NULL: CKPT_TREE_OBJECT). Its tensors are added with ckpt_save_add_tensor. */
CKPT_API ckpt_status ckpt_save_add_tree(ckpt_save *save, const char *name, const ckpt_tree *tree, ckpt_error **err);
/* The tree of object `name`. With `name` NULL the main one, or where there is none a DICT of all tensors by their
 * names, so that every checkpoint has a tree. Reads the object. Statuses: NOT_FOUND, CORRUPT, FORMAT, REVISION, IO,
 * INCOMPLETE (it names a tensor that the checkpoint does not have). */
CKPT_API ckpt_status ckpt_reader_tree(const ckpt_reader *reader, const char *name, ckpt_tree **out, ckpt_error **err);

#ifdef __cplusplus
}
#endif
#endif /* CKPT_TREE_H */
