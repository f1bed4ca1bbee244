// Made-up data for the micro-benchmarks.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "base/types.h"

namespace ckpt_bench {

enum class Content { kGaussianBf16, kGaussianF32, kUpcastF32, kZeros };

// Weights like trained ones: normal, standard deviation 0.02. kUpcastF32: f32 converted from bf16.
inline std::vector<std::byte> make_content(Content content, size_t bytes) {
  std::vector<std::byte> data(bytes);
  if (content == Content::kZeros) return data;
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal(0.0f, 0.02f);
  size_t width = content == Content::kGaussianBf16 ? 2 : 4;
  for (size_t at = 0; at + width <= bytes; at += width) {
    float value = normal(random);
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    if (content != Content::kGaussianF32) bits &= 0xffff0000u;
    uint16_t half = static_cast<uint16_t>(bits >> 16);
    std::memcpy(data.data() + at, width == 2 ? static_cast<const void*>(&half) : &bits, width);
  }
  return data;
}

}  // namespace ckpt_bench
