// The filters for AVX-512BW. The system's headers come before the target is set (see checksum_avx2.cpp).
#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw")
#pragma GCC optimize("O3")  // the loops over W want to be unrolled
// GCC 12 takes its own _mm512_undefined_epi32 for a fault.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include "format/filter_variant.h"

namespace ckpt::format {
namespace {

using V = __m512i;

inline V load(const uint8_t* from) { return _mm512_loadu_si512(from); }
inline void store(uint8_t* to, V value) { _mm512_storeu_si512(to, value); }

inline void split2(V a, V b, V& even, V& odd) {
  const V low = _mm512_set1_epi16(0xff);
  const V order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);  // packing works within quarters
  V packed_even = _mm512_packus_epi16(_mm512_and_si512(a, low), _mm512_and_si512(b, low));
  V packed_odd = _mm512_packus_epi16(_mm512_srli_epi16(a, 8), _mm512_srli_epi16(b, 8));
  even = _mm512_permutexvar_epi64(order, packed_even);
  odd = _mm512_permutexvar_epi64(order, packed_odd);
}

inline void join2(V even, V odd, V& a, V& b) {
  V low = _mm512_unpacklo_epi8(even, odd), high = _mm512_unpackhi_epi8(even, odd);
  a = _mm512_permutex2var_epi64(low, _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11), high);
  b = _mm512_permutex2var_epi64(low, _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15), high);
}

inline void gather_bits(const uint8_t* row, uint8_t* planes) {
  for (size_t at = 0; at < kFilterBlock; at += 64) {
    V value = load(row + at);
    for (int b = 7; b >= 0; b--) {
      __mmask64 bits = _mm512_movepi8_mask(value);
      std::memcpy(planes + b * 64 + at / 8, &bits, 8);
      value = _mm512_add_epi8(value, value);  // the next lower bit moves to the top
    }
  }
}

inline void scatter_bits(const uint8_t* planes, uint8_t* row) {
  for (size_t at = 0; at < kFilterBlock; at += 64) {
    V value = _mm512_setzero_si512();
    for (int b = 0; b < 8; b++) {
      __mmask64 bits;
      std::memcpy(&bits, planes + b * 64 + at / 8, 8);
      value = _mm512_mask_add_epi8(value, bits, value, _mm512_set1_epi8(static_cast<char>(1 << b)));
    }
    store(row + at, value);
  }
}

}  // namespace
}  // namespace ckpt::format

#include "format/filter_simd.inc"

namespace ckpt::format {

constinit const FilterVariant kFilterAvx512 = make_variant("avx512");

}  // namespace ckpt::format

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
