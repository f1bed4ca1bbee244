// Packs a file: gzip, bzip2, xz, lz4, zstd, as their programs do by default. The libraries of bzip2, xz and zstd are
// loaded when they are needed. Thread-safe.
#pragma once

#include <functional>

#include "base/status.h"
#include "base/types.h"

namespace ckpt::interop {

// Gives what `content` becomes, piece by piece. `packing`: "gzip". UNSUPPORTED without the library; NOMEM; what `take`
// returns.
Status pack(const char* packing, Bytes content, const std::function<Status(Bytes)>& take);

}  // namespace ckpt::interop
