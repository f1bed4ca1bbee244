#include "device/scatter.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "device/convert.h"
#include "plan/box.h"

namespace ckpt::device {

namespace {

constexpr size_t kCacheLine = 64;

size_t width_of(uint16_t dtype) {
  assert(dtype_bits(dtype) % 8 == 0);
  return static_cast<size_t>(dtype_bits(dtype)) / 8;
}

// One loop for reading and writing: steps are in bytes.
template <size_t kWidth>
void copy_typed(const std::byte* in, uint64_t in_step, std::byte* out, uint64_t out_step, uint64_t count) {
  for (uint64_t i = 0; i < count; i++) std::memcpy(out + i * out_step, in + i * in_step, kWidth);
}

void copy_spaced(const std::byte* in, uint64_t in_step, std::byte* out, uint64_t out_step, uint64_t count,
                 size_t width) {
  switch (width) {
    case 1:
      return copy_typed<1>(in, in_step, out, out_step, count);
    case 2:
      return copy_typed<2>(in, in_step, out, out_step, count);
    case 4:
      return copy_typed<4>(in, in_step, out, out_step, count);
    case 8:
      return copy_typed<8>(in, in_step, out, out_step, count);
    case 16:
      return copy_typed<16>(in, in_step, out, out_step, count);
    default:
      for (uint64_t i = 0; i < count; i++) std::memcpy(out + i * out_step, in + i * in_step, width);
  }
}

// Walks transposed memory (column-major, say) in slices of the innermost dimension that are one cache line wide. Whole
// rows would touch a new line with each element, and would come back to it only after it has left the cache. Calls
// visit(slice of the box, element offset of the slice in memory).
template <typename Visit>
void for_each_slice(const Box& box, const Memory& memory, size_t width, Visit&& visit) {
  const int inner = box.ndim() - 1;
  const uint64_t kept = std::max<uint64_t>(8, kCacheLine / width);
  bool transposed = false;
  for (int d = 0; d < inner; d++)
    transposed |=
        box.extent[d] > 1 && memory.strides[static_cast<size_t>(d)] < memory.strides[static_cast<size_t>(inner)];
  if (!transposed || box.extent[inner] <= kept) return visit(box, uint64_t{0});
  Box slice = box;
  for (uint64_t at = 0; at < box.extent[inner]; at += kept) {
    slice.offset[inner] = box.offset[inner] + at;
    slice.extent[inner] = std::min(kept, box.extent[inner] - at);
    visit(slice, at * memory.strides[static_cast<size_t>(inner)]);
  }
}

}  // namespace

uint64_t scatter(Bytes chunk, uint16_t stored_dtype, const Box& stored, uint64_t first, uint64_t count,
                 const Box& wanted, const Memory& to) {
  const size_t in_width = width_of(stored_dtype), out_width = width_of(to.dtype);
  const bool converts = stored_dtype != to.dtype && convertible(stored_dtype, to.dtype);
  assert(to.ndim == wanted.ndim() && chunk.size() / in_width >= count && (converts || in_width == out_width));
  uint64_t copied = 0;
  std::span<const uint64_t> strides(to.strides.data(), static_cast<size_t>(to.ndim));
  for_each_slice(wanted, to, out_width, [&](const Box& slice, uint64_t offset) {
    plan::for_each_strided_run(stored, first, first + count, slice, strides, [&](const plan::StridedRun& run) {
      const std::byte* in = chunk.data() + run.source * in_width;
      std::byte* out = to.data + (offset + run.target) * out_width;
      if (converts)
        convert(stored_dtype, in, to.dtype, out, run.count, run.target_stride);
      else if (run.count > 1 && run.target_stride == 1)
        std::memcpy(out, in, run.count * in_width);
      else
        copy_spaced(in, in_width, out, run.target_stride * out_width, run.count, in_width);
      copied += run.count;
    });
  });
  return copied;
}

void gather(const Memory& from, const Shape& extent, uint64_t first, uint64_t count, MutableBytes out) {
  const size_t width = width_of(from.dtype);
  assert(from.ndim == extent.ndim && out.size() / width >= count);
  const Box box = Box::whole(extent);
  std::span<const uint64_t> strides(from.strides.data(), static_cast<size_t>(from.ndim));
  for_each_slice(box, from, width, [&](const Box& slice, uint64_t offset) {
    plan::for_each_strided_run(box, first, first + count, slice, strides, [&](const plan::StridedRun& run) {
      const std::byte* in = from.data + (offset + run.target) * width;
      std::byte* to = out.data() + run.source * width;
      if (run.count > 1 && run.target_stride == 1)
        std::memcpy(to, in, run.count * width);
      else
        copy_spaced(in, run.target_stride * width, to, width, run.count, width);
    });
  });
}

}  // namespace ckpt::device
