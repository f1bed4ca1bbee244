// XXH3 for AVX-512. The system's headers come before the target is set, so that nothing of theirs is compiled for it.
#if defined(__x86_64__)

#include <immintrin.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f"))), apply_to = function)
#else
#pragma GCC target("avx512f")
// GCC 12 takes its own _mm512_undefined_epi32 for a fault.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#define XXH_VECTOR 3  // XXH_AVX512
#include "format/checksum_body.inc"

namespace ckpt::format {

constinit const ChecksumVariant kChecksumAvx512 = make_variant("avx512");

}  // namespace ckpt::format

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
