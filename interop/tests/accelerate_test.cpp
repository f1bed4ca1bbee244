// Directories of accelerate's save_state, and of Trainer where accelerate shards for it: fixtures/make_accelerate.py.
#include <algorithm>
#include <filesystem>

#include "store_fixture.h"

namespace ckpt::interop {
namespace {

namespace fs = std::filesystem;

class Accelerate : public StoreTest {
 protected:
  void imported(const fs::path& from, const std::string& label) {
    const Failure in = import_from(from, label);
    ASSERT_EQ(in.code, CKPT_OK) << label << ": " << in.message;
  }
  // One that a test may change.
  fs::path copied(const std::string& name) {
    fs::copy(fixture(name), path("copy"), fs::copy_options::recursive);
    return path("copy");
  }
  // Of the models and optimizers: what differs, and what only one has.
  std::vector<std::string> differing(const std::string& a, const std::string& b) {
    std::vector<std::string> found = differences(a, "import", b, "import");
    std::erase_if(found, [](const std::string& text) {
      return text.find("model") == std::string::npos && text.find("optimizer") == std::string::npos;
    });
    return found;
  }
  void expect_in(const std::string& text, std::initializer_list<std::string> parts) {
    for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << "\n in " << text;
  }
};

TEST_F(Accelerate, ModelsAndOptimizersAreThoseThatItSaved) {
  for (const std::string name : {"plain", "bin", "fsdp", "ranks", "full"}) {
    SCOPED_TRACE(name);
    imported(fixture("accelerate/" + name), name);
    imported(fixture("accelerate/" + name + ".pt"), name + "-pt");
    EXPECT_EQ(differing(name + "-pt", name), std::vector<std::string>());
  }
  // Else that would prove nothing.
  EXPECT_GT(differing("plain-pt", "fsdp").size(), 10u);
}

TEST_F(Accelerate, WhatItSavedBesidesIsThereToo) {
  imported(fixture("accelerate/plain"), "plain");
  expect_in(tree_of("plain", "import"),
            {R"("scheduler":{)", R"("last_epoch":2)", R"("custom_checkpoint_0":{"count":7})", R"("random_states":)",
             R"("rank0":)", R"("rank1":)", R"("torch_manual_seed":)" + leaf("random_states/rank1/torch_manual_seed")});
}

TEST_F(Accelerate, ARandomStateThatIsMissingIsNamed) {
  const fs::path copy = copied("accelerate/plain");
  fs::rename(copy / "random_states_1.pkl", copy / "random_states_2.pkl");
  const Failure in = import_from(copy, "a");
  EXPECT_EQ(in.code, CKPT_INCOMPLETE);
  expect_in(in.message, {"random_states_1.pkl is missing", "rank 2"});
}

TEST_F(Accelerate, AFileOfARankThatIsMissingIsNamed) {
  const fs::path copy = copied("accelerate/ranks");
  fs::remove(copy / "optimizer_0_rank0.bin");
  const Failure in = import_from(copy, "a");
  EXPECT_EQ(in.code, CKPT_INCOMPLETE);
  expect_in(in.message, {"optimizer_0_rank0.bin is missing"});
}

TEST_F(Accelerate, AModelOrOptimizerThatIsMissingIsNamed) {
  const auto refused = [&](const std::string& name, const std::vector<std::string>& gone,
                           std::initializer_list<std::string> texts) {
    fs::remove_all(path("copy"));
    const fs::path copy = copied("accelerate/" + name);
    for (const std::string& file : gone) fs::remove_all(copy / file);
    fs::create_directory(copy / "runs");
    const Failure in = import_from(copy, "a");
    EXPECT_EQ(in.code, CKPT_INCOMPLETE) << in.message;
    expect_in(in.message, texts);
  };
  refused("plain", {"model.safetensors"}, {"copy/model is missing", "model_1.safetensors is there"});
  refused("plain", {"model.safetensors", "model_1.safetensors"}, {"an optimizer, but no model", "model.safetensors"});
  refused("plain", {"optimizer.bin"}, {"copy/optimizer is missing", "optimizer_1.bin is there"});
  refused("bin", {"pytorch_model.bin"}, {"is missing", "pytorch_model_1.bin is there"});
  refused("fsdp", {"pytorch_model_fsdp_0"}, {"is missing", "pytorch_model_fsdp_1 is there"});
  refused("fsdp", {"optimizer_0"}, {"copy/optimizer is missing", "optimizer_1 is there"});
  refused("ranks", {"optimizer_0_rank0.bin", "optimizer_0_rank1.bin"},
          {"is missing", "optimizer_1_rank0.bin is there"});
}

// load_state says so and goes on.
TEST_F(Accelerate, RandomStatesMayBeMissing) {
  for (const std::string name : {"plain", "bin", "fsdp", "ranks"}) {
    SCOPED_TRACE(name);
    fs::remove_all(path("copy"));
    const fs::path copy = copied("accelerate/" + name);
    for (const char* file : {"random_states_0.pkl", "random_states_1.pkl"}) fs::remove(copy / file);
    imported(copy, name + "-bare");
    imported(fixture("accelerate/" + name + ".pt"), name + "-pt");
    EXPECT_EQ(differing(name + "-pt", name + "-bare"), std::vector<std::string>());
  }
}

// As diffusers' hooks do: the model lies in a folder of its own, which is left out by name.
TEST_F(Accelerate, AModelThatHooksWroteIsNotMissed) {
  const fs::path copy = copied("accelerate/plain");
  for (const char* folder : {"unet", "runs"}) fs::create_directory(copy / folder);
  for (const char* file : {"model.safetensors", "model_1.safetensors"}) fs::rename(copy / file, copy / "unet" / file);
  imported(copy, "a");
  const std::string tree = tree_of("a", "import");
  expect_in(tree, {R"("optimizer":{)", R"("random_states":)"});
  EXPECT_EQ(tree.find(R"("model":{)"), std::string::npos);
}

// Of several loaders only some have a sampler that is saved.
TEST_F(Accelerate, ASamplerOfALaterLoaderIsTaken) {
  const fs::path copy = copied("accelerate/plain");
  for (const char* file : {"sampler_1.bin", "sampler_10.bin", "dl_state_dict_2.bin"})
    fs::copy(fixture("accelerate/plain/custom_checkpoint_0.pkl"), copy / file);
  imported(copy, "a");
  expect_in(tree_of("a", "import"),
            {R"("sampler_1":{"count":7})", R"("sampler_10":{"count":7})", R"("dl_state_dict_2":{"count":7})"});
}

TEST_F(Accelerate, FilesThatWereExchangedAreRefused) {
  for (const auto& [name, first, second] : {std::tuple("plain", "optimizer.bin", "optimizer_1.bin"),
                                            {"bin", "pytorch_model.bin", "pytorch_model_1.bin"},
                                            {"plain", "random_states_0.pkl", "random_states_1.pkl"}}) {
    SCOPED_TRACE(first);
    fs::remove_all(path("copy"));
    const fs::path copy = copied(std::string("accelerate/") + name);
    fs::rename(copy / first, copy / "x");
    fs::rename(copy / second, copy / first);
    fs::rename(copy / "x", copy / second);
    const Failure in = import_from(copy, "a");
    EXPECT_EQ(in.code, CKPT_MISMATCH) << in.message;
    expect_in(in.message, {first, "was written as", second});
  }
}

// ---- Trainer ----

class Trainers : public Accelerate {
 protected:
  void make_trainers(const fs::path& directory) {
    for (const char* name : {"trainer_state.json", "scheduler.pt", "rng_state.pth"})
      fs::copy(fixture("hf_trainer") / name, directory);
  }
};

TEST_F(Trainers, ShardedByFsdpAreReadAsAccelerateShardsThem) {
  const fs::path copy = copied("accelerate/fsdp");
  for (const char* name : {"random_states_0.pkl", "random_states_1.pkl"}) fs::remove(copy / name);
  make_trainers(copy);
  imported(copy, "trainer");
  imported(fixture("accelerate/fsdp.pt"), "pt");
  EXPECT_EQ(differing("pt", "trainer"), std::vector<std::string>());
  expect_in(tree_of("trainer", "import"), {R"("trainer_state":")", R"("scheduler":{)", R"("rng_state":{)"});
}

TEST_F(Trainers, UnderDeepSpeedHaveItsStateAndTheirOwn) {
  const fs::path copy = copied("deepspeed/zero2");
  make_trainers(copy);
  imported(copy, "trainer");
  expect_in(tree_of("trainer", "import"),
            {leaf("model/embed.weight"), leaf("optimizer/state/norm.bias/exp_avg_sq"), R"("trainer_state":")"});
}

TEST_F(Trainers, WithSaveOnlyModelHaveTheModelAndTheirState) {
  const fs::path copy = copied("hf_trainer");
  for (const char* name : {"optimizer.pt", "scheduler.pt", "rng_state.pth"}) fs::remove(copy / name);
  imported(copy, "only");
  imported(fixture("hf_trainer"), "all");
  const std::string tree = tree_of("only", "import");
  expect_in(tree, {R"("model":{)", R"("trainer_state":")", "global_step"});
  EXPECT_EQ(tree.find("optimizer"), std::string::npos);
  std::vector<std::string> found = differences("all", "import", "only", "import");
  std::erase_if(found, [](const std::string& text) { return text.find("model/") == std::string::npos; });
  EXPECT_EQ(found, std::vector<std::string>());
}

TEST_F(Trainers, OfAnAdapterHaveNoModel) {
  const fs::path copy = copied("hf_trainer");
  fs::rename(copy / "model.safetensors", copy / "adapter_model.safetensors");
  imported(copy, "trainer");
  const std::string tree = tree_of("trainer", "import");
  expect_in(tree, {R"("adapter":{)", leaf("adapter/model.norm.weight"), R"("optimizer":{)"});
  EXPECT_EQ(tree.find(R"("model":{)"), std::string::npos);
}

}  // namespace
}  // namespace ckpt::interop
