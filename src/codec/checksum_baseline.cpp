// XXH3 for every machine: SSE2 on x86-64, NEON on ARM, or whatever xxHash finds.
#include <cstddef>
#include <cstdint>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "codec/checksum_variant.h"

namespace ckpt::codec::checksum_baseline {
namespace {

#if defined(__x86_64__)

using V = __m128i;

inline V load(const void* from) { return _mm_loadu_si128(static_cast<const V*>(from)); }
inline V load_once(const void* from) {
  V value = load(from);
  asm("" : "+x"(value));
  return value;
}
inline void stream(void* to, V value) { _mm_stream_si128(static_cast<V*>(to), value); }

inline V mix(V sum, V data, V key) {
  V keyed = _mm_xor_si128(data, key);
  V product = _mm_mul_epu32(keyed, _mm_srli_epi64(keyed, 32));
  V swapped = _mm_shuffle_epi32(data, _MM_SHUFFLE(1, 0, 3, 2));
  return _mm_add_epi64(_mm_add_epi64(sum, swapped), product);
}

inline V scramble(V sum, V key) {
  const V prime = _mm_set1_epi32(static_cast<int>(XXH_PRIME32_1));
  V keyed = _mm_xor_si128(_mm_xor_si128(sum, _mm_srli_epi64(sum, 47)), key);
  V high = _mm_mul_epu32(_mm_srli_epi64(keyed, 32), prime);
  return _mm_add_epi64(_mm_mul_epu32(keyed, prime), _mm_slli_epi64(high, 32));
}

#include "codec/checksum_blocks.inc"

#else

// Leaves everything to xxHash's own loop.
template <bool kCopies>
size_t take_blocks(XXH3_state_t*, const char*, char*, size_t) {
  return 0;
}

#endif

#include "codec/checksum_body.inc"

}  // namespace
}  // namespace ckpt::codec::checksum_baseline

namespace ckpt::codec {

constinit const ChecksumVariant kChecksumBaseline = checksum_baseline::make_variant("baseline");

}  // namespace ckpt::codec
