// What the bits of an element mean, for all of ckpt's dtypes; of an unknown dtype the bits are printed. Pure, any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <ckpt.hpp>

namespace cli {

// A binary float: sign bit on top, exponent, mantissa with an implicit leading bit.
struct FloatFormat {
  enum class Specials {
    kIeee,     // the highest exponent means infinity or NaN
    kNanOnes,  // "fn": all ones is NaN; no infinity
    kNone,     // "fn" of 4 and 6 bits: no NaN, no infinity
    kFnuz      // the pattern of -0 is NaN; no infinity
  };
  int32_t dtype;
  int exponent_bits, mantissa_bits, bias;
  Specials specials;
};

// The format of a float of at most 16 bits, except e8m0; null for other dtypes.
const FloatFormat* float_format(int32_t dtype);

// The low bits of `pattern` as a number; exact for every format above.
double decode_float(const FloatFormat& format, uint32_t pattern);

// Element `index` of `data`, packed lowest bits first. `bits` is 1 … 64; the element must be inside `data`.
uint64_t element_pattern(std::span<const std::byte> data, int bits, uint64_t index);

// Element `index` as text: a float with the fewest digits that tell it from its neighbours, (1+2j), True; 0xff for an
// unknown dtype.
std::string number_text(int32_t dtype, std::span<const std::byte> data, uint64_t index);

// Whether to_f32 takes the dtype: every real float of at most 16 bits.
bool has_f32(int32_t dtype);
float to_f32(int32_t dtype, std::span<const std::byte> data, uint64_t index);

// ckpt_dtype_name, or "dtype(0x1234)" for a code without a name.
std::string dtype_text(int32_t dtype);

}  // namespace cli
