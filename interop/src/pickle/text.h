// Numbers and strings in the ways that pickles write them. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ckpt::interop {

inline constexpr size_t kMaxLongBytes = 1024;                    // of an int in two's complement
inline constexpr size_t kMaxLongDigits = kMaxLongBytes * 8 / 3;  // of one in decimal, about

// An int of any size: `small`, or, where that is too narrow, decimal digits with a sign.
struct PickleInt {
  std::optional<int64_t> small;
  std::string digits;
};

// "-12"; FORMAT for anything that Python does not write.
Result<PickleInt> int_of_text(std::string_view text);
// Two's complement, little-endian, any length.
Result<PickleInt> int_of_bytes(std::string_view bytes);
// "1.5", "1e-05", "inf", "-inf", "nan"
Result<double> float_of_text(std::string_view text);

// Latin-1 with \uXXXX and \UXXXXXXXX, as UTF-8, surrogates as three bytes; of a number past U+10FFFF: FORMAT.
Result<std::string> unescape_unicode(std::string_view text);
// 'text' or "text" with a C string's escapes: what repr() of a string of Python 2 gives.
Result<std::string> unescape_quoted(std::string_view text);

// The character of that number, at most U+10FFFF.
void append_utf8(std::string& out, uint32_t c);
// Bytes that UTF-8 `text` has in Latin-1; none where a character has no place there.
std::optional<std::string> latin1_of(std::string_view text);
bool is_ascii(std::string_view text);
// Whether it is UTF-8 once each surrogate (U+D800 to U+DFFF, in three bytes) is another character.
bool is_utf8_but_for_surrogates(std::string_view text);

}  // namespace ckpt::interop
