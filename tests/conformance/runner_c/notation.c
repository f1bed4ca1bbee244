/* Numbers, shapes, names and regions as scenarios write them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner.h"

const char* const job_states[] = {"", "RUNNING", "STAGED", "WRITTEN", "COMMITTED", "DONE", "FAILED", "CANCELLED", NULL};
const char* const finding_kinds[] = {"",        "DAMAGED", "MISSING",  "EXTRA", "DIFFERENT",
                                     "REMOVED", "KEPT",    "REPAIRED", NULL};
const char* const node_kinds[] = {"null", "bool",  "int", "bigint", "float",  "text", "bytes", "tensor",
                                  "",     "",      "",    "",       "",       "",     "",      "",
                                  "list", "tuple", "set", "dict",   "record", NULL};

int64_t parse_int(runner* r, const char* text) {
  char* end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (*text == '\0' || *end || errno) fail(r, "expected a number, found '%s'", text);
  return value;
}

uint64_t parse_unsigned(runner* r, const char* text) {
  char* end;
  errno = 0;
  unsigned long long value = strtoull(text, &end, 10);
  if (*text < '0' || *text > '9' || *end || errno) fail(r, "expected a number >= 0, found '%s'", text);
  return value;
}

double parse_float(runner* r, const char* text) {
  char* end;
  double value = strtod(text, &end);
  if (*text == '\0' || *end) fail(r, "expected a number, found '%s'", text);
  return value;
}

int32_t parse_dtype(runner* r, const char* text) {
  if (*text >= '0' && *text <= '9') return (int32_t)parse_int(r, text);
  int32_t found = ckpt_dtype_find(text);
  if (found < 0) fail(r, "expected a dtype, found '%s'", text);
  return found;
}

int32_t parse_shape(runner* r, const char* text, int64_t out[CKPT_MAX_NDIM]) {
  if (strcmp(text, "-") == 0) return 0;
  int32_t ndim = 0;
  for (const char* at = text;; at++) {
    char* end;
    errno = 0;
    long long extent = strtoll(at, &end, 10);
    if (end == at || (*end && *end != 'x') || errno) fail(r, "expected a shape, found '%s'", text);
    if (ndim < CKPT_MAX_NDIM) out[ndim] = extent;
    ndim++;
    if (!*end) return ndim;
    at = end;
  }
}

word parse_hex(runner* r, const char* text) {
  size_t digits = strlen(text);
  word out = {allocate(digits / 2 + 1), digits / 2};
  if (digits % 2) fail(r, "expected pairs of hexadecimal digits, found '%.40s'", text);
  for (size_t i = 0; i < out.size; i++) {
    char two[3] = {text[2 * i], text[2 * i + 1], 0};
    char* end;
    out.text[i] = (char)strtoul(two, &end, 16);
    if (*end || two[0] == '-' || two[0] == '+') fail(r, "expected hexadecimal digits, found '%s'", two);
  }
  return out;
}

int32_t parse_name(runner* r, const char* const* names, const char* text) {
  for (int32_t i = 0; names[i]; i++)
    if (*text && strcmp(names[i], text) == 0) return i;
  fail(r, "expected a name such as '%s', found '%s'", names[1], text);
}

char* path_of(runner* r, const char* file) {
  size_t size = strlen(r->directory) + strlen(file) + 2;
  char* path = allocate(size);
  (void)snprintf(path, size, "%s%s%s", file[0] == '/' ? "" : r->directory, file[0] == '/' ? "" : "/", file);
  return path;
}

const char* shape_text(int32_t ndim, const int64_t* shape) {
  static char texts[2][CKPT_MAX_NDIM * 22 + 2];
  static int turn;
  char* text = texts[turn ^= 1];
  size_t size = 0;
  if (ndim <= 0) return "-";
  for (int32_t i = 0; i < ndim && i < CKPT_MAX_NDIM; i++)
    size += (size_t)snprintf(text + size, sizeof texts[0] - size, "%s%lld", i ? "x" : "", (long long)shape[i]);
  return text;
}

/* ---- keys of a line ---- */

pair* pair_find(line* l, const char* key) {
  for (size_t i = 0; i < l->pair_count; i++)
    if (strcmp(l->pairs[i].key, key) == 0) {
      l->pairs[i].used = true;
      return &l->pairs[i];
    }
  return NULL;
}

const char* pair_text(line* l, const char* key) {
  pair* found = pair_find(l, key);
  return found ? found->value.text : NULL;
}

static bool is_integer(const char* text) {
  size_t sign = *text == '-';
  return text[sign] && text[sign + strspn(text + sign, "0123456789")] == '\0';
}

ckpt_status options_of(runner* r, line* l, ckpt_options** out) {
  *out = NULL;
  if (l->option_count == 0) return CKPT_OK;
  ckpt_options* made = NULL;
  ckpt_status status = ckpt_options_new(&made, &r->error);
  for (size_t i = 0; i < l->option_count && !status; i++) {
    const char *key = l->options[i].key, *value = l->options[i].value.text;
    if (is_integer(value))
      status = ckpt_options_set_int(made, key, parse_int(r, value), &r->error);
    else
      status = ckpt_options_set_str(made, key, value + (*value == '"'), &r->error);
  }
  if (status) {
    ckpt_options_free(made);
    return status;
  }
  *out = made;
  return CKPT_OK;
}

/* "A:B" as its two texts; free the first. */
static char* divided(runner* r, const char* text, char** second) {
  size_t size = strlen(text) + 1;
  char* first = allocate(size);
  memcpy(first, text, size);
  char* colon = strchr(first, ':');
  if (!colon) fail(r, "expected A:B, found '%s'", text);
  *colon = '\0';
  *second = colon + 1;
  return first;
}

static void parse_replica(runner* r, const char* text, ckpt_tensor_desc* out) {
  char *rest, *count, *group = divided(r, text, &rest), *index = divided(r, rest, &count);
  out->replica_group = parse_unsigned(r, group);
  out->replica_index = (uint32_t)parse_unsigned(r, index);
  out->replica_count = (uint32_t)parse_unsigned(r, count);
  free(group);
  free(index);
}

void parse_region(runner* r, line* l, const char* dtype, const char* shape, ckpt_tensor_desc* out) {
  memset(out, 0, sizeof *out);
  out->struct_size = sizeof *out;
  out->dtype = parse_dtype(r, dtype);
  out->ndim = parse_shape(r, shape, out->shape);
  char *first, *second;
  const char* text = pair_text(l, "box");
  if (text) {
    first = divided(r, text, &second);
    out->region_kind = CKPT_REGION_BOX;
    (void)parse_shape(r, first, out->offset);
    (void)parse_shape(r, second, out->extent);
    free(first);
  }
  text = pair_text(l, "flat");
  if (text) {
    first = divided(r, text, &second);
    out->region_kind = CKPT_REGION_FLAT;
    out->flat_offset = parse_int(r, first);
    out->flat_size = parse_int(r, second);
    free(first);
  }
  text = pair_text(l, "strides");
  if (text) {
    out->flags |= CKPT_TENSOR_STRIDED;
    (void)parse_shape(r, text, out->strides);
  }
  text = pair_text(l, "replica");
  if (text) parse_replica(r, text, out);
}

void parse_device(runner* r, line* l, int32_t* type, int32_t* id) {
  const char* text = pair_text(l, "device");
  *type = CKPT_DEVICE_CPU;
  *id = 0;
  if (!text) return;
  char *second, *first = divided(r, text, &second);
  *type = (int32_t)parse_int(r, first);
  *id = (int32_t)parse_int(r, second);
  free(first);
}
