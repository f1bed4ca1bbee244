// Tensors for few calls of ckpt_save_add_tensors or ckpt_load_add_tensors: one for those of a device that follow each
// other.
#pragma once

#include <ckpt.hpp>
#include <string>
#include <vector>

namespace ckpt_py {

template <class Pointer>
class Batch {
 public:
  void push(std::string name, const ckpt::Tensor& tensor, Pointer data, uint64_t bytes, ckpt::Device device = {}) {
    names_.push_back(std::move(name));
    descs_.push_back(tensor.desc());
    data_.push_back(data);
    bytes_.push_back(bytes);
    devices_.push_back(device);
  }
  bool full() const { return names_.size() >= 256; }  // each description takes 700 bytes

  template <class Function, class Handle>
  void add_to(Function function, Handle* handle) {
    if (names_.empty()) return;
    std::vector<const char*> texts;
    for (const std::string& name : names_) texts.push_back(name.c_str());
    for (size_t first = 0, end; first < texts.size(); first = end) {
      const auto [type, id] = devices_[first];
      for (end = first + 1; end < texts.size() && devices_[end].type == type && devices_[end].id == id; end++) {
      }
      ckpt::detail::call(function, handle, uint64_t{end - first}, texts.data() + first, descs_.data() + first,
                         data_.data() + first, bytes_.data() + first, type, id);
    }
    *this = Batch();
  }

 private:
  std::vector<std::string> names_;
  std::vector<ckpt_tensor_desc> descs_;
  std::vector<Pointer> data_;
  std::vector<uint64_t> bytes_;
  std::vector<ckpt::Device> devices_;
};

}  // namespace ckpt_py
