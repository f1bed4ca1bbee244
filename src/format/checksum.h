// XXH3, the checksum of everything in the files (FORMAT: unseeded, low 64 bits first). The widest vector code that the
// machine has is chosen at the first call; all give the same digests. Everything here may be called from any thread.
#pragma once

#include "base/types.h"

namespace ckpt::format {

Digest xxh3_128(Bytes data);
uint64_t xxh3_64(Bytes data);

// Copies `size` bytes between ranges that do not overlap and returns the digest of what was written to `to`: it is
// right for those bytes even if someone changes `from` meanwhile. One pass over memory; from 8 KiB on, to a `to` that
// is aligned to 64, stores pass the caches by, which is as fast as a copy alone but leaves nothing of the copy in them.
Digest copy_xxh3_128(const std::byte* from, std::byte* to, size_t size);

// xxh3_128 of data that comes in pieces. May be copied, and asked for its digest at any time.
class Hasher {
 public:
  Hasher();
  void update(Bytes data);
  Digest digest() const;

 private:
  static constexpr size_t kStateSize = 576;  // sizeof(XXH3_state_t)
  alignas(64) std::byte state_[kStateSize];
};

}  // namespace ckpt::format
