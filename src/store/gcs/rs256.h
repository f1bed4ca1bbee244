// Signatures of service accounts: RSA with SHA-256 (RFC 7518), by OpenSSL's libcrypto. It is loaded when the first one
// is needed, and not linked: most trainers have no key of a service account.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace ckpt::store::gcs {

// `key`: a private key as PEM. INVALID if it is none of RSA, UNSUPPORTED if there is no libcrypto. No error has the
// key.
Result<std::string> sign_rs256(const std::string& key, std::string_view text);

}  // namespace ckpt::store::gcs
