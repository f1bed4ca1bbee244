// ckpt_error, ckpt_status, library version, dtypes.
#include "api/handles.h"

#include <algorithm>
#include <new>
#include <span>

#include "base/address.h"
#include "base/shown.h"

namespace ckpt::api {

// Reporting a lack of memory must not need memory.
static std::span<ckpt_error> unexplained_errors() noexcept {
  static const std::span<ckpt_error> errors = [] {
    const std::span<ckpt_error> made(new ckpt_error[CKPT_INTERNAL + 1], CKPT_INTERNAL + 1);
    for (int32_t code = 0; code <= CKPT_INTERNAL; code++)
      made[static_cast<size_t>(code)].status = Status(code, "there is no memory to say more");
    made[CKPT_NOMEM].status = Status::no_memory();
    return made;
  }();
  return errors;
}

ckpt_error* unexplained(ckpt_status code) noexcept {
  const bool known = code > 0 && code <= CKPT_INTERNAL;
  return &unexplained_errors()[static_cast<size_t>(known ? code : ckpt_status{CKPT_NOMEM})];
}

ckpt_status give_nomem(ckpt_error** err) noexcept {
  if (err) *err = unexplained(CKPT_NOMEM);
  return CKPT_NOMEM;
}

ckpt_status give_internal(const char* what, ckpt_error** err) noexcept {
  if (err) {
    try {
      *err = new ckpt_error{Status(CKPT_INTERNAL, std::string("a defect of ckpt: ") + what)};
    } catch (...) {
      *err = unexplained(CKPT_INTERNAL);
    }
  }
  return CKPT_INTERNAL;
}

ckpt_status give(Status status, ckpt_error** err) {
  ckpt_status code = status.code();
  try {
    if (err) *err = status.ok() ? nullptr : new ckpt_error{std::move(status).shown()};
  } catch (const std::bad_alloc&) {
    *err = unexplained(code);
  }
  return code;
}

ckpt_report* new_report(Report report) {
  for (Finding& finding : report.findings) {
    finding.text = cut_line(shown_line(without_secrets(finding.text)));
    for (std::string* fact : {&finding.name, &finding.part}) *fact = cut_line(shown_line(*fact), kMostOfFact);
  }
  return new ckpt_report{{}, std::move(report)};
}

// Makes them before memory runs out.
[[gnu::constructor]] static void make_errors() { (void)unexplained_errors(); }

}  // namespace ckpt::api

using namespace ckpt;

const char* ckpt_version_string(void) { return CKPT_VERSION; }
int32_t ckpt_version_number(void) {
  return CKPT_VERSION_MAJOR * 1000000 + CKPT_VERSION_MINOR * 1000 + CKPT_VERSION_PATCH;
}

const char* ckpt_status_name(ckpt_status status) { return status_name(status); }

ckpt_status ckpt_error_status(const ckpt_error* err) { return err ? err->status.code() : CKPT_OK; }
const char* ckpt_error_message(const ckpt_error* err) { return err ? err->status.message().c_str() : ""; }
const char* ckpt_error_detail(const ckpt_error* err, const char* key) {
  const std::string* detail = err && key ? err->status.detail(key) : nullptr;
  return detail ? detail->c_str() : nullptr;
}
const char* ckpt_error_detail_at(const ckpt_error* err, size_t index, const char** value) {
  if (!err || index >= err->status.details().size()) return nullptr;
  const auto& [key, text] = err->status.details()[index];
  if (value) *value = text.c_str();
  return key.c_str();
}
void ckpt_error_free(ckpt_error* err) {
  if (err && err != api::unexplained(err->status.code())) delete err;
}

const char* ckpt_dtype_name(int32_t dtype) {
  return dtype < 0 || dtype > 0xffff ? "dtype" : dtype_name(static_cast<uint16_t>(dtype));
}
int32_t ckpt_dtype_bits(int32_t dtype) {
  return dtype < 0 || dtype > 0xffff ? 0 : dtype_bits(static_cast<uint16_t>(dtype));
}
int32_t ckpt_dtype_find(const char* name) { return name ? dtype_find(name) : -1; }
