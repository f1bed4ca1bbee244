/* The library's own lists: version, statuses, dtypes, options. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "runner.h"

static ckpt_status run_version(runner* r) {
  int32_t number = ckpt_version_number();
  char text[64];
  (void)snprintf(text, sizeof text, "%d.%d.%d", number / 1000000, number / 1000 % 1000, number % 1000);
  if (strcmp(text, ckpt_version_string()) != 0) fail(r, "expected %s, found %s", text, ckpt_version_string());
  int32_t header = CKPT_VERSION_MAJOR * 1000000 + CKPT_VERSION_MINOR * 1000 + CKPT_VERSION_PATCH;
  if (number < header) fail(r, "expected at least %d, found %d", header, number);
  return CKPT_OK;
}

typedef struct constant {
  const char* name;
  int32_t number;
} constant;

#define S(name) {#name, CKPT_##name}
static const constant kStatuses[] = {
    S(OK),      S(INVALID),        S(UNSUPPORTED), S(FORKED),     S(CANCELLED), S(NOT_FOUND), S(EXISTS), S(GONE),
    S(CORRUPT), S(FORMAT),         S(REVISION),    S(INCOMPLETE), S(MISMATCH),  S(CONFLICT),  S(FENCED), S(ABORTED),
    S(TIMEOUT), S(COMMIT_UNKNOWN), S(IO),          S(NO_SPACE),   S(NOMEM),     S(INTERNAL)};
#undef S

#define D(name) {#name, CKPT_DTYPE_##name}
static const constant kDtypes[] = {
    D(I4),        D(I8),          D(I16),     D(I32),         D(I64),        D(U4),        D(U8),
    D(U16),       D(U32),         D(U64),     D(F16),         D(F32),        D(F64),       D(BF16),
    D(C32),       D(C64),         D(C128),    D(BOOL),        D(F8_E3M4),    D(F8_E4M3),   D(F8_E4M3B11FNUZ),
    D(F8_E4M3FN), D(F8_E4M3FNUZ), D(F8_E5M2), D(F8_E5M2FNUZ), D(F8_E8M0FNU), D(F6_E2M3FN), D(F6_E3M2FN),
    D(F4_E2M1FN)};
#undef D

/* The header's number for a name must be `number`; a name that the header lacks must not be the name of `number`. */
static void check_header(runner* r, const constant* list, size_t count, const char* name, int32_t number) {
  for (size_t i = 0; i < count; i++) {
    bool same_name = strcasecmp(list[i].name, name) == 0;
    if (same_name != (list[i].number == number))
      fail(r, "expected %s to be %d, found %s = %d in the header", name, number, list[i].name, list[i].number);
  }
}

static ckpt_status run_status(runner* r) {
  int32_t number = (int32_t)integer(r, 1);
  expect_word(r, 0, ckpt_status_name(number));
  check_header(r, kStatuses, sizeof kStatuses / sizeof kStatuses[0], word(r, 0), number);
  return CKPT_OK;
}

static ckpt_status run_dtype(runner* r) {
  const char* name = word(r, 0);
  int32_t number = (int32_t)integer(r, 1), bits = (int32_t)integer(r, 2);
  expect_word(r, 0, ckpt_dtype_name(number));
  if (ckpt_dtype_bits(number) != bits) fail(r, "expected %d bits, found %d", bits, ckpt_dtype_bits(number));
  int32_t found = ckpt_dtype_find(name), wanted = strcmp(name, "dtype") != 0 ? number : -1;
  if (found != wanted) fail(r, "expected %s to be found as %d, found %d", name, wanted, found);
  check_header(r, kDtypes, sizeof kDtypes / sizeof kDtypes[0], name, number);
  return CKPT_OK;
}

static ckpt_status run_option(runner* r) {
  static const char* const kinds[] = {"", "INT", "STR"};
  ckpt_option_info info = {.struct_size = sizeof info};
  for (int32_t i = 0; i < ckpt_option_count(); i++) {
    ckpt_status status = ckpt_option_at(i, &info, &r->error);
    if (status) return status;
    if (strcmp(info.key, word(r, 0)) != 0) continue;
    expect_text(r, "kind", kinds[info.kind]);
    expect_int(r, "min", info.min);
    expect_int(r, "max", info.max);
    expect_text(r, "fallback", info.fallback);
    expect_text(r, "choices", info.choices);
    expect_text(r, "used_by", info.used_by);
    return CKPT_OK;
  }
  fail(r, "expected an option %s, found none", word(r, 0));
}

const command library_commands[] = {
    {"version", run_version}, {"status", run_status}, {"dtype", run_dtype}, {"option", run_option}, {NULL, NULL}};
