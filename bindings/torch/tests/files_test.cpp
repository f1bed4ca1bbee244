// Files of others, end to end: what Python's torch.save wrote goes on training here; what LibTorch's own torch::save
// wrote opens; what ckpt exports is read by torch::pickle_load. files/make_net.py made the committed files.
#include <ckpt_file.h>
#include <torch/serialize.h>

#include <cstdio>
#include <fstream>
#include <memory>

#include "util.h"

namespace {

template <class T, void (*kFree)(T*)>
struct Freer {
  void operator()(T* handle) const { kFree(handle); }
};
using StoreHandle = std::unique_ptr<ckpt_store, Freer<ckpt_store, ckpt_store_free>>;
using ReaderHandle = std::unique_ptr<ckpt_reader, Freer<ckpt_reader, ckpt_reader_free>>;
using FileHandle = std::unique_ptr<ckpt_file, Freer<ckpt_file, ckpt_file_free>>;

// "" where the call went well.
std::string message_of(ckpt_status status, ckpt_error* err) {
  std::string text = status == CKPT_OK ? "" : std::string(ckpt_status_name(status)) + ": " + ckpt_error_message(err);
  ckpt_error_free(err);
  return text;
}

StoreHandle open_store(const std::string& uri) {
  ckpt_store* store = nullptr;
  ckpt_error* err = nullptr;
  EXPECT_EQ(message_of(ckpt_store_open(&store, uri.c_str(), nullptr, &err), err), "");
  return StoreHandle(store);
}

void expect_training_goes_on(const std::string& file) {
  Place place;
  StoreHandle store = open_store(place.uri());
  ckpt_error* err = nullptr;
  ckpt_status status = ckpt_import(store.get(), file.c_str(), "python", 5, nullptr, nullptr, &err);
  ASSERT_EQ(message_of(status, err), "");
  ct::LoadOptions options;
  options.selector = "label:python";
  options.settings = {{"run", "import"}};
  Net net;
  torch::optim::Adam adam(net->parameters(), torch::optim::AdamOptions(1));
  ct::Loaded loaded = ct::load(place.uri(), net, adam, options);
  EXPECT_EQ(loaded.others.at("epoch").toInt(), 5);
  at::Tensor x = loaded.others.at("x").toTensor(), y = loaded.others.at("y").toTensor();
  for (const c10::IValue& expected : loaded.others.at("losses").toList()) {
    adam.zero_grad();
    at::Tensor loss = (net->forward(x) - y).pow(2).mean();
    loss.backward();
    adam.step();
    // Python's Adam and LibTorch's round differently in the last place.
    EXPECT_NEAR(loss.item<double>(), expected.toDouble(), 1e-5 * expected.toDouble());
  }
}

TEST(TorchFiles, WhatPythons113SavedGoesOnTrainingHere) {
  expect_training_goes_on(std::string(CKPT_TORCH_TEST_FILES) + "/net-1.13.pt");
}

TEST(TorchFiles, WhatPythons215SavedGoesOnTrainingHere) {
  expect_training_goes_on(std::string(CKPT_TORCH_TEST_FILES) + "/net-2.15.pt");
}

TEST(TorchFiles, WhatLibTorchsOwnSaveWroteOpensWithAllTensors) {
  Place place(true);
  const std::string path = place.uri() + "/own.pt";
  Net net = seeded_net(3);
  torch::save(net, path);
  ckpt_file* opened = nullptr;
  ckpt_error* err = nullptr;
  ckpt_status status = ckpt_file_open(&opened, path.c_str(), nullptr, &err);
  ASSERT_EQ(message_of(status, err), "");
  FileHandle file(opened);
  size_t found = 0;
  for (uint64_t i = 0; i < ckpt_file_tensor_count(opened); i++) {
    ckpt_file_tensor tensor{};
    tensor.struct_size = sizeof tensor;
    ASSERT_EQ(ckpt_file_tensor_at(opened, i, &tensor, nullptr), CKPT_OK);
    for (const auto& parameter : net->named_parameters()) {
      const at::Tensor& value = parameter.value();
      if (tensor.bytes != value.nbytes() || tensor.ndim != value.dim()) continue;
      found += std::memcmp(tensor.data, value.data_ptr(), tensor.bytes) == 0;
    }
  }
  EXPECT_EQ(found, net->parameters().size());
}

TEST(TorchFiles, WhatCkptExportsIsReadByTorchsPickleLoad) {
  Place place(true);
  Net net = seeded_net(4);
  const std::string path = place.uri() + "/exported.pt";
  ct::save(place.uri() + "/store", net, {}, {{"epoch", 3}, {"names", c10::List<std::string>({"x", "y"})}});
  StoreHandle store = open_store(place.uri() + "/store");
  ckpt_reader* opened = nullptr;
  ckpt_error* err = nullptr;
  ASSERT_EQ(message_of(ckpt_reader_open(&opened, store.get(), "latest", nullptr, &err), err), "");
  ReaderHandle reader(opened);
  ASSERT_EQ(message_of(ckpt_export(opened, path.c_str(), nullptr, &err), err), "");

  std::ifstream in(path, std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const c10::IValue loaded = torch::pickle_load(bytes);
  const auto root = loaded.toGenericDict();
  EXPECT_EQ(root.at("epoch").toInt(), 3);
  EXPECT_EQ(root.at("names").toList().size(), 2u);
  const auto model = root.at("model").toGenericDict();
  for (const auto& parameter : net->named_parameters())
    EXPECT_TRUE(same_bits(model.at(parameter.key()).toTensor(), parameter.value())) << parameter.key();
}

}  // namespace
