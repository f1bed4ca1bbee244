// Directories of accelerate's save_state, and of Trainer where accelerate shards for it: fixtures/make_accelerate.py.
#include <algorithm>
#include <filesystem>

#include "store_fixture.h"

namespace ckpt::interop {
namespace {

namespace fs = std::filesystem;

class Accelerate : public StoreTest {
 protected:
  static fs::path fixture(const std::string& name) {
    return fs::path(CKPT_SOURCE_DIR) / "tests/interop/fixtures" / name;
  }
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
