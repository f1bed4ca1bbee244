// XXH3 for AVX2. The system's headers come before the target is set, so that nothing of theirs is compiled for it.
#if defined(__x86_64__)

#include <immintrin.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#endif

#define XXH_VECTOR 2  // XXH_AVX2
#include "format/checksum_body.inc"

namespace ckpt::format {

constinit const ChecksumVariant kChecksumAvx2 = make_variant("avx2");

}  // namespace ckpt::format

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
