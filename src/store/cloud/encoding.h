// Bytes as the text that HTTP and object stores want, and the digests that they ask for. SHA-256 is FIPS 180-4, HMAC
// RFC 2104, CRC-32C that of RFC 3720, CRC-64 that of the NVM Express Command Set. Our own, since a library that every
// trainer links should not bring OpenSSL into it. Pure.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/types.h"

namespace ckpt::store::cloud {

std::string hex_of(Bytes bytes);
std::string base64_of(Bytes bytes);

// All but letters, digits and "-._~" as %XX; '/' stays if `keep_slashes`.
std::string percent_encode(std::string_view text, bool keep_slashes);

using Query = std::vector<std::pair<std::string, std::string>>;
// "a=1&b%2Fc=": sorted, encoded, each parameter with its '='.
std::string canonical_query(Query query);

// Seconds since 1970 of "2026-11-23T07:00:00Z", also with a fraction and a zone like "+09:00"; -1 if it is no date.
int64_t seconds_of_iso(const std::string& text);

using Sha256 = std::array<std::byte, 32>;
// Of the pieces, one after the other.
Sha256 sha256(std::span<const Bytes> pieces);
inline Sha256 sha256(Bytes bytes) { return sha256(std::span(&bytes, 1)); }
Sha256 hmac_sha256(Bytes key, Bytes text);

// The checksum of `before` and then `bytes`; 0 is that of nothing.
uint32_t crc32c(uint32_t before, Bytes bytes);
// As x-amz-checksum-crc32c has it: base64 of the big-endian number.
std::string crc32c_header(std::span<const Bytes> pieces);
// Azure's CRC-64, which is that of NVMe; as x-ms-content-crc64 has it: base64 of the little-endian number.
std::string crc64_header(std::span<const Bytes> pieces);

}  // namespace ckpt::store::cloud
