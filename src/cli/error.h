// Errors that end a command: ckpt::Error, thrown by the library or by the tool itself. main() prints it.
#pragma once

#include <ckpt.hpp>

#include "cli/json.h"

namespace cli {

[[noreturn]] inline void fail(ckpt_status status, const std::string& message) { throw ckpt::Error(status, message); }
[[noreturn]] inline void invalid(const std::string& message) { fail(CKPT_INVALID, message); }

// Whether an error proves that bytes are wrong, so that the answer is "damaged".
inline bool is_damage(ckpt_status status) {
  return status == CKPT_CORRUPT || status == CKPT_FORMAT || status == CKPT_INCOMPLETE;
}

// The message, then one line for each detail that the message does not contain.
std::string error_text(const ckpt::Error& error);
// Its status, message and details, as --json has them.
Json error_json(const ckpt::Error& error);

}  // namespace cli
