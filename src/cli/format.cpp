#include "cli/format.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdarg>
#include <cstdio>

namespace cli {
namespace {

template <typename T>
std::string shortest_text(T value) {
  constexpr int kFixedFrom = -4, kFixedTo = 16;  // exponents in this range are written without "e"
  char buffer[64];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  std::string text(buffer, end);
  size_t e = text.find('e');
  if (!std::isfinite(value) || e == std::string::npos) return text;
  int exponent = std::stoi(text.substr(e + 1));
  if (exponent < kFixedFrom || exponent >= kFixedTo) return text;
  const std::string sign = text[0] == '-' ? "-" : "";
  std::string digits = text.substr(sign.size(), e - sign.size());
  if (digits.size() > 1) digits.erase(1, 1);  // the point
  if (exponent < 0) return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  size_t whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0');
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

}  // namespace

std::string format_pieces(std::string_view pattern, std::initializer_list<std::string_view> pieces) {
  std::string out;
  for (std::string_view piece : pieces) {
    size_t place = pattern.find("{}");
    out += pattern.substr(0, place);
    out += piece;
    pattern.remove_prefix(place + 2);
  }
  return out.append(pattern);
}

std::string print_format(const char* pattern, ...) {
  char buffer[512];
  va_list values;
  va_start(values, pattern);
  int size = std::vsnprintf(buffer, sizeof buffer, pattern, values);
  va_end(values);
  return {buffer, std::min(static_cast<size_t>(size), sizeof buffer - 1)};
}

std::string shortest(double value) { return shortest_text(value); }
std::string shortest(float value) { return shortest_text(value); }

std::string joined(std::span<const std::string> texts, std::string_view between) {
  std::string out;
  for (size_t i = 0; i < texts.size(); ++i) out.append(i == 0 ? "" : between).append(texts[i]);
  return out;
}

std::string padded(std::string text, size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

}  // namespace cli
