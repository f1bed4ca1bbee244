#include "errors.h"

#include <c10/util/Exception.h>

#include <new>

#include "base/shown.h"  // the engine's own, header only

namespace ckpt_torch {
namespace internal {

std::string line(const std::string& text) { return ckpt::cut_line(ckpt::shown_line(text)); }

std::string listed(const std::vector<std::string>& names, size_t limit) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < limit; i++) text += (i ? ", " : "") + in_quotes(names[i]);
  if (names.size() > limit) text += " and " + std::to_string(names.size() - limit) + " more";
  return text;
}

static ckpt::Options::Value value_of(const std::string& key, const std::string& text) {
  const auto known = ckpt::option_find(key);
  if (!known || known->kind != CKPT_OPTION_INT) return text;
  size_t used = 0;
  int64_t number = 0;
  try {
    number = std::stoll(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used == 0 || used != text.size())
    fail(CKPT_INVALID, "option " + in_quotes(key) + ": expected a number, found " + in_quotes(text));
  return number;
}

ckpt::Options options_of(const Settings& settings, const Settings& over) {
  ckpt::Options options;
  for (const auto& [key, value] : settings) options.set(key, value_of(key, value.text()));
  for (const auto& [key, value] : over) options.set(key, value_of(key, value.text()));
  options.check();
  return options;
}

Error current_error() {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const c10::Error& error) {
    return Error(CKPT_INTERNAL, line(std::string("LibTorch: ") + error.what_without_backtrace()));
  } catch (const std::bad_alloc&) {
    return Error(CKPT_NOMEM, "out of memory");
  } catch (const std::exception& error) {
    return Error(CKPT_INTERNAL, line(error.what()));
  } catch (...) {
    return Error(CKPT_INTERNAL, "an exception of unknown type");
  }
}

}  // namespace internal
}  // namespace ckpt_torch
