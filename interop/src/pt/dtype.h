// torch's dtypes and what they are to us. Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace ckpt::interop {

struct TorchDtype {
  uint16_t dtype = 0;          // CKPT_DTYPE_*; 0 where the name is unknown
  const char* name = nullptr;  // torch's, where ours does not say all of it ("qint8", "bits8"); null elsewhere
};
// Of "torch FloatStorage", "torch.FloatStorage"; "torch.bfloat16".
TorchDtype torch_dtype_of_storage(std::string_view class_name);
TorchDtype torch_dtype_of_name(std::string_view name);
// A value that is a dtype.
bool names_torch_dtype(std::string_view name);
// The inverses: "FloatStorage" for f32, null for dtypes that only torch >= 2 has (by untyped storages); "float32".
const char* storage_of_dtype(uint16_t dtype);
const char* torch_name_of_dtype(uint16_t dtype);

}  // namespace ckpt::interop
