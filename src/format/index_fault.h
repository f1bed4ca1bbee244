// The error for a broken rule of an index. Cold: kept out of the code that checks good records.
#pragma once

#include <string>

#include "base/status.h"

namespace ckpt::format {

[[gnu::cold, gnu::noinline]] inline Status bad(std::string what) { return Status(CKPT_FORMAT, std::move(what)); }

}  // namespace ckpt::format
