// What torch's ZStandard extension compressed. libzstd is loaded when the first frame is met, and nothing needs it to
// be there to build or to read anything else. Thread-safe.
#pragma once

#include <functional>

#include "base/status.h"
#include "base/types.h"

namespace ckpt::interop {

// Gives the content of frames of zstd, piece by piece. UNSUPPORTED without libzstd; CORRUPT, FORMAT; NOMEM.
Status unpack_zstd(Bytes frames, const std::function<Status(Bytes)>& take);

}  // namespace ckpt::interop
