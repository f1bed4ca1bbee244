// hfai directories: what an export writes an import makes the same state of; what does not fit is refused by name.
// Thresholds are lowered, so that small tensors are cut.
#include <fcntl.h>

#include <filesystem>

#include "interop/src/hfai/format.h"
#include "interop/src/hfai/layout.h"
#include "interop/src/pickle/writer.h"
#include "interop/src/zip/writer.h"
#include "store_fixture.h"

namespace ckpt::interop {
namespace {

namespace fs = std::filesystem;

// A model with a cut tensor, tied ones and a buffer; an optimizer with a cut moment; others.
Saved sample() {
  Saved state;
  state.tensors = {floats("model/w", {10, 7}, 1),
                   floats("model/small", {3}, 2),
                   floats("model/b", {5}, 3),
                   {"model/count", CKPT_DTYPE_I64, {}, pattern(8)},
                   floats("optimizer/state/0/exp_avg", {10, 7}, 4),
                   floats("optimizer/state/0/extra", {2}, 5),
                   floats("optimizer/state/1/exp_avg", {3}, 6),
                   floats("ema/w", {4}, 7)};
  state.aliases = {{"model/tied", "model/small", {}, {}, 0}};
  state.tree = R"({"model":{"w":)" + leaf("model/w") + R"(,"small":)" + leaf("model/small") + R"(,"tied":)" +
               leaf("model/tied") + R"(,"b":)" + leaf("model/b") + R"(,"count":)" + leaf("model/count") +
               R"(},"optimizer":{"state":{"$":"dict","items":[[0,{"step":7,"exp_avg":)" +
               leaf("optimizer/state/0/exp_avg") + R"(,"extra":)" + leaf("optimizer/state/0/extra") +
               R"(}],[1,{"step":7,"exp_avg":)" + leaf("optimizer/state/1/exp_avg") +
               R"(}]]},"param_groups":[{"lr":0.1,"params":[0,1]}]},"epoch":3,"ema":{"w":)" + leaf("ema/w") + "}}";
  return state;
}

class Hfai : public StoreTest {
 protected:
  // Above 100 bytes a tensor is cut.
  Failure export_parts(const std::string& label, const std::string& to, uint32_t shards, uint64_t large_bytes = 100,
                       const char* run = "main") {
    const client::Reader reader(open(label, run));
    Job job;
    const ExportRequest request{reader, path(to), {.shards = shards}, job};
    const Result<ExportPlan> plan = plan_hfai(request, large_bytes);
    const Status status = plan.ok() ? write_export(request, *plan) : plan.status();
    Failure failure{status.code(), status.message(), {}};
    for (const char* key : {"found", "tensor", "path"})
      if (const std::string* value = status.detail(key)) failure.details[key] = *value;
    return failure;
  }
  // Saved and exported under its own name.
  void make(const std::string& name, const Saved& state, uint32_t shards, uint64_t large_bytes = 100) {
    save(name, state);
    const Failure failure = export_parts(name, name, shards, large_bytes);
    ASSERT_EQ(failure.code, CKPT_OK) << failure.message;
  }
  std::string part(const std::string& directory, int number) { return path(directory) + '/' + hfai_part_name(number); }
  void expect_refused(const std::string& directory, ckpt_status code, const std::vector<std::string>& texts) {
    const Failure failure = StoreTest::expect_refused(directory, code, texts);
    EXPECT_NE(detail(failure, "path").find(directory), std::string::npos) << failure.message;
  }
  // A .pt whose only storage, 0, has 60 bytes.
  template <typename F>
  void write_part(const std::string& to, F&& fill) {
    PickleWriter pickle;
    fill(pickle);
    OutputFile file(to, store::Fd(::open(to.c_str(), O_RDWR | O_CREAT, 0666)));
    ZipWriter zip(file);
    const std::string bytes = pickle.finish();
    ASSERT_TRUE(zip.add("archive/data.pkl", as_bytes(bytes)).ok());
    ASSERT_TRUE(zip.add("archive/data/0", as_bytes(pattern(60))).ok());
    ASSERT_TRUE(zip.add("archive/version", as_bytes("3\n")).ok());
    ASSERT_TRUE(zip.finish().ok());
    ASSERT_TRUE(file.sync().ok());
  }
};

TEST_F(Hfai, AnyNumberOfPartsGivesTheSameStateInAsManyParts) {
  save("a", sample());
  ASSERT_EQ(export_parts("a", "1", 1).code, CKPT_OK);
  ASSERT_EQ(import_from(path("1"), "from1").code, CKPT_OK);
  for (const uint32_t shards : {2u, 3u, 8u}) {
    const std::string name = std::to_string(shards);
    ASSERT_EQ(export_parts("a", name, shards).code, CKPT_OK);
    const Failure in = import_from(path(name), "from" + name);
    ASSERT_EQ(in.code, CKPT_OK) << in.message;
    EXPECT_EQ(info_.part_count, shards);
    EXPECT_EQ(info_.world_size, shards);
    // But for the number of parts, which is in the tree.
    const std::vector<std::string> found = differences("from1", "import", "from" + name, "import");
    for (const std::string& text : found) EXPECT_NE(text.find("state"), std::string::npos) << text;
    EXPECT_LE(found.size(), 2u);
  }
}

TEST_F(Hfai, EveryTensorAndItsValuesComeBack) {
  make("a", sample(), 3);
  ASSERT_EQ(import_from(path("a"), "b").code, CKPT_OK);
  for (const std::string& text : differences("a", "main", "b", "import"))
    EXPECT_NE(text.find("state"), std::string::npos) << text;  // the object with the tree
}

TEST_F(Hfai, WhatAnImportGaveIsExportedTheSame) {
  make("a", sample(), 3);
  ASSERT_EQ(import_from(path("a"), "b").code, CKPT_OK);
  ASSERT_EQ(export_parts("b", "again", 3, 100, "import").code, CKPT_OK);
  ASSERT_EQ(import_from(path("again"), "c").code, CKPT_OK);
  EXPECT_EQ(differences("b", "import", "c", "import"), std::vector<std::string>());
  EXPECT_EQ(tree_of("b", "import"), tree_of("c", "import"));
}

TEST_F(Hfai, SeveralModelsAndOptimizersComeBack) {
  Saved state;
  std::string models, optimizers;
  for (int i = 0; i < 3; i++) {
    const std::string model = "model/" + std::to_string(i) + "/w";
    const std::string moment = "optimizer/" + std::to_string(i) + "/state/0/m";
    state.tensors.push_back(floats(model, {30 + i}, static_cast<unsigned>(i)));
    state.tensors.push_back(floats(moment, {30 + i}, static_cast<unsigned>(10 + i)));
    models += (i ? "," : "") + ("{\"w\":" + leaf(model) + "}");
    optimizers += (i ? "," : "") + (R"({"state":{"$":"dict","items":[[0,{"m":)" + leaf(moment) + R"(}]]},"lr":0.5})");
  }
  state.tree = R"({"model":[)" + models + R"(],"optimizer":[)" + optimizers + "]}";
  make("a", state, 2);
  const Failure in = import_from(path("a"), "b");
  ASSERT_EQ(in.code, CKPT_OK) << in.message;
  EXPECT_EQ(tree_of("b", "import"), R"({"__nshards__":2,"__version__":"2.0.0",)" + state.tree.substr(1));
}

TEST_F(Hfai, AliasesOfWhatIsCutBecomeTensors) {
  const std::string tree = R"({"model":{"w":)" + leaf("w") + R"(,"row":)" + leaf("row") + R"(,"t":)" + leaf("t") + "}}";
  make("a", {{floats("w", {10, 7})}, {{"row", "w", {7}, {1}, 14}, {"t", "w", {7, 10}, {1, 7}, 0}}, tree}, 3);
  const Failure in = import_from(path("a"), "b");
  ASSERT_EQ(in.code, CKPT_OK) << in.message;
  ASSERT_EQ(export_to(path("a.pt"), "a").code, CKPT_OK);
  ASSERT_EQ(import_from(path("a.pt"), "whole").code, CKPT_OK);
  // The names are those of the paths; values are the same, sharing is not.
  for (const std::string& text : differences("whole", "import", "b", "import")) {
    EXPECT_TRUE(text.find("alias") != std::string::npos || text.find("state") != std::string::npos) << text;
  }
}

TEST_F(Hfai, ADirectoryIsOpenedInPlace) {
  make("whole", sample(), 2, 1000);
  make("cut", sample(), 2);
  ckpt_file* file = nullptr;
  must([&](auto** err) { return ckpt_file_open(&file, path("whole").c_str(), nullptr, err); });
  EXPECT_STREQ(ckpt_file_format(file), "hfai");
  EXPECT_EQ(ckpt_file_tensor_count(file), 9u);
  ckpt_file_free(file);
  must([&](auto** err) { return ckpt_file_open(&file, path("cut").c_str(), nullptr, err); });
  size_t cut = 0;
  for (uint64_t i = 0; i < ckpt_file_tensor_count(file); i++) {
    ckpt_file_tensor tensor{};
    tensor.struct_size = sizeof tensor;
    must([&](auto** err) { return ckpt_file_tensor_at(file, i, &tensor, err); });
    if (tensor.data) continue;
    cut++;
    ckpt_tensor_desc desc = describe(tensor.dtype, {10, 7});
    std::string found(280, '\0');
    must([&](auto** err) { return ckpt_file_read(file, i, &desc, found.data(), found.size(), err); });
    EXPECT_EQ(found, pattern(280, std::string(tensor.name) == "model/w" ? 1 : 4)) << tensor.name;
    desc.region_kind = CKPT_REGION_BOX;
    desc.offset[0] = 4, desc.extent[0] = 3, desc.extent[1] = 7;  // of both parts
    std::string box(84, '\0');
    must([&](auto** err) { return ckpt_file_read(file, i, &desc, box.data(), box.size(), err); });
    EXPECT_EQ(box, found.substr(112, 84));
  }
  EXPECT_EQ(cut, 2u);
  ckpt_file_free(file);
}

// ---- refused ----

TEST_F(Hfai, AMissingPartIsNamed) {
  make("a", sample(), 3);
  fs::remove(part("a", 1));
  expect_refused("a", CKPT_INCOMPLETE, {"PART_001.pt", "missing"});
}

TEST_F(Hfai, AMissingLastPartIsToldByTheNumberOfParts) {
  make("a", sample(), 3);
  fs::remove(part("a", 2));
  expect_refused("a", CKPT_INCOMPLETE, {"PART_000.pt", "__nshards__", "expected 2", "found 3"});
}

TEST_F(Hfai, APartOfAnotherNumberOfPartsIsRefused) {
  make("a", sample(), 2);
  make("b", sample(), 1);
  fs::copy_file(part("b", 0), part("a", 1), fs::copy_options::overwrite_existing);
  expect_refused("a", CKPT_MISMATCH, {"PART_001.pt", "expected 2", "found 1"});
}

TEST_F(Hfai, AnotherVersionIsRefused) {
  for (const char* version : {"1.0.0", "3.1.0", ""}) {
    const std::string name = std::string("v") + version;
    fs::create_directory(path(name));
    write_part(part(name, 0), [&](PickleWriter& pickle) {
      pickle.empty_dict();
      pickle.begin_items();
      if (*version) {
        (void)pickle.text("__version__");
        (void)pickle.text(version);
      }
      (void)pickle.text("__nshards__");
      pickle.integer(1);
      pickle.end_items();
    });
    expect_refused(name, CKPT_UNSUPPORTED, {"__version__", "expected 2.0.0", *version ? version : "found 1.0.0"});
  }
}

TEST_F(Hfai, PartsWithOtherNumbersOfModelsAreRefused) {
  make("one", {{floats("w", {2})}, {}, R"({"model":{"w":)" + leaf("w") + "}}"}, 2);
  make("two", {{floats("w", {2})}, {}, R"({"model":[{"w":)" + leaf("w") + "},{}]}"}, 2);
  fs::copy_file(part("two", 1), part("one", 1), fs::copy_options::overwrite_existing);
  expect_refused("one", CKPT_MISMATCH, {"PART_001.pt", "models", "expected 1", "found 2"});
}

TEST_F(Hfai, PartsWithOtherNumbersOfOptimizersAreRefused) {
  make("one", {{}, {}, R"({"model":{},"optimizer":{"state":{}}})"}, 2);
  make("two", {{}, {}, R"({"model":{},"optimizer":[{"state":{}},{"state":{}}]})"}, 2);
  fs::copy_file(part("two", 1), part("one", 1), fs::copy_options::overwrite_existing);
  expect_refused("one", CKPT_MISMATCH, {"PART_001.pt", "optimizers", "expected 1", "found 2"});
}

TEST_F(Hfai, PiecesOfAnotherDtypeAreRefused) {
  const std::string tree = R"({"model":{"w":)" + leaf("w") + "}}";
  make("a", {{floats("w", {60})}, {}, tree}, 2);
  make("b", {{{"w", CKPT_DTYPE_I32, {60}, pattern(240)}}, {}, tree}, 2);
  fs::copy_file(part("b", 1), part("a", 1), fs::copy_options::overwrite_existing);
  expect_refused("a", CKPT_FORMAT, {"PART_001.pt", "model/w", "i32", "f32"});
}

TEST_F(Hfai, PiecesThatDoNotAddUpAreRefused) {
  fs::create_directory(path("a"));
  write_part(part("a", 0), [&](PickleWriter& pickle) {
    pickle.empty_dict();
    pickle.begin_items();
    (void)pickle.text("__version__");
    (void)pickle.text("2.0.0");
    (void)pickle.text("__nshards__");
    pickle.integer(1);
    (void)pickle.text("optimizer");
    pickle.begin_list();
    pickle.end_list();
    (void)pickle.text("model");
    pickle.begin_list();
    pickle.empty_dict();
    pickle.empty_dict();
    pickle.begin_items();
    (void)pickle.text("w");
    const int64_t shape[] = {70}, size[] = {60}, stride[] = {1};
    pickle.integers(shape);
    pickle.global("torch._utils", "_rebuild_tensor_v2");
    pickle.begin_tuple();
    pickle.begin_tuple();
    (void)pickle.text("storage");
    pickle.global("torch", "ByteStorage");
    (void)pickle.text("0");
    (void)pickle.text("cpu");
    pickle.integer(60);
    pickle.end_tuple();
    pickle.persistent();
    pickle.integer(0);
    pickle.integers(size);
    pickle.integers(stride);
    pickle.boolean(false);
    pickle.ordered_dict();
    pickle.end_tuple();
    pickle.reduce();
    pickle.tuple2();
    pickle.end_items();
    pickle.tuple2();
    pickle.end_list();
    pickle.end_items();
  });
  expect_refused("a", CKPT_FORMAT, {"PART_000.pt", "model/w", "[70]", "expected 70", "found 60"});
}

TEST_F(Hfai, PiecesOfAnotherShapeAreRefused) {
  const std::string tree = R"({"model":{"w":)" + leaf("w") + "}}";
  make("a", {{floats("w", {60})}, {}, tree}, 2);
  make("b", {{floats("w", {6, 10})}, {}, tree}, 2);
  fs::copy_file(part("b", 1), part("a", 1), fs::copy_options::overwrite_existing);
  expect_refused("a", CKPT_FORMAT, {"PART_001.pt", "model/w", "expected [60]", "found [6, 10]"});
}

TEST_F(Hfai, ATensorThatIsCutAndWholeIsRefused) {
  const std::string tree = R"({"model":{"a":)" + leaf("a") + R"(,"w":)" + leaf("w") + "}}";
  const Saved state{{floats("a", {60}), floats("w", {50})}, {}, tree};
  make("cut", state, 2);
  make("whole", state, 2, 1000);  // "a" to part 0, "w" to part 1
  fs::copy_file(part("whole", 1), part("cut", 1), fs::copy_options::overwrite_existing);
  expect_refused("cut", CKPT_FORMAT, {"PART_001.pt", "both whole and cut"});
}

TEST_F(Hfai, AMomentThatIsCutAndWholeIsRefused) {
  const auto state = [](const char* size) {
    return R"({"model":{},"optimizer":{"state":{"$":"dict","items":[[0,{"m":)" + leaf(size) + "}]]}}}";
  };
  const Saved both{{floats("m", {60})}, {}, state("m")};
  make("cut", both, 2);
  make("whole", both, 2, 1000);
  // Part 0 of the one has the moment whole, part 1 of the other its second half.
  fs::copy_file(part("whole", 0), part("cut", 0), fs::copy_options::overwrite_existing);
  expect_refused("cut", CKPT_FORMAT, {"0/m", "both whole and cut"});
}

TEST_F(Hfai, AKeyInTwoPartsIsRefused) {
  const std::string tree = R"({"model":{"a":)" + leaf("a") + R"(,"w":)" + leaf("w") + "}}";
  make("a", {{floats("a", {3}), floats("w", {2})}, {}, tree}, 2);
  make("b", {{floats("a", {2}), floats("w", {3})}, {}, R"({"model":{"w":)" + leaf("w") + R"(,"a":)" + leaf("a") + "}}"},
       2);  // divided the other way round
  fs::copy_file(part("b", 1), part("a", 1), fs::copy_options::overwrite_existing);
  expect_refused("a", CKPT_FORMAT, {"PART_001.pt", "also in PART_000.pt"});
}

TEST_F(Hfai, ADamagedPartLeavesNothingInTheStore) {
  make("a", sample(), 2);
  std::string bytes = read_file(part("a", 1));
  write_file(part("a", 1), bytes.substr(0, bytes.size() / 2));
  EXPECT_NE(import_from(path("a"), "b").code, CKPT_OK);
  EXPECT_EQ(checkpoint_count(), 1u);  // what was exported
}

TEST_F(Hfai, ATreeThatIsNoModelIsRefusedByName) {
  const auto expect = [&](const char* label, const std::string& tree, const std::string& text) {
    save(label, {{}, {}, tree});
    const Failure failure = export_parts(label, "out", 2);
    EXPECT_EQ(failure.code, CKPT_MISMATCH) << failure.message;
    EXPECT_NE(failure.message.find(text), std::string::npos) << failure.message;
    EXPECT_FALSE(fs::exists(path("out")));
  };
  expect("a", R"({"weights":{}})", "model");
  expect("b", "[]", "dict");
  expect("c", R"({"model":3})", "model must be a dict");
  expect("d", R"({"model":{},"optimizer":{"lr":1}})", "optimizer must have \"state\"");
  expect("e", R"({"model":[{},2]})", "model/1 must be a dict");
}

TEST_F(Hfai, TheCommandLineOptionsReachTheExport) {
  save("a", sample());
  const Failure failure = export_to(path("out"), "a", {{"format", "hfai"}, {"shards", "4"}});
  ASSERT_EQ(failure.code, CKPT_OK) << failure.message;
  EXPECT_TRUE(fs::exists(part("out", 3)));
  EXPECT_FALSE(fs::exists(part("out", 4)));
  EXPECT_EQ(export_to(path("out"), "a", {{"format", "hfai"}}).code, CKPT_EXISTS);
}

}  // namespace
}  // namespace ckpt::interop
