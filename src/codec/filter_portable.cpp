// The filters in plain C++, for machines without AVX2. The compiler vectorizes most of it.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "codec/filter_variant.h"

namespace ckpt::codec::filter_portable {
namespace {

template <int W>
inline void split_block(const uint8_t* in, uint8_t* rows) {
  for (size_t k = 0; k < W; k++)
    for (size_t i = 0; i < kFilterBlock; i++) rows[k * kFilterBlock + i] = in[i * W + k];
}

template <int W>
inline void join_block(const uint8_t* rows, uint8_t* out) {
  for (size_t i = 0; i < kFilterBlock; i++)
    for (size_t k = 0; k < W; k++) out[i * W + k] = rows[k * kFilterBlock + i];
}

inline void gather_bits(const uint8_t* row, uint8_t* planes) {
  uint64_t words[64];
  std::memcpy(words, row, sizeof words);
  for (uint64_t& word : words) word = transpose_bits(word);
  for (size_t b = 0; b < 8; b++)
    for (size_t i = 0; i < 64; i++) planes[b * 64 + i] = static_cast<uint8_t>(words[i] >> (8 * b));
}

inline void scatter_bits(const uint8_t* planes, uint8_t* row) {
  uint64_t words[64] = {};
  for (size_t b = 0; b < 8; b++)
    for (size_t i = 0; i < 64; i++) words[i] |= static_cast<uint64_t>(planes[b * 64 + i]) << (8 * b);
  for (uint64_t& word : words) word = transpose_bits(word);
  std::memcpy(row, words, sizeof words);
}

#include "codec/filter_body.inc"

}  // namespace
}  // namespace ckpt::codec::filter_portable

namespace ckpt::codec {

constinit const FilterVariant kFilterPortable = filter_portable::make_variant("portable");

}  // namespace ckpt::codec
