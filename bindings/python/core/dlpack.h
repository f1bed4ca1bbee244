// The C structures of DLPack, https://dmlc.github.io/dlpack/: version 1 and the unversioned form before it.
#pragma once

#include <cstdint>

namespace ckpt_py::dlpack {

constexpr uint32_t kMajor = 1;
constexpr int32_t kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13;
constexpr uint8_t kOpaqueHandle = 3;
constexpr uint64_t kReadOnly = 1, kIsCopied = 2;

struct Device {
  int32_t type, id;
};

struct DataType {
  uint8_t code, bits;
  uint16_t lanes;
};

struct Tensor {
  void* data;
  Device device;
  int32_t ndim;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;  // null: row-major and contiguous
  uint64_t byte_offset;
};

struct Managed {
  static constexpr const char *kName = "dltensor", *kUsedName = "used_dltensor";
  Tensor tensor;
  void* context;
  void (*deleter)(Managed* self);
};

struct ManagedVersioned {
  static constexpr const char *kName = "dltensor_versioned", *kUsedName = "used_dltensor_versioned";
  uint32_t major, minor;
  void* context;
  void (*deleter)(ManagedVersioned* self);
  uint64_t flags;
  Tensor tensor;
};

}  // namespace ckpt_py::dlpack
