/* Answers each line with one: see ../README.md. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runner.h"

static const command* const kSubjects[] = {library_commands, store_commands, save_commands,   reader_commands,
                                           tree_commands,    table_commands, keeper_commands, NULL};

void fail(runner* r, const char* format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fclose(r->reply);
  r->reply = stdout;
  printf("%s 0 -", r->name);
  say_text(r, NULL, text);
  printf("\n");
  objects_free(r);
  ckpt_options_free(r->options);
  exit(0);
}

void* allocate(size_t size) {
  void* made = calloc(1, size);
  if (made) return made;
  fprintf(stderr, "no memory for %zu bytes\n", size);
  abort();
}

static int digit(char c) { return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10; }

/* Replaces %XX in place; returns the size. */
static size_t unquote(char* text) {
  char* to = text;
  for (const char* from = text; *from; from++) {
    *to = *from;
    if (*from == '%') {
      *to = (char)(digit(from[1]) * 16 + digit(from[2]));
      from += 2;
    }
    to++;
  }
  *to = '\0';
  return (size_t)(to - text);
}

static void take(runner* r, char* line) {
  r->words = r->count = 0;
  line[strcspn(line, "\n")] = '\0';
  for (char *at = line, *end = NULL; at; at = end) {
    end = strchr(at, ' ');
    if (end) *end++ = '\0';
    if (at == line) {
      r->name = at;
      continue;
    }
    if (r->count == kMostTokens) fail(r, "expected fewer words");
    token* made = &r->tokens[r->count++];
    *made = (token){.kind = *at && strchr("=@$", *at) ? *at : 'w'};
    char* value = made->kind == 'w' ? at : strchr(at + 1, '=') + 1;
    if (made->kind != 'w') {
      made->key = at + 1;
      value[-1] = '\0';
    }
    made->size = unquote(value);
    made->text = value;
    r->words += made->kind == 'w';
  }
}

static ckpt_status make_options(runner* r) {
  ckpt_status status = CKPT_OK;
  for (const token* t = r->tokens; t < r->tokens + r->count && !status; t++) {
    if (t->kind != '@' && t->kind != '$') continue;
    if (!r->options) status = ckpt_options_new(&r->options, &r->error);
    if (!status && t->kind == '@')
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
  fail(r, "no such command");
}

/* The facts of the error; by key they must be the same. */
static void say_error(runner* r, ckpt_status status) {
  if (ckpt_error_status(r->error) != status) fail(r, "the error has another status: %d", ckpt_error_status(r->error));
  say_text(r, "message", ckpt_error_message(r->error));
  const char *key = NULL, *value = NULL;
  for (size_t i = 0; (key = ckpt_error_detail_at(r->error, i, &value)); i++) {
    const char* found = ckpt_error_detail(r->error, key);
    if (!found || strcmp(found, value) != 0) fail(r, "fact %s is listed as %s", key, value);
    say_text(r, key, value);
  }
}

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(void) {
  runner r = {0};
  char *line = NULL, *said = NULL;
  size_t room = 0, size = 0;
  while (getline(&line, &room, stdin) > 0) {
    r.reply = open_memstream(&said, &size);
    take(&r, line);
    const command* found = find_command(&r);
    double start = seconds_now();
    ckpt_status status = make_options(&r);
    if (!status) status = found->run(&r);
    double seconds = seconds_now() - start;
    if (status) say_error(&r, status);
    fclose(r.reply);
    printf("%s %.6f %s%s\n", r.name, seconds, ckpt_status_name(status), said);
    fflush(stdout);
    free(said);
    ckpt_options_free(r.options);
    ckpt_error_free(r.error);
    r.options = NULL;
    r.error = NULL;
  }
  objects_free(&r);
  free(line);
  return 0;
}
