// The arguments of one add_tensor: which region of which tensor an array (or raw memory) is.
#pragma once

#include <tuple>

#include "memory.h"

namespace ckpt_py {

// The keyword arguments of Save.add_tensor and Load.add_tensor.
struct Region {
  nanobind::object dtype;  // if given, the memory is raw bytes; shape (and extent or flat_size) describe them
  std::optional<Extents> shape, offset, extent;
  std::optional<int64_t> flat_offset, flat_size;
  std::optional<Extents> strides;
  std::optional<std::tuple<uint64_t, uint32_t, uint32_t>> replica;
  std::optional<std::tuple<int32_t, int32_t>> device;
  bool first_replica = false;
};

struct Placed {
  ckpt::Tensor tensor;
  nanobind::object kept;  // the Memory, or None
  void* data;
  uint64_t bytes;
  ckpt::Device device;
};

// `data` may be None if the region is empty. Errors name the tensor.
Placed place(const std::string& name, nanobind::handle data, const Region& region, bool writable);

}  // namespace ckpt_py
