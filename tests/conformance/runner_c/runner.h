/* The conformance runner in C99: the declarations of its files. Requests: ../README.md; commands: ../commands.md. */
#ifndef RUNNER_H
#define RUNNER_H

#include <ckpt.h>
#include <ckpt_file.h>
#include <ckpt_keeper.h>
#include <ckpt_tree.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct token {
  char kind;              /* 'w' a word, '=' a key, '@' an option that is an integer, '$' one that is text */
  const char *key, *text; /* the text is NUL-terminated and may hold NULs */
  size_t size;            /* of the text */
} token;

typedef enum { MEMORY, STORE, SESSION, SAVE, JOB, REPORT, READER, LOAD, TREE, FILE_OBJECT, ROWS, SHARE, KEEPER } kind;

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

enum { kMostTokens = 64 };
typedef struct runner {
  const char* name; /* of the command */
  token tokens[kMostTokens];
  size_t words, count;   /* words come first */
  ckpt_options* options; /* of the call; NULL if the command has none */
  ckpt_error* error;     /* of the call */
  FILE* reply;           /* what follows the status */
  object* objects;
} runner;

typedef struct command {
  const char* name;
  ckpt_status (*run)(runner* r);
} command;
extern const command library_commands[], store_commands[], save_commands[], reader_commands[], tree_commands[],
    table_commands[], keeper_commands[];

/* A function that makes an object, and one that does not; `made` is what the call makes, named by word `i`. */
#define MAKES(function, i, kind, type, ...)                         \
  static ckpt_status function(runner* r) {                          \
    type* made = NULL;                                              \
    ckpt_status made_status = __VA_ARGS__;                          \
    return keep(r, i, kind, (void*)(uintptr_t)(made), made_status); \
  }
#define CALLS(function, ...) \
  static ckpt_status function(runner* r) { return __VA_ARGS__; }
/* One that cannot fail; one that lists the names of records; one that replies a record of `fields`, and what else is
   said of it. `info` is the record. */
#define SAYS(function, ...)                \
  static ckpt_status function(runner* r) { \
    __VA_ARGS__;                           \
    return CKPT_OK;                        \
  }
#define LISTS(function, count, type, at)        \
  static ckpt_status function(runner* r) {      \
    for (uint64_t i = 0; i < (count); i++) {    \
      type info = {.struct_size = sizeof info}; \
      ckpt_status status = at;                  \
      if (status) return status;                \
      say_text(r, NULL, info.name);             \
    }                                           \
    return CKPT_OK;                             \
  }
#define FINDS(function, type, fields, find, ...) \
  static ckpt_status function(runner* r) {       \
    type info = {.struct_size = sizeof info};    \
    ckpt_status status = find;                   \
    if (status) return status;                   \
    __VA_ARGS__;                                 \
    say_record(r, fields, &info);                \
    return CKPT_OK;                              \
  }

/* Replies that the command cannot be carried out, frees all objects and ends the process. */
void fail(runner* r, const char* format, ...) __attribute__((noreturn, format(printf, 2, 3)));
void* allocate(size_t size); /* zeroed; ends the process if there is none */

/* ---- words and keys of the command (values.c) ---- */

const char* word(runner* r, size_t i);
int64_t integer(runner* r, size_t i);
uint64_t unsigned_integer(runner* r, size_t i);
const char* text_of(runner* r, const char* key); /* NULL if it is not given */
int64_t integer_of(runner* r, const char* key, int64_t otherwise);
int32_t dtype_of(runner* r, size_t i);
/* The numbers of a shape or a list; returns how many there are, which may be more than `most`. */
int32_t numbers(const char* text, int64_t* out, int32_t most);
int32_t named(runner* r, const char* const* names, const char* text); /* index in a list that NULL ends */
/* The tensor of DTYPE, SHAPE (words `first` and the next) and the keys of a region. */
void region_of(runner* r, size_t first, ckpt_tensor_desc* out);
void device_of(runner* r, int32_t* type, int32_t* id);

/* ---- the reply (values.c); without a key, a word ---- */

void say_bytes(runner* r, const char* key, const void* found, uint64_t size);
void say(runner* r, const char* key, const char* format, ...) __attribute__((format(printf, 3, 4)));
void say_text(runner* r, const char* key, const char* found); /* NULL is empty */
void say_unsigned(runner* r, const char* key, uint64_t found);
const char* shape_text(int32_t ndim, const int64_t* shape); /* valid until the second next call */

/* A field of a record, which a list that ends with a NULL key describes. */
typedef enum field_kind { U32, U64, I32, I64, F64, TEXT, CHARS, DTYPE } field_kind;
typedef struct field {
  const char* key;
  field_kind kind;
  size_t offset;
} field;
void say_record(runner* r, const field* fields, const void* record);

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
