// Directories of DeepSpeed: what its engine wrote (fixtures/deepspeed) is to ckpt what its own zero_to_fp32 and
// ds_to_universal make of it; what is missing or contradicts itself is refused by name.
#include <algorithm>
#include <filesystem>

#include "interop/src/formats.h"
#include "pt_fixture.h"
#include "store_fixture.h"

namespace ckpt::interop {
namespace {

namespace fs = std::filesystem;

class DeepSpeed : public StoreTest {
 protected:
  static fs::path fixture(const std::string& name) { return StoreTest::fixture("deepspeed/" + name); }
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
  // 0 where it is not there.
  int32_t dtype_of(const std::string& label, const std::string& name) {
    ckpt_reader* reader = open(label, "import");
    ckpt_tensor_info info{};
    info.struct_size = sizeof info;
    const ckpt_status status = ckpt_reader_tensor_find(reader, name.c_str(), &info, nullptr);
    ckpt_reader_free(reader);
    return status == CKPT_OK ? info.dtype : 0;
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
  for (const std::string name : {"zero1", "zero2", "zero3", "bf16", "bf16_zero2", "bf16_zero3"}) {
    SCOPED_TRACE(name);
    imported(name);
    ASSERT_EQ(import_from(fixture(name + ".pt"), name + "-pt").code, CKPT_OK);
    std::vector<std::string> found = differing(name, name + "-pt", "model/");
    // zero_to_fp32 leaves out what ZeRO-1 does not train, and makes f32 of buffers.
    std::erase_if(found, [&](const std::string& text) {
      return ((name == "zero1" || name == "bf16") && text.find("model/frozen.") != std::string::npos) ||
             (name.starts_with("bf16") && text.find("model/scale") != std::string::npos);
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

TEST_F(DeepSpeed, Bf16IsTheModuleAndItsMasterWeightsAreF32) {
  for (const std::string name : {"bf16", "bf16_zero2", "bf16_zero3"}) {
    SCOPED_TRACE(name);
    imported(name);
    EXPECT_EQ(dtype_of(name, "model/hidden.weight"), CKPT_DTYPE_F32);
    EXPECT_EQ(dtype_of(name, "model/frozen.weight"), CKPT_DTYPE_BF16);
    EXPECT_EQ(dtype_of(name, "optimizer/state/hidden.weight/exp_avg"), CKPT_DTYPE_F32);
    // ZeRO-3's module holds no weights.
    EXPECT_EQ(dtype_of(name, "module/hidden.weight"), name == "bf16_zero3" ? 0 : CKPT_DTYPE_BF16);
  }
}

// ---- what does not fit, byte by byte: two ranks, parameters w of [2, 3] and b of [2] ----

struct ForgedZero {
  std::vector<pickled::Items> groups = {
      {pickled::text("w"), pickled::integers({2, 3}), pickled::text("b"), pickled::integers({2})}};
  std::vector<int64_t> lengths = {4, 4};   // of each rank's weights
  std::vector<int64_t> averages = {4, 4};  // of its exp_avg
  int stage = 2;
  std::vector<float> steps = {3, 3};
  std::vector<double> rates = {0.5, 0.5};
  std::string negated;                          // the key of a storage whose tensors torch negates
  bool no_averages = false;                     // as SGD: of rank 0 a None instead, of rank 1 nothing
  std::vector<pickled::Items> more = {{}, {}};  // of each rank's optimizer
  std::vector<pickled::Items> model = {{}, {}};

  void write(const std::string& folder) const {
    using namespace pickled;
    fs::remove_all(folder);
    fs::create_directories(folder);
    Items shapes;
    for (const Items& group : groups) shapes.push_back(ordered_dict(group));
    for (size_t rank = 0; rank < 2; rank++) {
      const std::string prefix = "/zero_pp_rank_" + std::to_string(rank) + "_mp_rank_00_";
      Items states = {text("module"), ordered_dict(), text("param_shapes"), list(shapes)};
      states.insert(states.end(), model[rank].begin(), model[rank].end());
      if (stage == 3 || rank == 0)
        write_file(folder + (stage == 3 ? prefix : "/mp_rank_00_") + "model_states.pt", pt_of(dict(states)));
      write_file(folder + prefix + "optim_states.pt", optimizer(rank));
    }
  }

  std::string optimizer(size_t rank) const {
    using namespace pickled;
    const int64_t length = lengths[rank], average = averages[rank];
    const auto floats = [&](const std::string& key, int64_t count) {
      const Items mark = key == negated ? Items{text("neg"), boolean(true)} : Items{};
      return tensor(storage(key, "FloatStorage", count), 0, {count}, {1}, false, mark);
    };
    const std::string step = tensor(storage("2", "FloatStorage", 1), 0, {}, {});
    const std::string none = dict(rank == 0 ? Items{integer(0), dict({text("momentum_buffer"), "N"})} : Items{});
    const std::string averages_and_step =
        dict({integer(0), dict({text("exp_avg"), floats("1", average), text("step"), step})});
    const std::string state = dict({text("state"), no_averages ? none : averages_and_step, text("param_groups"),
                                    list({dict({text("lr"), real(rates[rank]), text("params"), list({integer(0)})})})});
    const bool is_zero3 = stage == 3;
    Items zero = {text("zero_stage"),
                  integer(stage),
                  text("partition_count"),
                  integer(2),
                  text(is_zero3 ? "fp32_flat_groups" : "single_partition_of_fp32_groups"),
                  list({floats("0", length)}),
                  text(is_zero3 ? "optimizer_state_dict" : "base_optimizer_state"),
                  state};
    zero.insert(zero.end(), more[rank].begin(), more[rank].end());
    return pt_of(dict({text("optimizer_state_dict"), dict(zero)}),
                 {{"0", std::string(static_cast<size_t>(4 * length), '\1')},
                  {"1", std::string(static_cast<size_t>(4 * average), '\2')},
                  {"2", little(steps[rank])}});
  }
};

// Its parts are of many parameters, and the mark would be lost.
TEST_F(DeepSpeed, FlatTensorsThatTorchNegatesAreRefused) {
  for (const int stage : {2, 3})
    for (const char* key : {"0", "1"}) {
      ForgedZero zero;
      zero.stage = stage;
      SCOPED_TRACE(key + std::to_string(stage));
      zero.negated = key;
      zero.write(path("forged"));
      expect_refused(path("forged"), CKPT_UNSUPPORTED, {"rank_0_mp_rank_00_optim_states.pt", "torch negates"});
    }
}

TEST_F(DeepSpeed, LengthsOfGroupsMustBeThoseOfTheirShapes) {
  const auto refused = [&](const ForgedZero& zero, ckpt_status code, const std::vector<std::string>& texts) {
    zero.write(path("forged"));
    expect_refused(path("forged"), code, texts);
  };
  const auto shape = [](const std::vector<int64_t>& extents) {
    return std::vector<pickled::Items>{{pickled::text("w"), pickled::integers(extents)}};
  };
  for (const int stage : {2, 3}) {
    SCOPED_TRACE(stage);
    ForgedZero zero;
    zero.stage = stage;
    zero.write(path("forged"));
    const Failure in = import_from(path("forged"), "sound" + std::to_string(stage));
    ASSERT_EQ(in.code, CKPT_OK) << in.message;
    for (const std::vector<int64_t>& extents : {std::vector<int64_t>{9}, {3, 1000}, {int64_t{1} << 40, 1 << 20}}) {
      zero.groups = shape(extents);
      refused(zero, CKPT_INCOMPLETE, {"group 0", "param_shapes needs"});
    }
    for (const std::vector<int64_t>& extents : {std::vector<int64_t>{1}, {2, 2}, {0}}) {
      zero.groups = shape(extents);
      refused(zero, CKPT_MISMATCH, {"group 0", "param_shapes needs"});
    }
    zero.groups = shape({int64_t{1} << 40, int64_t{1} << 40});
    refused(zero, CKPT_FORMAT, {"param_shapes"});
    zero.groups = shape({-2, 3});
    refused(zero, CKPT_FORMAT, {"param_shapes"});
    zero.groups = ForgedZero().groups;
    zero.groups.push_back({pickled::text("c"), pickled::integers({8})});
    refused(zero, CKPT_MISMATCH, {"1 groups", "param_shapes 2"});
    zero.groups = ForgedZero().groups;
    zero.lengths = {4, 3};
    refused(zero, CKPT_INCOMPLETE, {"param_shapes needs"});
    zero.lengths = {4, 9};
    refused(zero, CKPT_MISMATCH, {"param_shapes needs"});
    zero.lengths = {4, 4};
    for (const int64_t other : {3, 5}) {
      zero.averages = {4, other};
      refused(zero, CKPT_MISMATCH, {"exp_avg", "expected 4 elements", "rank_1"});
    }
  }
}

// ---- that the files are those of the ranks of one save ----

constexpr const char *kZero2Rank0 = "zero_pp_rank_0_mp_rank_00_optim_states.pt", *kAnotherFile = "was written as";

// The files of two ranks, exchanged; or rank 0's in both places.
void exchange(const std::string& a, const std::string& b, bool is_copy) {
  const std::string first = read_file(a), second = read_file(b);
  write_file(b, first);
  if (!is_copy) write_file(a, second);
}

TEST_F(DeepSpeed, AFileOfAnotherRankIsToldByTheNameThatItsArchiveHas) {
  for (const std::string name : {"zero1", "zero2", "zero3", "bf16", "bf16_zero2", "bf16_zero3"})
    for (const bool is_copy : {true, false}) {
      SCOPED_TRACE(name);
      const std::string tag = copied(name) + (name.starts_with("bf16") ? "bf16_" : "");
      exchange(tag + kZero2Rank0, tag + kZero2Rank1, is_copy);
      expect_refused(path(name), CKPT_MISMATCH,
                     {is_copy ? kZero2Rank1 : kZero2Rank0, kAnotherFile, is_copy ? "rank_0" : "rank_1", "put"});
    }
  const std::string tag = copied("zero3") + "zero_pp_rank_";
  exchange(tag + "0_mp_rank_00_model_states.pt", tag + "1_mp_rank_00_model_states.pt", true);
  expect_refused(path("zero3"), CKPT_MISMATCH, {"rank_1_mp_rank_00_model_states.pt", kAnotherFile, "rank_0"});
  const std::string universal = copied("universal") + "zero/hidden.weight/";
  exchange(universal + "exp_avg.pt", universal + "fp32.pt", true);
  expect_refused(path("universal"), CKPT_MISMATCH, {"hidden.weight/fp32.pt", kAnotherFile, "exp_avg.pt"});
}

// torch.save to an open file calls each archive "archive".
void rename_archive(const std::string& file, const std::string& from, std::string to) {
  std::string bytes = read_file(file);
  to.resize(from.size(), '_');
  for (size_t at = 0; (at = bytes.find(from, at)) != std::string::npos; at += to.size())
    bytes.replace(at, from.size(), to);
  write_file(file, bytes);
}

TEST_F(DeepSpeed, AFileOfAnotherRankIsToldByItsSlices) {
  for (const std::string name : {"zero1", "zero2", "bf16", "bf16_zero2"})
    for (const bool is_copy : {true, false}) {
      SCOPED_TRACE(name);
      const std::string tag = copied(name) + (name.starts_with("bf16") ? "bf16_" : "");
      for (const char* file : {kZero2Rank0, kZero2Rank1})
        rename_archive(tag + file, (name.starts_with("bf16") ? "bf16_" : "") + std::string(file).substr(0, 38),
                       "archive");
      ASSERT_EQ(import_from(path(name), name + std::to_string(is_copy)).code, CKPT_OK);
      exchange(tag + kZero2Rank0, tag + kZero2Rank1, is_copy);
      expect_refused(path(name), CKPT_MISMATCH,
                     {is_copy ? kZero2Rank1 : kZero2Rank0, "param_slice_mappings", "expected", "found"});
    }
}

std::string slice(int64_t count, int64_t start) {
  using namespace pickled;
  const std::string address = make(global("deepspeed.utils.tensor_fragment", "fragment_address"), {});
  return with_state(address, dict({text("numel"), integer(count), text("start"), integer(start)}));
}
pickled::Items mapping(const pickled::Items& slices) {
  using namespace pickled;
  return {text("param_slice_mappings"), list({ordered_dict(slices)})};
}

// round_robin_gradients deals a, b, c out to two ranks as a, c and b, and the slices are those of a, b, c.
TEST_F(DeepSpeed, SlicesOfParametersThatWereDealtOutAreOfTheOrderBefore) {
  using namespace pickled;
  ForgedZero zero;
  zero.groups = {{text("a"), integers({2}), text("c"), integers({2}), text("b"), integers({4})}};
  zero.more = {mapping({text("a"), slice(2, 0), text("b"), slice(2, 2)}),
               mapping({text("b"), slice(2, 0), text("c"), slice(2, 2)})};
  zero.write(path("forged"));
  const Failure in = import_from(path("forged"), "sound");
  ASSERT_EQ(in.code, CKPT_OK) << in.message;
  zero.more[0] = mapping({text("a"), slice(2, 0), text("c"), slice(2, 2)});
  zero.write(path("forged"));
  expect_refused(path("forged"), CKPT_MISMATCH, {kZero2Rank1, "param_slice_mappings", "group 0"});
}

TEST_F(DeepSpeed, SlicesMustBeThePartsOfTheParametersThatARankHas) {
  using namespace pickled;
  ForgedZero zero;
  zero.more = {mapping({text("w"), slice(4, 0)}), mapping({text("w"), slice(2, 0), text("b"), slice(2, 2)})};
  zero.write(path("forged"));
  const Failure in = import_from(path("forged"), "sound");
  ASSERT_EQ(in.code, CKPT_OK) << in.message;
  for (const Items& wrong : {Items{text("w"), slice(4, 0)},
                             {text("w"), slice(2, 0)},
                             {},
                             {text("w"), slice(2, 0), text("b"), slice(2, 3)},
                             {text("w"), slice(2, 0), text("b"), slice(1, 2)},
                             {text("w"), slice(2, 0), text("b"), slice(2, 2), text("c"), slice(1, 4)},
                             {text("w"), slice(2, 0), text("c"), slice(2, 2)}}) {
    zero.more[1] = mapping(wrong);
    zero.write(path("forged"));
    expect_refused(path("forged"), CKPT_MISMATCH, {kZero2Rank1, "param_slice_mappings", "group 0"});
  }
  zero.more[1] = {};
  zero.write(path("forged"));
  expect_refused(path("forged"), CKPT_MISMATCH, {kZero2Rank1, "param_slice_mappings", kZero2Rank0});
  zero.more[1] = {text("param_slice_mappings"), list({})};
  zero.write(path("forged"));
  expect_refused(path("forged"), CKPT_FORMAT, {kZero2Rank1, "param_slice_mappings"});
}

TEST_F(DeepSpeed, AFileOfAnotherStepIsRefused) {
  using namespace pickled;
  for (const int stage : {2, 3}) {
    SCOPED_TRACE(stage);
    ForgedZero zero;
    zero.stage = stage;
    zero.rates = {0.5, 0.25};
    zero.write(path("forged"));
    expect_refused(path("forged"), CKPT_MISMATCH, {kZero2Rank1, "param_groups/0/lr", kZero2Rank0, "one save"});
    zero = {};
    zero.stage = stage;
    zero.more = {{text("ds_version"), text("1")}, {text("ds_version"), text("2")}};
    zero.write(path("forged"));
    expect_refused(path("forged"), CKPT_MISMATCH, {kZero2Rank1, "ds_version", kZero2Rank0});
    zero = {};
    zero.stage = stage;
    zero.steps = {3, 4};
    zero.write(path("forged"));
    expect_refused(path("forged"), CKPT_MISMATCH, {kZero2Rank1, "state/0/step", kZero2Rank0, "one save"});
  }
  ForgedZero zero;
  zero.stage = 3;
  for (const char* key : {"global_steps", "skipped_steps", "dp_world_size"}) {
    zero.model = {{text(key), integer(2)}, {text(key), integer(3)}};
    zero.write(path("forged"));
    expect_refused(path("forged"), CKPT_MISMATCH, {"rank_1_mp_rank_00_model_states.pt", key, "one save"});
  }
}

// DeepSpeed 0.19.8 with SGD, where a group is smaller than the ranks are many.
TEST_F(DeepSpeed, ARankMayHaveNoStateOfAGroup) {
  ForgedZero zero;
  zero.no_averages = true;
  zero.write(path("forged"));
  const Failure in = import_from(path("forged"), "sgd");
  EXPECT_EQ(in.code, CKPT_OK) << in.message;
}

// Of the steps of all ranks, that is: what is looked at reads pickles only.
TEST_F(DeepSpeed, StepsAreComparedBeforeElementsAreReadOnly) {
  ForgedZero zero;
  zero.steps = {3, 4};
  zero.write(path("forged"));
  Result<ForeignCheckpoint> state = read_foreign(path("forged"), {});
  ASSERT_TRUE(state.ok()) << state.status().message();
  EXPECT_EQ(state->find_elements({}).code(), CKPT_MISMATCH);
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
  expect_refused(path("zero2"), CKPT_MISMATCH, {kZero2Rank1, "zero_stage"});
  fs::copy(fixture("zero2") / "global_step3" / kZero2Rank1, tag + kZero2Rank1, fs::copy_options::overwrite_existing);
  const std::string third = tag + "zero_pp_rank_2_mp_rank_00_optim_states.pt";
  fs::copy(tag + kZero2Rank1, third);
  rename_archive(third, std::string(kZero2Rank1).substr(0, 38), "archive");
  expect_refused(path("zero2"), CKPT_MISMATCH, {"2 ranks", "of 3"});
  fs::remove(third);
  fs::copy(tag + kZero2Rank1, tag + "bf16_" + kZero2Rank1);
  expect_refused(path("zero2"), CKPT_FORMAT, {"two files of rank 1"});
}

TEST_F(DeepSpeed, ParallelModelsAreRefusedWithTheWayOut) {
  const std::string tag = copied("zero2");
  fs::copy(tag + "mp_rank_00_model_states.pt", tag + "mp_rank_01_model_states.pt");
  expect_refused(path("zero2"), CKPT_UNSUPPORTED, {"mp_rank_01_model_states.pt", "ds_to_universal"});
  ForgedZero experts;
  experts.stage = 3;
  experts.more[1] = {pickled::text("ds_zero_partition_groups"), pickled::list({})};
  experts.write(path("forged"));
  expect_refused(path("forged"), CKPT_UNSUPPORTED, {kZero2Rank1, "experts", "ds_to_universal"});
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

TEST_F(DeepSpeed, ALatestThatNamesNoTagIsToldWithTheTagsThatAreThere) {
  copied("zero2");
  fs::copy(path("zero2/global_step3"), path("zero2/best"), fs::copy_options::recursive);
  write_file(path("zero2/latest"), "global_step9");
  const std::vector<std::string> tags = {"zero2/latest", R"("best", "global_step3")", "name the directory"};
  const auto refused = [&](const std::string& what, ckpt_status code) {
    std::vector<std::string> texts = tags;
    texts.push_back(what);
    expect_refused(path("zero2"), code, texts);
  };
  refused(R"("global_step9", which is not there)", CKPT_NOT_FOUND);
  fs::create_directory(path("zero2/global_step9"));
  refused(R"("global_step9", which has no *_model_states.pt)", CKPT_NOT_FOUND);
  write_file(path("zero2/latest"), "../zero2/best");
  refused(R"("../zero2/best", which is not the name of a directory)", CKPT_FORMAT);
  EXPECT_EQ(import_from(path("zero2/best"), "best").code, CKPT_OK);
  copied("universal");
  write_file(path("universal/latest_universal"), "global_step4_universal");
  expect_refused(path("universal"), CKPT_NOT_FOUND,
                 {"latest_universal", "global_step4", R"("global_step3_universal")"});
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
