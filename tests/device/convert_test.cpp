#include "device/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

namespace ckpt::device {
namespace {

// The reference uses values in double precision and no bit tricks: a 16-bit format is a list of values.
struct Small {
  uint16_t dtype;
  int exponent_bits, mantissa_bits, bias;
  uint32_t infinity() const { return ((1u << exponent_bits) - 1) << mantissa_bits; }

  double value(uint32_t pattern) const {  // of a pattern without sign; infinity: what would follow the largest
    uint32_t exponent = pattern >> mantissa_bits, mantissa = pattern & ((1u << mantissa_bits) - 1);
    if (exponent == 0) return std::ldexp(mantissa, 1 - bias - mantissa_bits);
    return std::ldexp(mantissa + (1u << mantissa_bits), static_cast<int>(exponent) - bias - mantissa_bits);
  }
  // The nearest pattern of a value >= 0; of two that are equally near, the even one.
  uint32_t nearest(double wanted) const {
    if (wanted >= value(infinity())) return infinity();
    uint32_t low = 0, high = infinity();
    while (high - low > 1) {
      uint32_t middle = (low + high) / 2;
      (value(middle) <= wanted ? low : high) = middle;
    }
    double below = wanted - value(low), above = value(high) - wanted;
    if (below != above) return below < above ? low : high;
    return low % 2 == 0 ? low : high;
  }
};
constexpr Small kF16{CKPT_DTYPE_F16, 5, 10, 15}, kBf16{CKPT_DTYPE_BF16, 8, 7, 127};

uint32_t widened(const Small& small, uint16_t pattern) {
  uint32_t sign = static_cast<uint32_t>(pattern >> 15) << 31, magnitude = pattern & 0x7fff;
  if (magnitude < small.infinity()) return sign | std::bit_cast<uint32_t>(static_cast<float>(small.value(magnitude)));
  if (magnitude == small.infinity()) return sign | 0x7f800000u;
  uint32_t payload = magnitude - small.infinity();
  return sign | 0x7fc00000u | payload << (23 - small.mantissa_bits);
}

uint16_t narrowed(const Small& small, uint32_t bits) {
  uint32_t sign = bits >> 31 << 15, magnitude = bits & 0x7fffffffu;
  uint32_t pattern = small.infinity();
  if (magnitude > 0x7f800000u)
    pattern |= 1u << (small.mantissa_bits - 1) | (magnitude & 0x7fffff) >> (23 - small.mantissa_bits);
  else if (magnitude < 0x7f800000u)
    pattern = small.nearest(std::bit_cast<float>(magnitude));
  return static_cast<uint16_t>(sign | pattern);
}

template <typename To, typename From>
std::vector<To> converted(uint16_t from_dtype, const std::vector<From>& from, uint16_t to_dtype) {
  std::vector<To> to(from.size());
  convert(from_dtype, std::as_bytes(std::span(from)).data(), to_dtype, std::as_writable_bytes(std::span(to)).data(),
          from.size(), 1);
  return to;
}

std::vector<uint16_t> all_patterns() {
  std::vector<uint16_t> patterns(65536);
  for (size_t i = 0; i < patterns.size(); i++) patterns[i] = static_cast<uint16_t>(i);
  return patterns;
}

// Every sign, exponent and upper mantissa, with low bits around the places where either format rounds; and random ones.
std::vector<uint32_t> f32_patterns() {
  std::vector<uint32_t> patterns;
  for (uint32_t high = 0; high < 65536; high++)
    for (uint32_t low : {0x0000u, 0x0001u, 0x0fffu, 0x1000u, 0x1001u, 0x1fffu, 0x2000u, 0x2fffu, 0x3000u, 0x3001u,
                         0x7fffu, 0x8000u, 0x8001u, 0xefffu, 0xf000u, 0xf001u, 0xffffu})
      patterns.push_back(high << 16 | low);
  // The halfway cases of every f16 subnormal, and their neighbours.
  for (uint32_t count = 0; count < 1024; count++) {
    uint32_t halfway = std::bit_cast<uint32_t>(std::ldexp(static_cast<float>(count) + 0.5f, -24));
    for (uint32_t near = halfway - 2; near <= halfway + 2; near++) patterns.push_back(near);
  }
  std::mt19937 random(1);
  for (int i = 0; i < 500000; i++) patterns.push_back(static_cast<uint32_t>(random()));
  return patterns;
}

class Convert : public testing::TestWithParam<const Small*> {};
INSTANTIATE_TEST_SUITE_P(Formats, Convert, testing::Values(&kF16, &kBf16),
                         [](const auto& format) { return std::string(dtype_name(format.param->dtype)); });

TEST_P(Convert, WidensEveryPatternExactly) {
  std::vector<uint32_t> wide = converted<uint32_t>(GetParam()->dtype, all_patterns(), CKPT_DTYPE_F32);
  for (uint32_t i = 0; i < 65536; i++) ASSERT_EQ(wide[i], widened(*GetParam(), static_cast<uint16_t>(i))) << i;
}

TEST_P(Convert, NarrowsToNearestEven) {
  std::vector<uint32_t> wide = f32_patterns();
  std::vector<uint16_t> narrow = converted<uint16_t>(CKPT_DTYPE_F32, wide, GetParam()->dtype);
  for (size_t i = 0; i < wide.size(); i++) ASSERT_EQ(narrow[i], narrowed(*GetParam(), wide[i])) << std::hex << wide[i];
}

TEST_P(Convert, EveryPatternSurvivesTheWayThroughF32UnlessItIsASignallingNaN) {
  const Small& small = *GetParam();
  std::vector<uint16_t> patterns = all_patterns();
  std::vector<uint16_t> back =
      converted<uint16_t>(CKPT_DTYPE_F32, converted<uint32_t>(small.dtype, patterns, CKPT_DTYPE_F32), small.dtype);
  for (size_t i = 0; i < patterns.size(); i++) {
    bool nan = (i & 0x7fff) > small.infinity();
    ASSERT_EQ(back[i], nan ? i | 1u << (small.mantissa_bits - 1) : i);
  }
}

TEST_P(Convert, BetweenTheSmallFormatsRoundsOnce) {
  const Small &from = *GetParam(), &to = GetParam() == &kF16 ? kBf16 : kF16;
  std::vector<uint16_t> found = converted<uint16_t>(from.dtype, all_patterns(), to.dtype);
  for (uint32_t i = 0; i < 65536; i++)
    ASSERT_EQ(found[i], narrowed(to, widened(from, static_cast<uint16_t>(i)))) << std::hex << i;
}

TEST(ConvertF16, KnownValues) {
  std::vector<float> wide{65504.f,       65519.996f,     65520.f, -65520.f, 5.9604645e-8f,
                          2.9802322e-8f, 2.98023259e-8f, -0.f,    1.f};
  std::vector<uint16_t> expected{0x7bff, 0x7bff, 0x7c00, 0xfc00, 0x0001, 0x0000, 0x0001, 0x8000, 0x3c00};
  EXPECT_EQ(converted<uint16_t>(CKPT_DTYPE_F32, wide, CKPT_DTYPE_F16), expected);
}

TEST(ConvertStrided, WritesOnlyEveryStridethElementAtAnyAlignment) {
  std::vector<float> in(300);
  for (size_t i = 0; i < in.size(); i++) in[i] = static_cast<float>(i);
  for (uint64_t stride : {1, 2, 7}) {
    std::vector<std::byte> out(1 + 2 * stride * in.size(), std::byte{0xee});
    convert(CKPT_DTYPE_F32, std::as_bytes(std::span(in)).data(), CKPT_DTYPE_BF16, out.data() + 1, in.size(), stride);
    for (size_t i = 0; i < stride * in.size(); i++) {
      uint16_t found;
      std::memcpy(&found, out.data() + 1 + 2 * i, 2);
      ASSERT_EQ(found, i % stride ? 0xeeee : narrowed(kBf16, std::bit_cast<uint32_t>(in[i / stride]))) << i;
    }
  }
}

TEST(ConvertIdentity, CopiesBitsWithoutTouchingNaNs) {
  std::vector<uint32_t> in{0x7f800001u, 0xff800001u, 1, 0x3f800000u};
  EXPECT_EQ(converted<uint32_t>(CKPT_DTYPE_F32, in, CKPT_DTYPE_F32), in);
  std::vector<uint16_t> patterns = all_patterns();
  EXPECT_EQ(converted<uint16_t>(CKPT_DTYPE_F16, patterns, CKPT_DTYPE_F16), patterns);
  EXPECT_EQ(converted<uint16_t>(CKPT_DTYPE_BF16, patterns, CKPT_DTYPE_BF16), patterns);
}

TEST(ConvertPairs, AreTheThreeFloatsOnly) {
  for (uint16_t from : {CKPT_DTYPE_F32, CKPT_DTYPE_F16, CKPT_DTYPE_BF16}) {
    for (uint16_t to : {CKPT_DTYPE_F32, CKPT_DTYPE_F16, CKPT_DTYPE_BF16}) EXPECT_TRUE(convertible(from, to));
    for (uint16_t to : {CKPT_DTYPE_F64, CKPT_DTYPE_I16, CKPT_DTYPE_C32, CKPT_DTYPE_F8_E5M2}) {
      EXPECT_FALSE(convertible(from, to));
      EXPECT_FALSE(convertible(to, from));
    }
  }
}

}  // namespace
}  // namespace ckpt::device
