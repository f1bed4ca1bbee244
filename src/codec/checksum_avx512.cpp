// XXH3 for AVX-512. System headers come before the target is set, so that none of their code is compiled for it.
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
// GCC 12 warns about its own _mm512_undefined_epi32.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#define XXH_VECTOR 3  // XXH_AVX512
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "codec/checksum_variant.h"

namespace ckpt::codec::checksum_avx512 {
namespace {

using V = __m512i;

inline V load(const void* from) { return _mm512_loadu_si512(from); }
inline V load_once(const void* from) {
  V value = load(from);
  asm("" : "+v"(value));
  return value;
}
inline void stream(void* to, V value) { _mm512_stream_si512(static_cast<V*>(to), value); }

inline V mix(V sum, V data, V key) {
  V keyed = _mm512_xor_si512(data, key);
  V product = _mm512_mul_epu32(keyed, _mm512_srli_epi64(keyed, 32));
  V swapped = _mm512_shuffle_epi32(data, static_cast<_MM_PERM_ENUM>(_MM_SHUFFLE(1, 0, 3, 2)));
  return _mm512_add_epi64(_mm512_add_epi64(sum, swapped), product);
}

inline V scramble(V sum, V key) {
  const V prime = _mm512_set1_epi32(static_cast<int>(XXH_PRIME32_1));
  V keyed = _mm512_xor_si512(_mm512_xor_si512(sum, _mm512_srli_epi64(sum, 47)), key);
  V high = _mm512_mul_epu32(_mm512_srli_epi64(keyed, 32), prime);
  return _mm512_add_epi64(_mm512_mul_epu32(keyed, prime), _mm512_slli_epi64(high, 32));
}

#include "codec/checksum_blocks.inc"
#include "codec/checksum_body.inc"

}  // namespace
}  // namespace ckpt::codec::checksum_avx512

namespace ckpt::codec {

constinit const ChecksumVariant kChecksumAvx512 = checksum_avx512::make_variant("avx512");

}  // namespace ckpt::codec

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
