/* Reads a command's words and keys, and checks its expectations. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner.h"

const char* const job_states[] = {"NEW",  "RUNNING", "STAGED",    "WRITTEN",   "COMMITTED",
                                  "DONE", "FAILED",  "CANCELLED", "DELIVERED", NULL};
const char* const finding_kinds[] = {"",     "DAMAGED",  "MISSING",     "EXTRA", "DIFFERENT", "REMOVED",
                                     "KEPT", "REPAIRED", "PASSED_OVER", "ANEW",  "NO_CACHE",  NULL};
const char* const node_kinds[] = {"null", "bool",  "int", "bigint", "float",  "text", "bytes", "tensor",
                                  "",     "",      "",    "",       "",       "",     "",      "",
                                  "list", "tuple", "set", "dict",   "record", NULL};
const char* const checkpoint_states[] = {"", "COMMITTED", "OPEN", "ABORTED", "DAMAGED", "REVISION", "UNREADABLE", NULL};
const char* const scopes[] = {"shared", "per-rank", "tree", NULL};

const char* word(runner* r, size_t i) { return r->tokens[i].text; }
int64_t integer(runner* r, size_t i) { return strtoll(word(r, i), NULL, 10); }
uint64_t unsigned_integer(runner* r, size_t i) { return strtoull(word(r, i), NULL, 10); }

const token* key_of(runner* r, const char* key) {
  for (const token* t = r->tokens; t < r->tokens + r->count; t++)
    if ((t->kind == '=' || t->kind == '>') && strcmp(t->key, key) == 0) return t;
  return NULL;
}

const char* text_of(runner* r, const char* key) {
  const token* found = key_of(r, key);
  return found ? found->text : NULL;
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

/* ---- expectations ---- */

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

void expect_bytes(runner* r, const char* key, const void* found, uint64_t size) {
  const token* wanted = key_of(r, key);
  if (wanted && (wanted->size != size || (size && memcmp(found, wanted->text, size) != 0)))
    fail(r, "expected %s=%s, found '%.*s'", key, wanted->text, (int)size, size ? (const char*)found : "");
}

void expect_text(runner* r, const char* key, const char* found) {
  expect_bytes(r, key, found, found ? strlen(found) : 0);
}

void expect_int(runner* r, const char* key, int64_t found) {
  char text[24];
  (void)snprintf(text, sizeof text, "%" PRId64, found);
  expect_text(r, key, text);
}

void expect_unsigned(runner* r, const char* key, uint64_t found) {
  char text[24];
  const token* wanted = key_of(r, key);
  (void)snprintf(text, sizeof text, "%" PRIu64, found);
  if (!wanted || wanted->kind == '=') return expect_text(r, key, text);
  if (found < strtoull(wanted->text, NULL, 10)) fail(r, "expected %s>=%s, found %s", key, wanted->text, text);
}

void expect_float(runner* r, const char* key, double found) {
  const char* text = text_of(r, key);
  double wanted = text ? strtod(text, NULL) : found;
  bool same = isnan(wanted) ? isnan(found) : wanted == found && signbit(wanted) == signbit(found);
  if (text && !same) fail(r, "expected %s=%s, found %.17g", key, text, found);
}

void expect_dtype(runner* r, const char* key, int32_t found) {
  if (strcmp(ckpt_dtype_name(found), "dtype") == 0)
    expect_int(r, key, found);
  else
    expect_text(r, key, ckpt_dtype_name(found));
}

void expect_checkpoint(runner* r, const ckpt_checkpoint_info* info) {
  expect_text(r, "id", info->id);
  expect_text(r, "label", info->label);
  expect_text(r, "run", info->run);
  expect_int(r, "step", info->step);
  expect_unsigned(r, "world_size", info->world_size);
  expect_unsigned(r, "part_count", info->part_count);
  expect_unsigned(r, "tensor_count", info->tensor_count);
  expect_unsigned(r, "object_count", info->object_count);
  expect_text(r, "state", checkpoint_states[info->state]);
  expect_unsigned(r, "flags", info->flags);
  expect_unsigned(r, "revision", info->revision);
  expect_unsigned(r, "attempt", info->attempt);
  expect_unsigned(r, "token", info->token);
  expect_unsigned(r, "sequence", info->sequence);
  expect_unsigned(r, "bytes", info->bytes);
  expect_unsigned(r, "passed_over", info->passed_over);
}

void expect_word(runner* r, size_t i, const char* found) {
  const char* wanted = i < r->count && r->tokens[i].kind == 'w' ? word(r, i) : NULL;
  if (!wanted != !found || (wanted && strcmp(wanted, found) != 0))
    fail(r, "expected %s, found %s", wanted ? wanted : "no more", found ? found : "no more");
}
