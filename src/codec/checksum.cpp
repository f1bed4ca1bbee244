#include "codec/checksum.h"

#include "codec/checksum_variant.h"

namespace ckpt::codec {

ChecksumVariants checksum_variants() {
  ChecksumVariants variants{{&kChecksumBaseline}, 1};
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2")) variants.list[variants.count++] = &kChecksumAvx2;
  if (__builtin_cpu_supports("avx512f")) variants.list[variants.count++] = &kChecksumAvx512;
#endif
  return variants;
}

static const ChecksumVariant& best_checksum() {
  static const ChecksumVariant& variant = []() -> const ChecksumVariant& {
    ChecksumVariants variants = checksum_variants();
    return *variants.list[variants.count - 1];
  }();
  return variant;
}

static Digest to_digest(const uint64_t* words) { return Digest{words[0], words[1]}; }

Digest xxh3_128(Bytes data) {
  uint64_t words[2];
  best_checksum().hash_128(data.data(), data.size(), words);
  return to_digest(words);
}

uint64_t xxh3_64(Bytes data) { return best_checksum().hash_64(data.data(), data.size()); }

Digest copy_xxh3_128(const std::byte* from, std::byte* to, size_t size) {
  uint64_t words[2];
  best_checksum().copy_128(from, to, size, words);
  return to_digest(words);
}

Hasher::Hasher() { best_checksum().reset(state_); }

void Hasher::update(Bytes data) { best_checksum().update(state_, data.data(), data.size()); }

Digest Hasher::digest() const {
  uint64_t words[2];
  best_checksum().digest(state_, words);
  return to_digest(words);
}

}  // namespace ckpt::codec
