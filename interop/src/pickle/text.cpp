#include "interop/src/pickle/text.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <vector>

#include "base/text.h"
#include "format/names.h"
#include "tree/json_text.h"

namespace ckpt::interop {

namespace {

Status bad_number(const char* what, std::string_view text) {
  return Status(CKPT_FORMAT, std::string("expected ") + what + ", found " + shown(text.substr(0, 40)))
      .with("found", shown(text.substr(0, 40)));
}

Status too_long(const char* what, size_t limit, size_t found) {
  return Status(CKPT_FORMAT, strformat("an int of {} {}, expected at most {}", found, what, limit))
      .with("expected", limit)
      .with("found", found);
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// -1 where `c` is none of `base` digits.
int digit_of(char c, int base) {
  const int value = is_digit(c)            ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : 16;
  return value < base ? value : -1;
}

// Up to `most` digits from the front of `text`, which loses them.
uint32_t take_digits(std::string_view& text, int base, size_t most, size_t* count) {
  uint32_t value = 0;
  for (*count = 0; *count < most && !text.empty() && digit_of(text.front(), base) >= 0; ++*count) {
    value = value * static_cast<uint32_t>(base) + static_cast<uint32_t>(digit_of(text.front(), base));
    text.remove_prefix(1);
  }
  return value;
}

// The magnitude of a two's complement number in limbs of 32 bits, lowest first.
std::vector<uint32_t> magnitude(std::string_view bytes, bool negative) {
  std::vector<uint32_t> limbs((bytes.size() + 3) / 4, negative ? UINT32_MAX : 0);
  std::memcpy(limbs.data(), bytes.data(), bytes.size());
  if (!negative) return limbs;
  bool carry = true;
  for (uint32_t& limb : limbs) {
    limb = ~limb + carry;
    carry = carry && limb == 0;
  }
  if (carry) limbs.push_back(1);
  return limbs;
}

std::string decimal(std::vector<uint32_t> limbs, bool negative) {
  constexpr uint32_t kChunk = 1'000'000'000;
  std::string reversed;
  while (!limbs.empty()) {
    uint64_t rest = 0;
    for (size_t i = limbs.size(); i-- > 0;) {
      rest = rest << 32 | limbs[i];
      limbs[i] = static_cast<uint32_t>(rest / kChunk);
      rest %= kChunk;
    }
    for (int i = 0; i < 9; i++, rest /= 10) reversed += static_cast<char>('0' + rest % 10);
    while (!limbs.empty() && limbs.back() == 0) limbs.pop_back();
  }
  while (reversed.size() > 1 && reversed.back() == '0') reversed.pop_back();
  if (negative) reversed += '-';
  return {reversed.rbegin(), reversed.rend()};
}

// `text` begins after the backslash and loses what belongs to the escape.
Status unescape_one(std::string_view& text, std::string& out) {
  const char c = text.front();
  size_t count = 0;
  if (digit_of(c, 8) >= 0) {
    out += static_cast<char>(take_digits(text, 8, 3, &count));
    return Ok();
  }
  text.remove_prefix(1);
  if (c == 'x') {
    out += static_cast<char>(take_digits(text, 16, 2, &count));
    return count == 2 ? Ok() : Status(CKPT_FORMAT, "expected two hexadecimal digits after \\x");
  }
  constexpr std::string_view kLetters = "\\'\"abfnrtv", kMeanings = "\\'\"\a\b\f\n\r\t\v";
  const size_t at = kLetters.find(c);
  if (at == std::string_view::npos) out += '\\';  // not an escape
  out += at == std::string_view::npos ? c : kMeanings[at];
  return Ok();
}

}  // namespace

void append_utf8(std::string& out, uint32_t c) {
  auto put = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xc0 | c >> 6);
  } else if (c < 0x10000) {
    put(0xe0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3f));
  } else {
    put(0xf0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3f));
    put(0x80 | (c >> 6 & 0x3f));
  }
  put(0x80 | (c & 0x3f));
}

Result<PickleInt> int_of_text(std::string_view text) {
  std::string_view digits = text;
  const bool negative = digits.starts_with('-');
  if (negative) digits.remove_prefix(1);
  if (digits.empty() || !std::all_of(digits.begin(), digits.end(), is_digit)) return bad_number("an int", text);
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size() - 1));
  if (digits.size() > kMaxLongDigits) return too_long("digits", kMaxLongDigits, digits.size());
  PickleInt out;
  out.digits = (negative ? "-" : "") + std::string(digits);
  int64_t small = 0;
  if (std::from_chars(out.digits.data(), out.digits.data() + out.digits.size(), small).ec == std::errc())
    out.small = small;
  return out;
}

Result<PickleInt> int_of_bytes(std::string_view bytes) {
  const bool negative = !bytes.empty() && (bytes.back() & 0x80) != 0;
  const char fill = negative ? '\xff' : '\0';
  while (bytes.size() > 8 && bytes.back() == fill && ((bytes[bytes.size() - 2] ^ fill) & 0x80) == 0)
    bytes.remove_suffix(1);
  if (bytes.size() > kMaxLongBytes) return too_long("bytes", kMaxLongBytes, bytes.size());
  PickleInt out;
  if (bytes.size() > 8) {
    out.digits = decimal(magnitude(bytes, negative), negative);
    return out;
  }
  int64_t small = negative ? -1 : 0;
  std::memcpy(&small, bytes.data(), bytes.size());
  out.small = small;
  return out;
}

Result<double> float_of_text(std::string_view text) {
  const std::optional<double> value = to_double(text);
  if (!value) return bad_number("a float", text);
  return *value;
}

Result<std::string> unescape_unicode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const char c = text.front();
    text.remove_prefix(1);
    if (c != '\\' || text.empty()) {
      append_utf8(out, static_cast<unsigned char>(c));
      continue;
    }
    const char kind = text.front();
    text.remove_prefix(1);
    if (kind != 'u' && kind != 'U') {  // of two backslashes neither begins an escape
      out += '\\';
      append_utf8(out, static_cast<unsigned char>(kind));
      continue;
    }
    const size_t size = kind == 'u' ? 4 : 8;
    size_t count = 0;
    const uint32_t character = take_digits(text, 16, size, &count);
    if (count != size) return Status(CKPT_FORMAT, strformat("expected {} hexadecimal digits after \\{}", size, kind));
    if (character > 0x10ffff) return Status(CKPT_FORMAT, strformat("U+{:04X} is not a character", character));
    append_utf8(out, character);
  }
  return out;
}

Result<std::string> unescape_quoted(std::string_view text) {
  if (text.size() < 2 || text.front() != text.back() || (text.front() != '\'' && text.front() != '"'))
    return bad_number("a quoted string", text);
  text = text.substr(1, text.size() - 2);
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const char c = text.front();
    text.remove_prefix(1);
    if (c != '\\') {
      out += c;
      continue;
    }
    if (text.empty()) return Status(CKPT_FORMAT, "a backslash at the end of a string");
    CKPT_TRY(unescape_one(text, out));
  }
  return out;
}

bool is_ascii(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return (c & 0x80) != 0; });
}

bool is_utf8_but_for_surrogates(std::string_view text) {
  std::string whole(text);
  for (size_t i = 0; i + 2 < whole.size(); i++)
    if (whole[i] == '\xed' && (whole[i + 1] & 0xe0) == 0xa0) whole[i] = '\xee';  // a character of private use
  return valid_utf8(whole);
}

std::optional<std::string> latin1_of(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); i++) {
    const unsigned lead = static_cast<unsigned char>(text[i]);
    if (lead < 0x80) {
      out += text[i];
      continue;
    }
    if (lead > 0xc3 || i + 1 == text.size()) return std::nullopt;  // past U+00FF
    out += static_cast<char>((lead & 3) << 6 | (static_cast<unsigned char>(text[++i]) & 0x3f));
  }
  return out;
}

}  // namespace ckpt::interop
