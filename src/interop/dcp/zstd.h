// What torch's ZStandard extension compressed. libzstd is loaded when the first frame is met, and nothing needs it to
// be there to build or to read anything else. Thread-safe.
#pragma once

#include <algorithm>
#include <functional>

#include "base/status.h"
#include "base/types.h"

namespace ckpt::interop {

// What packed bytes may grow to. gzip packs a thousand zeros into one byte at most; bzip2, xz and zstd do that with
// many more, and 2 KB would fill the disk.
inline uint64_t most_unpacked(uint64_t packed) {
  constexpr uint64_t kAtLeast = 64 << 20, kTimes = 2000;
  return std::max(kAtLeast, packed < UINT64_MAX / kTimes ? packed * kTimes : UINT64_MAX);
}

// Gives the content of frames of zstd, piece by piece, and takes it off `*left`. UNSUPPORTED where that is not enough,
// or without libzstd; CORRUPT, FORMAT; NOMEM.
Status unpack_zstd(Bytes frames, uint64_t* left, const std::function<Status(Bytes)>& take);
// Of any packing: that `bytes` of what is unpacked fit.
Status take_unpacked(uint64_t* left, uint64_t bytes, uint64_t packed);

}  // namespace ckpt::interop
