// Why a command stopped: a ckpt::Error, of the library or of the tool itself. main() prints it.
#pragma once

#include <ckpt.hpp>

namespace cli {

[[noreturn]] inline void fail(ckpt_status status, std::string message) {
  throw ckpt::Error(status, std::move(message));
}
[[noreturn]] inline void invalid(std::string message) { fail(CKPT_INVALID, std::move(message)); }

// The message and, on lines of their own, the facts that it does not name.
std::string error_text(const ckpt::Error& error);

}  // namespace cli
