// Tensors as the engine sees them: dtype, memory, and the fields of those that are not dense (sparse, quantized).
#ifndef CKPT_TORCH_TENSORS_H
#define CKPT_TORCH_TENSORS_H

#include "errors.h"

namespace ckpt_torch {
namespace internal {

// 0 if the engine has none.
int32_t dtype_of(at::ScalarType type);
// Nothing if this LibTorch has none.
std::optional<at::ScalarType> scalar_type_of(int32_t dtype);
// Types that are torch's only: records of torch.Tensor have them as integers of that size.
struct NamedType {
  const char* name;
  at::ScalarType type, integers;
};
// Null unless it is one of these, which LibTorch converts to no other.
const NamedType* torchs_only(at::ScalarType type);
// A tensor of such a type as integers, for which LibTorch has kernels; any other as it is.
at::Tensor countable(const at::Tensor& tensor);
// A type that the engine has only as integers, by torch's name ("torch.bits8").
std::optional<at::ScalarType> named_type(const std::string& name);
std::string type_name(at::ScalarType type);
// The shape that LibTorch gives a tensor of the checkpoint: of float4 a pair is one element.
std::vector<int64_t> torch_shape(const ckpt::TensorInfo& info);
// channels_last or channels_last_3d; nothing for other orders.
std::optional<at::MemoryFormat> memory_format_of(const at::Tensor& tensor);
// FORMAT if it is no format of a tensor of so many dimensions.
at::MemoryFormat memory_format_named(const std::string& format, int64_t dim, const std::string& name);
std::string shape_text(at::IntArrayRef shape);

struct Memory {
  ckpt_tensor_desc desc;
  void* data;
  uint64_t bytes;
  ckpt::Device device;
};
// A dense tensor in memory that the engine takes, with its strides. UNSUPPORTED for a dtype or ndim that the engine
// lacks.
Memory memory_of(const at::Tensor& tensor, const std::string& name);

// A tensor for so many rows of a column. UNSUPPORTED for a dtype that this LibTorch lacks.
at::Tensor empty_column(const ckpt::ColumnInfo& info, int64_t rows, at::Device device);

// Whether it is plain memory with strides, on any device: not sparse, not quantized.
bool is_dense(const at::Tensor& tensor);

// Whether the engine takes memory of the tensor's device: the CPU's and CUDA's.
bool is_reachable(const at::Tensor& tensor);
// A dense tensor as plain memory that the engine takes: copied to the CPU if it is elsewhere, and a pending conjugation
// or negation carried out.
at::Tensor to_plain(const at::Tensor& tensor);

// A tensor that is not dense, or is more than its numbers, is a record of the state tree (schemas/STATE_TREE.md). A
// field holds a tensor, a number, a list of numbers or text.
struct Field {
  std::string name;
  at::Tensor tensor;
  c10::IValue value;  // if there is no tensor
};
struct Record {
  std::string class_name;
  std::vector<Field> fields;
};
// The class of a tensor's record; "" for a dense tensor and for unknown layouts.
std::string record_class(const at::Tensor& tensor);
std::string quantized_name(at::ScalarType type);  // "torch.qint8"
bool is_tensor_record(const std::string& class_name);
// UNSUPPORTED, with its name, for an unknown layout. A dense tensor that needs no record gives one with `data` alone.
Record record_of(const at::Tensor& tensor, const std::string& name);
// The inverse. FORMAT if fields are missing or do not fit each other.
at::Tensor tensor_of(const Record& record, const std::string& name);

// The names and bytes of what add_table saves; refuses what it would.
std::map<std::string, uint64_t> table_sizes(const std::string& name, const SparseTable& table);

// Gives `target`, which is not dense, the values of `value`, which has the same layout and shape.
void replace_data(const at::Tensor& target, const at::Tensor& value);

}  // namespace internal
}  // namespace ckpt_torch
#endif
