// The filters that make data compress better: byte shuffle and bit planes (FORMAT §5). They only rearrange bytes:
// output and input have the same size and must not overlap. The first call chooses the widest vector code that the
// machine has; all of them give the same bytes. Everything here may be called from any thread.
#pragma once

#include "base/types.h"

namespace ckpt::codec {

// The widths that FORMAT allows.
inline constexpr bool filter_width_ok(int width) { return width == 1 || width == 2 || width == 4 || width == 8; }

// `width` must be one of these, unless the filter is kNone. `out` must have the size of `in`.
void filter_encode(Filter filter, int width, Bytes in, MutableBytes out);
void filter_decode(Filter filter, int width, Bytes in, MutableBytes out);

}  // namespace ckpt::codec
