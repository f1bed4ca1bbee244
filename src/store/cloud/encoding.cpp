#include "store/cloud/encoding.h"

#include <time.h>
#if defined(__x86_64__)
#include <wmmintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/base64.h"

namespace ckpt::store::cloud {

static constexpr char kHexDigits[] = "0123456789abcdef";

std::string hex_of(Bytes bytes) {
  std::string text;
  for (std::byte byte : bytes) {
    text += kHexDigits[static_cast<unsigned>(byte) >> 4];
    text += kHexDigits[static_cast<unsigned>(byte) & 15];
  }
  return text;
}

std::string base64_of(Bytes bytes) {
  std::string text;
  append_base64(bytes, &text);
  return text;
}

std::string percent_encode(std::string_view text, bool keep_slashes) {
  static constexpr char kUpper[] = "0123456789ABCDEF";
  std::string encoded;
  for (char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '.' || c == '_' || c == '~' || (c == '/' && keep_slashes);
    if (plain) {
      encoded += c;
      continue;
    }
    encoded += '%';
    encoded += kUpper[static_cast<unsigned char>(c) >> 4];
    encoded += kUpper[static_cast<unsigned char>(c) & 15];
  }
  return encoded;
}

// ---- SHA-256 ----

static constexpr uint32_t kRounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

namespace {

class Sha256State {
 public:
  void add(Bytes bytes) {
    size_ += bytes.size();
    while (!bytes.empty()) {
      const size_t count = std::min(bytes.size(), sizeof block_ - filled_);
      std::memcpy(block_ + filled_, bytes.data(), count);
      filled_ += count;
      bytes = bytes.subspan(count);
      if (filled_ == sizeof block_) take_block();
    }
  }
  Sha256 finish() {
    const uint64_t bits = size_ * 8;
    std::byte end[64 + 8]{std::byte{0x80}};
    const size_t zeros = (filled_ < 56 ? 56 : 120) - filled_;  // with the first byte
    for (size_t i = 0; i < 8; i++) end[zeros + i] = static_cast<std::byte>(bits >> (56 - 8 * i));
    add(Bytes(end, zeros + 8));
    Sha256 digest;
    for (size_t i = 0; i < 32; i++) digest[i] = static_cast<std::byte>(state_[i / 4] >> (24 - 8 * (i % 4)));
    return digest;
  }

 private:
  void take_block();

  uint32_t state_[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::byte block_[64];
  size_t filled_ = 0;
  uint64_t size_ = 0;
};

void Sha256State::take_block() {
  uint32_t w[64];
  for (size_t i = 0; i < 16; i++) {
    w[i] = 0;
    for (size_t j = 0; j < 4; j++) w[i] = w[i] << 8 | static_cast<uint32_t>(block_[4 * i + j]);
  }
  for (size_t i = 16; i < 64; i++) {
    const uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + w[i - 7] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
  }
  uint32_t s[8];
  std::memcpy(s, state_, sizeof s);
  for (size_t i = 0; i < 64; i++) {
    const uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]), majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
    const uint32_t first =
        s[7] + (std::rotr(s[4], 6) ^ std::rotr(s[4], 11) ^ std::rotr(s[4], 25)) + choice + kRounds[i] + w[i];
    const uint32_t second = (std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22)) + majority;
    for (size_t j = 7; j > 0; j--) s[j] = s[j - 1];
    s[4] += first;
    s[0] = first + second;
  }
  for (size_t i = 0; i < 8; i++) state_[i] += s[i];
  filled_ = 0;
}

}  // namespace

Sha256 sha256(std::span<const Bytes> pieces) {
  Sha256State state;
  for (Bytes piece : pieces) state.add(piece);
  return state.finish();
}

Sha256 hmac_sha256(Bytes key, Bytes text) {
  std::byte inner[64]{}, outer[64]{};
  if (key.size() > sizeof inner) {
    const Sha256 digest = sha256(key);
    std::memcpy(inner, digest.data(), digest.size());
  } else if (!key.empty()) {
    std::memcpy(inner, key.data(), key.size());
  }
  for (size_t i = 0; i < sizeof inner; i++) {
    outer[i] = inner[i] ^ std::byte{0x5c};
    inner[i] ^= std::byte{0x36};
  }
  const Bytes first[] = {inner, text};
  const Sha256 digest = sha256(first);
  const Bytes second[] = {outer, digest};
  return sha256(second);
}

// ---- CRCs ----

template <typename Crc>
static constexpr auto make_crc_tables(Crc polynomial) {
  std::array<std::array<Crc, 256>, 8> tables{};
  for (unsigned i = 0; i < 256; i++) {
    Crc crc = i;
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? polynomial : 0);
    tables[0][i] = crc;
  }
  for (size_t table = 1; table < 8; table++)
    for (unsigned i = 0; i < 256; i++)
      tables[table][i] = tables[table - 1][i] >> 8 ^ tables[0][tables[table - 1][i] & 255];
  return tables;
}
template <auto kPolynomial>
static constexpr auto kCrcTables = make_crc_tables(kPolynomial);

static constexpr uint32_t kCrc32c = 0x82f63b78;
static constexpr uint64_t kCrc64 = 0x9a6c9329ac4bc9b5;

static uint64_t load_little(const std::byte* from) {
  uint64_t value = 0;
  for (size_t i = 8; i-- > 0;) value = value << 8 | static_cast<uint64_t>(from[i]);
  return value;
}

template <auto kPolynomial, typename Crc = decltype(kPolynomial)>
static Crc crc_by_tables(Crc crc, Bytes bytes) {
  constexpr auto& tables = kCrcTables<kPolynomial>;
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    const uint64_t word = load_little(bytes.data()) ^ crc;
    crc = 0;
    for (size_t i = 0; i < 8; i++) crc ^= tables[7 - i][word >> (8 * i) & 255];
  }
  for (std::byte byte : bytes) crc = crc >> 8 ^ tables[0][(crc ^ static_cast<Crc>(byte)) & 255];
  return crc;
}

#if defined(__x86_64__)
// x to that power modulo the polynomial: the highest bit of the result is that of x^0, as in all CRCs here.
template <typename Crc>
static constexpr long long power_of_x(Crc polynomial, int exponent) {
  Crc value = Crc{1} << (8 * sizeof(Crc) - 1);
  while (exponent-- > 0) value = value >> 1 ^ (value & 1 ? polynomial : 0);
  return static_cast<long long>(uint64_t{value} << (64 - 8 * sizeof(Crc)));
}

// Takes multiples of 64 bytes from the front of at least as many. What is there is multiplied to where the next 64
// bytes are, and added to them: the last 64 then have the CRC of all.
template <auto kPolynomial, typename Crc = decltype(kPolynomial)>
[[gnu::target("pclmul")]] static Crc crc_by_folding(Crc crc, Bytes* bytes) {
  constexpr size_t kLanes = 4, kStep = kLanes * sizeof(__m128i);
  constexpr long long kLow = power_of_x(kPolynomial, 8 * kStep + 63), kHigh = power_of_x(kPolynomial, 8 * kStep - 1);
  const __m128i by = _mm_set_epi64x(kHigh, kLow);
  __m128i lanes[kLanes], next[kLanes];
  std::memcpy(lanes, bytes->data(), kStep);
  lanes[0] = _mm_xor_si128(lanes[0], _mm_set_epi64x(0, static_cast<long long>(crc)));
  for (*bytes = bytes->subspan(kStep); bytes->size() >= kStep; *bytes = bytes->subspan(kStep)) {
    std::memcpy(next, bytes->data(), kStep);
    for (size_t i = 0; i < kLanes; i++) {
      const __m128i low = _mm_clmulepi64_si128(lanes[i], by, 0x00), high = _mm_clmulepi64_si128(lanes[i], by, 0x11);
      lanes[i] = _mm_xor_si128(_mm_xor_si128(low, high), next[i]);
    }
  }
  return crc_by_tables<kPolynomial>(Crc{0}, std::as_bytes(std::span(lanes)));
}
#endif

template <auto kPolynomial, typename Crc = decltype(kPolynomial)>
static Crc crc_of(Crc before, Bytes bytes) {
  Crc crc = ~before;
#if defined(__x86_64__)
  if (bytes.size() >= 64 && __builtin_cpu_supports("pclmul")) crc = crc_by_folding<kPolynomial>(crc, &bytes);
#endif
  return ~crc_by_tables<kPolynomial>(crc, bytes);
}

uint32_t crc32c(uint32_t before, Bytes bytes) { return crc_of<kCrc32c>(before, bytes); }

std::string crc32c_header(std::span<const Bytes> pieces) {
  uint32_t crc = 0;
  for (Bytes piece : pieces) crc = crc32c(crc, piece);
  std::byte number[4];
  for (size_t i = 0; i < 4; i++) number[i] = static_cast<std::byte>(crc >> (24 - 8 * i));
  return base64_of(number);
}

std::string crc64_header(std::span<const Bytes> pieces) {
  uint64_t crc = 0;
  for (Bytes piece : pieces) crc = crc_of<kCrc64>(crc, piece);
  std::byte number[8];
  for (size_t i = 0; i < 8; i++) number[i] = static_cast<std::byte>(crc >> (8 * i));
  return base64_of(number);
}

// ---- dates ----

static constexpr int64_t kNoZone = -1 << 20;

// "Z", "+09:00", "-0330": in seconds.
static int64_t zone_of(std::string_view text) {
  if (text == "Z") return 0;
  int64_t digits = 0, count = 0;
  for (char c : text.substr(std::min<size_t>(text.size(), 1))) {
    if (c == ':' && count == 2) continue;
    if (c < '0' || c > '9') return kNoZone;
    digits = digits * 10 + (c - '0');
    count++;
  }
  if (count != 4 || (text[0] != '+' && text[0] != '-')) return kNoZone;
  const int64_t seconds = (digits / 100 * 60 + digits % 100) * 60;
  return text[0] == '-' ? -seconds : seconds;
}

int64_t seconds_of_iso(const std::string& text) {
  tm parts{};
  const char* end = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (!end) return -1;
  if (*end == '.')
    for (end++; *end >= '0' && *end <= '9';) end++;
  const int64_t zone = zone_of(end);
  return zone == kNoZone ? -1 : static_cast<int64_t>(timegm(&parts)) - zone;
}

std::string canonical_query(Query query) {
  for (auto& [name, value] : query) {
    name = percent_encode(name, false);
    value = percent_encode(value, false);
  }
  std::sort(query.begin(), query.end());
  std::string text;
  for (const auto& [name, value] : query) text += (text.empty() ? "" : "&") + name + "=" + value;
  return text;
}

}  // namespace ckpt::store::cloud
