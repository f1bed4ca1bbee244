/* RUNNER SCENARIO DIR [NAME=VALUE...] | RUNNER --commands: see ../README.md. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runner.h"

static ckpt_status run_timed(runner* r, line* l) {
  (void)l;
  fail(r, "expected a command, found timed again");
}

static const command kTimed[] = {{"timed", 0, MORE, run_timed}, {NULL, 0, 0, NULL}};
static const command* const kSubjects[] = {kTimed,           library_commands, memory_commands, store_commands,
                                           session_commands, save_commands,    job_commands,    reader_commands,
                                           content_commands, load_commands,    report_commands, tree_commands,
                                           node_commands,    file_commands};
enum { kSubjectCount = sizeof kSubjects / sizeof kSubjects[0] };

const command* command_find(const char* name, size_t size) {
  for (size_t i = 0; i < kSubjectCount; i++)
    for (const command* c = kSubjects[i]; c->name; c++)
      if (strlen(c->name) == size && memcmp(c->name, name, size) == 0) return c;
  return NULL;
}

static int compare_names(const void* a, const void* b) { return strcmp(*(char* const*)a, *(char* const*)b); }

static int print_commands(void) {
  const char* names[256];
  size_t count = 0;
  for (size_t i = 0; i < kSubjectCount; i++)
    for (const command* c = kSubjects[i]; c->name; c++) names[count++] = c->name;
  qsort(names, count, sizeof names[0], compare_names);
  for (size_t i = 0; i < count; i++) puts(names[i]);
  return 0;
}

void fail(runner* r, const char* format, ...) {
  va_list arguments;
  fprintf(stderr, "%s:%d: %s: ", r->scenario, r->line_number, r->command_name);
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

/* ---- one line ---- */

static void check_detail(runner* r, const pair* detail) {
  const char* found =
      strcmp(detail->key, "message") == 0 ? ckpt_error_message(r->error) : ckpt_error_detail(r->error, detail->key);
  if (!found) found = "";
  bool right = detail->sign == '=' ? strcmp(found, detail->value.text) == 0 : strstr(found, detail->value.text) != NULL;
  if (!right) fail(r, "expected %s%c%s, found '%s'", detail->key, detail->sign, detail->value.text, found);
}

static void check_outcome(runner* r, line* l, ckpt_status status) {
  const char* name = ckpt_status_name(status);
  if (!l->status) {
    if (status) fail(r, "expected OK, found %s: %s", name, ckpt_error_message(r->error));
    for (size_t i = 0; i < l->pair_count; i++)
      if (!l->pairs[i].used) fail(r, "expected a key of this command, found %s", l->pairs[i].key);
    return;
  }
  if (strcmp(l->status, name) != 0 || ckpt_error_status(r->error) != status)
    fail(r, "expected %s, found %s: %s", l->status, name, ckpt_error_message(r->error));
  for (size_t i = 0; i < l->detail_count; i++) check_detail(r, &l->details[i]);
}

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Whether the line held a command. */
static bool run_line(runner* r, const char* text) {
  r->command_name = "line";
  line* l = line_parse(r, text);
  if (!l) return false;
  double start = seconds_now();
  ckpt_status status = l->command->run(r, l);
  if (l->timed) printf("%.6f %s\n", seconds_now() - start, l->raw);
  check_outcome(r, l, status);
  ckpt_error_free(r->error);
  r->error = NULL;
  line_free(l);
  return true;
}

int main(int argc, char** argv) {
  if (argc == 2 && strcmp(argv[1], "--commands") == 0) return print_commands();
  if (argc < 3) {
    fprintf(stderr, "usage: %s SCENARIO DIR [NAME=VALUE...] | --commands\n", argv[0]);
    return 2;
  }
  runner r = {.scenario = argv[1], .directory = argv[2], .command_name = "scenario"};
  variable* variables = allocate((size_t)argc * sizeof *variables);
  r.variables = variables;
  for (int i = 3; i < argc; i++) {
    const char* sign = strchr(argv[i], '=');
    if (!sign) fail(&r, "expected NAME=VALUE, found '%s'", argv[i]);
    variables[r.variable_count++] = (variable){argv[i], sign + 1};
  }
  FILE* file = fopen(argv[1], "r");
  if (!file) fail(&r, "expected a readable file, found none");
  char* text = NULL;
  size_t room = 0, count = 0;
  while (getline(&text, &room, file) >= 0) {
    r.line_number++;
    count += run_line(&r, text);
  }
  free(text);
  fclose(file);
  objects_free(&r);
  free(variables);
  printf("ok %zu\n", count);
  return 0;
}
