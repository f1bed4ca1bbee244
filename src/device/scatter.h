// Moves elements between the bytes of a chunk and the caller's memory (of the host), with any strides. No allocation,
// no I/O.
// Calls on disjoint memory may run concurrently. Elements are whole bytes wide here: callers turn packed dtypes into
// bytes first.
#pragma once

#include <array>

#include "base/types.h"

namespace ckpt::device {

// The caller's memory of one region. `data` points to its first element and needs no alignment.
struct Memory {
  std::byte* data;
  uint16_t dtype;
  std::array<uint64_t, 16> strides;  // in elements; 0 repeats an element
  int ndim;
  uint8_t device = 0;  // 0: the host's; else a number of Transfers, and only these may touch it
};

// Copies the elements of a chunk that `wanted` asks for into the memory of `wanted`. The chunk holds elements [first,
// first + count) of `stored` in row-major order. If to.dtype is not the stored dtype, convertible elements are
// converted; others must have the same width and are copied.
// If strides make elements of the memory overlap, which of them stays is undefined.
// Returns the number of elements copied, so that the caller can prove that all elements came.
uint64_t scatter(Bytes chunk, uint16_t stored_dtype, const Box& stored, uint64_t first, uint64_t count,
                 const Box& wanted, const Memory& to);

// Gathers elements [first, first + count), in row-major order, of a memory with this extent and these strides into
// `out`.
void gather(const Memory& from, const Shape& extent, uint64_t first, uint64_t count, MutableBytes out);

}  // namespace ckpt::device
