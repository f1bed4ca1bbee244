// The filters that make data compress better: byte shuffle and bit planes (FORMAT §5). Pure rearrangements: output and
// input have one size and must not overlap. The widest vector code that the machine has is chosen at the first call;
// all give the same bytes. Everything here may be called from any thread.
#pragma once

#include "base/types.h"

namespace ckpt::format {

// What FORMAT allows: 1, 2, 4, 8.
inline constexpr bool filter_width_ok(int width) { return width == 1 || width == 2 || width == 4 || width == 8; }

// `width` is ok, or the filter is kNone. `out` has the size of `in`.
void filter_encode(Filter filter, int width, Bytes in, MutableBytes out);
void filter_decode(Filter filter, int width, Bytes in, MutableBytes out);

}  // namespace ckpt::format
