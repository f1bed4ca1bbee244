#include "base/base64.h"

#include <array>

namespace ckpt {

namespace {

constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr uint8_t kNone = 0xff;

constexpr std::array<uint8_t, 256> kValues = [] {
  std::array<uint8_t, 256> values{};
  values.fill(kNone);
  for (size_t i = 0; i < kLetters.size(); i++)
    values[static_cast<unsigned char>(kLetters[i])] = static_cast<uint8_t>(i);
  return values;
}();

}  // namespace

void append_base64(Bytes bytes, std::string* out) {
  out->reserve(out->size() + (bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t k = 0; k < 3; k++) group = group << 8 | (k < count ? static_cast<uint32_t>(bytes[i + k]) : 0);
    for (size_t k = 0; k < 4; k++) *out += k <= count ? kLetters[group >> (18 - 6 * k) & 63] : '=';
  }
}

std::optional<std::string> parse_base64(std::string_view text) {
  if (text.size() % 4 != 0) return {};
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (size_t i = 0; i < text.size(); i += 4) {
    const std::string_view letters = text.substr(i, 4);
    const bool last = i + 4 == text.size();
    const size_t padding = !last || letters[3] != '=' ? 0 : letters[2] != '=' ? 1 : 2;
    uint32_t group = 0;
    for (size_t k = 0; k < 4; k++) {
      const uint8_t value = k >= 4 - padding ? uint8_t{0} : kValues[static_cast<unsigned char>(letters[k])];
      if (value == kNone) return {};
      group = group << 6 | value;
    }
    if (padding != 0 && (group & ((1u << (8 * padding)) - 1)) != 0) return {};
    for (size_t k = 0; k < 3 - padding; k++) bytes += static_cast<char>(group >> (16 - 8 * k) & 0xff);
  }
  return bytes;
}

}  // namespace ckpt
