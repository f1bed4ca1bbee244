/* Reads a command's words and keys, and writes its reply. */
#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "runner.h"

const char* word(runner* r, size_t i) { return r->tokens[i].text; }
int64_t integer(runner* r, size_t i) { return strtoll(word(r, i), NULL, 10); }
uint64_t unsigned_integer(runner* r, size_t i) { return strtoull(word(r, i), NULL, 10); }

const char* text_of(runner* r, const char* key) {
  for (const token* t = r->tokens; t < r->tokens + r->count; t++)
    if (t->kind == '=' && strcmp(t->key, key) == 0) return t->text;
  return NULL;
}

int64_t integer_of(runner* r, const char* key, int64_t otherwise) {
  const char* text = text_of(r, key);
  return text ? strtoll(text, NULL, 10) : otherwise;
}

int32_t numbers(const char* text, int64_t* out, int32_t most) {
  for (int32_t count = 0;; count++) {
    char* end;
    text += strspn(text, " :");
    if (!*text) return count;
    int64_t value = strtoll(text, &end, 10);
    if (count < most) out[count] = value;
    text = end;
  }
}

int32_t dtype_of(runner* r, size_t i) {
  const char* text = word(r, i);
  int32_t found = *text >= '0' && *text <= '9' ? (int32_t)integer(r, i) : ckpt_dtype_find(text);
  if (found < 0) fail(r, "expected a dtype, found '%s'", text);
  return found;
}

int32_t named(runner* r, const char* const* names, const char* text) {
  for (int32_t i = 0; names[i]; i++)
    if (*text && strcmp(names[i], text) == 0) return i;
  fail(r, "expected a name such as '%s', found '%s'", names[1], text);
}

void region_of(runner* r, size_t first, ckpt_tensor_desc* out) {
  int64_t given[2 * CKPT_MAX_NDIM];
  memset(out, 0, sizeof *out);
  out->struct_size = sizeof *out;
  out->dtype = dtype_of(r, first);
  out->ndim = numbers(word(r, first + 1), out->shape, CKPT_MAX_NDIM);
  const char *box = text_of(r, "box"), *flat = text_of(r, "flat"), *strides = text_of(r, "strides");
  if (box) {
    size_t half = (size_t)numbers(box, given, 2 * CKPT_MAX_NDIM) / 2;
    out->region_kind = CKPT_REGION_BOX;
    memcpy(out->offset, given, half * sizeof *given);
    memcpy(out->extent, given + half, half * sizeof *given);
  }
  if (flat) {
    (void)numbers(flat, given, 2);
    out->region_kind = CKPT_REGION_FLAT;
    out->flat_offset = given[0];
    out->flat_size = given[1];
  }
  if (strides) {
    out->flags |= CKPT_TENSOR_STRIDED;
    (void)numbers(strides, out->strides, CKPT_MAX_NDIM);
  }
  if (integer_of(r, "first_replica", 0)) out->flags |= CKPT_TENSOR_FIRST_REPLICA;
  if (text_of(r, "replica")) {
    (void)numbers(text_of(r, "replica"), given, 3);
    out->replica_group = (uint64_t)given[0];
    out->replica_index = (uint32_t)given[1];
    out->replica_count = (uint32_t)given[2];
  }
}

void device_of(runner* r, int32_t* type, int32_t* id) {
  int64_t given[2] = {CKPT_DEVICE_CPU, 0};
  if (text_of(r, "device")) (void)numbers(text_of(r, "device"), given, 2);
  *type = (int32_t)given[0];
  *id = (int32_t)given[1];
}

/* ---- the reply ---- */

void say_bytes(runner* r, const char* key, const void* found, uint64_t size) {
  const unsigned char* bytes = found;
  fputc(' ', r->reply);
  if (key) fprintf(r->reply, "%s=", key);
  for (uint64_t i = 0; i < size; i++)
    fprintf(r->reply, isalnum(bytes[i]) || (bytes[i] && strchr("_-./:", bytes[i])) ? "%c" : "%%%02X", bytes[i]);
}

void say_text(runner* r, const char* key, const char* found) { say_bytes(r, key, found, found ? strlen(found) : 0); }

void say(runner* r, const char* key, const char* format, ...) {
  char text[4096];
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  say_text(r, key, text);
}

void say_unsigned(runner* r, const char* key, uint64_t found) { say(r, key, "%" PRIu64, found); }

const char* shape_text(int32_t ndim, const int64_t* shape) {
  static char texts[2][CKPT_MAX_NDIM * 22];
  static int turn;
  char* text = texts[turn ^= 1];
  size_t size = 0;
  *text = '\0';
  for (int32_t i = 0; i < ndim && i < CKPT_MAX_NDIM; i++)
    size += (size_t)snprintf(text + size, sizeof texts[0] - size, "%s%" PRId64, i ? " " : "", shape[i]);
  return text;
}

static void say_dtype(runner* r, const char* key, int32_t found) {
  if (strcmp(ckpt_dtype_name(found), "dtype") == 0)
    say(r, key, "%d", found);
  else
    say_text(r, key, ckpt_dtype_name(found));
}

void say_record(runner* r, const field* fields, const void* record) {
  for (; fields->key; fields++) {
    const void* at = (const char*)record + fields->offset;
    switch (fields->kind) {
      case U32:
        say(r, fields->key, "%" PRIu32, *(const uint32_t*)at);
        break;
      case U64:
        say(r, fields->key, "%" PRIu64, *(const uint64_t*)at);
        break;
      case I32:
        say(r, fields->key, "%" PRId32, *(const int32_t*)at);
        break;
      case I64:
        say(r, fields->key, "%" PRId64, *(const int64_t*)at);
        break;
      case F64:
        say(r, fields->key, "%.17g", *(const double*)at);
        break;
      case TEXT:
        say_text(r, fields->key, *(const char* const*)at);
        break;
      case CHARS:
        say_text(r, fields->key, at);
        break;
      case DTYPE:
        say_dtype(r, fields->key, *(const int32_t*)at);
    }
  }
}
