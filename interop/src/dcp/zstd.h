// What torch's ZStandard extension compressed. libzstd is loaded when the first frame is met, and nothing needs it to
// be there to build or to read anything else. Thread-safe.
#pragma once

#include <functional>

#include "base/status.h"
#include "base/types.h"

namespace ckpt::interop {

// Gives the content of frames of zstd, piece by piece, and takes it off `*left`. UNSUPPORTED where that is not enough,
// or without libzstd; CORRUPT, FORMAT; NOMEM.
Status unpack_zstd(Bytes frames, uint64_t* left, const std::function<Status(Bytes)>& take);

}  // namespace ckpt::interop
