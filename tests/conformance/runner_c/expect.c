/* Compares what was found with the KEY=VALUE of a line, where it names the key. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runner.h"

void expect_int(runner* r, line* l, const char* key, int64_t found) {
  const char* wanted = pair_text(l, key);
  if (wanted && parse_int(r, wanted) != found) fail(r, "expected %s=%s, found %" PRId64, key, wanted, found);
}

void expect_unsigned(runner* r, line* l, const char* key, uint64_t found) {
  const char* wanted = pair_text(l, key);
  if (wanted && parse_unsigned(r, wanted) != found) fail(r, "expected %s=%s, found %" PRIu64, key, wanted, found);
}

bool same_float(double a, double b) { return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b)); }

void expect_float(runner* r, line* l, const char* key, double found) {
  const char* wanted = pair_text(l, key);
  if (wanted && !same_float(parse_float(r, wanted), found)) fail(r, "expected %s=%s, found %.17g", key, wanted, found);
}

void expect_text(runner* r, line* l, const char* key, const char* found) {
  if (!found) found = "";
  const pair* wanted = pair_find(l, key);
  if (wanted && (strlen(found) != wanted->value.size || memcmp(found, wanted->value.text, wanted->value.size) != 0))
    fail(r, "expected %s=%s, found '%s'", key, wanted->value.text, found);
}

void expect_bytes(runner* r, line* l, const char* key, const void* data, uint64_t size) {
  const pair* wanted = pair_find(l, key);
  if (wanted && (wanted->value.size != size || (size && memcmp(data, wanted->value.text, size) != 0)))
    fail(r, "expected %s=%s, found %" PRIu64 " other bytes", key, wanted->value.text, size);
}

void expect_name(runner* r, line* l, const char* key, const char* const* names, int32_t found) {
  const char* wanted = pair_text(l, key);
  if (wanted && parse_name(r, names, wanted) != found) fail(r, "expected %s=%s, found %s", key, wanted, names[found]);
}

void expect_dtype(runner* r, line* l, const char* key, int32_t found) {
  const char* wanted = pair_text(l, key);
  if (wanted && parse_dtype(r, wanted) != found)
    fail(r, "expected %s=%s, found %s (%d)", key, wanted, ckpt_dtype_name(found), found);
}

void expect_checkpoint(runner* r, line* l, const ckpt_checkpoint_info* info) {
  static const char* const states[] = {"", "COMMITTED", "OPEN", "ABORTED", "DAMAGED", NULL};
  expect_text(r, l, "id", info->id);
  expect_text(r, l, "label", info->label);
  expect_text(r, l, "run", info->run);
  expect_int(r, l, "step", info->step);
  expect_unsigned(r, l, "world_size", info->world_size);
  expect_unsigned(r, l, "part_count", info->part_count);
  expect_unsigned(r, l, "tensor_count", info->tensor_count);
  expect_unsigned(r, l, "object_count", info->object_count);
  expect_name(r, l, "state", states, info->state);
  expect_unsigned(r, l, "flags", info->flags);
  expect_unsigned(r, l, "revision", info->revision);
  expect_unsigned(r, l, "attempt", info->attempt);
  expect_unsigned(r, l, "token", info->token);
  expect_unsigned(r, l, "sequence", info->sequence);
  expect_unsigned(r, l, "bytes", info->bytes);
}

void expect_list(runner* r, line* l, size_t first, size_t index, const char* found) {
  if (first + index >= l->word_count) fail(r, "expected %zu entries, found one more: '%s'", index, found);
  const char* wanted = l->words[first + index].text;
  if (strcmp(wanted, found) != 0) fail(r, "expected '%s' at place %zu, found '%s'", wanted, index, found);
}

void expect_list_end(runner* r, line* l, size_t first, size_t count) {
  if (l->word_count - first != count)
    fail(r, "expected '%s' at place %zu, found no more", l->words[first + count].text, count);
}
