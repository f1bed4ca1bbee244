#include "interop/src/pickle/writer.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <vector>

#include "interop/src/pickle/text.h"

namespace ckpt::interop {

namespace {

constexpr size_t kLongestRemembered = 256;
constexpr size_t kMaxLong = 255;         // bytes of a LONG1
constexpr size_t kMaxLong1Digits = 614;  // of 2^2040 - 1

// |digits| in base 2^32, lowest first.
std::vector<uint32_t> magnitude_of(std::string_view digits) {
  std::vector<uint32_t> words;
  for (char digit : digits) {
    uint64_t carry = static_cast<uint64_t>(digit - '0');
    for (uint32_t& word : words) {
      carry += uint64_t{word} * 10;
      word = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
    if (carry > 0) words.push_back(static_cast<uint32_t>(carry));
  }
  return words;
}

// Two's complement, lowest byte first, with a bit for the sign.
std::string long_bytes(const std::vector<uint32_t>& words, bool negative) {
  if (words.empty()) return std::string(1, '\0');
  std::string bytes;
  unsigned carry = 1;
  for (uint32_t word : words)
    for (int i = 0; i < 4; i++) {
      const unsigned byte = word >> (8 * i) & 0xff;
      const unsigned value = negative ? (byte ^ 0xff) + carry : byte;
      carry = negative ? value >> 8 : 0;
      bytes += static_cast<char>(value & 0xff);
    }
  bytes += static_cast<char>(negative ? 0xff : 0);
  const char fill = bytes.back();
  const auto high_bit_is_sign = [&] { return ((bytes[bytes.size() - 2] ^ fill) & 0x80) == 0; };
  while (bytes.size() > 1 && bytes.back() == fill && high_bit_is_sign()) bytes.pop_back();
  return bytes;
}

}  // namespace

PickleWriter::PickleWriter() { out_ = "\x80\x02"; }

void PickleWriter::little(uint64_t value, int width) {
  for (int i = 0; i < width; i++) out_ += static_cast<char>(value >> (8 * i) & 0xff);
}

void PickleWriter::get(uint32_t place) {
  op(place < 256 ? 'h' : 'j');
  little(place, place < 256 ? 1 : 4);
}

uint32_t PickleWriter::put() {
  op(places_ < 256 ? 'q' : 'r');
  little(places_, places_ < 256 ? 1 : 4);
  return places_++;
}

void PickleWriter::integer(int64_t value) {
  const auto bits = static_cast<uint64_t>(value);
  if (value >= 0 && value <= 0xff) {
    op('K');
    little(bits, 1);
  } else if (value >= 0 && value <= 0xffff) {
    op('M');
    little(bits, 2);
  } else if (value >= std::numeric_limits<int32_t>::min() && value <= std::numeric_limits<int32_t>::max()) {
    op('J');
    little(bits, 4);
  } else {
    op('\x8a');  // LibTorch takes only the full width
    little(8, 1);
    little(bits, 8);
  }
}

Status PickleWriter::big_integer(std::string_view digits) {
  const bool negative = digits.starts_with('-');
  if (negative) digits.remove_prefix(1);
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string_view::npos)
    return Status(CKPT_INVALID, "pickle: not an integer");
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
  const std::string bytes =
      digits.size() > kMaxLong1Digits + 1 ? std::string(kMaxLong + 1, 0) : long_bytes(magnitude_of(digits), negative);
  if (bytes.size() > kMaxLong)
    return Status(CKPT_UNSUPPORTED, strformat("an integer of {} digits; at most 255 bytes can be read", digits.size()));
  op('\x8a');
  little(bytes.size(), 1);
  out_ += bytes;
  return Ok();
}

void PickleWriter::real(double value) {
  op('G');
  const auto bits = std::bit_cast<uint64_t>(value);
  for (int i = 7; i >= 0; i--) out_ += static_cast<char>(bits >> (8 * i) & 0xff);
}

Status PickleWriter::text(std::string_view value) {
  if (value.size() > std::numeric_limits<uint32_t>::max())
    return Status(CKPT_UNSUPPORTED, strformat("a text of {} bytes; at most 4 GiB can be read", value.size()));
  const bool remember = value.size() <= kLongestRemembered;
  const std::string key = remember ? 't' + std::string(value) : std::string();
  if (remember)
    if (const auto found = memo_.find(key); found != memo_.end()) {
      get(found->second);
      return Ok();
    }
  op('X');
  little(value.size(), 4);
  out_ += value;
  if (remember) memo_[key] = put();
  return Ok();
}

Status PickleWriter::bytes(std::string_view value) {
  global("_codecs", "encode");
  std::string characters;  // each byte as the character of that number
  characters.reserve(value.size() + value.size() / 2);
  for (const char byte : value) append_utf8(characters, static_cast<unsigned char>(byte));
  CKPT_TRY(text(characters));
  CKPT_TRY(text("latin1"));
  tuple2();
  reduce();
  return Ok();
}

void PickleWriter::global(std::string_view module, std::string_view name) {
  const std::string line = std::string(module) + '\n' + std::string(name) + '\n';
  if (const auto found = memo_.find('c' + line); found != memo_.end()) return get(found->second);
  op('c');
  out_ += line;
  memo_['c' + line] = put();
}

void PickleWriter::begin_list() {
  op(']');
  op('(');
}

void PickleWriter::ordered_dict() {
  global("collections", "OrderedDict");
  empty_tuple();
  reduce();
}

void PickleWriter::integers(std::span<const int64_t> values) {
  begin_tuple();
  for (const int64_t value : values) integer(value);
  end_tuple();
}

void PickleWriter::extents(const Shape& shape) {
  begin_tuple();
  for (const uint64_t extent : shape.span()) integer(static_cast<int64_t>(extent));
  end_tuple();
}

std::string PickleWriter::finish() {
  op('.');
  return std::move(out_);
}

}  // namespace ckpt::interop
