#include "client.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <random>

namespace ckpt_bench {

Model::Model(size_t count, int32_t dtype, int64_t elements)
    : tensor_bytes(static_cast<uint64_t>(elements) * static_cast<uint64_t>(ckpt_dtype_bits(dtype)) / 8) {
  desc.struct_size = sizeof desc;
  desc.dtype = dtype;
  desc.ndim = 1;
  desc.shape[0] = elements;
  names.reserve(count);
  for (size_t i = 0; i < count; i++) {
    char name[64];
    std::snprintf(name, sizeof name, "model.layers.%07zu.mlp.weight", i);
    names.emplace_back(name);
  }
  // Trainers add tensors in the order of their modules, not in that of their names.
  std::shuffle(names.begin(), names.end(), std::mt19937(1));
}

Save Client::new_save(const std::string& label, const Model& model, const std::byte* data,
                      const ckpt_options* options) const {
  Save save = make<Save>(ckpt_save_new, session_.get(), label.c_str(), int64_t{-1}, options);
  for (const auto& name : model.names) {
    call(ckpt_save_add_tensor, save.get(), name.c_str(), &model.desc, data, model.tensor_bytes,
         int32_t{CKPT_DEVICE_CPU}, 0);
    data += model.tensor_bytes;
  }
  return save;
}

void Client::clear() const { std::filesystem::remove_all(directory_); }

Load new_load(const Reader& reader, const Model& model, std::byte* data, const ckpt_options* options) {
  Load load = make<Load>(ckpt_load_new, reader.get(), options);
  for (const auto& name : model.names) {
    call(ckpt_load_add_tensor, load.get(), name.c_str(), &model.desc, data, model.tensor_bytes,
         int32_t{CKPT_DEVICE_CPU}, 0);
    data += model.tensor_bytes;
  }
  return load;
}

Options options_of(std::initializer_list<std::pair<const char*, int64_t>> values) {
  Options options = make<Options>(ckpt_options_new);
  for (auto [key, value] : values) call(ckpt_options_set_int, options.get(), key, value);
  return options;
}

}  // namespace ckpt_bench
