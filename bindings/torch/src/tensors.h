// Tensors as the engine sees them: dtype, memory, and the parts of those that are not plain memory (sparse, quantized).
#ifndef CKPT_TORCH_TENSORS_H
#define CKPT_TORCH_TENSORS_H

#include "errors.h"

namespace ckpt_torch {
namespace internal {

// 0 where the engine has none.
int32_t dtype_of(at::ScalarType type);
// Nothing where this LibTorch has none.
std::optional<at::ScalarType> scalar_type_of(int32_t dtype);
std::string type_name(at::ScalarType type);
std::string shape_text(at::IntArrayRef shape);

struct Memory {
  ckpt_tensor_desc desc;
  void* data;
  uint64_t bytes;
};
// A dense tensor in CPU memory, with its strides. UNSUPPORTED for a dtype or ndim that the engine lacks.
Memory memory_of(const at::Tensor& tensor, const std::string& name);

// Plain memory with strides, wherever it lies: not sparse, not quantized.
bool is_dense(const at::Tensor& tensor);

// A dense tensor as CPU memory that reads as it does: moved, and conjugated or negated where that is pending.
at::Tensor to_host(const at::Tensor& tensor);

// A tensor that is not plain memory is a record of the state tree (schemas/STATE_TREE.md). A field holds a tensor, a
// number, a list of numbers or text.
struct Field {
  std::string name;
  at::Tensor tensor;
  c10::IValue value;  // where there is no tensor
};
struct Record {
  std::string class_name;
  std::vector<Field> fields;
};
// Of the record that such a tensor is; "" for a dense one and for layouts that it does not know.
std::string record_class(const at::Tensor& tensor);
std::string quantized_name(at::ScalarType type);  // "torch.qint8"
bool is_tensor_record(const std::string& class_name);
// UNSUPPORTED for a layout that it does not know, by name.
Record record_of(const at::Tensor& tensor, const std::string& name);
// The inverse, checked: FORMAT where fields are missing or do not fit each other.
at::Tensor tensor_of(const Record& record, const std::string& name);

// Gives `target`, which is not dense, the values of `value`, which is of its kind and shape.
void replace_data(const at::Tensor& target, const at::Tensor& value);

}  // namespace internal
}  // namespace ckpt_torch
#endif
