// Foreign files, end to end: a file of Python's torch.save can be trained further here; a file of LibTorch's
// torch::save opens; torch::pickle_load reads what ckpt exports. files/make_net.py made the committed files.
#include <torch/serialize.h>

#include <cstdio>
#include <fstream>

#include "util.h"

namespace {

void expect_training_goes_on(const std::string& file) {
  StorePlace place;
  const auto store = ckpt::Store::open(place.uri());
  store.import(file, "python", 5);
  ct::LoadOptions options;
  options.selector = "label:python";
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
  StorePlace place(true);
  const std::string path = place.uri() + "/own.pt";
  Net net = seeded_net(3);
  torch::save(net, path);
  const auto file = ckpt::File::open(path);
  size_t found = 0;
  for (const ckpt::FileTensor& tensor : file.tensors()) {
    for (const auto& parameter : net->named_parameters()) {
      const at::Tensor& value = parameter.value();
      if (tensor.bytes != value.nbytes() || tensor.ndim != value.dim()) continue;
      found += std::memcmp(tensor.data, value.data_ptr(), tensor.bytes) == 0;
    }
  }
  EXPECT_EQ(found, net->parameters().size());
}

TEST(TorchFiles, WhatCkptExportsIsReadByTorchsPickleLoad) {
  StorePlace place(true);
  Net net = seeded_net(4);
  const std::string path = place.uri() + "/exported.pt";
  ct::save(place.uri() + "/store", net, {}, {{"epoch", 3}, {"names", c10::List<std::string>({"x", "y"})}});
  ckpt::Reader::open(ckpt::Store::open(place.uri() + "/store")).export_to(path);

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
