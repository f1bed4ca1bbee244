// What OpenSSL's libcrypto does for us: signatures of service accounts, RSA with SHA-256 (RFC 7518), and MD5 for
// servers that check nothing else. It is loaded when the first one is needed, and not linked: most trainers need
// neither.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/types.h"

namespace ckpt::store::cloud {

// `key`: a private key as PEM. INVALID if it is none of RSA, UNSUPPORTED if there is no libcrypto. No error has the
// key.
Result<std::string> sign_rs256(const std::string& key, std::string_view text);

// As Content-MD5 has it: base64. UNSUPPORTED if there is no libcrypto, or if its settings allow no MD5.
Result<std::string> md5_header(std::span<const Bytes> pieces);

}  // namespace ckpt::store::cloud
