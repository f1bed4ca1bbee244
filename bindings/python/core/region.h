// What one add_tensor says: which region of which tensor an array (or raw memory) is.
#pragma once

#include <tuple>

#include "memory.h"

namespace ckpt_py {

// The keyword arguments of Save.add_tensor and Load.add_tensor.
struct Region {
  nanobind::object dtype;  // given: the memory is raw bytes, and shape (and extent or flat_size) say what they are
  std::optional<Extents> shape, offset, extent;
  std::optional<int64_t> flat_offset, flat_size;
  std::optional<Extents> strides;
  std::optional<std::tuple<uint64_t, uint32_t, uint32_t>> replica;
  std::optional<std::tuple<int32_t, int32_t>> device;
};

struct Placed {
  ckpt::Tensor tensor;
  nanobind::object kept;  // the Memory; None for none
  void* data;
  uint64_t bytes;
  ckpt::Device device;
};

// `data` may be None where the region is empty. Errors say which tensor they are about.
Placed place(const std::string& name, nanobind::handle data, const Region& region, bool writable);

}  // namespace ckpt_py
