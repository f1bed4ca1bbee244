/* The library's own lists: version, statuses, dtypes, options. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runner.h"

static ckpt_status run_version(runner* r, line* l) {
  (void)l;
  int32_t number = ckpt_version_number();
  char text[64];
  (void)snprintf(text, sizeof text, "%d.%d.%d", number / 1000000, number / 1000 % 1000, number % 1000);
  if (strcmp(text, ckpt_version_string()) != 0) fail(r, "expected %s, found %s", text, ckpt_version_string());
  int32_t header = CKPT_VERSION_MAJOR * 1000000 + CKPT_VERSION_MINOR * 1000 + CKPT_VERSION_PATCH;
  if (number < header) fail(r, "expected at least %d, found %d", header, number);
  return CKPT_OK;
}

typedef struct named {
  const char* name;
  int32_t number;
} named;

static const named kStatuses[] = {{"OK", CKPT_OK},
                                  {"INVALID", CKPT_INVALID},
                                  {"UNSUPPORTED", CKPT_UNSUPPORTED},
                                  {"FORKED", CKPT_FORKED},
                                  {"CANCELLED", CKPT_CANCELLED},
                                  {"NOT_FOUND", CKPT_NOT_FOUND},
                                  {"EXISTS", CKPT_EXISTS},
                                  {"GONE", CKPT_GONE},
                                  {"CORRUPT", CKPT_CORRUPT},
                                  {"FORMAT", CKPT_FORMAT},
                                  {"REVISION", CKPT_REVISION},
                                  {"INCOMPLETE", CKPT_INCOMPLETE},
                                  {"MISMATCH", CKPT_MISMATCH},
                                  {"CONFLICT", CKPT_CONFLICT},
                                  {"FENCED", CKPT_FENCED},
                                  {"ABORTED", CKPT_ABORTED},
                                  {"TIMEOUT", CKPT_TIMEOUT},
                                  {"COMMIT_UNKNOWN", CKPT_COMMIT_UNKNOWN},
                                  {"IO", CKPT_IO},
                                  {"NO_SPACE", CKPT_NO_SPACE},
                                  {"NOMEM", CKPT_NOMEM},
                                  {"INTERNAL", CKPT_INTERNAL}};
static const named kDtypes[] = {{"i4", CKPT_DTYPE_I4},
                                {"i8", CKPT_DTYPE_I8},
                                {"i16", CKPT_DTYPE_I16},
                                {"i32", CKPT_DTYPE_I32},
                                {"i64", CKPT_DTYPE_I64},
                                {"u4", CKPT_DTYPE_U4},
                                {"u8", CKPT_DTYPE_U8},
                                {"u16", CKPT_DTYPE_U16},
                                {"u32", CKPT_DTYPE_U32},
                                {"u64", CKPT_DTYPE_U64},
                                {"f16", CKPT_DTYPE_F16},
                                {"f32", CKPT_DTYPE_F32},
                                {"f64", CKPT_DTYPE_F64},
                                {"bf16", CKPT_DTYPE_BF16},
                                {"c32", CKPT_DTYPE_C32},
                                {"c64", CKPT_DTYPE_C64},
                                {"c128", CKPT_DTYPE_C128},
                                {"bool", CKPT_DTYPE_BOOL},
                                {"f8_e3m4", CKPT_DTYPE_F8_E3M4},
                                {"f8_e4m3", CKPT_DTYPE_F8_E4M3},
                                {"f8_e4m3b11fnuz", CKPT_DTYPE_F8_E4M3B11FNUZ},
                                {"f8_e4m3fn", CKPT_DTYPE_F8_E4M3FN},
                                {"f8_e4m3fnuz", CKPT_DTYPE_F8_E4M3FNUZ},
                                {"f8_e5m2", CKPT_DTYPE_F8_E5M2},
                                {"f8_e5m2fnuz", CKPT_DTYPE_F8_E5M2FNUZ},
                                {"f8_e8m0fnu", CKPT_DTYPE_F8_E8M0FNU},
                                {"f6_e2m3fn", CKPT_DTYPE_F6_E2M3FN},
                                {"f6_e3m2fn", CKPT_DTYPE_F6_E3M2FN},
                                {"f4_e2m1fn", CKPT_DTYPE_F4_E2M1FN}};

/* The header's number of a name must be `number`, and a name that the header lacks must be no name of it. */
static void check_header(runner* r, const named* list, size_t count, const char* name, int32_t number) {
  for (size_t i = 0; i < count; i++) {
    bool same_name = strcmp(list[i].name, name) == 0;
    if (same_name != (list[i].number == number))
      fail(r, "expected %s to be %d, found %s = %d in the header", name, number, list[i].name, list[i].number);
  }
}

static ckpt_status run_status(runner* r, line* l) {
  const char* name = l->words[0].text;
  int32_t number = (int32_t)parse_int(r, l->words[1].text);
  if (strcmp(ckpt_status_name(number), name) != 0)
    fail(r, "expected %s for %d, found %s", name, number, ckpt_status_name(number));
  check_header(r, kStatuses, sizeof kStatuses / sizeof kStatuses[0], name, number);
  return CKPT_OK;
}

static ckpt_status run_dtype(runner* r, line* l) {
  const char* name = l->words[0].text;
  int32_t number = (int32_t)parse_int(r, l->words[1].text), bits = (int32_t)parse_int(r, l->words[2].text);
  bool known = strcmp(name, "dtype") != 0;
  if (strcmp(ckpt_dtype_name(number), name) != 0)
    fail(r, "expected %s for %d, found %s", name, number, ckpt_dtype_name(number));
  if (ckpt_dtype_bits(number) != bits) fail(r, "expected %d bits, found %d", bits, ckpt_dtype_bits(number));
  int32_t found = ckpt_dtype_find(name);
  if (found != (known ? number : -1)) fail(r, "expected %s to be found as %d, found %d", name, number, found);
  check_header(r, kDtypes, sizeof kDtypes / sizeof kDtypes[0], name, number);
  return CKPT_OK;
}

static ckpt_status run_option(runner* r, line* l) {
  static const char* const kinds[] = {"", "INT", "STR", NULL};
  ckpt_option_info info = {.struct_size = sizeof info};
  for (int32_t i = 0; i < ckpt_option_count(); i++) {
    ckpt_status status = ckpt_option_at(i, &info, &r->error);
    if (status) return status;
    if (strcmp(info.key, l->words[0].text) != 0) continue;
    expect_name(r, l, "kind", kinds, info.kind);
    expect_int(r, l, "min", info.min);
    expect_int(r, l, "max", info.max);
    expect_text(r, l, "fallback", info.fallback);
    expect_text(r, l, "choices", info.choices);
    expect_text(r, l, "used_by", info.used_by);
    return CKPT_OK;
  }
  fail(r, "expected an option %s, found none", l->words[0].text);
}

const command library_commands[] = {{"version", 0, 0, run_version},
                                    {"status", 2, 0, run_status},
                                    {"dtype", 3, 0, run_dtype},
                                    {"option", 1, PAIRS, run_option},
                                    {NULL, 0, 0, NULL}};
