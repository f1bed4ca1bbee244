// Conversion between f32, bf16 and f16. Pure; callable on any thread, in the default floating-point environment.
// Rounds to nearest even; overflow gives infinity; subnormals are exact; a NaN becomes a quiet NaN of the same sign
// with the top bits of its payload.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/types.h"

namespace ckpt::device {

// Whether both are f32, bf16 or f16 (a dtype to itself is a copy).
bool convertible(uint16_t from, uint16_t to);

// Converts `count` elements. `in` is contiguous; elements of `out` are `out_stride` elements apart. Neither need be
// aligned. They must not overlap.
void convert(uint16_t from, const std::byte* in, uint16_t to, std::byte* out, size_t count, uint64_t out_stride);

}  // namespace ckpt::device
