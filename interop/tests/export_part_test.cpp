// Exports of a part of the state, and safetensors in files of a bounded size.
#include <filesystem>

#include "store_fixture.h"

namespace ckpt::interop {
namespace {

class ExportPart : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    save("a", {{floats("model/b", {3}, 1), floats("model/w", {3, 4}, 2), floats("optimizer/w", {2}, 3)},
               {},
               R"({"model":{"w":)" + leaf("model/w") + R"(,"b":)" + leaf("model/b") + R"(},"optimizer":{"w":)" +
                   leaf("optimizer/w") + R"(},"step":7})"});
  }
  std::vector<std::string> files(const std::string& directory) {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path(directory)))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
  std::vector<std::string> names_in(const std::string& label, const char* run) {
    ckpt_reader* reader = open(label, run);
    std::vector<std::string> names;
    for (uint64_t i = 0; i < ckpt_reader_tensor_count(reader); i++) {
      ckpt_tensor_info info{};
      info.struct_size = sizeof info;
      must([&](auto** err) { return ckpt_reader_tensor_at(reader, i, &info, err); });
      names.emplace_back(info.name);
    }
    ckpt_reader_free(reader);
    return names;
  }
  void expect_refused(const std::string& to, const std::vector<std::pair<const char*, const char*>>& settings,
                      ckpt_status code, const std::string& word) {
    const Failure failure = export_to(path(to), "a", settings);
    EXPECT_EQ(failure.code, code) << failure.message;
    EXPECT_NE(failure.message.find(word), std::string::npos) << failure.message;
    EXPECT_EQ(entry_count(), 0u);
  }
};

TEST_F(ExportPart, SafetensorsHaveTheNamesBelowThePlace) {
  ASSERT_EQ(export_to(path("w.safetensors"), "a", {{"at", "model"}}).code, CKPT_OK);
  EXPECT_EQ(read_file(path("w.safetensors")),
            file_of(padded("{" + entry("b", "F32", "[3]", 0, 12) + "," + entry("w", "F32", "[3,4]", 12, 60) + "}"),
                    pattern(12, 1) + pattern(48, 2)));
}

// Keys of the tree, as a program has them, whatever their paths look like.
TEST_F(ExportPart, SafetensorsHaveTheKeysOfTheTreeJoinedByDots) {
  const auto ordered = [](const std::string& items) {
    return record("collections.OrderedDict", "\"items\":{" + items + "}");
  };
  const std::string model = R"("conv1/7x7_s2.weight":)" + leaf("model/conv1~17x7_s2.weight") + R"(,"0":)" +
                            leaf("model/~s0") + R"(,"a~b":)" +
                            record("torch.nn.parameter.Parameter", R"("data":)" + leaf("model/a~0b")) + R"(,".":)" +
                            leaf("model/~d") + R"(,"layers":[)" + ordered(R"("w":)" + leaf("model/layers/0/w")) +
                            R"(],"other":)" + leaf("elsewhere") + R"(,"flat":)" + leaf("model/x~1y");
  const Saved state = {{floats("model/conv1~17x7_s2.weight", {2}, 1), floats("model/~s0", {2}, 2),
                        floats("model/a~0b", {2}, 3), floats("model/~d", {2}, 4), floats("model/layers/0/w", {2}, 5),
                        floats("elsewhere", {2}, 6), floats("model/x~1y", {2}, 7), floats("model/outside~1y", {2}, 8)},
                       {},
                       R"({"model":)" + ordered(model) + "}"};
  save("k", state);
  // What is not called by its place is called as it was.
  const std::vector<std::string> expected = {".",          "0",          "a~b", "conv1/7x7_s2.weight",
                                             "layers.0.w", "outside~1y", "x~1y"};
  for (const char* to : {"k.safetensors", "k"}) {
    const Failure out = export_to(path(to), "k", {{"at", "model"}, {"verify_after", "1"}});
    ASSERT_EQ(out.code, CKPT_OK) << out.message;
    ASSERT_EQ(import_from(path(to), to).code, CKPT_OK);
    EXPECT_EQ(names_in(to, "import"), expected);
    EXPECT_EQ(info_.tensor_count, expected.size());
  }
  ASSERT_EQ(export_to(path("t"), "k", {{"format", "torchtune"}, {"exclude", "elsewhere"}}).code, CKPT_OK);
  ASSERT_EQ(import_from(path("t/epoch_0"), "t").code, CKPT_OK);
  EXPECT_EQ(names_in("t", "import"), expected);
  // Of a state dict, too, which is all of the state.
  save("d",
       {{floats("conv1~17x7", {2}), floats("~s0", {2}), floats("n/~s1", {2})},
        {},
        R"({"conv1/7x7":)" + leaf("conv1~17x7") + R"(,"0":)" + leaf("~s0") + R"(,"n":{"1":)" + leaf("n/~s1") + "}}"});
  ASSERT_EQ(export_to(path("d.safetensors"), "d", {{"verify_after", "1"}}).code, CKPT_OK);
  ASSERT_EQ(import_from(path("d.safetensors"), "d2").code, CKPT_OK);
  EXPECT_EQ(names_in("d2", "import"), (std::vector<std::string>{"0", "conv1/7x7", "n/~s1"}));
}

TEST_F(ExportPart, KeysThatWouldBecomeOneNameOrNoneAreRefused) {
  save("two", {{floats("m/a.b", {2}), floats("m/a/b", {2})},
               {},
               R"({"m":{"a.b":)" + leaf("m/a.b") + R"(,"a":{"b":)" + leaf("m/a/b") + "}}}"});
  Failure failure = export_to(path("o.safetensors"), "two", {{"at", "m"}});
  EXPECT_EQ(failure.code, CKPT_UNSUPPORTED);
  for (const char* word : {"\"m/a.b\"", "\"m/a/b\"", "\"a.b\""})
    EXPECT_NE(failure.message.find(word), std::string::npos) << failure.message;
  EXPECT_EQ(export_to(path("two"), "two", {{"at", "m"}, {"exclude", "m/a"}}).code, CKPT_OK);
  save("flat", {{floats("a~1b", {2}), floats("a/b", {2})},
                {},
                R"({"a/b":)" + leaf("a~1b") + R"(,"a":{"b":)" + leaf("a/b") + "}}"});
  EXPECT_EQ(export_to(path("o.safetensors"), "flat").code, CKPT_UNSUPPORTED);
  save("none", {{floats("m/~e", {2}), floats("m/w", {2})}, {}, R"({"m":{"":)" + leaf("m/~e") + "}}"});
  failure = export_to(path("o.safetensors"), "none", {{"at", "m"}});
  EXPECT_EQ(failure.code, CKPT_UNSUPPORTED) << failure.message;
  EXPECT_EQ(failure.details.at("tensor"), "m/~e");
  EXPECT_FALSE(std::filesystem::exists(path("o.safetensors")));
}

TEST_F(ExportPart, APtIsTheValueAtThePlace) {
  ASSERT_EQ(export_to(path("m.pt"), "a", {{"at", "model"}}).code, CKPT_OK);
  ASSERT_EQ(import_from(path("m.pt"), "b").code, CKPT_OK);
  EXPECT_EQ(tree_of("b", "import"), R"({"w":)" + leaf("w") + R"(,"b":)" + leaf("b") + "}");
  ASSERT_EQ(export_to(path("w.pt"), "a", {{"at", "model/w"}}).code, CKPT_OK);
  ASSERT_EQ(import_from(path("w.pt"), "c").code, CKPT_OK);
  EXPECT_EQ(info_.tensor_count, 1u);
}

TEST_F(ExportPart, APlaceThatIsNotThereIsAnErrorThatNamesThoseThatAre) {
  expect_refused("w.safetensors", {{"at", "mode"}}, CKPT_NOT_FOUND, R"(there is "model", "optimizer")");
  expect_refused("w.pt", {{"at", "mode"}}, CKPT_NOT_FOUND, R"(there is "model", "optimizer", "step")");
  expect_refused("w.pt", {{"at", "model/x"}}, CKPT_NOT_FOUND, R"(there is "model/w", "model/b")");
  expect_refused("w", {{"at", "model"}, {"format", "hfai"}}, CKPT_INVALID, "option at is for dcp and pt");
}

TEST_F(ExportPart, FilesHaveAtMostTheBytesOfAShardAndAnIndex) {
  ASSERT_EQ(export_to(path("s"), "a", {{"shard_bytes", "56"}}).code, CKPT_OK);
  const std::string first = "model-00001-of-00002.safetensors", second = "model-00002-of-00002.safetensors";
  ASSERT_EQ(files("s"), (std::vector<std::string>{first, second, "model.safetensors.index.json"}));
  EXPECT_EQ(read_file(path("s/" + first)),
            file_of(padded("{" + entry("model/b", "F32", "[3]", 0, 12) + "}"), pattern(12, 1)));
  ASSERT_EQ(import_from(path("s"), "b").code, CKPT_OK);
  EXPECT_EQ(info_.tensor_count, 3u);
  // A shard that is too small for a tensor holds that one alone.
  ASSERT_EQ(export_to(path("t"), "a", {{"shard_bytes", "1"}}).code, CKPT_OK);
  EXPECT_EQ(files("t").size(), 4u);
  ASSERT_EQ(export_to(path("u"), "a", {{"shard_bytes", "1000"}}).code, CKPT_OK);
  EXPECT_EQ(files("u"), (std::vector<std::string>{"model.safetensors"}));
}

TEST_F(ExportPart, AnIndexOfAPartTellsThePartsBytes) {
  std::filesystem::create_directory(path("set"));
  write_file(path("set/a.safetensors"), file_of("{" + entry("m/x", "U8", "[2]", 0, 2) + "}", "ab"));
  write_file(path("set/b.safetensors"),
             file_of("{" + entry("m/y", "U8", "[3]", 0, 3) + "," + entry("o", "U8", "[1]", 3, 4) + "}", "cdef"));
  write_file(path("set/model.safetensors.index.json"),
             R"({"metadata":{"total_size":6},"weight_map":{"m/x":"a.safetensors","m/y":"b.safetensors",)"
             R"("o":"b.safetensors"}})");
  ASSERT_EQ(import_from(path("set"), "set").code, CKPT_OK);
  const Failure failure = export_to(path("part"), "set", {{"at", "m"}}, "import");
  ASSERT_EQ(failure.code, CKPT_OK) << failure.message;
  const std::string index = read_file(path("part/model.safetensors.index.json"));
  EXPECT_NE(index.find("\"total_size\": 5"), std::string::npos) << index;
}

TEST_F(ExportPart, WithoutTensorsThereIsOneFile) {
  save("none", {{}, {}, R"({"step":7})"});
  ASSERT_EQ(export_to(path("s"), "none", {{"shard_bytes", "56"}}).code, CKPT_OK);
  EXPECT_EQ(files("s"), (std::vector<std::string>{"model.safetensors"}));
}

TEST_F(ExportPart, ShardsAreForADirectoryOfSafetensors) {
  expect_refused("s.safetensors", {{"shard_bytes", "56"}}, CKPT_INVALID, "shard_bytes");
  expect_refused("s.pt", {{"shard_bytes", "56"}}, CKPT_INVALID, "shard_bytes");
}

// What torch makes of the elements stands in the tree, which safetensors lacks.
TEST_F(ExportPart, SafetensorsRefuseATensorWhoseElementsTorchTurnsOrScales) {
  const auto marked = [](const std::string& name, const std::string& more) {
    return record("torch.Tensor", "\"data\":" + leaf(name) + more);
  };
  const std::string conjugated = marked("model/c", R"(,"conj":true)");
  const std::string parameter = record("torch.nn.parameter.Parameter", R"("data":)" + conjugated);
  const std::pair<std::string, std::string> cases[] = {
      {conjugated, "torch conjugates"},
      {parameter + R"(,"again":)" + leaf("model/c"), "torch conjugates"},
      {marked("model/c", R"(,"neg":true)"), "torch negates"},
      {marked("model/c", R"(,"conj":true,"neg":true)"), "torch conjugates and negates"},
      {record("my.Tensor", R"("data":)" + leaf("model/c") + R"(,"neg":true)"), "torch negates"},
      {record("my.Tensor", R"("data":)" + leaf("model/c") + R"(,"dtype":"torch.quint8")"), "quantized"},
      {record("torch.QTensor", R"("data":)" + leaf("model/c") +
                                   R"(,"dtype":"torch.qint8","qscheme":"torch.per_tensor_affine","scale":0.5,)"
                                   R"("zero_point":3)"),
       "quantized"},
      {marked("model/c", R"(,"conj":false,"neg":false,"requires_grad":true)"), ""}};
  size_t i = 0;
  for (const auto& [value, words] : cases) {
    const std::string label = "case-" + std::to_string(i++);
    save(label, {{{"model/c", CKPT_DTYPE_C64, {2}, pattern(16)}, floats("model/w", {2})},
                 {},
                 R"({"model":{"c":)" + value + R"(,"w":)" + leaf("model/w") + "}}"});
    for (const bool torchtune : {false, true}) {
      const char* format = torchtune ? "torchtune" : "safetensors";
      for (const char* at : {"", "model"}) {
        if (torchtune && *at) continue;
        const std::string to = path(label + at + format);
        std::vector<std::pair<const char*, const char*>> settings = {{"format", format}};
        if (*at) settings.emplace_back("at", at);
        const Failure failure = export_to(to, label, settings);
        EXPECT_EQ(failure.code, words.empty() ? CKPT_OK : CKPT_UNSUPPORTED) << words << failure.message;
        if (words.empty()) continue;
        EXPECT_NE(failure.message.find(words), std::string::npos) << failure.message;
        EXPECT_NE(failure.message.find("exclude=model/c"), std::string::npos) << failure.message;
        EXPECT_EQ(failure.details.at("tensor"), "model/c");
        EXPECT_FALSE(std::filesystem::exists(to));
        settings.emplace_back("exclude", "model/c");
        const Failure without = export_to(to, label, settings);
        EXPECT_EQ(without.code, CKPT_OK) << without.message;
      }
    }
  }
}

}  // namespace
}  // namespace ckpt::interop
