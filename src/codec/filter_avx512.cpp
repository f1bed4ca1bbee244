// The filters for AVX-512BW. System headers come before the target is set (see checksum_avx2.cpp).
#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw")
#pragma GCC optimize("O3")  // the loops over W need unrolling
// GCC 12 warns about its own _mm512_undefined_epi32.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include "codec/filter_variant.h"

namespace ckpt::codec::filter_avx512 {
namespace {

#include "codec/filter_avx512.inc"

inline void gather_bits(const uint8_t* row, uint8_t* planes) {
  for (size_t at = 0; at < kFilterBlock; at += 64) {
    V value = load(row + at);
    for (size_t b = 8; b-- > 0;) {
      __mmask64 bits = _mm512_movepi8_mask(value);
      std::memcpy(planes + b * 64 + at / 8, &bits, 8);
      value = _mm512_add_epi8(value, value);  // the next lower bit moves to the top
    }
  }
}

inline void scatter_bits(const uint8_t* planes, uint8_t* row) {
  for (size_t at = 0; at < kFilterBlock; at += 64) {
    V value = _mm512_setzero_si512();
    for (size_t b = 0; b < 8; b++) {
      __mmask64 bits;
      std::memcpy(&bits, planes + b * 64 + at / 8, 8);
      value = _mm512_mask_add_epi8(value, bits, value, _mm512_set1_epi8(static_cast<char>(1 << b)));
    }
    store(row + at, value);
  }
}

#include "codec/filter_simd.inc"

}  // namespace
}  // namespace ckpt::codec::filter_avx512

namespace ckpt::codec {

constinit const FilterVariant kFilterAvx512 = filter_avx512::make_variant("avx512");

}  // namespace ckpt::codec

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
