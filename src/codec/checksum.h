// XXH3, the checksum of everything in the files (FORMAT: unseeded, low 64 bits first). The first call chooses the
// widest vector code that the machine has; all of them give the same digests. Everything here may be called from any
// thread.
#pragma once

#include "base/types.h"

namespace ckpt::codec {

Digest xxh3_128(Bytes data);
uint64_t xxh3_64(Bytes data);

// Copies `size` bytes between ranges that do not overlap and returns the digest of what it wrote to `to`. The digest is
// right for those bytes even if someone changes `from` meanwhile. One pass over memory. From 8 KiB on, if `to` is
// aligned to 64, the stores bypass the caches: as fast as a copy alone, but nothing of the copy is in the caches.
Digest copy_xxh3_128(const std::byte* from, std::byte* to, size_t size);

// xxh3_128 of data that comes in pieces. May be copied; digest() may be called at any time.
class Hasher {
 public:
  Hasher();
  void update(Bytes data);
  Digest digest() const;

 private:
  static constexpr size_t kStateSize = 576;  // sizeof(XXH3_state_t)
  alignas(64) std::byte state_[kStateSize];
};

}  // namespace ckpt::codec
