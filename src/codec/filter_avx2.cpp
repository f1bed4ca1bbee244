// The filters for AVX2. System headers come before the target is set (see checksum_avx2.cpp).
#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#pragma GCC optimize("O3")  // the loops over W need unrolling
#endif

#include "codec/filter_variant.h"

namespace ckpt::codec::filter_avx2 {
namespace {

using V = __m256i;

inline V load(const uint8_t* from) { return _mm256_loadu_si256(reinterpret_cast<const V*>(from)); }
inline void store(uint8_t* to, V value) { _mm256_storeu_si256(reinterpret_cast<V*>(to), value); }

inline void split2(V a, V b, V& even, V& odd) {
  const V low = _mm256_set1_epi16(0xff);
  V packed_even = _mm256_packus_epi16(_mm256_and_si256(a, low), _mm256_and_si256(b, low));
  V packed_odd = _mm256_packus_epi16(_mm256_srli_epi16(a, 8), _mm256_srli_epi16(b, 8));
  even = _mm256_permute4x64_epi64(packed_even, 0xd8);  // packing works within each half
  odd = _mm256_permute4x64_epi64(packed_odd, 0xd8);
}

inline void join2(V even, V odd, V& a, V& b) {
  V low = _mm256_unpacklo_epi8(even, odd), high = _mm256_unpackhi_epi8(even, odd);
  a = _mm256_permute2x128_si256(low, high, 0x20);
  b = _mm256_permute2x128_si256(low, high, 0x31);
}

inline void gather_bits(const uint8_t* row, uint8_t* planes) {
  for (size_t at = 0; at < kFilterBlock; at += 32) {
    V value = load(row + at);
    for (size_t b = 8; b-- > 0;) {
      int bits = _mm256_movemask_epi8(value);
      std::memcpy(planes + b * 64 + at / 8, &bits, 4);
      value = _mm256_add_epi8(value, value);  // the next lower bit moves to the top
    }
  }
}

// transpose_bits on four words at once.
inline V transpose_words(V x) {
  V t = _mm256_and_si256(_mm256_xor_si256(x, _mm256_srli_epi64(x, 7)), _mm256_set1_epi64x(0x00aa00aa00aa00aa));
  x = _mm256_xor_si256(_mm256_xor_si256(x, t), _mm256_slli_epi64(t, 7));
  t = _mm256_and_si256(_mm256_xor_si256(x, _mm256_srli_epi64(x, 14)), _mm256_set1_epi64x(0x0000cccc0000cccc));
  x = _mm256_xor_si256(_mm256_xor_si256(x, t), _mm256_slli_epi64(t, 14));
  t = _mm256_and_si256(_mm256_xor_si256(x, _mm256_srli_epi64(x, 28)), _mm256_set1_epi64x(0x00000000f0f0f0f0));
  return _mm256_xor_si256(_mm256_xor_si256(x, t), _mm256_slli_epi64(t, 28));
}

// Words 2 j and 2 j + 1 are in the low half of words[j], words 16 + 2 j and 17 + 2 j in its high half. Byte b of a word
// belongs to plane b.
inline void interleave_planes(const uint8_t* planes, V* words) {
  V pairs[8], quads[8];
  for (size_t b = 0; b < 8; b += 2) {
    V first = load(planes + b * 64), second = load(planes + (b + 1) * 64);
    pairs[b] = _mm256_unpacklo_epi8(first, second);
    pairs[b + 1] = _mm256_unpackhi_epi8(first, second);
  }
  for (size_t h = 0; h < 8; h += 4)
    for (size_t i = 0; i < 2; i++) {
      quads[h + 2 * i] = _mm256_unpacklo_epi16(pairs[h + i], pairs[h + 2 + i]);
      quads[h + 2 * i + 1] = _mm256_unpackhi_epi16(pairs[h + i], pairs[h + 2 + i]);
    }
  for (size_t i = 0; i < 4; i++) {
    words[2 * i] = _mm256_unpacklo_epi32(quads[i], quads[4 + i]);
    words[2 * i + 1] = _mm256_unpackhi_epi32(quads[i], quads[4 + i]);
  }
}

inline void scatter_bits(const uint8_t* planes, uint8_t* row) {
  for (size_t half = 0; half < 2; half++) {
    V words[8];
    interleave_planes(planes + half * 32, words);
    for (size_t j = 0; j < 8; j++) {
      V bytes = transpose_words(words[j]);
      uint8_t* to = row + half * 256 + j * 16;
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(bytes));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 128), _mm256_extracti128_si256(bytes, 1));
    }
  }
}

#include "codec/filter_simd.inc"

}  // namespace
}  // namespace ckpt::codec::filter_avx2

namespace ckpt::codec {

constinit const FilterVariant kFilterAvx2 = filter_avx2::make_variant("avx2");

}  // namespace ckpt::codec

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
