#include "cli/numbers.h"

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string_view>

#include "cli/format.h"

namespace cli {
namespace {

using Specials = FloatFormat::Specials;

constexpr FloatFormat kFormats[] = {
#define CKPT_DTYPE_ROW(constant, name, exponent, mantissa, bias, specials, ...) \
  {CKPT_DTYPE_##constant, exponent, mantissa, bias, Specials::specials},
#include "base/dtypes.def"
#undef CKPT_DTYPE_ROW
};

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

int format_bits(const FloatFormat& format) { return 1 + format.exponent_bits + format.mantissa_bits; }

// e8m0: a power of two, without sign.
double decode_e8m0(uint32_t pattern) {
  return pattern == 0xff ? kNan : std::ldexp(1.0, static_cast<int>(pattern) - 127);
}

// The distance to the nearest other finite number of the format. Among patterns of one sign, values rise with patterns.
double spacing(const FloatFormat& format, uint32_t pattern, double value) {
  uint32_t magnitudes = (1u << (format_bits(format) - 1)) - 1;
  uint32_t magnitude = pattern & magnitudes;
  double best = kInfinity;
  for (uint32_t other : {magnitude - 1, magnitude + 1}) {
    if (other > magnitudes) continue;
    double neighbour = decode_float(format, (pattern & ~magnitudes) | other);
    if (std::isfinite(neighbour) && neighbour != value) best = std::fmin(best, std::fabs(neighbour - value));
  }
  return best;
}

std::string special_text(double value) { return std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf"; }

// Adds ".0" to a whole number, so that a float looks like one; "1e+16" and "0.5" stay.
std::string with_point(std::string text) { return text.find_first_of(".en") == std::string::npos ? text + ".0" : text; }

std::string short_float_text(const FloatFormat& format, uint32_t pattern) {
  constexpr double kExactBelow = 1e6;
  double value = decode_float(format, pattern);
  if (!std::isfinite(value)) return special_text(value);
  // 65500 would be enough to tell f16's 65504 from its neighbours, but readers expect whole numbers to be exact.
  bool whole = std::fabs(value) < kExactBelow && std::trunc(value) == value;
  double reach = spacing(format, pattern, value) / 2;
  for (int digits = 1; !whole && digits < 17; ++digits) {
    double rounded = std::strtod(print_format("%.*g", digits, value).c_str(), nullptr);
    if (std::fabs(rounded - value) < reach) return with_point(shortest(rounded));
  }
  return with_point(shortest(value));
}

template <typename T>
std::string float_text(T value) {
  return std::isfinite(value) ? with_point(shortest(value)) : special_text(static_cast<double>(value));
}

// Float number `index` of `data`, of 16, 32 or 64 bits.
std::string component_text(int bits, std::span<const std::byte> data, uint64_t index) {
  uint64_t pattern = element_pattern(data, bits, index);
  if (bits == 64) return float_text(std::bit_cast<double>(pattern));
  if (bits == 32) return float_text(std::bit_cast<float>(static_cast<uint32_t>(pattern)));
  return short_float_text(*float_format(CKPT_DTYPE_F16), static_cast<uint32_t>(pattern));
}

std::string complex_text(int bits, std::span<const std::byte> data, uint64_t index) {
  std::string real = component_text(bits / 2, data, 2 * index),
              imaginary = component_text(bits / 2, data, 2 * index + 1);
  return strformat("({}{}{}j)", real, imaginary.front() == '-' ? "" : "+", imaginary);
}

int64_t sign_extended(uint64_t pattern, int bits) {
  int shift = 64 - bits;
  return static_cast<int64_t>(pattern << shift) >> shift;
}

// The bits of an element of any width, highest first, as hex digits.
std::string hex_text(int bits, std::span<const std::byte> data, uint64_t index) {
  std::string digits;
  for (int low = (bits - 1) / 4 * 4; low >= 0; low -= 4) {
    unsigned nibble = 0;
    for (int bit = 3; bit >= 0; --bit) {
      bool inside = low + bit < bits;
      uint64_t at = index * static_cast<uint64_t>(bits) + static_cast<uint64_t>(low + bit);
      bool set = inside && ((std::to_integer<unsigned>(data[at / 8]) >> (at % 8)) & 1) != 0;
      nibble = nibble * 2 + (set ? 1 : 0);
    }
    digits += "0123456789abcdef"[nibble];
  }
  return "0x" + digits;
}

}  // namespace

const FloatFormat* float_format(int32_t dtype) {
  for (const FloatFormat& format : kFormats) {
    if (format.dtype == dtype) return format.exponent_bits ? &format : nullptr;
  }
  return nullptr;
}

double decode_float(const FloatFormat& format, uint32_t pattern) {
  int bits = format_bits(format);
  uint32_t ones = (1u << (bits - 1)) - 1;
  uint32_t top = (1u << format.exponent_bits) - 1;
  uint32_t magnitude = pattern & ones;
  bool negative = (pattern >> (bits - 1) & 1) != 0;
  uint32_t exponent = magnitude >> format.mantissa_bits;
  uint32_t mantissa = magnitude & ((1u << format.mantissa_bits) - 1);
  if (format.specials == Specials::kFnuz && negative && magnitude == 0) return kNan;
  if (format.specials == Specials::kNanOnes && magnitude == ones) return kNan;
  if (format.specials == Specials::kIeee && exponent == top) {
    if (mantissa != 0) return kNan;
    return negative ? -kInfinity : kInfinity;
  }
  uint32_t significand = exponent == 0 ? mantissa : mantissa | 1u << format.mantissa_bits;
  int scale = static_cast<int>(exponent == 0 ? 1 : exponent) - format.bias - format.mantissa_bits;
  double value = std::ldexp(static_cast<double>(significand), scale);
  return negative ? -value : value;
}

uint64_t element_pattern(std::span<const std::byte> data, int bits, uint64_t index) {
  uint64_t pattern = 0;
  if (bits % 8 == 0) {
    size_t bytes = static_cast<size_t>(bits) / 8;
    std::memcpy(&pattern, data.data() + index * bytes, bytes);
    return pattern;
  }
  uint64_t first = index * static_cast<uint64_t>(bits);
  for (int i = 0; i < bits; ++i) {
    uint64_t at = first + static_cast<uint64_t>(i);
    pattern |= static_cast<uint64_t>(std::to_integer<unsigned>(data[at / 8]) >> (at % 8) & 1) << i;
  }
  return pattern;
}

std::string number_text(int32_t dtype, std::span<const std::byte> data, uint64_t index) {
  int code = dtype / 256, bits = dtype % 256;
  if (const FloatFormat* format = float_format(dtype)) {
    return short_float_text(*format, static_cast<uint32_t>(element_pattern(data, bits, index)));
  }
  switch (dtype) {
    case CKPT_DTYPE_F32:
    case CKPT_DTYPE_F64:
      return component_text(bits, data, index);
    case CKPT_DTYPE_C32:
    case CKPT_DTYPE_C64:
    case CKPT_DTYPE_C128:
      return complex_text(bits, data, index);
    case CKPT_DTYPE_F8_E8M0FNU: {
      double value = decode_e8m0(static_cast<uint32_t>(element_pattern(data, 8, index)));
      return std::isnan(value) ? "nan" : with_point(shortest(value));
    }
    case CKPT_DTYPE_BOOL: {
      uint64_t value = element_pattern(data, 8, index);
      return value == 0 ? "False" : value == 1 ? "True" : strformat("True({})", value);
    }
    default:
      break;
  }
  if (code > 1 || bits > 64) return hex_text(bits, data, index);
  uint64_t pattern = element_pattern(data, bits, index);
  return code == 0 ? std::to_string(sign_extended(pattern, bits)) : std::to_string(pattern);
}

bool has_f32(int32_t dtype) { return float_format(dtype) != nullptr || dtype == CKPT_DTYPE_F8_E8M0FNU; }

float to_f32(int32_t dtype, std::span<const std::byte> data, uint64_t index) {
  uint32_t pattern = static_cast<uint32_t>(element_pattern(data, dtype % 256, index));
  const FloatFormat* format = float_format(dtype);
  return static_cast<float>(format != nullptr ? decode_float(*format, pattern) : decode_e8m0(pattern));
}

std::string dtype_text(int32_t dtype) {
  const char* name = ckpt_dtype_name(dtype);
  return std::string_view(name) == "dtype" ? print_format("dtype(0x%04x)", static_cast<unsigned>(dtype)) : name;
}

}  // namespace cli
