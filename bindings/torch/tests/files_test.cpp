// Foreign files, end to end: a file of Python's torch.save can be trained further here; a file of LibTorch's
// torch::save opens; torch::pickle_load reads what ckpt exports. files/make_net.py made the committed files.
#include <torch/serialize.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "util.h"

namespace {

// `source`: a store, into which the file was imported, or the file.
void expect_training_goes_on(const std::string& source) {
  Net net;
  torch::optim::Adam adam(net->parameters(), torch::optim::AdamOptions(1));
  ct::Loaded loaded = ct::load(source, net, adam);
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

TEST(TorchFiles, WhatPythonSavedGoesOnTrainingHereImportedOrInPlace) {
  for (const char* name : {"/net-1.13.pt", "/net-2.15.pt"}) {
    const std::string file = std::string(CKPT_TORCH_TEST_FILES) + name;
    StorePlace place;
    ckpt::Store::open(place.uri()).import(file, "python", 5);
    expect_training_goes_on(place.uri());
    expect_training_goes_on(file);
  }
}

torch::nn::Sequential seeded_pair(uint64_t seed) {
  torch::manual_seed(seed);
  return torch::nn::Sequential(torch::nn::Linear(5, 7), torch::nn::Linear(torch::nn::LinearOptions(7, 3).bias(false)));
}

// Its tensors lie in the files of two ranks.
TEST(TorchFiles, ADirectoryOfDcpIsLoadedWhereItLies) {
  const std::string dcp = std::string(CKPT_TORCH_TEST_FILES) + "/../../../../interop/tests/fixtures/dcp/fsdp2";
  StorePlace place;
  ckpt::Store::open(place.uri()).import(dcp, "dcp");
  auto imported = seeded_pair(1), found = seeded_pair(2);
  torch::optim::AdamW first(imported->parameters()), second(found->parameters());
  ct::load(place.uri(), imported, first);
  const ct::Loaded loaded = ct::load(dcp, found, second);
  expect_same(*imported, *found);
  EXPECT_EQ(loaded.id, dcp);
  EXPECT_FALSE(loaded.rng_restored);
  for (auto pair : {std::make_pair(imported, &first), std::make_pair(found, &second)}) {
    pair.first->forward(torch::ones({2, 5})).sum().backward();
    pair.second->step();
  }
  expect_same(*imported, *found);  // so the moments were equal, too
}

// Another dtype, and rows where the module has columns.
TEST(TorchFiles, AMappingMakesTheModulesTensorsOfTheFilesOnTheFly) {
  StorePlace place(true);
  const std::string set = place.uri() + "/set.safetensors", map = place.uri() + "/map.json";
  auto saved = seeded_pair(3), found = seeded_pair(4);
  ct::save(place.uri() + "/store", saved);
  ckpt::Reader::open(ckpt::Store::open(place.uri() + "/store")).export_to(set, {{"at", "model"}, {"cast", "f16"}});
  std::ofstream(map) << R"({"rules": [{"match": "0.weight", "to": "0.weight", "ops": ["a b -> b a"]},
                                      {"match": "{i}.{*rest}", "keep": true}]})";
  ct::LoadOptions options;
  options.model_key = "";
  expect_error([&] { ct::load(set, found, {}, options); }, CKPT_MISMATCH, "0.weight");
  options.convert = true;
  ct::load(set, found, {}, options);
  for (const auto& parameter : saved->named_parameters())
    EXPECT_TRUE(same_bits(found->named_parameters()[parameter.key()], parameter.value().to(at::kHalf).to(at::kFloat)));
  options.settings = {{"map", map}};
  auto turned =
      torch::nn::Sequential(torch::nn::Linear(7, 5), torch::nn::Linear(torch::nn::LinearOptions(7, 3).bias(false)));
  expect_error([&] { ct::load(set, turned, {}, options); }, CKPT_MISMATCH, "0.bias");
  options.settings.emplace("exclude", "0.bias");
  options.strict = false;
  const ct::Loaded loaded = ct::load(set, turned, {}, options);
  EXPECT_EQ(loaded.missing, std::vector<std::string>{"0.bias"});
  EXPECT_TRUE(same_bits(turned->named_parameters()["0.weight"],
                        saved->named_parameters()["0.weight"].t().contiguous().to(at::kHalf).to(at::kFloat)));
}

TEST(TorchFiles, RanksLoadFilesTogetherAndAllThrowWhatOneHasWrong) {
  const std::string file = std::string(CKPT_TORCH_TEST_FILES) + "/net-2.15.pt";
  Net alone = seeded_net(1);
  ct::load(file, alone);
  StorePlace empty(true);
  std::ofstream(empty.uri() + "/log.txt") << "step 1";
  ThreadGroup two(2);
  two.run([&](ct::Ranks ranks) {
    Net net = seeded_net(2 + ranks.rank);
    ct::LoadOptions options;
    if (ranks.rank == 1) options.settings = {{"map", "absent"}};
    expect_error([&] { ct::load(file, net, {}, options, ranks); }, CKPT_NOT_FOUND, "rank 1: ");
    expect_error([&] { ct::load(empty.uri(), net, {}, {}, ranks); }, CKPT_NOT_FOUND, "checkpoint");
    ct::load(file, net, {}, {}, ranks);
    expect_same(*alone, *net);
  });
}

TEST(TorchFiles, ADirectoryOfNoKnownFormatHasNoCheckpoint) {
  StorePlace place(true);
  Net net = seeded_net(5);
  std::filesystem::create_directories(place.uri() + "/run");
  for (const char* what : {"", "log.txt"}) {
    if (*what) std::ofstream(place.uri() + "/run/" + what) << "step 1";
    const ct::Error error = expect_error([&] { ct::load(place.uri() + "/run", net); }, CKPT_NOT_FOUND, "checkpoint");
    EXPECT_EQ(std::string(error.what()).find("known format"), std::string::npos) << error.what();
    EXPECT_FALSE(ct::load_if_any(place.uri() + "/run", net).has_value());
  }
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
