/* RUNNER TOKENS | RUNNER --commands: see ../README.md. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runner.h"

static const command* const kSubjects[] = {library_commands, memory_commands, store_commands, save_commands,
                                           job_commands,     reader_commands, load_commands,  tree_commands,
                                           node_commands,    file_commands,   table_commands, NULL};

static int compare_names(const void* a, const void* b) { return strcmp(*(char* const*)a, *(char* const*)b); }

static int print_commands(void) {
  const char* names[256];
  size_t count = 0;
  for (const command* const* subject = kSubjects; *subject; subject++)
    for (const command* c = *subject; c->name; c++) names[count++] = c->name;
  qsort(names, count, sizeof names[0], compare_names);
  for (size_t i = 0; i < count; i++) puts(names[i]);
  return 0;
}

void fail(runner* r, const char* format, ...) {
  va_list arguments;
  fprintf(stderr, "%s: ", r->where);
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  objects_free(r);
  exit(1);
}

void* allocate(size_t size) {
  void* made = calloc(1, size);
  if (made) return made;
  fprintf(stderr, "no memory for %zu bytes\n", size);
  abort();
}

/* ---- tokens ---- */

static bool read_token(FILE* file, token* out) {
  if (fscanf(file, "%c%zu", &out->kind, &out->size) != 2) return false;
  out->text = allocate(out->size + 1);
  out->key = NULL;
  (void)fgetc(file);
  if (fread(out->text, 1, out->size, file) != out->size) return false;
  (void)fgetc(file);
  if (!strchr("=>ise~", out->kind)) return true;
  out->key = out->text;
  out->text = strchr(out->key, '=') + 1;
  out->text[-1] = '\0';
  out->size -= (size_t)(out->text - out->key);
  return true;
}

static void add_token(runner* r, token made) {
  if (r->count == r->room) {
    r->room = r->room * 2 + 16;
    r->tokens = realloc(r->tokens, r->room * sizeof *r->tokens);
    if (!r->tokens) abort();
  }
  r->tokens[r->count++] = made;
}

/* Reads the next command; false at the end. */
static bool read_command(runner* r, FILE* file) {
  for (token next; read_token(file, &next);) {
    if (next.kind == '.') {
      free(next.text);
      return true;
    }
    if (next.kind == ':') {
      r->where = next.text;
    } else if (next.kind == 'c' || next.kind == 't') {
      r->name = next.text;
      r->timed = next.kind == 't';
    } else {
      add_token(r, next);
    }
  }
  return false;
}

static void free_command(runner* r) {
  for (size_t i = 0; i < r->count; i++) free(r->tokens[i].key ? r->tokens[i].key : r->tokens[i].text);
  r->count = 0;
  free(r->where);
  free(r->name);
  ckpt_options_free(r->options);
  ckpt_error_free(r->error);
  r->options = NULL;
  r->error = NULL;
}

/* ---- one command ---- */

static ckpt_status make_options(runner* r) {
  ckpt_status status = CKPT_OK;
  for (const token* t = r->tokens; t < r->tokens + r->count && !status; t++) {
    if (t->kind != 'i' && t->kind != 's') continue;
    if (!r->options) status = ckpt_options_new(&r->options, &r->error);
    if (!status && t->kind == 'i')
      status = ckpt_options_set_int(r->options, t->key, strtoll(t->text, NULL, 10), &r->error);
    else if (!status)
      status = ckpt_options_set_str(r->options, t->key, t->text, &r->error);
  }
  const char* job = text_of(r, "job");
  if (!job || status) return status;
  if (!r->options) status = ckpt_options_new(&r->options, &r->error);
  if (!status) status = ckpt_options_set_job(r->options, get_named(r, job, JOB), &r->error);
  return status;
}

static const command* find_command(runner* r) {
  for (const command* const* subject = kSubjects; *subject; subject++)
    for (const command* c = *subject; c->name; c++)
      if (strcmp(c->name, r->name) == 0) return c;
  fail(r, "expected a command, found none");
}

// By both ways to a fact, which must agree.
static const char* fact(runner* r, const char* key) {
  const char *name = NULL, *value = NULL, *found = ckpt_error_detail(r->error, key);
  for (size_t i = 0; (name = ckpt_error_detail_at(r->error, i, &value)) && strcmp(name, key) != 0; i++) continue;
  if (!name != !found || (name && strcmp(value, found) != 0))
    fail(r, "fact %s: listed as %s", key, name ? value : "none");
  return found;
}

static void check_detail(runner* r, const token* detail) {
  bool is_message = strcmp(detail->key, "message") == 0;
  const char* found = is_message ? ckpt_error_message(r->error) : fact(r, detail->key);
  if (!found) found = "";
  bool right = detail->kind == 'e' ? strcmp(found, detail->text) == 0 : strstr(found, detail->text) != NULL;
  if (!right) fail(r, "expected %s %c '%s', found '%s'", detail->key, detail->kind, detail->text, found);
}

static void check_outcome(runner* r, ckpt_status status) {
  const char *wanted = "OK", *found = ckpt_status_name(status);
  for (size_t i = 0; i < r->count; i++)
    if (r->tokens[i].kind == '!') wanted = r->tokens[i].text;
  if (strcmp(wanted, found) != 0 || ckpt_error_status(r->error) != status)
    fail(r, "expected %s, found %s: %s", wanted, found, ckpt_error_message(r->error));
  for (size_t i = 0; i < r->count; i++)
    if (r->tokens[i].kind == 'e' || r->tokens[i].kind == '~') check_detail(r, &r->tokens[i]);
}

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char** argv) {
  if (argc == 2 && strcmp(argv[1], "--commands") == 0) return print_commands();
  FILE* file = argc == 2 ? fopen(argv[1], "rb") : NULL;
  if (!file) {
    fprintf(stderr, "usage: %s TOKENS | --commands\n", argv[0]);
    return 2;
  }
  runner r = {0};
  size_t count = 0;
  for (; read_command(&r, file); count++) {
    const command* found = find_command(&r);
    double start = seconds_now();
    ckpt_status status = make_options(&r);
    if (!status) status = found->run(&r);
    if (r.timed) printf("%.6f %s\n", seconds_now() - start, r.name);
    check_outcome(&r, status);
    free_command(&r);
  }
  fclose(file);
  objects_free(&r);
  free(r.tokens);
  printf("ok %zu\n", count);
  return 0;
}
