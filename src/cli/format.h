// Text with values in it: strformat("{} of {}", done, total). {} takes text, bools and integers. Floats have functions
// of their own. Pure.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace cli {

// One value as text.
class ValueText {
 public:
  ValueText(std::string_view text) : text_(text) {}
  ValueText(const std::string& text) : text_(text) {}
  ValueText(const char* text) : text_(text) {}
  template <typename T, typename = std::enable_if_t<std::is_integral_v<T>>>
  ValueText(T value) : own_(std::to_string(value)), text_(own_) {}
  ValueText(const ValueText&) = delete;
  std::string_view text() const { return text_; }

 private:
  std::string own_;
  std::string_view text_;
};
// The compiler checks the number of {}.
template <size_t kPieces>
struct Pattern {
  consteval Pattern(const char* pattern) : text(pattern) {
    size_t found = 0;
    for (size_t at = text.find("{}"); at != text.npos; at = text.find("{}", at + 2)) ++found;
    if (found != kPieces) throw "as many {} as values are expected";
  }
  std::string_view text;
};
std::string format_pieces(std::string_view pattern, std::initializer_list<std::string_view> pieces);

template <typename... Values>
std::string strformat(Pattern<sizeof...(Values)> pattern, const Values&... values) {
  return format_pieces(pattern.text, {ValueText(values).text()...});
}

// As printf; at most 511 bytes.
[[gnu::format(printf, 1, 2)]] std::string print_format(const char* pattern, ...);

// The fewest digits that read back as the same value: 0.1, 1e+30.
std::string shortest(double value);
std::string shortest(float value);

std::string joined(std::span<const std::string> texts, std::string_view between = ", ");
std::string padded(std::string text, size_t width);  // with blanks at the end

}  // namespace cli
