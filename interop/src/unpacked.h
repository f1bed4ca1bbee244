// What packed bytes of other people's files may grow to.
#pragma once

#include <algorithm>

#include "base/status.h"
#include "base/strformat.h"

namespace ckpt::interop {

// gzip packs a thousand zeros into one byte at most; bzip2, xz and zstd do that with many more, and 2 KB would fill the
// disk.
inline uint64_t most_unpacked(uint64_t packed) {
  constexpr uint64_t kAtLeast = 64 << 20, kTimes = 2000;
  return std::max(kAtLeast, packed < UINT64_MAX / kTimes ? packed * kTimes : UINT64_MAX);
}

// Takes `bytes` of what is unpacked off `*left`. UNSUPPORTED if that is not enough; `packed`: bytes of all of it.
inline Status take_unpacked(uint64_t* left, uint64_t bytes, uint64_t packed) {
  if (bytes > *left)
    return Status(CKPT_UNSUPPORTED,
                  strformat("{} bytes unpack to more than {}; unpack it", packed, most_unpacked(packed)));
  *left -= bytes;
  return Ok();
}

}  // namespace ckpt::interop
