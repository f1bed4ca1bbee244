// The filters for AVX-512 with VBMI and GFNI (Ice Lake, Zen 4 and later). System headers come before the target is set
// (see checksum_avx2.cpp).
#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vbmi,gfni"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512vbmi,gfni")
#pragma GCC optimize("O3")  // the loops over W need unrolling
// GCC 12 warns about its own _mm512_undefined_epi32.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include "codec/filter_variant.h"

namespace ckpt::codec::filter_gfni {
namespace {

#include "codec/filter_avx512.inc"

// Multiplying a word, as a matrix of bits, by the unit vectors gives its columns: the transposed word, with rows
// counted from its last byte. Multiplying bytes by the matrix `mirror` reverses the bits of each.
inline V columns(V words) {
  const V units = _mm512_set1_epi64(static_cast<long long>(0x8040201008040201));
  return _mm512_gf2p8affine_epi64_epi8(units, words, 0);
}
inline V reverse_bits(V bytes) {
  const V mirror = _mm512_set1_epi64(static_cast<long long>(0x8040201008040201));
  return _mm512_gf2p8affine_epi64_epi8(bytes, mirror, 0);
}

// Byte r of word c becomes byte c of word r ^ kMirror (a mirror of 7 counts the words from the end).
template <int kMirror>
inline V transpose_bytes(V words) {
  alignas(64) static constexpr struct Order {
    uint8_t at[64];
    constexpr Order() : at() {
      for (int r = 0; r < 8; r++)
        for (int c = 0; c < 8; c++) at[c * 8 + r] = static_cast<uint8_t>((r ^ kMirror) * 8 + c);
    }
  } kOrder;
  return _mm512_permutexvar_epi8(load(kOrder.at), words);
}

// Word c of vector r <-> word r of vector c.
inline void transpose_words(const V* in, V* out) {
  V pairs[8];
  for (int i = 0; i < 8; i += 2) {
    pairs[i] = _mm512_unpacklo_epi64(in[i], in[i + 1]);
    pairs[i + 1] = _mm512_unpackhi_epi64(in[i], in[i + 1]);
  }
  for (int odd = 0; odd < 2; odd++) {
    V even_first = _mm512_shuffle_i64x2(pairs[odd], pairs[2 + odd], 0x88);
    V odd_first = _mm512_shuffle_i64x2(pairs[odd], pairs[2 + odd], 0xdd);
    V even_last = _mm512_shuffle_i64x2(pairs[4 + odd], pairs[6 + odd], 0x88);
    V odd_last = _mm512_shuffle_i64x2(pairs[4 + odd], pairs[6 + odd], 0xdd);
    out[odd] = _mm512_shuffle_i64x2(even_first, even_last, 0x88);
    out[2 + odd] = _mm512_shuffle_i64x2(odd_first, odd_last, 0x88);
    out[4 + odd] = _mm512_shuffle_i64x2(even_first, even_last, 0xdd);
    out[6 + odd] = _mm512_shuffle_i64x2(odd_first, odd_last, 0xdd);
  }
}

inline void gather_bits(const uint8_t* row, uint8_t* planes) {
  V words[8], lines[8];
#pragma GCC unroll 8
  for (size_t i = 0; i < 8; i++) words[i] = transpose_bytes<0>(reverse_bits(columns(load(row + i * 64))));
  transpose_words(words, lines);
#pragma GCC unroll 8
  for (size_t b = 0; b < 8; b++) store(planes + b * 64, lines[b]);
}

inline void scatter_bits(const uint8_t* planes, uint8_t* row) {
  V lines[8], words[8];
#pragma GCC unroll 8
  for (size_t b = 0; b < 8; b++) lines[b] = load(planes + b * 64);
  transpose_words(lines, words);
#pragma GCC unroll 8
  for (size_t i = 0; i < 8; i++) store(row + i * 64, columns(transpose_bytes<7>(words[i])));
}

#include "codec/filter_simd.inc"

}  // namespace
}  // namespace ckpt::codec::filter_gfni

namespace ckpt::codec {

constinit const FilterVariant kFilterGfni = filter_gfni::make_variant("gfni");

}  // namespace ckpt::codec

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
