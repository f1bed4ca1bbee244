// What torch's objects in a pickle mean: storages, tensors, parameters, sparse and quantized tensors, and numpy arrays.
// Every number is checked against the storage that it points into. Pure; thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/types.h"
#include "interop/src/pt/source.h"

namespace ckpt::interop {

// Elements in a storage, as torch sees them.
struct PtTensor {
  uint16_t dtype = 0;  // CKPT_DTYPE_*
  // "qint8", "bits8", …: torch's dtype where ours does not say all of it; null elsewhere.
  const char* torch_dtype = nullptr;
  Shape shape;
  std::array<int64_t, kMaxNdim> strides{};  // in elements, >= 0
  std::string storage_key;                  // tensors of one key share memory; empty for a numpy array
  std::string location;                     // "cpu", "cuda:0"
  Bytes storage;                            // all of it
  uint64_t offset = 0;                      // of the first element, in elements
  bool requires_grad = false;
  bool conj = false, neg = false;  // the elements are to be conjugated, negated: torch does that when they are used
  bool contiguous() const;         // row-major without gaps
  // torch's name of another order without gaps: "torch.channels_last"; null for none.
  const char* memory_format() const;
  uint64_t span() const;  // elements from the first to the last, both included; 0 where there are none
  uint64_t elements() const;
  Bytes bytes() const;  // of `span`
};

// What a value of the pickle is to torch. Where the second line of a comment says so, tensor_of gives its elements.
enum class PtObjectKind : uint8_t {
  kNotOurs,
  kTensor,      // _rebuild_tensor, _v2, _v3
  kParameter,   // _rebuild_parameter(data, …): its data
  kSubclass,    // _rebuild_from_type_v2(function, type, args, state): none; see subclass_of
  kSparse,      // _rebuild_sparse_tensor(layout, parts): none
  kQuantized,   // _rebuild_qtensor: its integers
  kMeta,        // without data: none
  kStorage,     // a storage by itself: all of it, of one dimension
  kNumpyArray,  // ndarray of numbers
  kNumpyScalar  // one number: it, of no dimension
};
PtObjectKind kind_of(const PtSource& source, PickleRef ref);

// FORMAT with the tensor's storage and the numbers that do not fit, UNSUPPORTED for a dtype or layout that we do not
// know.
Result<PtTensor> tensor_of(const PtSource& source, PickleRef ref);
// What `function` of torch._utils ("_rebuild_tensor_v2") makes of `args`, a kTuple.
Result<PtTensor> tensor_of_args(const PtSource& source, std::string_view function, PickleRef args);
// Whether tensor_of_args knows it.
bool makes_tensor(std::string_view function);

// That the tensor lies inside its storage, and its numbers fit 63 bits: what the members above rely on.
Status check_bounds(const PtTensor& tensor);

// "_rebuild_tensor_v2" of "torch._utils _rebuild_tensor_v2"; empty for what is not torch's.
std::string_view torch_function(std::string_view class_name);

// The integers of a tuple, list or torch.Size; FORMAT.
Result<std::vector<int64_t>> integers_of(const PickleDocument& pickle, PickleRef ref);

}  // namespace ckpt::interop
