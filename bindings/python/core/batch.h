// Tensors for one call of ckpt_save_add_tensors or ckpt_load_add_tensors.
#pragma once

#include <ckpt.hpp>
#include <string>
#include <vector>

namespace ckpt_py {

template <class Pointer>
class Batch {
 public:
  void push(std::string name, const ckpt::Tensor& tensor, Pointer data, uint64_t bytes) {
    names_.push_back(std::move(name));
    descs_.push_back(tensor.desc());
    data_.push_back(data);
    bytes_.push_back(bytes);
  }
  bool full() const { return names_.size() >= 256; }  // each description takes 700 bytes

  template <class Function, class Handle>
  void add_to(Function function, Handle* handle) {
    if (names_.empty()) return;
    std::vector<const char*> texts;
    for (const std::string& name : names_) texts.push_back(name.c_str());
    ckpt::detail::call(function, handle, uint64_t{names_.size()}, texts.data(), descs_.data(), data_.data(),
                       bytes_.data(), int32_t{CKPT_DEVICE_CPU}, int32_t{0});
    *this = Batch();
  }

 private:
  std::vector<std::string> names_;
  std::vector<ckpt_tensor_desc> descs_;
  std::vector<Pointer> data_;
  std::vector<uint64_t> bytes_;
};

}  // namespace ckpt_py
