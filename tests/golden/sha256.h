// SHA-256 (FIPS 180-4), so that goldens are compared by a checksum that the library under test does not have. Header
// only, pure.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>

namespace ckpt_golden {

class Sha256 {
 public:
  // 64 lowercase hex digits.
  static std::string of(const void* data, size_t size) {
    std::string message(static_cast<const char*>(data ? data : ""), size);
    uint64_t bits = uint64_t{size} * 8;
    message.push_back(static_cast<char>(0x80));
    while (message.size() % 64 != 56) message.push_back(0);
    for (int shift = 56; shift >= 0; shift -= 8) message.push_back(static_cast<char>(bits >> shift));
    Sha256 sha;
    for (size_t at = 0; at < message.size(); at += 64)
      sha.block(reinterpret_cast<const unsigned char*>(message.data() + at));
    std::string text;
    for (uint32_t word : sha.state_)
      for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[word >> shift & 15];
    return text;
  }

 private:
  using Words = std::array<uint32_t, 8>;

  // The round constants: fractional bits of the cube roots of the first 64 primes.
  static const std::array<uint32_t, 64>& constants() {
    static const std::array<uint32_t, 64> table = [] {
      std::array<uint32_t, 64> words{};
      size_t found = 0;
      for (uint32_t n = 2; found < 64; n++) {
        bool prime = true;
        for (uint32_t d = 2; d * d <= n; d++) prime &= n % d != 0;
        if (!prime) continue;
        // floor(cbrt(n) * 2^32) in integers: the largest x with x^3 <= n * 2^96.
        unsigned __int128 low = 0, high = uint64_t{1} << 36;
        while (low + 1 < high) {
          unsigned __int128 middle = (low + high) / 2, square = middle * middle;
          // middle < 2^36, so square < 2^72; compare middle^3 with n * 2^96 by division.
          if (square <= (static_cast<unsigned __int128>(n) << 96) / middle)
            low = middle;
          else
            high = middle;
        }
        words[found++] = static_cast<uint32_t>(low);
      }
      return words;
    }();
    return table;
  }

  void block(const unsigned char* bytes) {
    std::array<uint32_t, 64> w;
    for (size_t i = 0; i < 16; i++)
      w[i] = uint32_t{bytes[4 * i]} << 24 | uint32_t{bytes[4 * i + 1]} << 16 | uint32_t{bytes[4 * i + 2]} << 8 |
             bytes[4 * i + 3];
    for (size_t i = 16; i < 64; i++) {
      uint32_t a = w[i - 15], b = w[i - 2];
      w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + w[i - 7] +
             (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
    }
    Words v = state_;
    for (size_t i = 0; i < 64; i++) {
      uint32_t e = v[4], a = v[0];
      uint32_t t1 = v[7] + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & v[5]) ^ (~e & v[6])) +
                    constants()[i] + w[i];
      uint32_t t2 = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
      v = {t1 + t2, v[0], v[1], v[2], v[3] + t1, v[4], v[5], v[6]};
    }
    for (size_t i = 0; i < 8; i++) state_[i] += v[i];
  }

  Words state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
};

}  // namespace ckpt_golden
