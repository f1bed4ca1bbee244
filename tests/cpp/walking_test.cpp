// What reads naturally in ckpt.hpp: typed tensors, loops over what there is, trees by their keys.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <complex>
#include <string>
#include <vector>

#include "ckpt.hpp"

namespace {

ckpt::Reader saved_tree(const std::string& name) {
  auto session = ckpt::Session::open(ckpt::Store::open("mem:cpp-walking-" + name));
  const std::vector<float> w = {1, 2, 3, 4, 5, 6};
  const std::array<std::complex<double>, 1> c = {{{1, 2}}};
  const std::vector<uint16_t> half = {0x3f80};
  auto save = ckpt::Save::create(session, "a", 7);
  save.add_tensor("w", {2, 3}, w);
  save.add_tensor("c", {1}, c);
  save.add_tensor("half", ckpt::Tensor(CKPT_DTYPE_BF16, {1}), half);
  save.add_object("note", "text/plain", CKPT_OBJECT_SHARED, "hello");
  save.add_object("rng", "text/plain", CKPT_OBJECT_PER_RANK, "seed");
  save.run();
  return ckpt::Reader::open(ckpt::Store::open("mem:cpp-walking-" + name));
}

TEST(CppWalking, AContainerSaysItsDtypeAndIsReadAgain) {
  const auto reader = saved_tree("typed");
  EXPECT_EQ(reader.tensor("w").dtype, CKPT_DTYPE_F32);
  EXPECT_EQ(reader.tensor("c").dtype, CKPT_DTYPE_C128);
  EXPECT_EQ(ckpt::shape_of(reader.tensor("w")), (ckpt::Extents{2, 3}));
  EXPECT_EQ(reader.read<float>("w"), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(reader.read<std::complex<double>>("c")[0].imag(), 2.0);
  EXPECT_EQ(reader.read<uint16_t>("half"), std::vector<uint16_t>{0x3f80});
  EXPECT_EQ(reader.read<unsigned char>("w").size(), 24u);
  EXPECT_EQ(reader.read_object("note"), "hello");
  EXPECT_EQ(reader.read_object("rng", 0), "seed");
  std::vector<float> part(6);
  auto load = ckpt::Load::create(reader);
  load.add_tensor("w", {2, 3}, part);
  load.run();
  EXPECT_EQ(part[5], 6.0f);
}

TEST(CppWalking, ReadingAsAnotherDtypeIsRefusedWithTheFacts) {
  const auto reader = saved_tree("refused");
  try {
    reader.read<double>("w");
    FAIL() << "f32 was read as f64";
  } catch (const ckpt::Error& error) {
    EXPECT_EQ(error.status(), CKPT_MISMATCH);
    EXPECT_STREQ(error.what(), "tensor \"w\" is f32, not f64");
    EXPECT_EQ(error.detail("tensor"), "w");
    EXPECT_EQ(error.detail("expected") + " " + error.detail("found"), "f64 f32");
    EXPECT_EQ(error.detail("path"), "");
  }
  EXPECT_THROW(reader.read<float>("none"), ckpt::Error);
  EXPECT_THROW(reader.read_object("none"), std::runtime_error);
}

TEST(CppWalking, TensorsObjectsAndFindingsAreRanges) {
  const auto reader = saved_tree("ranges");
  std::string names;
  for (const ckpt::TensorInfo& tensor : reader.tensors()) names += std::string(tensor.name) + " ";
  for (const ckpt::ObjectInfo& object : reader.objects()) names += std::string(object.name) + " ";
  EXPECT_EQ(names, "c half w note rng ");
  const auto all = reader.tensors();
  EXPECT_EQ(all.size(), 3u);
  EXPECT_FALSE(all.empty());
  EXPECT_STREQ(all[2].name, "w");
  EXPECT_EQ(std::count_if(all.begin(), all.end(), [](const auto& tensor) { return tensor.bytes > 10; }), 2);
  EXPECT_TRUE(reader.has_tensor("w") && reader.has_object("rng") && reader.has_object("note", 5));
  EXPECT_FALSE(reader.has_tensor("x") || reader.has_object("w") || reader.has_object("rng", 1));
  EXPECT_FALSE(reader.has_tensor(std::string("w\0", 2)));
  const ckpt::Report differences = reader.diff(saved_tree("ranges-same"));
  EXPECT_EQ(differences.begin(), differences.end());
}

TEST(CppWalking, OptionsAreFoundByKey) {
  EXPECT_EQ(ckpt::option_find("threads")->kind, CKPT_OPTION_INT);
  EXPECT_EQ(ckpt::option_find("no_such_option"), std::nullopt);
  EXPECT_THROW(ckpt::Options({{"no_such_option", 1}}).check(), ckpt::Error);
  ckpt::Options({{"threads", 1}}).set("run", "x").check();
}

TEST(CppWalking, ATreeIsReadByItsKeys) {
  const auto tree =
      ckpt::Tree::parse(R"({"epoch":3,"lr":0.5,"on":true,"name":"adam","groups":[{"lr":1},{"lr":2}],"none":null})");
  const ckpt::Node root = tree.root();
  EXPECT_EQ(root["epoch"].as_int(), 3);
  EXPECT_EQ(root["lr"].as_float(), 0.5);
  EXPECT_EQ(root["epoch"].as_float(), 3.0);
  EXPECT_TRUE(root["on"].as_bool());
  EXPECT_EQ(root["name"].as_text(), "adam");
  EXPECT_EQ(root["groups"][1]["lr"].path(), "groups/1/lr");
  EXPECT_EQ(root.path(), "");
  double sum = 0;
  for (ckpt::Node group : root["groups"]) sum += group["lr"].as_float();
  EXPECT_EQ(sum, 3.0);
  std::string keys;
  for (const ckpt::Node& child : root) keys += child.name() + ":" + child.kind_name() + " ";
  EXPECT_EQ(keys, "epoch:int lr:float on:bool name:text groups:list none:null ");
  EXPECT_EQ(root["epoch"].begin(), root["epoch"].end());
  EXPECT_EQ(root.find("seed"), std::nullopt);
  EXPECT_EQ(root["groups"].find(7), std::nullopt);
  EXPECT_EQ(root.find("epoch")->number(), 1u);
  EXPECT_STREQ(ckpt::node_kind_name(CKPT_NODE_RECORD), "record");
  EXPECT_STREQ(ckpt::node_kind_name(9), "node");
}

TEST(CppWalking, AWrongKeyOrKindIsReportedWithItsPath) {
  const auto tree = ckpt::Tree::parse(R"({"groups":[{"lr":"high"}]})");
  const ckpt::Node group = tree.root()["groups"][0];
  try {
    group["lr"].as_float();
    FAIL() << "text was taken for a number";
  } catch (const ckpt::Error& error) {
    EXPECT_EQ(error.status(), CKPT_MISMATCH);
    EXPECT_STREQ(error.what(), "groups/0/lr: expected float, found text");
    EXPECT_EQ(error.detail("path"), "groups/0/lr");
  }
  try {
    group["betas"];
    FAIL() << "a key that is not there was found";
  } catch (const ckpt::Error& error) {
    EXPECT_EQ(error.status(), CKPT_NOT_FOUND);
    EXPECT_STREQ(error.what(), "groups/0 has no key \"betas\"");
  }
  EXPECT_THROW(tree.root()[0], ckpt::Error);
  EXPECT_THROW(tree.at(99), ckpt::Error);
}

}  // namespace
