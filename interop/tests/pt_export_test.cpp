// Exports to .pt: what the file holds is what the checkpoint's tree says, as an import finds it. That torch opens the
// files is for tests/torch to say.
#include <filesystem>

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

TEST_F(PtExport, StateDictsOfModelsAndOptimizersComeBack) {
  expect_round_trip(
      {{floats("model/w", {3, 4}, 1), floats("model/b", {3}, 2), floats("optimizer/state/0/exp_avg", {3, 4}, 3)},
       {},
       R"({"model":)" +
           record("collections.OrderedDict", R"("items":{"w":)" + leaf("model/w") + R"(,"b":)" + leaf("model/b") +
                                                 R"(},"metadata":{"":{"version":1}})") +
           R"(,"optimizer":{"state":{"$":"dict","items":[[0,{"step":7,"exp_avg":)" + leaf("optimizer/state/0/exp_avg") +
           R"(}]]},"param_groups":[{"lr":0.001,"betas":{"$":"tuple",)"
           R"("items":[0.9,0.999]},"params":[0,1]}]},"epoch":3})"});
}

TEST_F(PtExport, RecordsOfTorchComeBack) {
  expect_round_trip(
      {{floats("p", {2}, 1),
        floats("grad", {2}, 2),
        floats("coo/values", {2}, 3),
        floats("csr/values", {1}, 4),
        {"coo/indices", CKPT_DTYPE_I64, {1, 2}, pattern(16)},
        {"csr/crow_indices", CKPT_DTYPE_I64, {2}, pattern(16)},
        {"csr/col_indices", CKPT_DTYPE_I64, {1}, pattern(8)},
        {"q", CKPT_DTYPE_I8, {3}, pattern(3)},
        {"qc", CKPT_DTYPE_U8, {2, 2}, pattern(4)},
        {"qc/scales", CKPT_DTYPE_F64, {2}, pattern(16)},
        {"qc/zero_points", CKPT_DTYPE_I64, {2}, pattern(16)},
        {"c", CKPT_DTYPE_C64, {2}, pattern(16)},
        {"bits", CKPT_DTYPE_U16, {2}, pattern(4)},
        {"attributes", CKPT_DTYPE_F32, {1}, pattern(4)},
        {"storage", CKPT_DTYPE_F16, {5}, pattern(10)}},
       {},
       R"({"p":)" + record("torch.nn.parameter.Parameter", R"("data":)" + leaf("p") + R"(,"requires_grad":true)") +
           R"(,"grad":)" + record("torch.Tensor", R"("data":)" + leaf("grad") + R"(,"requires_grad":true)") +
           R"(,"c":)" + record("torch.Tensor", R"("data":)" + leaf("c") + R"(,"conj":true)") + R"(,"bits":)" +
           record("torch.Tensor", R"("data":)" + leaf("bits") + R"(,"dtype":"torch.bits16")") + R"(,"attributes":)" +
           record("torch.Tensor", R"("data":)" + leaf("attributes") + R"(,"state":{"tag":"x"})") + R"(,"coo":)" +
           record("torch.sparse_coo", R"("indices":)" + leaf("coo/indices") + R"(,"values":)" + leaf("coo/values") +
                                          R"(,"size":)" + record("torch.Size", R"("items":{"$":"tuple","items":[4]})") +
                                          R"(,"is_coalesced":true)") +
           R"(,"csr":)" +
           record("torch.sparse_csr", R"("crow_indices":)" + leaf("csr/crow_indices") + R"(,"col_indices":)" +
                                          leaf("csr/col_indices") + R"(,"values":)" + leaf("csr/values") +
                                          R"(,"size":)" +
                                          record("torch.Size", R"("items":{"$":"tuple","items":[1,4]})")) +
           R"(,"q":)" +
           record("torch.QTensor", R"("data":)" + leaf("q") +
                                       R"(,"dtype":"torch.qint8","qscheme":"torch.per_tensor_affine","scale":0.5,)"
                                       R"("zero_point":3)") +
           R"(,"qc":)" +
           record("torch.QTensor", R"("data":)" + leaf("qc") +
                                       R"(,"dtype":"torch.quint8","qscheme":"torch.per_channel_affine","scales":)" +
                                       leaf("qc/scales") + R"(,"zero_points":)" + leaf("qc/zero_points") +
                                       R"(,"axis":0)") +
           R"(,"storage":)" + record("torch.HalfStorage", R"("data":)" + leaf("storage")) + R"(,"size":)" +
           record("torch.Size", R"("items":{"$":"tuple","items":[2,3]})") + R"(,"device":)" +
           record("torch.device", R"("type":"cuda","index":1)") + R"(,"cpu":)" +
           record("torch.device", R"("type":"cpu")") + R"(,"dtype":)" +
           record("torch.dtype", R"("name":"torch.bfloat16")") + R"(,"shell":)" +
           record("torch.dtype", R"("name":"torch.int3")") + R"(,"layout":)" +
           record("torch.layout", R"("name":"torch.strided")") + "}"});
}

TEST_F(PtExport, RecordsOfPythonComeBack) {
  expect_round_trip(
      {{},
       {},
       R"({"c":)" + record("builtins.complex", R"("args":{"$":"tuple","items":[1.0,-2.5]})") + R"(,"ba":)" +
           record("builtins.bytearray", R"("value":{"$":"bytes","base64":"AP8="})") + R"(,"pairs":)" +
           record(
               "builtins.dict",
               R"("items":[{"$":"tuple","items":[{"$":"tuple","items":[1,"a"]},2]},{"$":"tuple","items":[null,3]}])") +
           R"(,"count":)" + record("collections.Counter", R"("args":{"$":"tuple","items":[{"a":2}]})") + "}"});
}

TEST_F(PtExport, EveryDtypeOfTorchComesBack) {
  Saved state;
  std::string tree = "{";
  unsigned seed = 1;
  for (const int32_t dtype :
       {CKPT_DTYPE_F64,       CKPT_DTYPE_F32,       CKPT_DTYPE_F16,     CKPT_DTYPE_BF16,        CKPT_DTYPE_I64,
        CKPT_DTYPE_I32,       CKPT_DTYPE_I16,       CKPT_DTYPE_I8,      CKPT_DTYPE_U8,          CKPT_DTYPE_BOOL,
        CKPT_DTYPE_C128,      CKPT_DTYPE_C64,       CKPT_DTYPE_C32,     CKPT_DTYPE_U64,         CKPT_DTYPE_U32,
        CKPT_DTYPE_U16,       CKPT_DTYPE_F8_E4M3FN, CKPT_DTYPE_F8_E5M2, CKPT_DTYPE_F8_E4M3FNUZ, CKPT_DTYPE_F8_E5M2FNUZ,
        CKPT_DTYPE_F8_E8M0FNU}) {
    const std::string name = ckpt_dtype_name(dtype);
    const size_t width = static_cast<size_t>(ckpt_dtype_bits(dtype)) / 8;
    state.tensors.push_back({name, dtype, {2, 3}, pattern(6 * width, seed++)});
    state.tensors.push_back({name + " none", dtype, {0, 3}, ""});
    state.tensors.push_back({name + " one", dtype, {}, pattern(width, seed++)});
    for (const char* suffix : {"", " none", " one"})
      tree += (tree.size() > 1 ? ",\"" : "\"") + name + suffix + "\":" + leaf(name + suffix);
  }
  state.tree = tree + "}";
  expect_round_trip(state);
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

TEST_F(PtExport, TheMemoryFormatComesBack) {
  const auto last = [](const std::string& name, const char* format) {
    return R"(")" + name + R"(":)" +
           record("torch.Tensor", R"("data":)" + leaf(name) + R"(,"memory_format":"torch.)" + format + "\"");
  };
  std::string elements;
  for (char i = 0; i < 12; i++) elements += i;
  expect_round_trip(
      {{{"w", CKPT_DTYPE_U8, {1, 2, 2, 3}, elements}, {"v", CKPT_DTYPE_I32, {2, 2, 1, 2, 3}, pattern(96)}},
       {{"tied", "w", {}, {}, 0}},
       "{" + last("w", "channels_last") + "," + last("tied", "channels_last") + "," + last("v", "channels_last_3d") +
           "}"});
  EXPECT_EQ(storage_count(path("a.pt")), 2u);
  const std::string bytes = read_file(path("a.pt"));
  EXPECT_NE(bytes.find(std::string("\x00\x06\x01\x07\x02\x08\x03\x09\x04\x0a\x05\x0b", 12)), std::string::npos);
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

TEST_F(PtExport, AliasesShareOneStorageAgain) {
  const std::string tree =
      R"({"w":)" + leaf("w") + R"(,"tied":)" + leaf("tied") + R"(,"row":)" + leaf("row") + R"(,"t":)" + leaf("t") + "}";
  expect_round_trip({{floats("w", {3, 4})},
                     {{"tied", "w", {}, {}, 0}, {"row", "w", {4}, {1}, 4}, {"t", "w", {4, 3}, {1, 4}, 0}},
                     tree});
  EXPECT_EQ(storage_count(path("a.pt")), 1u);
  ckpt_reader* reader = open("b", "import");
  ckpt_tensor_desc view{};
  view.struct_size = sizeof view;
  must([&](auto** err) { return ckpt_reader_alias_find(reader, "row", &view, err); });
  EXPECT_EQ(view.flat_offset, 4);
  must([&](auto** err) { return ckpt_reader_alias_find(reader, "t", &view, err); });
  EXPECT_EQ(view.strides[0], 1);
  EXPECT_EQ(view.strides[1], 4);
  must([&](auto** err) { return ckpt_reader_alias_find(reader, "tied", &view, err); });
  EXPECT_EQ(view.strides[0], 4);
  EXPECT_EQ(attempt([&](auto** err) { return ckpt_reader_alias_find(reader, "w", &view, err); }).code, CKPT_NOT_FOUND);
  ckpt_reader_free(reader);
}

TEST_F(PtExport, AViewWhoseTargetTheTreeDoesNotNameIsWrittenWithItsMemory) {
  save("a", {{floats("base", {6})}, {{"odd", "base", {3}, {2}, 1}}, R"({"odd":)" + leaf("odd") + "}"});
  ASSERT_EQ(export_to(path("a.pt"), "a").code, CKPT_OK);
  ASSERT_EQ(import_from(path("a.pt"), "b").code, CKPT_OK);
  EXPECT_EQ(storage_count(path("a.pt")), 1u);
  EXPECT_EQ(tree_of("b", "import"), tree_of("a", "main"));
}

TEST_F(PtExport, NumpyBecomesTensorsAndNumbers) {
  save("a", {{floats("array", {2})},
             {},
             R"({"array":)" + record("numpy.ndarray", R"("data":)" + leaf("array")) + R"(,"f":)" +
                 record("numpy.float64", R"("value":0.5)") + R"(,"i":)" + record("numpy.int32", R"("value":-3)") +
                 R"(,"b":)" + record("numpy.bool_", R"("value":true)") + "}"});
  ASSERT_EQ(export_to(path("a.pt"), "a").code, CKPT_OK);
  ASSERT_EQ(import_from(path("a.pt"), "b").code, CKPT_OK);
  EXPECT_EQ(tree_of("b", "import"), R"({"array":)" + leaf("array") + R"(,"f":0.5,"i":-3,"b":true})");
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

}  // namespace
}  // namespace ckpt::interop
