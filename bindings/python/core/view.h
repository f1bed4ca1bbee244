// Read-only memory of the engine as a Python object with the buffer protocol.
#pragma once

#include <vector>

#include "bind.h"

namespace ckpt_py {

// A tensor in a mapped file. It keeps the engine's reader or file, so it may outlive the Reader or File object.
class View {
 public:
  // Strides in elements.
  View(std::shared_ptr<void> owner, const void* data, uint64_t bytes, int32_t dtype, const int64_t* shape,
       const int64_t* strides, int32_t ndim);

  int fill(Py_buffer* out, nb::handle self, int flags) const;
  int32_t dtype() const { return dtype_; }
  const Extents& extents() const { return tensor_shape_; }
  const Extents& strides() const { return tensor_strides_; }
  const void* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<void> owner_;
  const void* data_;
  uint64_t bytes_;
  int32_t dtype_;
  Extents tensor_shape_, tensor_strides_;  // in elements
  const char* format_;                     // of the buffer's elements
  Py_ssize_t itemsize_, size_;
  std::vector<Py_ssize_t> shape_, strides_;  // of the buffer; strides in bytes
  bool contiguous_;
};

}  // namespace ckpt_py
