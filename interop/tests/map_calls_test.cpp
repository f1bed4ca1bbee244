// What imports, exports and files in place make of mappings.
#include <cstdlib>
#include <map>
#include <random>

#include "interop/src/client.h"
#include "interop/src/map/change.h"
#include "interop/src/map/computed.h"
#include "paths.h"
#include "store_fixture.h"

namespace ckpt::interop {
namespace {

class MapCalls : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    ::setenv("CKPT_MAPS", CKPT_SOURCE_DIR "/interop/maps", 1);
    must([&](auto** err) { return ckpt_options_new(&options_, err); });
  }
  void TearDown() override {
    ckpt_options_free(options_);
    ::unsetenv("CKPT_MAPS");
    StoreTest::TearDown();
  }

  void set(const char* key, const std::string& value) {
    must([&](auto** err) { return ckpt_options_set_str(options_, key, value.c_str(), err); });
  }
  void mapping(const std::string& rules, const std::string& more = "") {
    write_file(path("map.json"), "{" + more + "\"rules\": [" + rules + "]}");
    set("map", path("map.json"));
  }
  Failure import(const std::string& from, const std::string& label) {
    set("run", "import");
    return attempt(
        [&](auto** err) { return ckpt_import(store_, from.c_str(), label.c_str(), 3, options_, nullptr, err); });
  }
  Failure export_mapped(const std::string& to, const std::string& label) {
    ckpt_reader* reader = open(label, "import");
    Failure failure = attempt([&](auto** err) { return ckpt_export(reader, to.c_str(), options_, err); });
    ckpt_reader_free(reader);
    return failure;
  }
  // Name -> shape and bytes.
  std::map<std::string, std::pair<std::vector<int64_t>, std::string>> contents(const std::string& label,
                                                                               const char* run = "import") {
    std::map<std::string, std::pair<std::vector<int64_t>, std::string>> all;
    const client::Reader reader(open(label, run));
    for (uint64_t i = 0; i < reader.tensor_count(); i++) {
      const auto info = *reader.tensor(i);
      std::string bytes(info.bytes, '\0');
      client::Load load = *client::Load::create(reader, {});
      ckpt_tensor_desc desc{};
      desc.struct_size = sizeof desc;
      desc.dtype = info.dtype;
      desc.ndim = info.ndim;
      std::copy_n(info.shape, info.ndim, desc.shape);
      EXPECT_TRUE(load.add_tensor(info.name, client::Tensor(desc), client::MutableMemory(bytes.data(), bytes.size())));
      EXPECT_TRUE(load.run());
      all[info.name] = {{info.shape, info.shape + info.ndim}, bytes};
    }
    return all;
  }

  ckpt_options* options_ = nullptr;
};

// A file in the reference implementation's order.
std::string safetensors(std::vector<SavedTensor> tensors) {
  std::sort(tensors.begin(), tensors.end(), [](auto& a, auto& b) { return a.name < b.name; });
  std::string json = "{", data;
  for (const SavedTensor& tensor : tensors) {
    std::string shape = "[";
    for (size_t i = 0; i < tensor.shape.size(); i++) shape += (i ? "," : "") + std::to_string(tensor.shape[i]);
    json += (json.size() > 1 ? "," : "") + entry(tensor.name, tensor.dtype == CKPT_DTYPE_F32 ? "F32" : "F16",
                                                 shape + "]", data.size(), data.size() + tensor.data.size());
    data += tensor.data;
  }
  return file_of(padded(json + "}"), data);
}

std::string rows(const std::string& data, size_t bytes_in_row, const std::vector<size_t>& order) {
  std::string out;
  for (const size_t row : order) out += data.substr(row * bytes_in_row, bytes_in_row);
  return out;
}

TEST_F(MapCalls, NamesAndOrderChangeAndAreTheSameAgainBackwards) {
  const std::string config = R"({"num_attention_heads": 2, "num_key_value_heads": 1, "hidden_size": 8})";
  const SavedTensor q = floats("model.layers.0.self_attn.q_proj.weight", {8, 8}, 1);
  const SavedTensor v = floats("model.layers.0.self_attn.v_proj.weight", {4, 8}, 2);
  mapping(
      R"({"match": "model.layers.{i}.self_attn.q_proj.weight", "to": "layers.{i}.q",
              "ops": ["(H 2 d) in -> (H d 2) in"]},
             {"match": "model.layers.{i}.self_attn.v_proj.weight", "to": "layers.{i}.v"})",
      R"("vars": {"H": "config.num_attention_heads"}, )");
  std::filesystem::create_directory(path("hf"));
  write_file(path("hf/config.json"), config);
  write_file(path("hf/model.safetensors"), safetensors({q, v}));
  const Failure in = import(path("hf"), "a");
  ASSERT_EQ(in.code, CKPT_OK) << in.message;
  const auto got = contents("a");
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got.at("layers.0.v").second, v.data);
  EXPECT_EQ(got.at("layers.0.q").second, rows(q.data, 32, {0, 2, 1, 3, 4, 6, 5, 7}));

  // The sizes are in the checkpoint.
  must([&](auto** err) { return ckpt_options_set_int(options_, "map_back", 1, err); });
  const Failure out = export_mapped(path("back"), "a");
  ASSERT_EQ(out.code, CKPT_OK) << out.message;
  EXPECT_EQ(read_file(path("back/model.safetensors")), read_file(path("hf/model.safetensors")));
}

TEST_F(MapCalls, OneTensorIsCutIntoSeveralAndPutTogetherAgain) {
  const SavedTensor qkv = floats("qkv", {9, 3}, 1), up = floats("gate_up", {2, 6}, 2);
  mapping(R"({"match": "qkv", "to": ["q", "k", "v"], "split": {"sizes": [5, "*", "*"]}, "ops": ["a b -> b a"]},
             {"match": "gate_up", "to": ["gate", "up"], "split": {"dim": 1, "sizes": ["*", "*"]}})");
  write_file(path("m.safetensors"), safetensors({qkv, up}));
  const Failure in = import(path("m.safetensors"), "a");
  ASSERT_EQ(in.code, CKPT_OK) << in.message;
  const auto got = contents("a");
  ASSERT_EQ(got.size(), 5u);
  EXPECT_EQ(got.at("q").first, (std::vector<int64_t>{3, 5}));
  EXPECT_EQ(got.at("v").first, (std::vector<int64_t>{3, 2}));
  for (size_t r = 0; r < 3; r++)
    for (size_t c = 0; c < 2; c++)
      EXPECT_EQ(got.at("k").second.substr((r * 2 + c) * 4, 4), qkv.data.substr(((5 + c) * 3 + r) * 4, 4));
  EXPECT_EQ(got.at("up").second, up.data.substr(12, 12) + up.data.substr(36, 12));

  must([&](auto** err) { return ckpt_options_set_int(options_, "map_back", 1, err); });
  const Failure out = export_mapped(path("back.safetensors"), "a");
  ASSERT_EQ(out.code, CKPT_OK) << out.message;
  EXPECT_EQ(read_file(path("back.safetensors")), read_file(path("m.safetensors")));
}

TEST_F(MapCalls, AFileIsSeenInPlaceAsTheMappingHasIt) {
  const SavedTensor w = floats("w", {4, 3}, 1);
  mapping(R"({"match": "w", "to": ["a", "b"], "split": {"sizes": [1, 3]}, "ops": ["(x y) z -> z x y"]})",
          R"("vars": {"x": 1}, )");
  write_file(path("m.safetensors"), safetensors({w}));
  ckpt_file* file = nullptr;
  must([&](auto** err) { return ckpt_file_open(&file, path("m.safetensors").c_str(), options_, err); });
  ASSERT_EQ(ckpt_file_tensor_count(file), 2u);
  ckpt_file_tensor tensor{};
  tensor.struct_size = sizeof tensor;
  must([&](auto** err) { return ckpt_file_tensor_at(file, 1, &tensor, err); });
  EXPECT_STREQ(tensor.name, "b");
  EXPECT_EQ(std::vector<int64_t>(tensor.shape, tensor.shape + 3), (std::vector<int64_t>{3, 1, 3}));
  for (int64_t z = 0; z < 3; z++)
    for (int64_t y = 0; y < 3; y++)
      EXPECT_EQ(std::memcmp(static_cast<const char*>(tensor.data) + 4 * (z * tensor.strides[0] + y * tensor.strides[2]),
                            w.data.data() + 4 * ((1 + y) * 3 + z), 4),
                0);
  ckpt_file_free(file);
}

TEST_F(MapCalls, ANewNameStandsInTheStateWhereTheOldOneStood) {
  Saved state{{floats("model/a.w", {2, 3}, 1), floats("model/b.w", {3}, 2), floats("optimizer/m", {3}, 3)}, {}, ""};
  state.tree = R"({"epoch":3,"model":{"a.w":)" + leaf("model/a.w") + R"(,"b.w":)" + leaf("model/b.w") +
               R"(},"optimizer":{"m":)" + leaf("optimizer/m") + R"(,"lr":0.5}})";
  save("a", state);
  ASSERT_EQ(export_to(path("a.pt"), "a").code, CKPT_OK);
  mapping(R"({"match": "model/{x}.w", "to": "model/{x}.weight", "alias": "ema/{x}"})", R"("unmatched": "keep", )");
  set("exclude", "optimizer");
  const Failure in = import(path("a.pt"), "b");
  ASSERT_EQ(in.code, CKPT_OK) << in.message;
  EXPECT_EQ(tree_of("b", "import"), R"({"epoch":3,"model":{"a.weight":)" + leaf("model/a.weight") + R"(,"b.weight":)" +
                                        leaf("model/b.weight") + R"(},"ema":{"a":)" + leaf("ema/a") + R"(,"b":)" +
                                        leaf("ema/b") + "}}");
  EXPECT_EQ(contents("b").at("ema/a").second, state.tensors[0].data);

  set("exclude", "ema");
  must([&](auto** err) { return ckpt_options_set_int(options_, "map_back", 1, err); });
  set("format", "pt");
  const Failure out = export_mapped(path("c.pt"), "b");
  ASSERT_EQ(out.code, CKPT_OK) << out.message;
  ASSERT_EQ(import_from(path("c.pt"), "c").code, CKPT_OK);
  EXPECT_EQ(tree_of("c", "import"),
            R"({"epoch":3,"model":{"a.w":)" + leaf("model/a.w") + R"(,"b.w":)" + leaf("model/b.w") + "}}");
}

TEST_F(MapCalls, WhatTorchMakesOfElementsStaysTrueOrTheMappingIsRefused) {
  const auto marked = [](const std::string& name, const std::string& mark) {
    return record("torch.Tensor", "\"data\":" + leaf(name) + ",\"" + mark + "\":true");
  };
  const std::string quantized =
      record("torch.QTensor", R"("data":)" + leaf("q") +
                                  R"(,"dtype":"torch.quint8","qscheme":"torch.per_channel_affine","scales":)" +
                                  leaf("q/scales") + R"(,"zero_points":)" + leaf("q/zero_points") + R"(,"axis":0)");
  save("a", {{floats("n", {2, 2}, 1),
              floats("m", {2, 2}, 2),
              floats("w", {2, 2}, 3),
              {"q", CKPT_DTYPE_U8, {2, 2}, pattern(4)},
              {"q/scales", CKPT_DTYPE_F64, {2}, pattern(16)},
              {"q/zero_points", CKPT_DTYPE_I64, {2}, pattern(16)}},
             {},
             R"({"n":)" + marked("n", "neg") + R"(,"m":)" + marked("m", "neg") + R"(,"w":)" + leaf("w") + R"(,"q":)" +
                 quantized + "}"});
  must([&](auto** err) { return ckpt_options_set_str(options_, "strict", "none", err); });
  size_t count = 0;
  const auto mapped = [&](const std::string& rule) {
    mapping(rule);
    ckpt_reader* reader = open("a", "main");
    const std::string to = path("out" + std::to_string(count++) + ".pt");
    Failure failure = attempt([&](auto** err) { return ckpt_export(reader, to.c_str(), options_, err); });
    ckpt_reader_free(reader);
    return failure;
  };
  // Both are negated, so all of it is.
  Failure got = mapped(R"({"match": ["n", "m"], "to": "nm", "concat": {}})");
  EXPECT_EQ(got.code, CKPT_OK) << got.message;
  ASSERT_EQ(import_from(path("out0.pt"), "b").code, CKPT_OK);
  EXPECT_NE(tree_of("b", "import").find(R"("nm":)" + marked("nm", "neg")), std::string::npos) << tree_of("b", "import");
  for (const char* match : {R"(["n", "w"])", R"(["w", "n"])"}) {
    got = mapped(R"({"match": )" + std::string(match) + R"(, "to": "nw", "concat": {}})");
    EXPECT_EQ(got.code, CKPT_UNSUPPORTED) << got.message;
    EXPECT_NE(got.message.find("torch negates \"n\" alone"), std::string::npos) << got.message;
  }
  got = mapped(R"({"match": "q", "to": "t", "ops": ["a b -> b a"]})");
  EXPECT_EQ(got.code, CKPT_UNSUPPORTED) << got.message;
  EXPECT_NE(got.message.find("quantized"), std::string::npos) << got.message;
  got = mapped(R"({"match": "q", "to": "t"})");
  EXPECT_EQ(got.code, CKPT_OK) << got.message;
}

TEST_F(MapCalls, OnlyKeepsWhatItNamesAndCastChangesItsDtype) {
  const std::string halves("\x00\x3c\x00\xc0", 4);  // 1, -2
  write_file(path("m.safetensors"), safetensors({floats("a.w", {2}, 1), {"b.w", CKPT_DTYPE_F16, {2}, halves}}));
  set("only", "b.*");
  set("cast", "f32");
  ASSERT_EQ(import(path("m.safetensors"), "a").code, CKPT_OK);
  const auto got = contents("a");
  ASSERT_EQ(got.size(), 1u);
  const float expected[2] = {1, -2};
  EXPECT_EQ(got.at("b.w").second, std::string(reinterpret_cast<const char*>(expected), 8));
  set("cast", "f16");
  ASSERT_EQ(export_mapped(path("out.safetensors"), "a").code, CKPT_OK);
  EXPECT_EQ(read_file(path("out.safetensors")), safetensors({{"b.w", CKPT_DTYPE_F16, {2}, halves}}));
}

TEST_F(MapCalls, LargeTensorsGoThroughInPieces) {
  // More than one request, one block and one buffer.
  const SavedTensor w = floats("w", {3 << 20, 6}, 5);
  mapping(R"({"match": "w", "to": "v", "ops": ["(a 3) b -> (3 a) b"]})");
  write_file(path("m.safetensors"), safetensors({w}));
  ASSERT_EQ(import(path("m.safetensors"), "a").code, CKPT_OK);
  const auto got = contents("a");
  const size_t row = 24, third = 1 << 20;
  for (const size_t i : {size_t{0}, size_t{1}, third - 1, third, third + 5, 3 * third - 1})
    EXPECT_EQ(got.at("v").second.substr(i * row, row), w.data.substr((i % third * 3 + i / third) * row, row)) << i;
  must([&](auto** err) { return ckpt_options_set_int(options_, "map_back", 1, err); });
  ASSERT_EQ(export_mapped(path("back.safetensors"), "a").code, CKPT_OK);
  EXPECT_EQ(read_file(path("back.safetensors")) == read_file(path("m.safetensors")), true);
}

// fixtures/make_maps.py: what torchtune's own converters made.
TEST_F(MapCalls, ShippedMappingsDoWhatTorchtuneDoesAndUndoIt) {
  const std::string fixtures = CKPT_SOURCE_DIR "/interop/tests/fixtures/maps/";
  size_t families = 0;
  for (const auto& folder : std::filesystem::directory_iterator(fixtures)) {
    const std::string name = folder.path().filename(), at = folder.path();
    SCOPED_TRACE(name);
    families++;
    set("map", "");
    set("config", "");
    ASSERT_EQ(import(at + "/from.safetensors", name + ".from").code, CKPT_OK);
    ASSERT_EQ(import(at + "/to.safetensors", name + ".to").code, CKPT_OK);
    auto before = contents(name + ".from");
    set("map", name);
    const Failure there = import(at + "/from.safetensors", name);  // config.json is beside
    ASSERT_EQ(there.code, CKPT_OK) << there.message;
    EXPECT_TRUE(contents(name) == contents(name + ".to"));

    std::erase_if(before, [](const auto& tensor) { return tensor.first.find("freq") != std::string::npos; });
    must([&](auto** err) { return ckpt_options_set_int(options_, "map_back", 1, err); });
    set("config", at + "/config.json");
    const Failure out = export_mapped(path(name + ".safetensors"), name + ".to");
    ASSERT_EQ(out.code, CKPT_OK) << out.message;
    ASSERT_EQ(import_from(path(name + ".safetensors"), name + ".back").code, CKPT_OK);
    EXPECT_TRUE(contents(name + ".back") == before);
    must([&](auto** err) { return ckpt_options_set_int(options_, "map_back", 2, err); });
    ckpt_file* file = nullptr;
    must([&](auto** err) { return ckpt_file_open(&file, (at + "/from.safetensors").c_str(), options_, err); });
    ckpt_file_free(file);
    must([&](auto** err) { return ckpt_options_set_int(options_, "map_back", 0, err); });
  }
  EXPECT_EQ(families, 8u);
}

TEST_F(MapCalls, AMappingOfTwoDirectionsIsFoundByBothNames) {
  write_file(path("m.safetensors"), safetensors({floats("layers.1.w", {2}, 1)}));
  set("map", "prefix-none-to-module");
  ASSERT_EQ(import(path("m.safetensors"), "a").code, CKPT_OK);
  EXPECT_EQ(contents("a").begin()->first, "module.layers.1.w");
  set("map", "prefix-module-to-none");
  ASSERT_EQ(export_mapped(path("out.safetensors"), "a").code, CKPT_OK);
  EXPECT_EQ(read_file(path("out.safetensors")), read_file(path("m.safetensors")));
}

TEST_F(MapCalls, AMappingMayBeForOnePlaceOfTheState) {
  Saved state{{floats("ema/module.w", {2}, 1), floats("model/module.w", {2}, 2)}, {}, ""};
  state.tree =
      R"({"ema":{"module.w":)" + leaf("ema/module.w") + R"(},"model":{"module.w":)" + leaf("model/module.w") + "}}";
  save("a", state);
  ASSERT_EQ(export_to(path("a.pt"), "a").code, CKPT_OK);
  set("map", "prefix-module-to-none");
  set("map_at", "model");
  ASSERT_EQ(import(path("a.pt"), "b").code, CKPT_OK);
  EXPECT_EQ(tree_of("b", "import"),
            R"({"ema":{"module.w":)" + leaf("ema/module.w") + R"(},"model":{"w":)" + leaf("model/w") + "}}");
}

TEST_F(MapCalls, ACheckOfBothWaysFindsRulesThatCatchEachOthersNames) {
  write_file(path("m.safetensors"), safetensors({floats("a", {2}, 1), floats("b", {2}, 2)}));
  // Backwards, x.b is taken for the first rule's.
  mapping(
      R"({"match": "a", "to": "x.b"}, {"match": "{n}", "to": "x.{n}.y"},
             {"match": "{n}.y", "to": "x.{n}", "optional": true})");
  must([&](auto** err) { return ckpt_options_set_int(options_, "map_back", 2, err); });
  EXPECT_EQ(import(path("m.safetensors"), "l").code, CKPT_OK);
  mapping(R"({"match": "{n}", "to": "{n}.w"}, {"match": "c", "to": "b.w", "optional": true})");
  EXPECT_EQ(import(path("m.safetensors"), "m").code, CKPT_OK);
  mapping(R"({"match": "c", "to": "b.w", "optional": true}, {"match": "{n}", "to": "{n}.w"})");
  EXPECT_EQ(import(path("m.safetensors"), "n").code, CKPT_MISMATCH);
}

TEST_F(MapCalls, WhatDoesNotFitIsRefusedByName) {
  write_file(path("m.safetensors"), safetensors({floats("a", {4, 2}, 1), floats("b", {4, 2}, 2)}));
  const auto refused = [&](const std::string& rules, const std::string& more = "") {
    mapping(rules, more);
    return import(path("m.safetensors"), "l");
  };
  EXPECT_EQ(refused(R"({"match": "a", "to": "c"})").code, CKPT_MISMATCH);  // b has no rule
  EXPECT_EQ(detail(refused(R"({"match": "a", "to": "c"})"), "tensor"), "b");
  EXPECT_EQ(refused(R"({"match": "{x}", "to": "{x}"}, {"match": "z", "to": "y"})").code, CKPT_NOT_FOUND);
  EXPECT_EQ(refused(R"({"match": "a", "to": "b"}, {"match": "b", "keep": true})").code, CKPT_FORMAT);
  EXPECT_EQ(refused(R"({"match": ["a", "z"], "to": "c", "concat": {}}, {"match": "b", "drop": true})").code,
            CKPT_INCOMPLETE);
  EXPECT_EQ(refused(R"({"match": ["a", "b"], "to": "c", "concat": {"sizes": [4, 5]}})").code, CKPT_MISMATCH);
  EXPECT_EQ(refused(R"({"match": "{x}", "to": "c.{x}", "ops": ["(H d) i -> d H i"]})", R"("vars": {"H": 3}, )").code,
            CKPT_MISMATCH);
  const Failure no_config =
      refused(R"({"match": "{x}", "to": "c.{x}", "ops": ["(H d) i -> d H i"]})", R"("vars": {"H": "config.h"}, )");
  EXPECT_EQ(no_config.code, CKPT_NOT_FOUND);
  EXPECT_NE(no_config.message.find("option config"), std::string::npos) << no_config.message;
  set("map", "");
  set("only", "a,none.*");
  EXPECT_EQ(detail(import(path("m.safetensors"), "l"), "found"), "none.*");
  set("only", "");
  set("map", "no-such-map");
  EXPECT_EQ(import(path("m.safetensors"), "l").code, CKPT_NOT_FOUND);
}

}  // namespace
}  // namespace ckpt::interop
