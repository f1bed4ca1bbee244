// Small things about text that several rooms need.
#pragma once

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ckpt {

// The pieces between the separators: "a,,b" gives "a", "" and "b"; text without a separator is one piece.
inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  for (;;) {
    const size_t end = text.find(separator);
    pieces.push_back(text.substr(0, end));
    if (end == text.npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

// Copies text into a field of a C struct, with its zero byte; what does not fit is cut off.
template <size_t N>
void put_text(char (&out)[N], std::string_view text) {
  const size_t size = std::min(text.size(), N - 1);
  std::memcpy(out, text.data(), size);
  out[size] = 0;
}

// "3, 5" or, of more than 20, "0, 1, … 19 and 7 more", for errors.
std::string list_ranks(const std::vector<uint32_t>& ranks);
// "a, b, c and 2 more", for errors: the first `most`.
std::string list_some(const std::vector<std::string>& texts, size_t most, std::string_view between = ", ");

// UTF-8 without overlong forms, without surrogates, with nothing beyond U+10FFFF.
bool valid_utf8(std::string_view text);
inline bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

// "text" with quotes and escapes, as serde_json and nlohmann write it: escapes only what must be escaped.
std::string json_quote(std::string_view text);
void append_json_quoted(std::string_view text, std::string* out);
// For messages: quoted, and cut if it is long.
std::string shown(std::string_view text);

// The number that the whole text is: "1.5", "-2e9", "inf"; whatever the locale. (libc++ has std::from_chars of floats
// from version 20 on.)
std::optional<double> to_double(std::string_view text);

inline char to_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Of ASCII's letters, whatever the locale.
inline std::string in_lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = to_lower(c);
  return lower;
}

// The value of a digit as ckpt writes them, in lower case; -1 for any other character.
inline int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace ckpt
