/* ckpt_tree.h - nested trainer state: dicts, lists, numbers and text, with tensors as leaves.
 *
 * A state tree holds what a trainer calls {"model": {...}, "optimizer": {"state": {0: {...}}}, "epoch": 3}, in any
 * language. In a checkpoint its tensors are ordinary tensors, named by their paths ("optimizer/state/0/exp_avg"), and
 * the rest is one JSON object, described in schemas/STATE_TREE.md. ckpt.h has the conventions of calls.
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
  CKPT_NODE_BIGINT = 3, /* does not fit: `text` is its decimal digits, with '-' if negative */
  CKPT_NODE_FLOAT = 4,  /* NaN and infinities too; the bits of a NaN are not kept */
  CKPT_NODE_TEXT = 5,
  CKPT_NODE_BYTES = 6,
  CKPT_NODE_TENSOR = 7, /* `text` is the tensor's name in the checkpoint */
  CKPT_NODE_LIST = 16,
  CKPT_NODE_TUPLE = 17,
  CKPT_NODE_SET = 18,
  CKPT_NODE_DICT = 19,  /* keeps its order; keys are text or integers: 1 and "1" are two keys */
  CKPT_NODE_RECORD = 20 /* an object of class `text` ("torch.Size"): a dict of text keys */
};
enum { CKPT_KEY_NONE = 0, CKPT_KEY_TEXT = 1, CKPT_KEY_INT = 2 };

#define CKPT_NODE_END UINT64_MAX           /* no such node */
#define CKPT_TREE_MAX_DEPTH 200            /* containers inside each other */
#define CKPT_TREE_OBJECT "state"           /* the object that holds a checkpoint's main tree */
#define CKPT_PER_RANK_CLASS "ckpt.PerRank" /* a RECORD with a value of each rank: "rank0", "rank1", ... */
#define CKPT_TREE_MEDIA_TYPE "application/vnd.ckpt.tree+json"

/* ---- build -------------------------------------------------------------------------------------------------
 * Add nodes in document order, one root value per tree. In a DICT or RECORD, add a key before each value.
 * Statuses: INVALID (a key out of place, missing or given twice; text that is not UTF-8). */
CKPT_API ckpt_status ckpt_tree_new(ckpt_tree** out, ckpt_error** err);
CKPT_API ckpt_status ckpt_tree_key(ckpt_tree* tree, const char* key, uint64_t size, ckpt_error** err);
CKPT_API ckpt_status ckpt_tree_key_int(ckpt_tree* tree, int64_t key, ckpt_error** err);
CKPT_API ckpt_status ckpt_tree_add_null(ckpt_tree* tree, ckpt_error** err);
CKPT_API ckpt_status ckpt_tree_add_bool(ckpt_tree* tree, int32_t value, ckpt_error** err);
CKPT_API ckpt_status ckpt_tree_add_int(ckpt_tree* tree, int64_t value, ckpt_error** err);
/* Adds an INT if `digits` fit int64_t. */
CKPT_API ckpt_status ckpt_tree_add_bigint(ckpt_tree* tree, const char* digits, ckpt_error** err);
CKPT_API ckpt_status ckpt_tree_add_float(ckpt_tree* tree, double value, ckpt_error** err);
CKPT_API ckpt_status ckpt_tree_add_text(ckpt_tree* tree, const char* text, uint64_t size, ckpt_error** err);
CKPT_API ckpt_status ckpt_tree_add_bytes(ckpt_tree* tree, const void* data, uint64_t size, ckpt_error** err);
/* `name` NULL: the tensor is named by its path (CKPT_TREE_OBJECT if it is the root). `*path` (nullable) receives the
 * name, borrowed until the next call on `tree`. Two leaves may have the same name. INVALID if the path is too long for
 * a name. */
CKPT_API ckpt_status ckpt_tree_add_tensor(ckpt_tree* tree, const char* name, const char** path, ckpt_error** err);
/* `kind`: LIST, TUPLE, SET, DICT or RECORD. `class_name`: for a RECORD; NULL for the others. */
CKPT_API ckpt_status ckpt_tree_begin(ckpt_tree* tree, int32_t kind, const char* class_name, ckpt_error** err);
CKPT_API ckpt_status ckpt_tree_end(ckpt_tree* tree, ckpt_error** err);

/* ---- read --------------------------------------------------------------------------------------------------
 * Nodes have numbers in document order; the root is 0. */
typedef struct ckpt_node {
  uint32_t struct_size;
  int32_t kind;     /* CKPT_NODE_* */
  int32_t key_kind; /* CKPT_KEY_*; NONE for the root and in lists, tuples and sets */
  int32_t bool_value;
  int64_t key_int;
  const char* key; /* TEXT key: NUL-terminated, may contain NULs; borrowed from the tree, like `text` */
  uint64_t key_size;
  int64_t int_value;  /* INT */
  double float_value; /* FLOAT */
  const char* text;   /* TEXT, BIGINT, TENSOR's name, RECORD's class; BYTES: the bytes */
  uint64_t text_size;
  uint64_t child_count;
  uint64_t first_child, next_sibling, parent; /* CKPT_NODE_END where there is none */
} ckpt_node;
CKPT_API uint64_t ckpt_tree_node_count(const ckpt_tree* tree);
CKPT_API ckpt_status ckpt_tree_at(const ckpt_tree* tree, uint64_t node, ckpt_node* out, ckpt_error** err);
/* Finds a child of a DICT or RECORD by its text key; _int by its integer key, or a child of a LIST, TUPLE or SET by its
 * position. Statuses: NOT_FOUND. */
CKPT_API ckpt_status ckpt_tree_find(const ckpt_tree* tree, uint64_t parent, const char* key, uint64_t* out,
                                    ckpt_error** err);
CKPT_API ckpt_status ckpt_tree_find_int(const ckpt_tree* tree, uint64_t parent, int64_t key, uint64_t* out,
                                        ckpt_error** err);
CKPT_API void ckpt_tree_free(ckpt_tree* tree);

/* ---- as JSON, in a checkpoint ------------------------------------------------------------------------------ */

/* Parses JSON as STATE_TREE.md defines it. Statuses: FORMAT, REVISION (a kind of node this library does not know). */
CKPT_API ckpt_status ckpt_tree_parse(ckpt_tree** out, const char* json, uint64_t size, ckpt_error** err);
/* The tree as JSON: equal trees give equal bytes. Borrowed until `tree` is freed. INVALID if the tree is unfinished. */
CKPT_API ckpt_status ckpt_tree_json(const ckpt_tree* tree, const char** json, uint64_t* size, ckpt_error** err);

/* Adds this rank's state tree under `name` (NULL: CKPT_TREE_OBJECT). The checkpoint's tree is that of all ranks
 * together (STATE_TREE.md section 6): a dict has the keys that any rank has, and what several ranks have at one place
 * must be equal: otherwise the save ends with MISMATCH, which names the place and two ranks. What is each rank's own (a
 * random state, a position in the data) goes into a RECORD of class CKPT_PER_RANK_CLASS, under the key "rank3" on
 * rank 3. Add its tensors with ckpt_save_add_tensor, on whichever ranks: if none adds one that the tree names, that is
 * MISMATCH. */
CKPT_API ckpt_status ckpt_save_add_tree(ckpt_save* save, const char* name, const ckpt_tree* tree, ckpt_error** err);
/* Reads the tree of object `name`. `name` NULL: the main tree, or, if the checkpoint has none, a DICT of all tensors by
 * their names, so that every checkpoint has a tree. Statuses: NOT_FOUND, CORRUPT, FORMAT, REVISION, IO,
 * INCOMPLETE (it names a tensor that the checkpoint lacks), MISMATCH (the trees of two ranks contradict each other). */
CKPT_API ckpt_status ckpt_reader_tree(const ckpt_reader* reader, const char* name, ckpt_tree** out, ckpt_error** err);
/* The same, but a record of class CKPT_PER_RANK_CLASS holds only what `rank` saved; what rank 0 saved, if there were
 * fewer ranks than that. Reads less where there were many ranks. */
CKPT_API ckpt_status ckpt_reader_tree_of_rank(const ckpt_reader* reader, const char* name, uint32_t rank,
                                              ckpt_tree** out, ckpt_error** err);

#ifdef __cplusplus
}
#endif
#endif /* CKPT_TREE_H */
