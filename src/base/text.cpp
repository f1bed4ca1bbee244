#include "base/text.h"

#include <locale.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/shown.h"
#include "base/strformat.h"

namespace ckpt {

std::string list_some(const std::vector<std::string>& texts, size_t most, std::string_view between) {
  std::string text;
  for (size_t i = 0; i < std::min(texts.size(), most); i++) (i > 0 ? text += between : text) += texts[i];
  if (texts.size() > most) text += " and " + std::to_string(texts.size() - most) + " more";
  return text;
}

std::string list_ranks(const std::vector<uint32_t>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size() && i < 20; i++) text += (i ? ", " : "") + std::to_string(ranks[i]);
  return ranks.size() > 20 ? text + strformat(" and {} more", ranks.size() - 20) : text;
}

bool valid_utf8(std::string_view text) {
  while (!text.empty()) {
    size_t size = utf8_sequence(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

// The escape of a byte that must have one, or "".
static std::string_view escape_of(unsigned char byte, char (&buffer)[8]) {
  switch (byte) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      break;
  }
  if (byte >= 0x20) return {};
  std::snprintf(buffer, sizeof buffer, "\\u%04x", byte);
  return {buffer, 6};
}

void append_json_quoted(std::string_view text, std::string* out) {
  *out += '"';
  char buffer[8];
  size_t plain = 0;  // start of the text that needs no escape
  for (size_t i = 0; i < text.size(); i++) {
    const std::string_view escape = escape_of(static_cast<unsigned char>(text[i]), buffer);
    if (escape.empty()) continue;
    out->append(text, plain, i - plain);
    *out += escape;
    plain = i + 1;
  }
  out->append(text, plain);
  *out += '"';
}

std::string json_quote(std::string_view text) {
  std::string out;
  append_json_quoted(text, &out);
  return out;
}

std::string shown(std::string_view text) {
  constexpr size_t kLongest = 200;
  const auto quote = [](std::string_view bytes) { return json_quote(valid_utf8(bytes) ? bytes : shown_line(bytes)); };
  if (text.size() <= kLongest) return quote(text);
  size_t end = kLongest;
  while (end > 0 && (text[end] & 0xc0) == 0x80) end--;  // do not cut inside a character
  return quote(text.substr(0, end)) + "...";
}

std::optional<double> to_double(std::string_view text) {
  static const locale_t plain = newlocale(LC_ALL_MASK, "C", nullptr);
  // What strtod takes, and is none: " 1", "+1", "0x1".
  if (text.empty() || std::string_view("0123456789.-inIN").find(text.front()) == text.npos) return std::nullopt;
  if (text.find_first_of("xX") != text.npos) return std::nullopt;
  const std::string copy(text);
  char* end = nullptr;
  errno = 0;
  const double value = strtod_l(copy.c_str(), &end, plain);
  if (end != copy.c_str() + copy.size()) return std::nullopt;
  if (errno == ERANGE && (value == 0 || std::isinf(value)))
    return std::nullopt;  // else the smallest ones, which are fine
  return value;
}

}  // namespace ckpt
