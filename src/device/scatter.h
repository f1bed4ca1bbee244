// Moves elements between the bytes of a chunk and the caller's memory (CPU), whatever the strides. No allocation, no
// I/O. Calls on disjoint memory may run concurrently. Elements are whole bytes wide here: callers turn packed dtypes
// into bytes first.
#pragma once

#include <array>

#include "base/types.h"

namespace ckpt::device {

// The caller's memory of one region; `data` is its first element and needs no alignment.
struct Memory {
  std::byte* data;
  uint16_t dtype;
  std::array<uint64_t, 16> strides;  // in elements; 0 repeats
  int ndim;
};

// Copies those elements of a chunk that `wanted` asks for into the memory of `wanted`. The chunk holds elements
// [first, first + count) of `stored` in row-major order. Where to.dtype is not the stored one the elements are
// converted (the caller has asked `convertible`; other dtypes must have the same width and are copied).
// Where strides make elements of the memory overlap, which one of them stays is undefined.
// Returns the number of elements copied, for the proof that all that was wanted has come.
uint64_t scatter(Bytes chunk, uint16_t stored_dtype, const Box& stored, uint64_t first, uint64_t count,
                 const Box& wanted, const Memory& to);

// Gathers elements [first, first + count) of the row-major order of a memory of this extent and strides into `out`.
void gather(const Memory& from, const Shape& extent, uint64_t first, uint64_t count, MutableBytes out);

}  // namespace ckpt::device
