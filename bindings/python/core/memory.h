// The memory of a Python object, of the host or of a CUDA device, found through DLPack or the buffer protocol and never
// copied.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>

#include "arguments.h"

namespace ckpt_py {

// Where an array lies and what its elements are. It holds the DLPack capsule or the buffer, so the array's memory stays
// alive and in place. Made and destroyed with the GIL held.
class Memory {
 public:
  Memory() = default;
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // `writable`: a load will write to it. Raises UnsupportedError if a copy would be needed, or if it is read-only.
  static nanobind::object of(nanobind::handle object, bool writable);

  bool contiguous() const;
  int64_t count() const;  // elements
  ckpt::Device device() const { return {device_type, device_id}; }

  void* data = nullptr;
  uint64_t bytes = 0;  // to the end of the last element, gaps of the strides included
  int32_t dtype = 0;
  Extents shape, strides;  // in elements
  bool readonly = false;
  int32_t device_type = CKPT_DEVICE_CPU, device_id = 0;
  int64_t stream = 0;  // of a device: behind whose work the memory is copied

 private:
  friend class Taker;
  std::function<void()> release_;
};

// Takes arrays of numpy and torch of which there is no more to say than their memory, with few calls of Python.
class PlainArrays {
 public:
  PlainArrays();
  // A Memory; an invalid object for a subclass, for what Memory::of refuses or cannot tell (torch's requires_grad,
  // marks, sparse layouts and memory formats), and for all that is no array.
  nanobind::object take(nanobind::handle value, bool writable) const;
  // Of one that was taken.
  bool is_torch(nanobind::handle value) const { return torch_tensor_.is_valid() && value.type().is(torch_tensor_); }

 private:
  nanobind::object of_torch(nanobind::handle tensor) const;
  nanobind::object numpy_array_, torch_tensor_, torch_strided_, torch_int8_, torch_uint8_, to_dlpack_;
};

void bind_memory(nanobind::module_& m);

}  // namespace ckpt_py
