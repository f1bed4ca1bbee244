// One compilation of xxHash for one instruction set. For checksum.cpp and its tests only. Each has a namespace of its
// own, so that an amalgamation can compile all of them together.
// No C++ library headers: of an inline function, the linker might keep the copy compiled for AVX-512 for everybody.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ckpt::codec {

struct ChecksumVariant {
  const char* name;
  void (*hash_128)(const void* data, size_t size, uint64_t* digest);  // digest: low, high
  uint64_t (*hash_64)(const void* data, size_t size);
  void (*copy_128)(const void* from, void* to, size_t size, uint64_t* digest);
  // A state is 576 bytes aligned to 64.
  void (*reset)(void* state);
  void (*update)(void* state, const void* data, size_t size);
  void (*digest)(const void* state, uint64_t* digest);
};

extern const ChecksumVariant kChecksumBaseline;
#if defined(__x86_64__)
extern const ChecksumVariant kChecksumAvx2;
extern const ChecksumVariant kChecksumAvx512;
#endif

struct ChecksumVariants {
  const ChecksumVariant* list[3];  // best last
  int count;
};
ChecksumVariants checksum_variants();  // those that this machine can run

}  // namespace ckpt::codec
