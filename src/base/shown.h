// Text as people are shown it: one line, of UTF-8, without what a terminal obeys, turns around or hides, and not longer
// than a screen holds. Header only, since the tool has it too.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace ckpt {

inline constexpr size_t kMostShown = 960;        // bytes of a line of an error: 1 KiB with a program's words before
inline constexpr size_t kMostOfFact = 4 * 4096;  // of a fact of one: the longest name, if all of it is escaped

// The size of the UTF-8 sequence that `text` starts with, 0 if it is not valid (Unicode 15, table 3-7).
inline size_t utf8_sequence(std::string_view text) {
  auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  auto continues = [&](size_t i) { return (byte(i) & 0xc0) == 0x80; };
  unsigned first = byte(0), second = byte(1);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4 || !continues(1)) return 0;
  if (first < 0xe0) return 2;
  if (first == 0xe0 && second < 0xa0) return 0;  // overlong
  if (first == 0xed && second > 0x9f) return 0;  // surrogates
  if (!continues(2)) return 0;
  if (first < 0xf0) return 3;
  if (first == 0xf0 && second < 0x90) return 0;  // overlong
  if (first == 0xf4 && second > 0x8f) return 0;  // beyond U+10FFFF
  return continues(3) ? 4 : 0;
}

// Of a sequence of utf8_sequence: its code point, and whether it is a character that a terminal obeys, that changes the
// direction of others or breaks the line, or that cannot be seen.
inline uint32_t code_of(std::string_view sequence) {
  uint32_t code = static_cast<unsigned char>(sequence[0]);
  if (sequence.size() > 1) code &= 0x7fu >> sequence.size();
  for (const char c : sequence.substr(1)) code = code << 6 | (static_cast<unsigned char>(c) & 0x3f);
  return code;
}
inline bool is_hidden(std::string_view sequence) {
  static constexpr struct {
    uint32_t first, last;
  } kHidden[] = {{0, 0x1f},        {0x7f, 0x9f},       {0xad, 0xad},      {0x34f, 0x34f},   {0x61c, 0x61c},
                 {0x115f, 0x1160}, {0x17b4, 0x17b5},   {0x180b, 0x180f},  {0x200b, 0x200f}, {0x2028, 0x202e},
                 {0x2060, 0x206f}, {0x3164, 0x3164},   {0xfe00, 0xfe0f},  {0xfeff, 0xfeff}, {0xffa0, 0xffa0},
                 {0xfff0, 0xfffb}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff}};
  return std::any_of(std::begin(kHidden), std::end(kHidden), [code = code_of(sequence)](const auto& range) {
    return range.first <= code && code <= range.last;
  });
}

// With \n, \t and \xNN for the bytes of what is hidden or no UTF-8.
inline std::string shown_line(std::string_view text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  while (!text.empty()) {
    const size_t valid = utf8_sequence(text), size = std::max<size_t>(valid, 1);
    const std::string_view here = text.substr(0, size);
    if (valid != 0 && !is_hidden(here))
      out += here;
    else if (here == "\n" || here == "\t")
      out += here == "\n" ? "\\n" : "\\t";
    else
      for (const char c : here) {
        const auto byte = static_cast<unsigned char>(c);
        out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
      }
    text.remove_prefix(size);
  }
  return out;
}

// Takes the middle out of `text`, [at, at + size), so that `by` bytes are gone; not inside of a character.
inline void cut_middle(std::string* text, size_t at, size_t size, size_t by) {
  static constexpr std::string_view kGap = "[...]";
  size_t begin = at + (size - std::min(size, by + kGap.size())) * 2 / 3;
  size_t end = std::min(at + size, begin + by + kGap.size());
  while (begin > at && (static_cast<unsigned char>((*text)[begin]) & 0xc0) == 0x80) begin--;
  while (end < at + size && (static_cast<unsigned char>((*text)[end]) & 0xc0) == 0x80) end++;
  text->replace(begin, end - begin, kGap);
}

// At most `most` bytes of a line: the longest names lose their middle first, then the text does.
inline std::string cut_line(std::string text, size_t most = kMostShown) {
  constexpr size_t kKept = 160;  // of a name
  while (text.size() > most) {
    size_t longest = 0, longest_at = 0;
    for (size_t at = 0, end = 0; at < text.size(); at = end + 1) {
      end = std::min(text.find(' ', at), text.size());
      if (end - at > longest) longest = end - at, longest_at = at;
    }
    const size_t by = text.size() - most;
    if (longest > kKept + 16)
      cut_middle(&text, longest_at, longest, std::min(by, longest - kKept));
    else
      cut_middle(&text, 0, text.size(), by);
  }
  return text;
}

}  // namespace ckpt
