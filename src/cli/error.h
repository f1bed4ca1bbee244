// Errors that end a command: ckpt::Error, thrown by the library or by the tool itself. main() prints it.
#pragma once

#include <ckpt.hpp>

namespace cli {

[[noreturn]] inline void fail(ckpt_status status, std::string message) {
  throw ckpt::Error(status, std::move(message));
}
[[noreturn]] inline void invalid(std::string message) { fail(CKPT_INVALID, std::move(message)); }

// The message, then one line for each detail that the message does not contain.
std::string error_text(const ckpt::Error& error);

}  // namespace cli
