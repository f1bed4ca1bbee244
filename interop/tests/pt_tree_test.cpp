// A .pt as a state tree: values, records, paths, and pickles that would grow or never end.
#include "interop/src/pt/tree.h"

#include <gtest/gtest.h>

#include "pt_fixture.h"

namespace ckpt::interop {
namespace {

using namespace pickled;

struct Made {
  std::string bytes;
  Status status;
  std::string json;
  std::vector<std::string> names;
};

Made make_of(const std::string& value, const std::vector<StorageBytes>& storages = {{"0", "0123456789abcdef"}}) {
  Made made{pt_of(value, storages), {}, {}, {}};
  auto source = PtSource::parse("x.pt", as_bytes(made.bytes), {});
  if (!source.ok()) {
    made.status = source.status();
    return made;
  }
  SpareTree spare;
  auto tree = make_tree(*source, spare);
  made.status = tree.ok() ? check_values(tree->tree) : tree.status();
  if (!tree.ok()) return made;
  made.json = tree::tree_json(tree->tree);
  for (const NamedPtTensor& tensor : tree->tensors) made.names.push_back(tensor.name);
  return made;
}

void expect_tree(const std::string& value, const std::string& json) {
  const Made made = make_of(value);
  ASSERT_TRUE(made.status.ok()) << made.status.message();
  EXPECT_EQ(made.json, json);
}

void expect_refused(const std::string& value, const char* reason, ckpt_status code = CKPT_FORMAT) {
  const Made made = make_of(value);
  EXPECT_EQ(made.status.code(), code) << reason << "\n" << made.status.message();
  EXPECT_NE(made.status.message().find(reason), std::string::npos) << "expected: " << reason << "\n"
                                                                   << made.status.message();
}

std::string repeated(const std::string& bytes, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; i++) all += bytes;
  return all;
}

std::string bytes_storage() { return storage("0", "ByteStorage", 16); }
std::string some_tensor(bool grad = false) { return tensor(bytes_storage(), 0, {2}, {1}, grad); }
std::string leaf(const std::string& name) { return R"({"$":"tensor","name":")" + name + "\"}"; }
std::string record(const std::string& cls, const std::string& items) {
  return R"({"$":"record","class":")" + cls + R"(","items":{)" + items + "}}";
}

TEST(PtTree, PlainValuesAreThemselves) {
  expect_tree(list({none, boolean(true), integer(-3), real(1.5), text("ä"), tuple({}), dict({})}),
              R"([null,true,-3,1.5,"ä",{"$":"tuple","items":[]},{}])");
  expect_tree(bytes(std::string("\0\xff", 2)), R"({"$":"bytes","base64":"AP8="})");
  expect_tree("\x8a\x09" + std::string("\0\0\0\0\0\0\0\0\1", 9), R"({"$":"int","value":"18446744073709551616"})");
  expect_tree(call(global("__builtin__", "set"), {list({integer(1)})}), R"({"$":"set","items":[1]})");
}

TEST(PtTree, IntegerAndTextKeysAreKeptApart) {
  expect_tree(dict({integer(0), text("a"), text("0"), text("b")}), R"({"$":"dict","items":[[0,"a"],["0","b"]]})");
}

TEST(PtTree, AKeyGivenTwiceCountsTheLastTime) {
  expect_tree(dict({text("k"), integer(1), text("l"), integer(2), text("k"), integer(3)}), R"({"k":3,"l":2})");
  expect_tree(dict({integer(1), integer(1), integer(1), integer(2)}), R"({"$":"dict","items":[[1,2]]})");
}

TEST(PtTree, KeysOfOtherKindsMakePairs) {
  expect_tree(dict({tuple({integer(1), integer(2)}), integer(3)}),
              record("builtins.dict", R"("items":[{"$":"tuple","items":[{"$":"tuple","items":[1,2]},3]}])"));
}

TEST(PtTree, TensorsAreLeavesByTheirPaths) {
  const Made made = make_of(dict({text("model"), dict({text("w"), some_tensor(), text("a/b"), some_tensor()}),
                                  text("state"), dict({integer(0), list({some_tensor()}), text("0"), some_tensor()})}));
  ASSERT_TRUE(made.status.ok()) << made.status.message();
  EXPECT_EQ(made.names, (std::vector<std::string>{"model/w", "model/a~1b", "state/0/0", "state/~s0"}));
  EXPECT_TRUE(made.json.starts_with(R"({"model":{"w":)" + leaf("model/w"))) << made.json;
}

TEST(PtTree, ATreeThatIsATensorIsCalledState) {
  EXPECT_EQ(make_of(some_tensor()).names, std::vector<std::string>{"state"});
  EXPECT_EQ(make_of(some_tensor(true)).names, std::vector<std::string>{"state"});
}

TEST(PtTree, AStateDictKeepsItsNamesAndItsMetadata) {
  const std::string metadata = dict({text("_metadata"), ordered_dict({text(""), dict({text("version"), integer(1)})})});
  const Made made = make_of(dict({text("m"), with_state(ordered_dict({text("w"), some_tensor()}), metadata)}));
  ASSERT_TRUE(made.status.ok()) << made.status.message();
  EXPECT_EQ(made.names, std::vector<std::string>{"m/w"});
  EXPECT_EQ(made.json, "{\"m\":" +
                           record("collections.OrderedDict",
                                  "\"items\":{\"w\":" + leaf("m/w") + "},\"metadata\":" +
                                      record("collections.OrderedDict", R"("items":{"":{"version":1}})")) +
                           "}");
}

TEST(PtTree, TensorsWithMoreToSayAreRecords) {
  expect_tree(dict({text("w"), some_tensor(true)}),
              "{\"w\":" + record("torch.Tensor", "\"data\":" + leaf("w") + ",\"requires_grad\":true") + "}");
  expect_tree(
      dict({text("w"), call(torch_util("_rebuild_parameter"), {some_tensor(true), boolean(false), ordered_dict()})}),
      "{\"w\":" + record("torch.nn.parameter.Parameter", "\"data\":" + leaf("w") + ",\"requires_grad\":false") + "}");
  const std::string type = global("my.models", "Weight");
  const std::string of_type =
      call(global("torch._tensor", "_rebuild_from_type_v2"),
           {torch_util("_rebuild_tensor_v2"), type,
            tuple({bytes_storage(), integer(0), integers({2}), integers({1}), boolean(false), ordered_dict()}),
            dict({text("tag"), text("x")})});
  expect_tree(dict({text("w"), of_type}),
              "{\"w\":" + record("my.models.Weight", "\"data\":" + leaf("w") + R"(,"state":{"tag":"x"})") + "}");
}

TEST(PtTree, SparseAndQuantizedTensorsKeepTheirParts) {
  const std::string layout = call(global("torch.serialization", "_get_layout"), {text("torch.sparse_csr")});
  const std::string size = call(global("torch", "Size"), {integers({3, 3})});
  const Made sparse =
      make_of(dict({text("s"), call(torch_util("_rebuild_sparse_tensor"),
                                    {layout, tuple({some_tensor(), some_tensor(), some_tensor(), size})})}));
  ASSERT_TRUE(sparse.status.ok()) << sparse.status.message();
  EXPECT_EQ(sparse.names, (std::vector<std::string>{"s/crow_indices", "s/col_indices", "s/values"}));
  EXPECT_NE(sparse.json.find(R"("class":"torch.sparse_csr")"), std::string::npos) << sparse.json;

  const std::string q8 = storage("0", "QInt8Storage", 16);
  auto quantized = [&](const Items& quantizer) {
    return dict({text("q"), call(torch_util("_rebuild_qtensor"), {q8, integer(0), integers({2}), integers({1}),
                                                                  tuple(quantizer), boolean(false), ordered_dict()})});
  };
  expect_tree(quantized({global("torch", "per_tensor_affine"), real(0.5), integer(3)}),
              "{\"q\":" +
                  record("torch.QTensor", "\"data\":" + leaf("q") +
                                              R"(,"dtype":"torch.qint8","qscheme":"torch.per_tensor_affine",)" +
                                              R"("scale":0.5,"zero_point":3)") +
                  "}");
  const Made channels =
      make_of(quantized({global("torch", "per_channel_affine"), some_tensor(), some_tensor(), integer(0)}));
  ASSERT_TRUE(channels.status.ok()) << channels.status.message();
  EXPECT_EQ(channels.names, (std::vector<std::string>{"q", "q/scales", "q/zero_points"}));
  expect_refused(quantized({global("torch", "per_moon_affine"), real(1), integer(0)}), "unknown quantizer",
                 CKPT_UNSUPPORTED);
}

TEST(PtTree, SmallObjectsAreRecords) {
  expect_tree(call(global("torch", "Size"), {integers({2, 3})}),
              record("torch.Size", R"("items":{"$":"tuple","items":[2,3]})"));
  expect_tree(call(global("torch", "device"), {text("cuda"), integer(1)}),
              record("torch.device", R"("type":"cuda","index":1)"));
  expect_tree(global("torch", "float32"), record("torch.dtype", R"("name":"torch.float32")"));
  expect_tree(global("collections", "OrderedDict"), record("builtins.type", R"("name":"collections.OrderedDict")"));
  expect_tree(with_state(make(global("argparse", "Namespace"), {}), dict({text("lr"), real(0.1)})),
              record("argparse.Namespace", R"("state":{"lr":0.1})"));
  expect_tree(call(global("my.own", "Config"), {integer(1)}),
              record("my.own.Config", R"("args":{"$":"tuple","items":[1]})"));
  expect_tree(call(global("torch.jit._pickle", "build_intlist"), {list({integer(1)})}), "[1]");
}

TEST(PtTree, NumpyScalarsAreRecordsOfTheirNumber) {
  auto scalar = [](const char* dtype, const std::string& data) {
    return call(global("numpy.core.multiarray", "scalar"),
                {with_state(call(global("numpy", "dtype"), {text(dtype), boolean(false), boolean(true)}),
                            tuple({integer(3), text("<"), none, none, none, integer(-1), integer(-1), integer(0)})),
                 bytes(data)});
  };
  expect_tree(scalar("f8", little(2.5)), record("numpy.float64", R"("value":2.5)"));
  expect_tree(scalar("f2", little<uint16_t>(0x3c00)), record("numpy.float16", R"("value":1.0)"));
  expect_tree(scalar("u8", little(UINT64_MAX)),
              record("numpy.uint64", R"("value":{"$":"int","value":"18446744073709551615"})"));
  expect_tree(scalar("b1", "\x01"), record("numpy.bool_", R"("value":true)"));
  expect_tree(scalar("c16", little(1.0) + little(2.0)),
              record("numpy.complex128",
                     "\"value\":" + record("builtins.complex", R"("args":{"$":"tuple","items":[1.0,2.0]})")));
}

TEST(PtTree, ModulesOfLibTorchAreNestedRecords) {
  const std::string inner = with_state(make(global("__torch__.___torch_mangle_0", "Module"), {}),
                                       dict({text("weight"), some_tensor(), text("training"), boolean(true)}));
  const Made made = make_of(with_state(make(global("__torch__", "Module"), {}), dict({text("0"), inner})));
  ASSERT_TRUE(made.status.ok()) << made.status.message();
  EXPECT_EQ(made.names, std::vector<std::string>{"~s0/weight"});
  EXPECT_EQ(made.json,
            record("__torch__.Module",
                   "\"0\":" + record("__torch__.Module", "\"weight\":" + leaf("~s0/weight") + ",\"training\":true")));
}

// The names that the Python binding gives the same state: STATE_TREE.md §5.
TEST(PtTree, ContainersOfPythonAddNothingToNamesWhereSection5SaysSo) {
  const auto names = [](const std::string& value) { return make_of(dict({text("x"), value})).names; };
  const std::string factory = global("__builtin__", "list");
  const std::string counts =
      with_entries(call(global("collections", "defaultdict"), {factory}), {text("k"), some_tensor()});
  EXPECT_EQ(names(counts), std::vector<std::string>{"x/k"});
  const std::string odd =
      with_entries(call(global("collections", "defaultdict"), {factory}), {tuple({integer(1)}), some_tensor()});
  EXPECT_EQ(names(odd), std::vector<std::string>{"x/0/1"});
  EXPECT_EQ(names(ordered_dict({text("k"), some_tensor()})), std::vector<std::string>{"x/k"});
  EXPECT_EQ(names(dict({none, some_tensor()})), std::vector<std::string>{"x/0/1"});
  const std::string deque = call(global("collections", "deque"), {}) + "(" + some_tensor() + "e";
  EXPECT_EQ(names(deque), std::vector<std::string>{"x/items/0"});
  const std::string frozen = call(global("__builtin__", "frozenset"), {list({some_tensor()})});
  EXPECT_EQ(names(frozen), std::vector<std::string>{"x/items/0"});
  const std::string of_dict = with_entries(make(global("my.own", "Dict"), {}), {text("k"), some_tensor()});
  EXPECT_EQ(names(of_dict), std::vector<std::string>{"x/entries/k"});
}

// numpy.random.Generator(numpy.random.PCG64(7)) as numpy 2 pickles it.
TEST(PtTree, GeneratorsOfNumpyAreRecordsOfTheirState) {
  const std::string seed =
      with_state(call(global("numpy.random.bit_generator", "__pyx_unpickle_SeedSequence"),
                      {global("numpy.random.bit_generator", "SeedSequence"), integer(65708578), none}),
                 tuple({integer(7), integer(0), some_tensor(), integer(4), tuple({})}));
  const std::string bits =
      with_state(call(global("numpy.random._pickle", "__bit_generator_ctor"), {global("numpy.random._pcg64", "PCG64")}),
                 tuple({dict({text("bit_generator"), text("PCG64")}), seed}));
  const Made made = make_of(dict({text("r"), call(global("numpy.random._pickle", "__generator_ctor"), {bits})}));
  ASSERT_TRUE(made.status.ok()) << made.status.message();
  EXPECT_EQ(made.names, std::vector<std::string>{"r/args/0/state/1/state/2"});
  EXPECT_TRUE(made.json.starts_with(
      R"({"r":{"$":"record","class":"numpy.random._pickle.__generator_ctor","items":{"args":{"$":"tuple","items":[)"
      R"({"$":"record","class":"numpy.random._pickle.__bit_generator_ctor","items":{"args":)"))
      << made.json;
}

TEST(PtTree, DtypesWithoutElementsAreDtypesAllTheSame) {
  expect_tree(global("torch", "uint4"), record("torch.dtype", R"("name":"torch.uint4")"));
  expect_tree(global("torch", "bits8"), record("torch.dtype", R"("name":"torch.bits8")"));
}

TEST(PtTree, TheMemoryFormatOfATensorIsKept) {
  const auto image = [](const std::vector<int64_t>& size, const std::vector<int64_t>& stride) {
    return make_of(dict({text("w"), tensor(bytes_storage(), 0, size, stride)})).json;
  };
  const auto formatted = [](const char* format) {
    return "{\"w\":" + record("torch.Tensor", "\"data\":" + leaf("w") + R"(,"memory_format":"torch.)" + format + "\"") +
           "}";
  };
  const std::string plain = "{\"w\":" + leaf("w") + "}";
  EXPECT_EQ(image({1, 2, 2, 3}, {12, 1, 6, 2}), formatted("channels_last"));
  EXPECT_EQ(image({1, 2, 1, 2, 3}, {12, 1, 12, 6, 2}), formatted("channels_last_3d"));
  EXPECT_EQ(image({1, 2, 2, 3}, {12, 6, 3, 1}), plain);
  EXPECT_EQ(image({2, 2, 1, 1}, {2, 1, 2, 2}), plain);    // in both orders the same
  EXPECT_EQ(image({1, 2, 2, 3}, {12, 1, 2, 4}), plain);   // transposed otherwise
  EXPECT_EQ(image({1, 2, 1, 3}, {99, 1, 99, 4}), plain);  // with gaps
  EXPECT_EQ(image({0, 2, 2, 3}, {12, 1, 6, 2}), plain);
  const Made parameter = make_of(
      dict({text("w"), call(torch_util("_rebuild_parameter"), {tensor(bytes_storage(), 0, {1, 2, 2, 3}, {12, 1, 6, 2}),
                                                               boolean(true), ordered_dict()})}));
  EXPECT_NE(parameter.json.find(R"("memory_format":"torch.channels_last")"), std::string::npos) << parameter.json;
  EXPECT_EQ(parameter.names, std::vector<std::string>{"w"});
}

TEST(PtTree, AStorageByItselfIsARecordOfItsElements) {
  const Made made = make_of(dict({text("s"), storage("0", "ShortStorage", 8)}));
  ASSERT_TRUE(made.status.ok()) << made.status.message();
  EXPECT_EQ(made.json, "{\"s\":" + record("torch.ShortStorage", "\"data\":" + leaf("s")) + "}");
}

TEST(PtTree, TensorsWithoutDataAreRecordsOfTheirShape) {
  const std::string meta = call(torch_util("_rebuild_meta_tensor_no_storage"),
                                {global("torch", "float32"), integers({2}), integers({1}), boolean(false)});
  expect_tree(dict({text("w"), meta}),
              "{\"w\":" +
                  record("torch._utils._rebuild_meta_tensor_no_storage",
                         R"("args":{"$":"tuple","items":[{"$":"record","class":"torch.dtype","items":)"
                         R"({"name":"torch.float32"}},{"$":"tuple","items":[2]},{"$":"tuple","items":[1]},false]})") +
                  "}");
}

TEST(PtTree, ATensorsErrorNamesItsPath) {
  const Made made = make_of(dict({text("m"), tensor(bytes_storage(), 0, {17}, {1})}));
  EXPECT_EQ(made.status.code(), CKPT_FORMAT);
  EXPECT_NE(made.status.message().find("x.pt: at \"m\": tensor in storage \"0\""), std::string::npos)
      << made.status.message();
  ASSERT_NE(made.status.detail("tensor"), nullptr);
  EXPECT_EQ(*made.status.detail("tensor"), "m");
}

TEST(PtTree, TwoTensorsOfOnePathAreRefused) {
  const std::string state =
      with_state(ordered_dict({text("metadata"), some_tensor()}), dict({text("_metadata"), some_tensor()}));
  expect_refused(state, "two tensors have this path", CKPT_UNSUPPORTED);
}

std::string place(const std::string& path) { return record("ckpt.Place", "\"path\":\"" + path + '"'); }

TEST(PtTree, AValueThatHoldsItselfIsARecordOfItsPlace) {
  // l = []; l.append(l)
  expect_tree("]q\x01h\x01\x61", "[" + place("") + "]");
  // {"a": l, "b": l} with l = [[l], 1]: walked twice, since it holds itself only
  expect_tree("}(" + text("a") + "]q\x01(]h\x01\x61K\x01\x65" + text("b") + "h\x01u",
              R"({"a":[[)" + place("a") + R"(],1],"b":[[)" + place("b") + "],1]}");
}

// 30 lists, each of which holds all of them: the ways through them are without number.
TEST(PtTree, ValuesThatAllHoldEachOtherAreWalkedOnce) {
  std::string lists, all = "(";
  for (char i = 1; i <= 30; i++) lists += std::string("]q") + i + "0", all += std::string("h") + i;
  std::string state = lists;
  for (char i = 1; i <= 30; i++) state += std::string("h") + i + all + "e0";
  const Made made = make_of(state + "h\x01");
  ASSERT_TRUE(made.status.ok()) << made.status.message();
  EXPECT_LT(made.json.size(), size_t{30} * 30 * 200);
}

TEST(PtTree, TextWithLoneSurrogatesIsARecordOfItsBytes) {
  const std::string odd = "X" + std::string("\x03\0\0\0", 4) + "\xed\xb3\xbf";
  const std::string str = record("builtins.str", R"("args":{"$":"tuple","items":[{"$":"bytes","base64":"7bO/"},)"
                                                 R"("utf-8","surrogatepass"]})");
  expect_tree(list({odd}), "[" + str + "]");
  expect_tree(dict({odd, integer(1)}), record("builtins.dict", R"("items":[{"$":"tuple","items":[)" + str + ",1]}]"));
}

TEST(PtTree, FunctionsAreRecordsThatNobodyCalls) {
  const std::string len = record("builtins.type", R"("name":"builtins.len")");
  expect_tree(global("builtins", "len"), len);
  expect_tree(call(global("builtins", "getattr"), {text("abc"), text("upper")}),
              record("builtins.getattr", R"("args":{"$":"tuple","items":["abc","upper"]})"));
  expect_tree(call(global("functools", "partial"), {global("builtins", "len")}),
              record("functools.partial", R"("args":{"$":"tuple","items":[)" + len + "]}"));
  expect_refused(call(global("functools", "partial"), {global("os", "system")}), "os.system", CKPT_UNSUPPORTED);
}

// What options leave out is no error; what nobody sees is one all the same.
TEST(PtTree, WhatIsRefusedIsToldWhereItStands) {
  const std::string bad = call(global("os", "system"), {text("id")});
  const Made made = make_of(dict({text("w"), some_tensor(), text("whole"), list({integer(1), bad})}));
  EXPECT_EQ(made.status.code(), CKPT_UNSUPPORTED);
  EXPECT_NE(made.status.message().find("at \"whole/1\": the pickle calls os.system, which is not data; option "
                                       "exclude=whole/1 leaves it out"),
            std::string::npos)
      << made.status.message();
  expect_refused(bad + "0N", "os.system", CKPT_UNSUPPORTED);
}

TEST(PtTree, DepthIsBounded) {
  std::string deep(300, ']');
  deep += "N" + std::string(300, 'a');
  expect_refused(deep, "more than 200 levels");
}

// restore_type_tag(restore_type_tag(…)) is no container, and a value all the same.
TEST(PtTree, NotesOfTypesInsideEachOtherAreBounded) {
  auto tagged = [](int depth) {
    std::string value = integer(7);
    for (int i = 0; i < depth; i++) value = call(global("torch.jit._pickle", "restore_type_tag"), {value, text("int")});
    return value;
  };
  expect_tree(tagged(100), "7");
  expect_refused(tagged(1000), "too deep", CKPT_UNSUPPORTED);
}

// Each list holds the one before ten times: 10^30 values in 700 bytes.
TEST(PtTree, SharedValuesDoNotGrowWithoutBound) {
  std::string bomb = "](NNNNNNNNNNe";
  for (char i = 1; i <= 30; i++)
    bomb += std::string("q") + i + "0" + "](" + [&] {
      std::string ten;
      for (int n = 0; n < 10; n++) ten += std::string("h") + i;
      return ten;
    }() + "e";
  expect_refused(bomb, "many times its size", CKPT_UNSUPPORTED);
}

// One text of 1 MiB a thousand times.
// Each walk over such a dict makes one entry out of many.
TEST(PtTree, RepeatedKeysOfASharedDictAreCountedEachTime) {
  const std::string dict = "}q\x01(" + repeated(text("k") + "N", 20000) + "u";
  expect_tree(dict, R"({"k":null})");
  expect_refused("](" + dict + repeated("h\x01", 2000) + "e", "repeats values so often", CKPT_UNSUPPORTED);
  const std::string module = global("__torch__", "M") + ")\x81";
  expect_refused("](" + module + dict + "b" + repeated(module + "h\x01" + "b", 2000) + "e", "repeats values so often",
                 CKPT_UNSUPPORTED);
}

TEST(PtTree, SharedTextDoesNotGrowWithoutBound) {
  std::string bomb = text(std::string(1 << 20, 'x')) + "q\x01" + "0](";
  for (int i = 0; i < 1000; i++) bomb += "h\x01";
  expect_refused(bomb + "e", "many times its size", CKPT_UNSUPPORTED);
}

}  // namespace
}  // namespace ckpt::interop
