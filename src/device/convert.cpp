#include "device/convert.h"

#include <bit>
#include <cassert>
#include <cstring>

namespace ckpt::device {

namespace {

constexpr uint32_t kSign = 0x80000000u, kInfinity = 0x7f800000u, kQuiet = 0x00400000u;

// Each format defines how its bits become those of an f32, and back. Widening is exact, so going through f32 rounds
// only once. The code selects instead of branching, so that the compiler can vectorize it.
struct F32 {
  using Bits = uint32_t;
  static constexpr uint16_t kDtype = CKPT_DTYPE_F32;
  static uint32_t widen(Bits bits) { return bits; }
  static Bits narrow(uint32_t bits) { return bits; }
};

struct Bf16 {
  using Bits = uint16_t;
  static constexpr uint16_t kDtype = CKPT_DTYPE_BF16;

  static uint32_t widen(Bits half) {
    uint32_t bits = static_cast<uint32_t>(half) << 16;
    return (bits & ~kSign) > kInfinity ? bits | kQuiet : bits;
  }
  static Bits narrow(uint32_t bits) {
    uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);  // carries into the exponent, up to infinity
    uint32_t quiet = bits | kQuiet;
    return static_cast<Bits>(((bits & ~kSign) > kInfinity ? quiet : rounded) >> 16);
  }
};

struct F16 {
  using Bits = uint16_t;
  static constexpr uint16_t kDtype = CKPT_DTYPE_F16;
  static constexpr uint32_t kRebias = (127 - 15) << 23;

  static uint32_t widen(Bits half) {
    uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
    uint32_t magnitude = static_cast<uint32_t>(half & 0x7fff) << 13;
    uint32_t normal = magnitude + kRebias;
    // A subnormal counts units of 2^-24: put the count behind 2^-14 (one exponent up), then subtract 2^-14.
    constexpr uint32_t kTwoToMinus14 = 113u << 23;
    uint32_t subnormal =
        std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude + kTwoToMinus14) - std::bit_cast<float>(kTwoToMinus14));
    uint32_t special = magnitude | kInfinity | (magnitude > 0x0f800000u ? kQuiet : 0);
    uint32_t finite = magnitude < 0x00800000u ? subnormal : normal;
    return sign | (magnitude >= 0x0f800000u ? special : finite);
  }

  static Bits narrow(uint32_t bits) {
    uint32_t sign = bits & kSign, magnitude = bits ^ sign;
    uint32_t normal = (magnitude - kRebias + 0xfff + ((magnitude >> 13) & 1)) >> 13;
    // Below 2^-14: adding 0.5, whose last bit is 2^-24, rounds to nearest even in that unit.
    constexpr uint32_t kHalf = 126u << 23;
    uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(kHalf)) - kHalf;
    uint32_t finite = magnitude < (113u << 23) ? subnormal : normal;
    uint32_t nan = 0x7e00 | ((magnitude >> 13) & 0x3ff);
    uint32_t special = magnitude > kInfinity ? nan : 0x7c00;
    return static_cast<Bits>((sign >> 16) | (magnitude >= (143u << 23) ? special : finite));
  }
};

// Leaves the bits as they are. Used for copies, where a NaN must not change.
struct Bits16 {
  using Bits = uint16_t;
  static uint32_t widen(Bits bits) { return bits; }
  static Bits narrow(uint32_t bits) { return static_cast<Bits>(bits); }
};

template <typename From, typename To>
void convert_one(const std::byte* in, std::byte* out) {
  typename From::Bits from;
  std::memcpy(&from, in, sizeof from);
  typename To::Bits to = To::narrow(From::widen(from));
  std::memcpy(out, &to, sizeof to);
}

template <typename From, typename To>
void convert_all(const std::byte* in, std::byte* out, size_t count, uint64_t stride) {
  constexpr size_t kIn = sizeof(typename From::Bits), kOut = sizeof(typename To::Bits);
  size_t i = 0;
  // The compiler vectorizes at -O2 only loops with a fixed number of turns.
  constexpr size_t kBlock = 64;
  for (; stride == 1 && i + kBlock <= count; i += kBlock) {
    typename From::Bits from[kBlock];
    typename To::Bits to[kBlock];
    std::memcpy(from, in + i * kIn, sizeof from);
    for (size_t j = 0; j < kBlock; j++) to[j] = To::narrow(From::widen(from[j]));
    std::memcpy(out + i * kOut, to, sizeof to);
  }
  for (; i < count; i++) convert_one<From, To>(in + i * kIn, out + i * stride * kOut);
}

template <typename From>
void convert_from(const std::byte* in, uint16_t to, std::byte* out, size_t count, uint64_t stride) {
  switch (to) {
    case F32::kDtype:
      return convert_all<From, F32>(in, out, count, stride);
    case Bf16::kDtype:
      return convert_all<From, Bf16>(in, out, count, stride);
    case F16::kDtype:
      return convert_all<From, F16>(in, out, count, stride);
    default:
      return;  // convert() asserts that there is no other
  }
}

bool is_float(uint16_t dtype) { return dtype == F32::kDtype || dtype == Bf16::kDtype || dtype == F16::kDtype; }

}  // namespace

bool convertible(uint16_t from, uint16_t to) { return is_float(from) && is_float(to); }

void convert(uint16_t from, const std::byte* in, uint16_t to, std::byte* out, size_t count, uint64_t out_stride) {
  assert(convertible(from, to));
  if (from == to && from != F32::kDtype) return convert_all<Bits16, Bits16>(in, out, count, out_stride);
  switch (from) {
    case F32::kDtype:
      return convert_from<F32>(in, to, out, count, out_stride);
    case Bf16::kDtype:
      return convert_from<Bf16>(in, to, out, count, out_stride);
    case F16::kDtype:
      return convert_from<F16>(in, to, out, count, out_stride);
    default:
      return;
  }
}

}  // namespace ckpt::device
