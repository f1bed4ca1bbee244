// The library's own lists: version, statuses, dtypes, options.
#include "runner.hpp"

namespace conformance {
namespace {

void run_version(Runner&, const Call&) {
  const int32_t number = ckpt::version_number();
  const std::string text = std::to_string(number / 1000000) + "." + std::to_string(number / 1000 % 1000) + "." +
                           std::to_string(number % 1000);
  if (text != ckpt::version()) fail("expected ", text, ", found ", ckpt::version());
  const int32_t header = CKPT_VERSION_MAJOR * 1000000 + CKPT_VERSION_MINOR * 1000 + CKPT_VERSION_PATCH;
  if (number < header) fail("expected at least ", header, ", found ", number);
}

void run_status(Runner&, const Call& call) {
  const std::string found = ckpt::status_name(static_cast<ckpt_status>(call.integer(1)));
  if (found != call[0]) fail("expected ", call[0], ", found ", found);
}

void run_dtype(Runner&, const Call& call) {
  const auto number = static_cast<int32_t>(call.integer(1));
  if (ckpt::dtype_name(number) != call[0]) fail("expected ", call[0], ", found ", ckpt::dtype_name(number));
  if (ckpt::dtype_bits(number) != call.integer(2))
    fail("expected ", call[2], " bits, found ", ckpt::dtype_bits(number));
  const auto found = ckpt::dtype_find(call[0]);
  if (found != (call[0] == "dtype" ? std::nullopt : std::optional(number)))
    fail("expected ", call[0], " to be found as ", number, ", found ", found.value_or(-1));
}

void run_option(Runner&, const Call& call) {
  for (const ckpt::OptionInfo& info : ckpt::option_list()) {
    if (call[0] != info.key) continue;
    call.expect("kind", info.kind == CKPT_OPTION_INT ? "INT" : "STR");
    call.expect("min", info.min);
    call.expect("max", info.max);
    call.expect("fallback", info.fallback);
    call.expect("choices", info.choices);
    return call.expect("used_by", info.used_by);
  }
  fail("expected an option ", call[0], ", found none");
}

}  // namespace

const Commands kLibrary = {
    {"version", run_version}, {"status", run_status}, {"dtype", run_dtype}, {"option", run_option}};

}  // namespace conformance
