// Packed files: gzip, bzip2, xz and lzma, lz4, zstd. The libraries of bzip2, xz and zstd are loaded when a file needs
// them, and nothing else does. Thread-safe.
#pragma once

#include <functional>
#include <string_view>

#include "base/status.h"
#include "base/types.h"

namespace ckpt::interop {

// "gzip"; null for what is not packed.
const char* packing_of(std::string_view head);

// Gives the content of `packed`, piece by piece. UNSUPPORTED without the library, and where it grows beyond measure;
// CORRUPT; what `take` returns.
Status unpack(const char* packing, Bytes packed, const std::function<Status(Bytes)>& take);

}  // namespace ckpt::interop
