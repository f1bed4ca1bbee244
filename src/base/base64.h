// Base64 as in RFC 4648 §4, with padding. Pure; thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/types.h"

namespace ckpt {

void append_base64(Bytes bytes, std::string* out);
// nullopt for any text that append_base64 would not write.
std::optional<std::string> parse_base64(std::string_view text);

}  // namespace ckpt
