// Turns failures into Error, and settings into options of the engine. No state; any thread.
#ifndef CKPT_TORCH_ERRORS_H
#define CKPT_TORCH_ERRORS_H

#include "../ckpt_torch.h"

namespace ckpt_torch {
namespace internal {

// A text as the engine shows it in errors: one line of at most 960 bytes, without what a terminal obeys.
std::string line(const std::string& text);

[[noreturn]] inline void fail(ckpt_status status, const std::string& message, Error::Details details = {}) {
  throw Error(status, line(message), std::move(details));
}

inline std::string in_quotes(const std::string& name) { return "'" + name + "'"; }

// "'a', 'b' and 3 more"
std::string listed(const std::vector<std::string>& names, size_t limit = 5);

// The settings for every call; `over` wins. INVALID for a key or value that the engine does not know.
ckpt::Options options_of(const Settings& settings, const Settings& over = {});

// The exception that is being handled as an Error, be it LibTorch's or bad_alloc. Call it in a catch block.
Error current_error();

// Runs `body` and turns every exception into an Error of one line.
template <class Body>
auto guarded(Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (...) {
    const Error error = current_error();
    fail(error.status(), error.what(), error.details());
  }
}

}  // namespace internal
}  // namespace ckpt_torch
#endif
