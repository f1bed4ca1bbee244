#include "handles.h"

#include <c10/util/Exception.h>

#include <new>

namespace ckpt_torch {

std::string Error::detail(const std::string& key) const {
  auto found = details_.find(key);
  return found == details_.end() ? std::string() : found->second;
}

namespace internal {

void throw_error(ckpt_status status, ckpt_error* err) {
  static const char* const kKeys[] = {"path", "part", "tensor", "rank", "ranks", "offset", "expected", "found"};
  std::map<std::string, std::string> details;
  for (const char* key : kKeys)
    if (const char* fact = ckpt_error_detail(err, key)) details[key] = fact;
  std::string message = ckpt_error_message(err);
  ckpt_error_free(err);
  throw Error(status, message, std::move(details));
}

std::string listed(const std::vector<std::string>& names, size_t limit) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < limit; i++) text += (i ? ", " : "") + in_quotes(names[i]);
  if (names.size() > limit) text += " and " + std::to_string(names.size() - limit) + " more";
  return text;
}

static void set_option(ckpt_options* options, const std::string& key, const std::string& value) {
  bool is_int = false;
  for (int32_t i = 0; i < ckpt_option_count(); i++) {
    ckpt_option_info info{};
    info.struct_size = sizeof info;
    check([&](ckpt_error** err) { return ckpt_option_at(i, &info, err); });
    if (key == info.key) is_int = info.kind == CKPT_OPTION_INT;
  }
  if (!is_int) {
    check([&](ckpt_error** err) { return ckpt_options_set_str(options, key.c_str(), value.c_str(), err); });
    return;
  }
  size_t used = 0;
  int64_t number = 0;
  try {
    number = std::stoll(value, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used == 0 || used != value.size())
    fail(CKPT_INVALID, "option " + in_quotes(key) + ": expected a number, found " + in_quotes(value));
  check([&](ckpt_error** err) { return ckpt_options_set_int(options, key.c_str(), number, err); });
}

OptionsHandle options_of(const Settings& settings, const Settings& over) {
  auto options = make<OptionsHandle>([](ckpt_options** out, ckpt_error** err) { return ckpt_options_new(out, err); });
  for (const auto& [key, value] : settings) set_option(options.get(), key, value.text());
  for (const auto& [key, value] : over) set_option(options.get(), key, value.text());
  return options;
}

Error current_error() {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const c10::Error& error) {
    return Error(CKPT_INTERNAL, std::string("LibTorch: ") + error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    return Error(CKPT_NOMEM, "out of memory");
  } catch (const std::exception& error) {
    return Error(CKPT_INTERNAL, error.what());
  } catch (...) {
    return Error(CKPT_INTERNAL, "an exception of unknown type");
  }
}

}  // namespace internal
}  // namespace ckpt_torch
