// Directories of DeepSpeed: what its engine wrote (fixtures/deepspeed) is to ckpt what its own zero_to_fp32 and
// ds_to_universal make of it; what is missing or contradicts itself is refused by name.
#include <algorithm>
#include <filesystem>

#include "interop/formats.h"
#include "store_fixture.h"

namespace ckpt::interop {
namespace {

namespace fs = std::filesystem;

class DeepSpeed : public StoreTest {
 protected:
  static fs::path fixture(const std::string& name) {
    return fs::path(CKPT_SOURCE_DIR) / "tests/interop/fixtures/deepspeed" / name;
  }
  void imported(const std::string& name) {
    const Failure in = import_from(fixture(name), name);
    ASSERT_EQ(in.code, CKPT_OK) << name << ": " << in.message;
  }
  // One that a test may damage; the directory of its tag.
  std::string copied(const std::string& name) {
    fs::remove_all(path(name));
    fs::copy(fixture(name), path(name), fs::copy_options::recursive);
    return path(name) + "/global_step3" + (name.starts_with("universal") ? "_universal/" : "/");
  }
  void expect_refused(const std::string& from, ckpt_status code, const std::vector<std::string>& texts) {
    const Failure failure = import_from(from, "refused");
    EXPECT_EQ(failure.code, code) << failure.message;
    for (const std::string& text : texts) EXPECT_NE(failure.message.find(text), std::string::npos) << failure.message;
  }
  // What differs in what both have, and what `b` lacks of what begins with `prefix`.
  std::vector<std::string> differing(const std::string& a, const std::string& b, const std::string& prefix) {
    std::vector<std::string> found = differences(a, "import", b, "import");
    std::erase_if(found, [&](const std::string& text) { return text.find(prefix) == std::string::npos; });
    return found;
  }
};

constexpr const char* kZero2Rank1 = "zero_pp_rank_1_mp_rank_00_optim_states.pt";

// ---- what DeepSpeed wrote ----

TEST_F(DeepSpeed, TheModelIsWhatZeroToFp32MakesOfIt) {
  for (const std::string name : {"zero1", "zero2", "zero3", "bf16"}) {
    SCOPED_TRACE(name);
    imported(name);
    ASSERT_EQ(import_from(fixture(name + ".pt"), name + "-pt").code, CKPT_OK);
    std::vector<std::string> found = differing(name, name + "-pt", "model/");
    // zero_to_fp32 leaves out what ZeRO-1 does not train, and makes f32 of buffers.
    std::erase_if(found, [&](const std::string& text) {
      return (name != "zero2" && name != "zero3" && text.find("model/frozen.") != std::string::npos) ||
             (name == "bf16" && text.find("model/scale") != std::string::npos);
    });
    EXPECT_EQ(found, std::vector<std::string>());
  }
}

TEST_F(DeepSpeed, TheStateIsTheSameThroughAUniversalCheckpoint) {
  for (const auto& [zero, universal] : {std::pair("zero1", "universal"), {"zero3", "universal3"}}) {
    SCOPED_TRACE(zero);
    imported(zero);
    imported(universal);
    // ds_to_universal drops the step of ZeRO-3.
    std::vector<std::string> found = differing(zero, universal, "optimizer/state/");
    std::erase_if(found, [&](const std::string& text) {
      return text.find("/step") != std::string::npos && universal == std::string("universal3");
    });
    EXPECT_EQ(found, std::vector<std::string>());
    EXPECT_EQ(differing(zero, universal, "model/"), std::vector<std::string>());
  }
}

// Else the two tests before would prove nothing.
TEST_F(DeepSpeed, TheComparisonSeesOtherValues) {
  imported("bf16");
  imported("zero2");
  EXPECT_EQ(differing("bf16", "zero2", "model/hidden.weight").size(), 1u);
  EXPECT_EQ(differing("bf16", "zero2", "optimizer/state/hidden.weight/exp_avg_sq").size(), 1u);
}

TEST_F(DeepSpeed, TheTreeHasModelModuleOptimizerAndEngine) {
  imported("zero2");
  const std::string tree = tree_of("zero2", "import");
  const auto has = [&](const std::string& text) {
    EXPECT_NE(tree.find(text), std::string::npos) << text << "\n in " << tree;
  };
  has(R"("embed.weight":)" + leaf("model/embed.weight"));
  has(R"("head.weight":)" + leaf("model/head.weight"));
  has(R"("hidden.weight":)" + leaf("module/hidden.weight"));
  has(R"("exp_avg_sq":)" + leaf("optimizer/state/norm.bias/exp_avg_sq"));
  has(R"("params":["hidden.bias","norm.weight","norm.bias"])");
  has(R"("weight_decay":0.1)");
  has(R"("global_steps":3)");
  has(R"("note":"café")");
  for (const char* layout : {"param_slice_mappings", "group_paddings", "param_shapes", "partition_count"})
    EXPECT_EQ(tree.find(layout), std::string::npos) << layout;
}

TEST_F(DeepSpeed, ATagsDirectoryIsReadAsTheRunsIs) {
  imported("zero3");
  ASSERT_EQ(import_from(fixture("zero3/global_step3"), "tag").code, CKPT_OK);
  std::vector<std::string> found = differences("zero3", "import", "tag", "import");
  std::erase_if(found, [](const std::string& text) { return text.find("import.files") != std::string::npos; });
  EXPECT_EQ(found, std::vector<std::string>());
}

// ---- what does not fit ----

TEST_F(DeepSpeed, AFileThatIsMissingIsNamed) {
  std::string tag = copied("zero2");
  fs::remove(tag + kZero2Rank1);
  expect_refused(path("zero2"), CKPT_INCOMPLETE, {"2 ranks", "of 1"});
  tag = copied("zero2");
  fs::remove(tag + "zero_pp_rank_0_mp_rank_00_optim_states.pt");
  expect_refused(path("zero2"), CKPT_INCOMPLETE, {"of rank 0 is missing", kZero2Rank1});
  fs::remove(tag + kZero2Rank1);
  expect_refused(path("zero2"), CKPT_INCOMPLETE, {"optim_states.pt", "ZeRO"});
  tag = copied("zero3");
  fs::remove(tag + "zero_pp_rank_1_mp_rank_00_model_states.pt");
  expect_refused(path("zero3"), CKPT_INCOMPLETE, {"2 ranks", "model_states.pt of 1"});
  tag = copied("universal");
  fs::remove(tag + "zero/hidden.bias/fp32.pt");
  expect_refused(path("universal"), CKPT_INCOMPLETE, {"hidden.bias", "fp32.pt"});
  fs::remove_all(tag + "zero/hidden.bias");
  expect_refused(path("universal"), CKPT_INCOMPLETE, {"lacks", "hidden.bias"});
}

TEST_F(DeepSpeed, FilesOfAnotherRunAreRefused) {
  const std::string other = fixture("zero3") / "global_step3/zero_pp_rank_1_mp_rank_00_optim_states.pt";
  const std::string tag = copied("zero2");
  fs::copy(other, tag + kZero2Rank1, fs::copy_options::overwrite_existing);
  expect_refused(path("zero2"), CKPT_FORMAT, {kZero2Rank1, "single_partition_of_fp32_groups"});
  // Rank 0's twice: its partitions are longer, and the parameters end before them.
  fs::copy(tag + "zero_pp_rank_0_mp_rank_00_optim_states.pt", tag + kZero2Rank1, fs::copy_options::overwrite_existing);
  const std::string third = tag + "zero_pp_rank_2_mp_rank_00_optim_states.pt";
  fs::copy(tag + kZero2Rank1, third);
  expect_refused(path("zero2"), CKPT_MISMATCH, {"2 ranks", "of 3"});
  fs::remove(third);
  fs::copy(tag + kZero2Rank1, tag + "bf16_" + kZero2Rank1);
  expect_refused(path("zero2"), CKPT_FORMAT, {"two files of rank 1"});
}

TEST_F(DeepSpeed, ParallelModelsAreRefusedWithTheWayOut) {
  const std::string tag = copied("zero2");
  fs::copy(tag + "mp_rank_00_model_states.pt", tag + "mp_rank_01_model_states.pt");
  expect_refused(path("zero2"), CKPT_UNSUPPORTED, {"mp_rank_01_model_states.pt", "ds_to_universal"});
}

TEST_F(DeepSpeed, LatestNamesADirectoryBesideItOrNothing) {
  copied("zero2");
  for (const std::string text : {"../zero2/global_step3", "/tmp", "", ".", "a\nb"}) {
    write_file(path("zero2/latest"), text);
    const Failure failure = import_from(path("zero2"), "refused");
    EXPECT_NE(failure.code, CKPT_OK) << text;
  }
  write_file(path("zero2/latest"), "global_step3\n");
  EXPECT_EQ(import_from(path("zero2"), "ok").code, CKPT_OK);
}

TEST_F(DeepSpeed, CutAndDamagedFilesAreRefusedOrUnchanged) {
  for (const std::string name : {"zero2", "zero3"}) {
    imported(name);
    const std::string tag = copied(name), file = read_file(tag + kZero2Rank1);
    for (size_t size = 0; size < file.size(); size += 97) {
      write_file(tag + kZero2Rank1, file.substr(0, size));
      EXPECT_NE(import_from(path(name), "cut").code, CKPT_OK) << size;
    }
    for (size_t at = 0; at < file.size(); at += 61) {
      std::string damaged = file;
      damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
      write_file(tag + kZero2Rank1, damaged);
      const std::string label = name + "-x" + std::to_string(at);
      if (import_from(path(name), label).code != CKPT_OK) continue;
      EXPECT_EQ(differences(name, "import", label, "import"), std::vector<std::string>()) << at;
    }
  }
}

}  // namespace
}  // namespace ckpt::interop
