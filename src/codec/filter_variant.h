// The inner loops of the filters for one instruction set. They work on whole blocks of 512 elements, since 512 bits are
// one cache line of a plane. For filter.cpp and its tests only. No C++ library headers (see checksum_variant.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace ckpt::codec {

inline constexpr size_t kFilterBlock = 512;

struct FilterVariant {
  const char* name;
  // Rows of the filtered data (byte positions for the shuffle, bit planes) are `stride` bytes apart.
  void (*to_shuffle)(int width, const uint8_t* in, size_t blocks, uint8_t* out, size_t stride);
  void (*from_shuffle)(int width, const uint8_t* in, size_t stride, size_t blocks, uint8_t* out);
  void (*to_planes)(int width, const uint8_t* in, size_t blocks, uint8_t* out, size_t stride);
  void (*from_planes)(int width, const uint8_t* in, size_t stride, size_t blocks, uint8_t* out);
};

extern const FilterVariant kFilterPortable;
#if defined(__x86_64__)
extern const FilterVariant kFilterAvx2;
extern const FilterVariant kFilterAvx512;
extern const FilterVariant kFilterGfni;
#endif

struct FilterVariants {
  const FilterVariant* list[4];  // best last
  int count;
};
FilterVariants filter_variants();  // those that this machine can run

// Swaps rows and columns of an 8 x 8 matrix of bits: byte r, bit c <-> byte c, bit r.
static inline uint64_t transpose_bits(uint64_t x) {
  uint64_t t = (x ^ (x >> 7)) & 0x00aa00aa00aa00aa;
  x ^= t ^ (t << 7);
  t = (x ^ (x >> 14)) & 0x0000cccc0000cccc;
  x ^= t ^ (t << 14);
  t = (x ^ (x >> 28)) & 0x00000000f0f0f0f0;
  return x ^ t ^ (t << 28);
}

}  // namespace ckpt::codec
