#include "interop/src/seeded_hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/types.h"

namespace ckpt::interop {

static uint64_t seed() {
  static const uint64_t of_process = random_id().lo;
  return of_process;
}

size_t SeededHash::operator()(std::string_view key) const {
  return XXH3_64bits_withSeed(key.data(), key.size(), seed());
}

size_t SeededHash::operator()(int64_t key) const { return XXH3_64bits_withSeed(&key, sizeof key, seed()); }

}  // namespace ckpt::interop
