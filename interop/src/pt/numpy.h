// numpy's arrays and scalars in a pickle. Pure.
#pragma once

#include "interop/src/pt/tensor.h"

namespace ckpt::interop {

// kNumpyArray, kNumpyScalar, or kNotOurs for everything else: arrays of objects, text, dates and structs, and numbers
// that are big-endian.
PtObjectKind kind_of_numpy(const PickleDocument& pickle, PickleRef ref);

// "f4"; empty for a dtype that numpy lacks. And back: 0 for none of them.
std::string_view numpy_code(uint16_t dtype);
uint16_t dtype_of_numpy(std::string_view code);

// Of the kinds above. FORMAT where the bytes are not as many as the shape says.
Result<PtTensor> tensor_of_array(const PickleDocument& pickle, PickleRef ref);
Result<PtTensor> tensor_of_scalar(const PickleDocument& pickle, PickleRef ref);

}  // namespace ckpt::interop
