// The library's own lists: version, statuses, dtypes, options.
#include "runner.hpp"

namespace conformance {
namespace {

void run_version(Runner&, Line&) {
  const int32_t number = ckpt::version_number();
  const std::string text = std::to_string(number / 1000000) + "." + std::to_string(number / 1000 % 1000) + "." +
                           std::to_string(number % 1000);
  if (text != ckpt::version()) fail("expected ", text, ", found ", ckpt::version());
  const int32_t header = CKPT_VERSION_MAJOR * 1000000 + CKPT_VERSION_MINOR * 1000 + CKPT_VERSION_PATCH;
  if (number < header) fail("expected at least ", header, ", found ", number);
}

void run_status(Runner&, Line& line) {
  const std::string found = ckpt::status_name(static_cast<ckpt_status>(parse_int(line.words[1])));
  if (found != line.words[0]) fail("expected ", line.words[0], ", found ", found);
}

void run_dtype(Runner&, Line& line) {
  const std::string& name = line.words[0];
  const auto number = static_cast<int32_t>(parse_int(line.words[1]));
  if (ckpt::dtype_name(number) != name) fail("expected ", name, ", found ", ckpt::dtype_name(number));
  if (ckpt::dtype_bits(number) != parse_int(line.words[2]))
    fail("expected ", line.words[2], " bits, found ", ckpt::dtype_bits(number));
  const auto found = ckpt::dtype_find(name);
  if (found != (name == "dtype" ? std::nullopt : std::optional<int32_t>(number)))
    fail("expected ", name, " to be found as ", number, ", found ", found.value_or(-1));
}

void run_option(Runner&, Line& line) {
  for (const ckpt::OptionInfo& info : ckpt::option_list()) {
    if (line.words[0] != info.key) continue;
    line.expect("kind", info.kind == CKPT_OPTION_INT ? "INT" : "STR");
    line.expect_number("min", info.min);
    line.expect_number("max", info.max);
    line.expect("fallback", info.fallback);
    line.expect("choices", info.choices);
    line.expect("used_by", info.used_by);
    return;
  }
  fail("expected an option ", line.words[0], ", found none");
}

}  // namespace

void add_library_commands(Commands& commands) {
  commands["version"] = {0, 0, run_version};
  commands["status"] = {2, 0, run_status};
  commands["dtype"] = {3, 0, run_dtype};
  commands["option"] = {1, kPairs, run_option};
}

}  // namespace conformance
