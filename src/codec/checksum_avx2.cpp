// XXH3 for AVX2. System headers come before the target is set, so that none of their code is compiled for it.
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
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "codec/checksum_variant.h"

namespace ckpt::codec::checksum_avx2 {
namespace {

using V = __m256i;

inline V load(const void* from) { return _mm256_loadu_si256(static_cast<const V*>(from)); }
inline V load_once(const void* from) {
  V value = load(from);
  asm("" : "+x"(value));
  return value;
}
inline void stream(void* to, V value) { _mm256_stream_si256(static_cast<V*>(to), value); }

inline V mix(V sum, V data, V key) {
  V keyed = _mm256_xor_si256(data, key);
  V product = _mm256_mul_epu32(keyed, _mm256_srli_epi64(keyed, 32));
  V swapped = _mm256_shuffle_epi32(data, _MM_SHUFFLE(1, 0, 3, 2));
  return _mm256_add_epi64(_mm256_add_epi64(sum, swapped), product);
}

inline V scramble(V sum, V key) {
  const V prime = _mm256_set1_epi32(static_cast<int>(XXH_PRIME32_1));
  V keyed = _mm256_xor_si256(_mm256_xor_si256(sum, _mm256_srli_epi64(sum, 47)), key);
  V high = _mm256_mul_epu32(_mm256_srli_epi64(keyed, 32), prime);
  return _mm256_add_epi64(_mm256_mul_epu32(keyed, prime), _mm256_slli_epi64(high, 32));
}

#include "codec/checksum_blocks.inc"
#include "codec/checksum_body.inc"

}  // namespace
}  // namespace ckpt::codec::checksum_avx2

namespace ckpt::codec {

constinit const ChecksumVariant kChecksumAvx2 = checksum_avx2::make_variant("avx2");

}  // namespace ckpt::codec

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
