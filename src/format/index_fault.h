// What the rules of an index say where one is broken; off the path of good records.
#pragma once

#include <string>

#include "base/status.h"

namespace ckpt::format {

[[gnu::cold, gnu::noinline]] inline Status bad(std::string what) { return Status(CKPT_FORMAT, std::move(what)); }

}  // namespace ckpt::format
