/* The conformance runner in C99: what its files share. A scenario's grammar and commands: ../README.md. */
#ifndef RUNNER_H
#define RUNNER_H

#include <ckpt.h>
#include <ckpt_file.h>
#include <ckpt_tree.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- one line of a scenario (line.c) ---- */

typedef struct word {
  char* text; /* NUL-terminated, may hold NULs */
  size_t size;
} word;

typedef struct pair {
  char* key;
  word value;
  char sign; /* '=' or '~' */
  bool used;
} pair;

typedef struct command command;

typedef struct line {
  const command* command;
  bool timed;
  word* words;
  pair *pairs, *options, *details;
  size_t word_count, pair_count, option_count, detail_count;
  char* status; /* that the call must fail with; NULL: it must succeed */
  char* raw;    /* the line as it stands, for `timed` */
} line;

/* ---- objects of the scenario (objects.c) ---- */

typedef enum kind { MEMORY, STORE, SESSION, SAVE, JOB, REPORT, READER, LOAD, TREE, FILE_OBJECT } kind;

typedef struct memory {
  unsigned char* data;
  uint64_t size;
} memory;

typedef struct object {
  char* name;
  kind kind;
  void* handle;
  const void* owner; /* the file that a tree is borrowed from; else NULL */
  struct object* next;
} object;

/* ---- the run ---- */

typedef struct variable {
  const char* name; /* not terminated: up to the '=' */
  const char* value;
} variable;

typedef struct runner {
  const char *scenario, *directory;
  const variable* variables;
  size_t variable_count;
  int line_number;
  const char* command_name;
  object* objects;
  ckpt_error* error; /* of the last call */
} runner;

/* `words` it has, and then any number more (MORE), KEY=VALUE (PAIRS), @OPTION=VALUE (OPTIONS). */
enum { MORE = 1, PAIRS = 2, OPTIONS = 4 };
struct command {
  const char* name;
  size_t words;
  int takes;
  ckpt_status (*run)(runner* r, line* l);
};
extern const command library_commands[], memory_commands[], store_commands[], session_commands[], save_commands[],
    job_commands[], reader_commands[], content_commands[], load_commands[], report_commands[], tree_commands[],
    node_commands[], file_commands[];
const command* command_find(const char* name, size_t size);

/* Says where and why on stderr, frees all objects and ends the process with 1. */
void fail(runner* r, const char* format, ...) __attribute__((noreturn, format(printf, 2, 3)));
void* allocate(size_t size); /* zeroed; ends the process where there is none */

line* line_parse(runner* r, const char* text); /* NULL of a line that says nothing */
void line_free(line* l);

void object_put(runner* r, const word* name, kind kind, void* handle);
void object_put_borrowed(runner* r, const word* name, kind kind, const void* handle, const void* owner);
void* object_get(runner* r, const word* name, kind kind);
void object_free(runner* r, const word* name);
void objects_free(runner* r);
memory* memory_new(runner* r, const word* name, uint64_t size);

/* ---- notation (notation.c) ---- */

int64_t parse_int(runner* r, const char* text);
uint64_t parse_unsigned(runner* r, const char* text);
double parse_float(runner* r, const char* text);
int32_t parse_dtype(runner* r, const char* text);
int32_t parse_shape(runner* r, const char* text, int64_t out[CKPT_MAX_NDIM]); /* ndim, also one that is too large */
word parse_hex(runner* r, const char* text);
int32_t parse_name(runner* r, const char* const* names, const char* text); /* index in a list that NULL ends */
char* path_of(runner* r, const char* file);                                /* free it */
const char* shape_text(int32_t ndim, const int64_t* shape);                /* valid until the second next call */
extern const char *const job_states[], *const node_kinds[], *const finding_kinds[];

pair* pair_find(line* l, const char* key);                      /* marks it as looked at */
const char* pair_text(line* l, const char* key);                /* NULL where it is not given */
ckpt_status options_of(runner* r, line* l, ckpt_options** out); /* NULL where there are none */
void parse_region(runner* r, line* l, const char* dtype, const char* shape, ckpt_tensor_desc* out);
void parse_device(runner* r, line* l, int32_t* type, int32_t* id);

/* ---- expectations (expect.c): each looks only where the line names the key ---- */

void expect_int(runner* r, line* l, const char* key, int64_t found);
void expect_unsigned(runner* r, line* l, const char* key, uint64_t found);
void expect_float(runner* r, line* l, const char* key, double found);
void expect_text(runner* r, line* l, const char* key, const char* found); /* NULL is empty */
void expect_bytes(runner* r, line* l, const char* key, const void* data, uint64_t size);
void expect_name(runner* r, line* l, const char* key, const char* const* names, int32_t found);
void expect_dtype(runner* r, line* l, const char* key, int32_t found);
void expect_checkpoint(runner* r, line* l, const ckpt_checkpoint_info* info);
/* The words from `first` on are these, in this order. */
void expect_list(runner* r, line* l, size_t first, size_t index, const char* found);
void expect_list_end(runner* r, line* l, size_t first, size_t count);
bool same_float(double a, double b); /* NaN is NaN, 0 is not -0 */

#endif
