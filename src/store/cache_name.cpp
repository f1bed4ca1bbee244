#include "store/cache_name.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

#include "base/types.h"

namespace ckpt::store {

static constexpr size_t kDigits = 32;

std::string cache_name(std::string_view identity) {
  const XXH128_hash_t hash = XXH3_128bits(identity.data(), identity.size());
  return to_hex(Id{hash.low64, hash.high64});
}

bool is_cache_name(std::string_view name) {
  return name.size() == kDigits &&
         std::all_of(name.begin(), name.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace ckpt::store
