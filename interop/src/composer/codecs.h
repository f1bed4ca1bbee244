// What packing and unpacking share: libraries that are loaded when a file needs them, and their streams. Used by
// pack.cpp and unpack.cpp.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/types.h"

namespace ckpt::interop {

inline constexpr size_t kOutBytes = 1 << 20, kInBytes = 1 << 30;
inline constexpr const char* kBzip2Library = "libbz2.so.1.0 (Debian: libbz2-1.0)";
inline constexpr const char* kLzmaLibrary = "liblzma.so.5 (Debian: liblzma5)";

template <typename T, typename Byte>
T* stream_pointer(std::span<Byte> bytes) {
  return reinterpret_cast<T*>(const_cast<std::byte*>(bytes.data()));
}

template <typename F>
bool find_function(void* library, const char* name, F* function) {
  *function = library ? reinterpret_cast<F>(dlsym(library, name)) : nullptr;
  return *function != nullptr;
}

// bz_stream of libbz2, which has been the same since 1.0.
struct BzStream {
  char* next_in;
  unsigned avail_in, total_in[2];
  char* next_out;
  unsigned avail_out, total_out[2];
  void *state, *allocate, *free, *opaque;
};

// lzma_stream of liblzma, which has been the same since 5.0.
struct LzmaStream {
  const uint8_t* next_in;
  size_t avail_in;
  uint64_t total_in;
  uint8_t* next_out;
  size_t avail_out;
  uint64_t total_out;
  const void* allocator;
  void* internal;
  void* reserved_pointers[4];
  uint64_t reserved_numbers[2];
  size_t reserved_sizes[2];
  int reserved_enums[2];
};

inline void* bzip2_library() { return dlopen("libbz2.so.1.0", RTLD_NOW | RTLD_LOCAL); }
inline void* lzma_library() { return dlopen("liblzma.so.5", RTLD_NOW | RTLD_LOCAL); }

}  // namespace ckpt::interop
