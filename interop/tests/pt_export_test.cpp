// Exports to .pt of what no import makes, and what is refused. That a file of torch comes out as it was, and that torch
// opens it, is for tests/torch/export_test.py to say.
#include <filesystem>

#include "interop/src/formats.h"
#include "interop/src/read_back.h"
#include "interop/src/zip/reader.h"
#include "store_fixture.h"

namespace ckpt::interop {
namespace {

class PtExport : public StoreTest {
 protected:
  // How many storages a .pt has.
  size_t storage_count(const std::string& file) {
    const std::string bytes = read_file(file);
    Result<ZipReader> zip = ZipReader::open(as_bytes(bytes));
    EXPECT_TRUE(zip.ok()) << zip.status().message();
    if (!zip.ok()) return 0;
    EXPECT_TRUE(zip->verify(1).ok());
    return static_cast<size_t>(std::count_if(zip->entries().begin(), zip->entries().end(), [](const ZipEntry& entry) {
      return entry.name.starts_with("archive/data/");
    }));
  }
};

TEST_F(PtExport, PlainValuesComeBack) {
  expect_round_trip({{},
                     {},
                     R"({"none":null,"yes":true,"no":false,"zero":0,"small":-7,"large":9223372036854775807,)"
                     R"("huge":{"$":"int","value":"-340282366920938463463374607431768211456"},"pi":3.25,"tiny":5e-324,)"
                     R"("inf":{"$":"float","value":"-inf"},"nan":{"$":"float","value":"nan"},"text":"\u0000é\"",)"
                     R"("bytes":{"$":"bytes","base64":"AP8="},"empty":{"$":"bytes","base64":""},)"
                     R"("list":[1,[2,[]],{}],"tuple":{"$":"tuple","items":[1,{"$":"tuple","items":[]}]},)"
                     R"("set":{"$":"set","items":[1,"a"]},"no elements":{"$":"set","items":[]},)"
                     R"("keys":{"$":"dict","items":[[0,1],["0",2],[-5,3]]}})"});
}

TEST_F(PtExport, ElementsOfFourBitsComeBackInPairs) {
  expect_round_trip({{{"w", CKPT_DTYPE_F4_E2M1FN, {2, 6}, pattern(6)},
                      {"none", CKPT_DTYPE_F4_E2M1FN, {3, 0}, ""},
                      {"rest", CKPT_DTYPE_F4_E2M1FN, {4}, pattern(2, 5)}},
                     {{"same", "w", {}, {}, 0}},
                     R"({"w":)" + leaf("w") + R"(,"none":)" + leaf("none") + R"(,"rest":)" + leaf("rest") +
                         R"(,"same":)" + leaf("same") + "}"});
  EXPECT_EQ(storage_count(path("a.pt")), 3u);
  const std::string bytes = read_file(path("a.pt"));
  EXPECT_NE(bytes.find("float4_e2m1fn_x2"), std::string::npos);
}

TEST_F(PtExport, AViewKeepsItsMemoryFormatIfNotItsMemory) {
  const auto last = [](const std::string& name) {
    return record("torch.Tensor", R"("data":)" + leaf(name) + R"(,"memory_format":"torch.channels_last")");
  };
  const std::string tree = R"({"w":)" + last("w") + R"(,"first":)" + last("first") + "}";
  save("a", {{{"w", CKPT_DTYPE_U8, {2, 2, 1, 3}, pattern(12)}}, {{"first", "w", {1, 2, 1, 3}, {6, 3, 3, 1}, 0}}, tree});
  ASSERT_EQ(export_to(path("a.pt"), "a").code, CKPT_OK);
  ASSERT_EQ(import_from(path("a.pt"), "b").code, CKPT_OK);
  EXPECT_EQ(tree_of("b", "import"), tree);
}

TEST_F(PtExport, AMemoryFormatThatDoesNotFitIsRefused) {
  int number = 0;
  for (const auto& [format, shape] :
       std::vector<std::pair<const char*, std::vector<int64_t>>>{{"torch.channels_last", {2, 3, 1}},
                                                                 {"torch.channels_last_3d", {1, 1, 2, 3}},
                                                                 {"torch.moon", {1, 1, 2, 3}}}) {
    const std::string label = "a" + std::to_string(number++);
    save(label, {{{"w", CKPT_DTYPE_U8, shape, pattern(6)}},
                 {},
                 R"({"w":)" +
                     record("torch.Tensor", R"("data":)" + leaf("w") + R"(,"memory_format":")" + format + "\"") + "}"});
    const Failure failure = export_to(path("a.pt"), label);
    EXPECT_EQ(failure.code, CKPT_FORMAT) << format;
    EXPECT_EQ(detail(failure, "tensor"), "w/data") << failure.message;
  }
}

TEST_F(PtExport, SmallObjectsOfTorchAreKeys) {
  const auto pair = [](const std::string& key) { return R"({"$":"tuple","items":[)" + key + R"(,1]})"; };
  const auto keyed = [&](const std::string& key) {
    return "{\"d\":" + record("builtins.dict", "\"items\":[" + pair(key) + "]") + "}";
  };
  const std::string dtype = record("torch.dtype", R"("name":"torch.float32")");
  const std::string keys[] = {dtype, record("torch.device", R"("type":"cuda","index":1)"),
                              record("torch.Size", R"("items":{"$":"tuple","items":[2,3]})"),
                              R"({"$":"tuple","items":[)" + dtype + ",0]}"};
  Saved state;
  std::string all;
  for (const std::string& key : keys) all += (all.empty() ? "" : ",") + pair(key);
  state.tree = "{\"d\":" + record("builtins.dict", "\"items\":[" + all + "]") + "}";
  expect_round_trip(state);
  // A dict, which opaque=dict makes of other classes, cannot be a key.
  for (const std::string& key :
       {record("my.Colour", R"("args":{"$":"tuple","items":[1]})"), std::string(R"({"$":"tuple","items":[[1]]})")}) {
    const std::string label = "refused" + std::to_string(key.size());
    save(label, {{}, {}, keyed(key)});
    const Failure failure = export_to(path("b.pt"), label, {{"opaque", "dict"}});
    EXPECT_EQ(failure.code, CKPT_UNSUPPORTED);
    EXPECT_NE(failure.message.find("as the key of a dict"), std::string::npos) << failure.message;
  }
}

TEST_F(PtExport, ACheckpointWithoutTreeIsADictOfItsTensors) {
  save("a", {{floats("layer.w", {2}), floats("layer.b", {1}, 2)}, {}, ""});
  ASSERT_EQ(export_to(path("a.pth"), "a").code, CKPT_OK);
  ASSERT_EQ(import_from(path("a.pth"), "b").code, CKPT_OK);
  EXPECT_EQ(tree_of("b", "import"), R"({"layer.b":)" + leaf("layer.b") + R"(,"layer.w":)" + leaf("layer.w") + "}");
}

TEST_F(PtExport, AViewWhoseTargetTheTreeDoesNotNameIsWrittenWithItsMemory) {
  save("a", {{floats("base", {6})}, {{"odd", "base", {3}, {2}, 1}}, R"({"odd":)" + leaf("odd") + "}"});
  ASSERT_EQ(export_to(path("a.pt"), "a").code, CKPT_OK);
  ASSERT_EQ(import_from(path("a.pt"), "b").code, CKPT_OK);
  EXPECT_EQ(storage_count(path("a.pt")), 1u);
  EXPECT_EQ(tree_of("b", "import"), tree_of("a", "main"));
}

TEST_F(PtExport, AnArrayOfTextIsNoTensorOfItsBytes) {
  save("a",
       {{floats("w", {2})},
        {},
        R"({"names":)" + record("numpy.ndarray", R"("data":)" + leaf("w") + R"(,"dtype":"<U1")") + R"(,"step":3})"});
  const Failure failure = export_to(path("a.pt"), "a");
  EXPECT_EQ(failure.code, CKPT_UNSUPPORTED);
  EXPECT_NE(failure.message.find("\"<U1\", of which torch has no tensors"), std::string::npos) << failure.message;
  EXPECT_NE(failure.message.find("names"), std::string::npos) << failure.message;
}

TEST_F(PtExport, WhatIsEachRanksOwnIsADictOfTheRanks) {
  save("a", {{floats("w", {2})},
             {},
             R"({"rng":)" + record("ckpt.PerRank", R"("rank0":)" + leaf("w") + R"(,"rank1":7)") + "}"});
  ASSERT_EQ(export_to(path("a.pt"), "a").code, CKPT_OK);
  ASSERT_EQ(import_from(path("a.pt"), "b").code, CKPT_OK);
  EXPECT_EQ(tree_of("b", "import"), R"({"rng":{"rank0":)" + leaf("rng/rank0") + R"(,"rank1":7}})");
}

TEST_F(PtExport, AClassThatTorchRefusesIsNamedWithItsPlace) {
  save("a", {{}, {}, R"({"args":)" + record("argparse.Namespace", R"("state":{"lr":0.1})") + "}"});
  const Failure failure = export_to(path("a.pt"), "a");
  EXPECT_EQ(failure.code, CKPT_UNSUPPORTED);
  EXPECT_NE(failure.message.find("argparse.Namespace"), std::string::npos) << failure.message;
  EXPECT_NE(failure.message.find("args"), std::string::npos) << failure.message;
  EXPECT_EQ(detail(failure, "found"), "argparse.Namespace");
  EXPECT_EQ(entry_count(), 0u);
}

TEST_F(PtExport, AClassThatTorchRefusesIsADictOnRequest) {
  save("a", {{floats("o/state/w", {2})},
             {},
             R"({"o":)" + record("my.Thing", R"("state":{"w":)" + leaf("o/state/w") + "}") + "}"});
  ASSERT_EQ(export_to(path("a.pt"), "a", {{"opaque", "dict"}}).code, CKPT_OK);
  ASSERT_EQ(import_from(path("a.pt"), "b").code, CKPT_OK);
  EXPECT_EQ(tree_of("b", "import"), R"({"o":{"__class__":"my.Thing","state":{"w":)" + leaf("o/state/w") + "}}}");
}

TEST_F(PtExport, AHarmlessClassIsItselfOnRequest) {
  const std::string args = R"("args":{"$":"tuple","items":["runs"]})", path_record = record("pathlib.PosixPath", args);
  save("a", {{}, {}, R"({"p":)" + path_record + "}"});
  EXPECT_EQ(detail(export_to(path("a.pt"), "a"), "found"), "pathlib.PosixPath");
  ASSERT_EQ(export_to(path("a.pt"), "a", {{"opaque", "keep"}}).code, CKPT_OK);
  ASSERT_EQ(import_from(path("a.pt"), "b").code, CKPT_OK);
  EXPECT_EQ(tree_of("b", "import"), R"({"p":)" + path_record + "}");
  // One that runs something is none.
  save("c", {{}, {}, R"({"p":)" + record("posix.system", args) + "}"});
  const Failure failure = export_to(path("c.pt"), "c", {{"opaque", "keep"}});
  EXPECT_EQ(failure.code, CKPT_UNSUPPORTED);
  EXPECT_EQ(detail(failure, "found"), "posix.system");
}

TEST_F(PtExport, ADtypeThatTorchLacksIsNamed) {
  for (const int32_t dtype : {CKPT_DTYPE_F6_E2M3FN, CKPT_DTYPE_F8_E3M4}) {
    const std::string label = ckpt_dtype_name(dtype);
    const size_t bytes = static_cast<size_t>(ckpt_dtype_bits(dtype)) / 2;
    save(label, {{{"w", dtype, {4}, pattern(bytes)}}, {}, R"({"w":)" + leaf("w") + "}"});
    const Failure failure = export_to(path("a.pt"), label);
    EXPECT_EQ(failure.code, CKPT_UNSUPPORTED);
    EXPECT_EQ(detail(failure, "tensor"), "w");
    EXPECT_NE(detail(failure, "found").find(label), std::string::npos) << failure.message;
  }
}

TEST_F(PtExport, AnOddNumberOfFourBitsIsNoPairOfTorchs) {
  save("a", {{{"w", CKPT_DTYPE_F4_E2M1FN, {2, 3}, pattern(3)}}, {}, R"({"w":)" + leaf("w") + "}"});
  const Failure failure = export_to(path("a.pt"), "a");
  EXPECT_EQ(failure.code, CKPT_UNSUPPORTED);
  EXPECT_EQ(detail(failure, "tensor"), "w");
  EXPECT_NE(failure.message.find("rows of an odd length"), std::string::npos) << failure.message;
}

TEST_F(PtExport, AClassOfNumpyThatIsNoNumberIsOneOfThose) {
  save("a", {{}, {}, R"({"dtype":)" + record("numpy.dtype", R"("args":[])") + "}"});
  EXPECT_EQ(detail(export_to(path("a.pt"), "a"), "found"), "numpy.dtype");
  ASSERT_EQ(export_to(path("a.pt"), "a", {{"opaque", "dict"}}).code, CKPT_OK);
}

TEST_F(PtExport, ARecordWithoutItsFieldsIsRefused) {
  int number = 0;
  for (const char* class_name :
       {"torch.Size", "torch.QTensor", "torch.sparse_coo", "collections.OrderedDict", "torch.nn.parameter.Parameter",
        "numpy.ndarray", "builtins.dict", "torch.Tensor", "torch.FloatStorage", "torch.device"}) {
    const std::string label = "a" + std::to_string(number++);
    save(label, {{}, {}, R"({"x":)" + record(class_name, "") + "}"});
    const Failure failure = export_to(path("a.pt"), label);
    EXPECT_EQ(failure.code, CKPT_FORMAT) << class_name << ": " << failure.message;
    EXPECT_EQ(detail(failure, "tensor"), "x") << failure.message;
  }
  EXPECT_EQ(entry_count(), 0u);
}

TEST_F(PtExport, ATensorLargerThanTheBufferComesBack) {
  const int64_t count = (64 << 20) / 4 + 5;
  expect_round_trip({{floats("a", {3}, 1), floats("big", {count}, 2), floats("z", {2}, 3)},
                     {},
                     R"({"z":)" + leaf("z") + R"(,"big":)" + leaf("big") + R"(,"a":)" + leaf("a") + "}"});
}

TEST_F(PtExport, WhatExistsIsNeverOverwritten) {
  save("a", {{floats("w", {2})}, {}, ""});
  write_file(path("a.pt"), "mine");
  EXPECT_EQ(export_to(path("a.pt"), "a").code, CKPT_EXISTS);
  EXPECT_EQ(read_file(path("a.pt")), "mine");
  EXPECT_EQ(entry_count(), 1u);
}

TEST_F(PtExport, FormatFollowsThePathUnlessItIsSaid) {
  save("a", {{floats("w", {2})}, {}, ""});
  ASSERT_EQ(export_to(path("x.pt"), "a", {{"format", "safetensors"}}).code, CKPT_OK);
  EXPECT_TRUE(std::filesystem::is_directory(path("x.pt")));
  ASSERT_EQ(export_to(path("y.bin"), "a", {{"format", "pt"}}).code, CKPT_OK);
  EXPECT_EQ(read_file(path("y.bin")).substr(0, 2), "PK");
  const Failure failure = export_to(path("z.pt"), "a", {{"shards", "2"}});
  EXPECT_EQ(failure.code, CKPT_INVALID);
  EXPECT_NE(failure.message.find("shards"), std::string::npos);
}

TEST_F(PtExport, NumbersOfNumpysAndUnknownClassesAreReadBackAsWhatTheyBecome) {
  const auto tree = [](const std::string& value) {
    return R"({"a":)" + leaf("a") + R"(,"l":[)" + record("numpy.float32", R"("value":)" + value) + R"(],"i":)" +
           record("numpy.int64", R"("value":3)") + R"(,"b":)" + record("numpy.bool_", R"("value":true)") + "}";
  };
  save("s", {{floats("a", {2}, 1)}, {}, tree("3.0")});
  for (const std::string format : {"pt", "dcp", "composer"}) {
    const std::string to = path(format == "composer" || format == "pt" ? format + ".pt" : format);
    const Failure out = export_to(to, "s", {{"format", format.c_str()}, {"verify_after", "1"}});
    EXPECT_EQ(out.code, CKPT_OK) << format << out.message;
  }
  const Failure kept = export_to(path("k.pt"), "s", {{"format", "pt"}, {"opaque", "keep"}, {"verify_after", "1"}});
  EXPECT_EQ(kept.code, CKPT_OK) << kept.message;
  save("class", {{floats("a", {2}, 1)},
                 {},
                 R"({"a":)" + leaf("a") + R"(,"o":)" + record("my.Class", R"("args":[1],"items":{"x":2})") + "}"});
  for (const std::string format : {"pt", "dcp"}) {
    const Failure dict = export_to(path("dict." + format), "class",
                                   {{"format", format.c_str()}, {"opaque", "dict"}, {"verify_after", "1"}});
    EXPECT_EQ(dict.code, CKPT_OK) << format << dict.message;
  }
  save("other", {{floats("a", {2}, 1)}, {}, tree("4.0")});
  const client::Reader other(open("other", "main"));
  for (const char* file : {"pt.pt", "k.pt"}) {
    auto content = read_foreign(path(file), {});
    ASSERT_TRUE(content.ok());
    EXPECT_EQ(compare_export(other, *content, {}, {}).code(), CKPT_CORRUPT) << file;
  }
}

}  // namespace
}  // namespace ckpt::interop
