/* The conformance runner in C99: the declarations of its files. Tokens: ../README.md; commands: ../commands.md. */
#ifndef RUNNER_H
#define RUNNER_H

#include <ckpt.h>
#include <ckpt_file.h>
#include <ckpt_tree.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct token {
  char kind;
  char *key, *text; /* `key` of KEY=VALUE, else NULL; the text is NUL-terminated and may hold NULs */
  size_t size;      /* of the text */
} token;

typedef enum kind { MEMORY, STORE, SESSION, SAVE, JOB, REPORT, READER, LOAD, TREE, FILE_OBJECT, ROWS, SHARE } kind;

typedef struct memory {
  uint64_t size;
  unsigned char data[];
} memory;

typedef struct object {
  char* name;
  kind kind;
  void* handle;
  const void* owner; /* of a borrowed tree: its file; else NULL */
  struct object* next;
} object;

typedef struct runner {
  char *where, *name; /* FILE:LINE: COMMAND, and the command */
  bool timed;
  token* tokens; /* the command's words, keys, … */
  size_t count, room;
  ckpt_options* options; /* of the call; NULL if the command has none */
  ckpt_error* error;     /* of the call */
  object* objects;
} runner;

typedef struct command {
  const char* name;
  ckpt_status (*run)(runner* r);
} command;
extern const command library_commands[], memory_commands[], store_commands[], save_commands[], job_commands[],
    reader_commands[], load_commands[], tree_commands[], node_commands[], file_commands[], table_commands[];

/* Prints where and why on stderr, frees all objects and ends the process with 1. */
void fail(runner* r, const char* format, ...) __attribute__((noreturn, format(printf, 2, 3)));
void* allocate(size_t size); /* zeroed; ends the process if there is none */

/* ---- words and keys of the command (values.c) ---- */

const char* word(runner* r, size_t i);
int64_t integer(runner* r, size_t i);
uint64_t unsigned_integer(runner* r, size_t i);
const token* key_of(runner* r, const char* key); /* NULL if it is not given */
const char* text_of(runner* r, const char* key);
int64_t integer_of(runner* r, const char* key, int64_t otherwise);
int32_t dtype_of(runner* r, size_t i);
/* The numbers of a shape or a list; returns how many there are, which may be more than `most`. */
int32_t numbers(const char* text, int64_t* out, int32_t most);
int32_t named(runner* r, const char* const* names, const char* text); /* index in a list that NULL ends */
/* The tensor of DTYPE, SHAPE (words `first` and the next) and the keys of a region. */
void region_of(runner* r, size_t first, ckpt_tensor_desc* out);
void device_of(runner* r, int32_t* type, int32_t* id);
extern const char *const job_states[], *const node_kinds[], *const finding_kinds[], *const checkpoint_states[],
                                                                                        *const scopes[];

/* COUNT tensors PREFIX0, PREFIX1, … of DTYPE SHAPE, all in the memory M: words 1 to 5 of the command (many.c). */
typedef struct many {
  uint64_t count;
  const char** names;
  ckpt_tensor_desc* descs;
  void** data;
  uint64_t* sizes;
  char* texts; /* of the names */
} many;
many many_of(runner* r);
void many_free(many* all);

/* ---- expectations (values.c): each is checked only if the command has the key ---- */

const char* shape_text(int32_t ndim, const int64_t* shape);      /* valid until the second next call */
void expect_text(runner* r, const char* key, const char* found); /* NULL is empty */
void expect_bytes(runner* r, const char* key, const void* found, uint64_t size);
void expect_int(runner* r, const char* key, int64_t found);
void expect_unsigned(runner* r, const char* key, uint64_t found);
void expect_float(runner* r, const char* key, double found);
void expect_dtype(runner* r, const char* key, int32_t found);
void expect_checkpoint(runner* r, const ckpt_checkpoint_info* info);
void expect_word(runner* r, size_t i, const char* found); /* NULL: there is none */

/* ---- objects by name (objects.c) ---- */

void* get_named(runner* r, const char* name, kind kind);
void* get(runner* r, size_t i, kind kind);
memory* get_memory(runner* r, size_t i); /* NULL if the word is empty */
/* Stores what a call made under the name in word `i`, unless the call failed; returns the status. */
ckpt_status keep(runner* r, size_t i, kind kind, void* handle, ckpt_status status);
ckpt_status keep_borrowed(runner* r, size_t i, kind kind, const void* handle, const void* owner);
memory* keep_memory(runner* r, size_t i, const void* bytes, uint64_t size); /* a copy; zeros if NULL */
void rows_free(void* handle);                                               /* the rows of a table (table.c) */
void object_free(runner* r, const char* name);
void objects_free(runner* r);

#endif
