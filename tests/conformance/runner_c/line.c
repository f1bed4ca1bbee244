/* Reads one line of a scenario: words, KEY=VALUE, @OPTION=VALUE, and what stands behind "->". */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "runner.h"

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static size_t name_length(const char* at, const char* end) {
  size_t size = 0;
  while (at + size < end && (isalnum((unsigned char)at[size]) || at[size] == '_')) size++;
  return size;
}

static const char* variable_value(runner* r, const char* name, size_t size) {
  if (size == 3 && memcmp(name, "DIR", 3) == 0) return r->directory;
  for (size_t i = 0; i < r->variable_count; i++) {
    const char* known = r->variables[i].name;
    if (strncmp(known, name, size) == 0 && known[size] == '=') return r->variables[i].value;
  }
  fail(r, "expected a value of $%.*s on the command line, found none", (int)size, name);
}

/* $NAME replaced; free the result. */
static char* replaced(runner* r, const char* at, const char* end) {
  size_t size = 0, room = (size_t)(end - at) + 1;
  char* out = allocate(room);
  while (at < end) {
    size_t name = *at == '$' ? name_length(at + 1, end) : 0;
    const char* piece = name ? variable_value(r, at + 1, name) : at;
    size_t count = name ? strlen(piece) : 1;
    room += count;
    char* grown = allocate(room);
    memcpy(grown, out, size);
    free(out);
    out = grown;
    memcpy(out + size, piece, count);
    size += count;
    at += name ? name + 1 : 1;
  }
  return out;
}

static word decoded(runner* r, const char* at, const char* end) {
  char* text = replaced(r, at, end);
  word out = {text, 0};
  if (strcmp(text, "%") == 0) {
    text[0] = '\0';
    return out;
  }
  for (const char* from = text; *from; from++) {
    char byte = *from;
    if (byte == '%') {
      int high = hex_digit(from[1]), low = high < 0 ? -1 : hex_digit(from[2]);
      if (low < 0) fail(r, "expected two hexadecimal digits behind %%, found '%.3s'", from);
      byte = (char)(high * 16 + low);
      from += 2;
    }
    text[out.size++] = byte;
  }
  text[out.size] = '\0';
  return out;
}

/* The next word as it stands; false at the end of the line. */
static bool next_token(const char** at, const char** end) {
  while (isspace((unsigned char)**at)) (*at)++;
  if (**at == '\0' || **at == '#') return false;
  *end = *at;
  while (**end && !isspace((unsigned char)**end)) (*end)++;
  return true;
}

static bool is_token(const char* at, const char* end, const char* text) {
  return (size_t)(end - at) == strlen(text) && memcmp(at, text, strlen(text)) == 0;
}

/* KEY=VALUE, divided before anything is replaced; with `also_contains`, KEY~VALUE too. */
static pair parse_pair(runner* r, const char* at, const char* end, bool also_contains) {
  const char* sign = at;
  while (sign < end && *sign != '=' && !(also_contains && *sign == '~')) sign++;
  if (sign == end) fail(r, "expected KEY=VALUE, found '%.*s'", (int)(end - at), at);
  pair out = {decoded(r, at, sign).text, decoded(r, sign + 1, end), *sign, false};
  return out;
}

static void take(runner* r, line* l, const char* at, const char* end) {
  const command* command = l->command;
  if (l->status) {
    l->details[l->detail_count++] = parse_pair(r, at, end, true);
  } else if (l->word_count < command->words || (command->takes & MORE)) {
    l->words[l->word_count++] = decoded(r, at, end);
  } else if (*at == '@') {
    if (!(command->takes & OPTIONS)) fail(r, "expected no options, found '%.*s'", (int)(end - at), at);
    l->options[l->option_count++] = parse_pair(r, at + 1, end, false);
  } else {
    if (!(command->takes & PAIRS)) fail(r, "expected no more words, found '%.*s'", (int)(end - at), at);
    l->pairs[l->pair_count++] = parse_pair(r, at, end, false);
  }
}

static line* line_new(const char* text) {
  line* l = allocate(sizeof *l);
  size_t most = strlen(text) / 2 + 1; /* a word and a blank are two characters */
  l->words = allocate(most * sizeof *l->words);
  l->pairs = allocate(most * sizeof *l->pairs);
  l->options = allocate(most * sizeof *l->options);
  l->details = allocate(most * sizeof *l->details);
  return l;
}

static const command* parse_command(runner* r, const char* at, const char* end) {
  const command* found = command_find(at, (size_t)(end - at));
  if (!found) fail(r, "expected a command, found '%.*s'", (int)(end - at), at);
  r->command_name = found->name;
  return found;
}

line* line_parse(runner* r, const char* text) {
  const char *at = text, *end;
  if (!next_token(&at, &end)) return NULL;
  line* l = line_new(text);
  l->command = parse_command(r, at, end);
  l->timed = strcmp(l->command->name, "timed") == 0;
  if (l->timed) {
    at = end;
    if (!next_token(&at, &end)) fail(r, "expected a command to time, found none");
    l->raw = replaced(r, at, at + strcspn(at, "\r\n"));
    l->command = parse_command(r, at, end);
  }
  for (at = end; next_token(&at, &end); at = end) {
    if (l->status || !is_token(at, end, "->")) {
      take(r, l, at, end);
      continue;
    }
    at = end;
    if (!next_token(&at, &end)) fail(r, "expected a status behind '->', found none");
    l->status = decoded(r, at, end).text;
  }
  if (l->word_count < l->command->words) fail(r, "expected %zu words, found %zu", l->command->words, l->word_count);
  return l;
}

static void pairs_free(pair* pairs, size_t count) {
  for (size_t i = 0; i < count; i++) {
    free(pairs[i].key);
    free(pairs[i].value.text);
  }
  free(pairs);
}

void line_free(line* l) {
  for (size_t i = 0; i < l->word_count; i++) free(l->words[i].text);
  free(l->words);
  pairs_free(l->pairs, l->pair_count);
  pairs_free(l->options, l->option_count);
  pairs_free(l->details, l->detail_count);
  free(l->status);
  free(l->raw);
  free(l);
}
