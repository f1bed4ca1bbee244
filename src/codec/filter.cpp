#include "codec/filter.h"

#include <cstring>

#include "codec/filter_variant.h"

namespace ckpt::codec {

FilterVariants filter_variants() {
  FilterVariants variants{{&kFilterPortable}, 1};
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2")) variants.list[variants.count++] = &kFilterAvx2;
  bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
  if (avx512) variants.list[variants.count++] = &kFilterAvx512;
  if (avx512 && __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("gfni"))
    variants.list[variants.count++] = &kFilterGfni;
#endif
  return variants;
}

namespace {

const FilterVariant& best_filter() {
  static const FilterVariant* variant = [] {
    FilterVariants variants = filter_variants();
    return variants.list[variants.count - 1];
  }();
  return *variant;
}

// Shuffles the elements after the last whole block; `first` is the first of them.
void shuffle_rest(size_t width, const uint8_t* in, size_t first, size_t n, uint8_t* out) {
  for (size_t i = first; i < n; i++)
    for (size_t k = 0; k < width; k++) out[k * n + i] = in[i * width + k];
}

void unshuffle_rest(size_t width, const uint8_t* in, size_t first, size_t n, uint8_t* out) {
  for (size_t i = first; i < n; i++)
    for (size_t k = 0; k < width; k++) out[i * width + k] = in[k * n + i];
}

// The bit planes of the groups of eight elements after the last whole block. `stride` is the size of a plane in bytes,
// and so the number of all groups.
void plane_rest(size_t width, const uint8_t* in, size_t first, size_t stride, uint8_t* out) {
  for (size_t group = first; group < stride; group++)
    for (size_t k = 0; k < width; k++) {
      uint64_t word = 0;
      for (size_t i = 0; i < 8; i++) word |= static_cast<uint64_t>(in[(group * 8 + i) * width + k]) << (8 * i);
      word = transpose_bits(word);
      for (size_t b = 0; b < 8; b++) out[(k * 8 + b) * stride + group] = static_cast<uint8_t>(word >> (8 * b));
    }
}

void unplane_rest(size_t width, const uint8_t* in, size_t first, size_t stride, uint8_t* out) {
  for (size_t group = first; group < stride; group++)
    for (size_t k = 0; k < width; k++) {
      uint64_t word = 0;
      for (size_t b = 0; b < 8; b++) word |= static_cast<uint64_t>(in[(k * 8 + b) * stride + group]) << (8 * b);
      word = transpose_bits(word);
      for (size_t i = 0; i < 8; i++) out[(group * 8 + i) * width + k] = static_cast<uint8_t>(word >> (8 * i));
    }
}

// Copies the bytes at the end that fill no element or no group of eight.
void copy_left_over(const uint8_t* in, uint8_t* out, size_t from, size_t size) {
  if (size > from) std::memcpy(out + from, in + from, size - from);
}

}  // namespace

void filter_encode(Filter filter, int width, Bytes input, MutableBytes output) {
  auto* in = reinterpret_cast<const uint8_t*>(input.data());
  auto* out = reinterpret_cast<uint8_t*>(output.data());
  size_t size = input.size(), filtered = 0, w = static_cast<size_t>(width);
  if (filter == Filter::kByteShuffle) {
    size_t n = size / w, blocks = n / kFilterBlock;
    best_filter().to_shuffle(width, in, blocks, out, n);
    shuffle_rest(w, in, blocks * kFilterBlock, n, out);
    filtered = n * w;
  } else if (filter == Filter::kBitPlanes) {
    size_t groups = size / (8 * w), blocks = groups / (kFilterBlock / 8);
    best_filter().to_planes(width, in, blocks, out, groups);
    plane_rest(w, in, blocks * (kFilterBlock / 8), groups, out);
    filtered = groups * 8 * w;
  }
  copy_left_over(in, out, filtered, size);
}

void filter_decode(Filter filter, int width, Bytes input, MutableBytes output) {
  auto* in = reinterpret_cast<const uint8_t*>(input.data());
  auto* out = reinterpret_cast<uint8_t*>(output.data());
  size_t size = input.size(), filtered = 0, w = static_cast<size_t>(width);
  if (filter == Filter::kByteShuffle) {
    size_t n = size / w, blocks = n / kFilterBlock;
    best_filter().from_shuffle(width, in, n, blocks, out);
    unshuffle_rest(w, in, blocks * kFilterBlock, n, out);
    filtered = n * w;
  } else if (filter == Filter::kBitPlanes) {
    size_t groups = size / (8 * w), blocks = groups / (kFilterBlock / 8);
    best_filter().from_planes(width, in, groups, blocks, out);
    unplane_rest(w, in, blocks * (kFilterBlock / 8), groups, out);
    filtered = groups * 8 * w;
  }
  copy_left_over(in, out, filtered, size);
}

}  // namespace ckpt::codec
