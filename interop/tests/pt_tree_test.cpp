// A .pt as a state tree: what no program of torch writes, what is refused, and pickles that would grow or never end.
// What torch writes, tests/torch/read_test.py compares with what torch reads; its names, test_foreign.py of Python.
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
std::string tensor_leaf(const std::string& name) { return R"({"$":"tensor","name":")" + name + "\"}"; }
std::string record(const std::string& cls, const std::string& items) {
  return R"({"$":"record","class":")" + cls + R"(","items":{)" + items + "}}";
}

TEST(PtTree, AKeyGivenTwiceCountsTheLastTime) {
  expect_tree(dict({text("k"), integer(1), text("l"), integer(2), text("k"), integer(3)}), R"({"k":3,"l":2})");
  expect_tree(dict({integer(1), integer(1), integer(1), integer(2)}), R"({"$":"dict","items":[[1,2]]})");
}

TEST(PtTree, KeysOfOtherKindsMakePairs) {
  expect_tree(dict({tuple({integer(1), integer(2)}), integer(3)}),
              record("builtins.dict", R"("items":[{"$":"tuple","items":[{"$":"tuple","items":[1,2]},3]}])"));
}

TEST(PtTree, ModulesOfLibTorchAreNestedRecords) {
  const std::string inner = with_state(make(global("__torch__.___torch_mangle_0", "Module"), {}),
                                       dict({text("weight"), some_tensor(), text("training"), boolean(true)}));
  const Made made = make_of(with_state(make(global("__torch__", "Module"), {}), dict({text("0"), inner})));
  ASSERT_TRUE(made.status.ok()) << made.status.message();
  EXPECT_EQ(made.names, std::vector<std::string>{"~s0/weight"});
  EXPECT_EQ(made.json,
            record("__torch__.Module", "\"0\":" + record("__torch__.Module", "\"weight\":" + tensor_leaf("~s0/weight") +
                                                                                 ",\"training\":true")));
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
    return "{\"w\":" +
           record("torch.Tensor", "\"data\":" + tensor_leaf("w") + R"(,"memory_format":"torch.)" + format + "\"") + "}";
  };
  const std::string plain = "{\"w\":" + tensor_leaf("w") + "}";
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

TEST(PtTree, AQuantizerThatNobodyKnowsIsRefused) {
  const Items quantizer = {global("torch", "per_moon_affine"), real(1), integer(0)};
  expect_refused(
      call(torch_util("_rebuild_qtensor"), {storage("0", "QInt8Storage", 16), integer(0), integers({2}), integers({1}),
                                            tuple(quantizer), boolean(false), ordered_dict()}),
      "unknown quantizer", CKPT_UNSUPPORTED);
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
