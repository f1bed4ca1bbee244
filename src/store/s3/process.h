// A command of credential_process.
#pragma once

#include <string>

#include "base/status.h"

namespace ckpt::store::s3 {

// What a shell command prints, up to a MiB. IO if it fails or runs for more than a minute.
Result<std::string> output_of(const std::string& command);

}  // namespace ckpt::store::s3
