// Mappings: names, loops over elements, and what imports, exports and files in place make of them.
#include <cstdlib>
#include <map>
#include <random>

#include "interop/client.h"
#include "interop/map/change.h"
#include "interop/map/computed.h"
#include "store_fixture.h"

namespace ckpt::interop {
namespace {

// ---- names ----

std::string renamed(const std::string& from, const std::string& to, const std::string& name) {
  const auto captures = Pattern::parse(from)->match(name);
  return captures ? Pattern::parse(to)->expand(*captures) : "no";
}

TEST(MapPattern, TakesSegmentsAndPutsThemElsewhere) {
  EXPECT_EQ(renamed("model.layers.{i}.q.weight", "layers.{i}.attn.q", "model.layers.12.q.weight"), "layers.12.attn.q");
  EXPECT_EQ(renamed("{a}.{b}/w", "{b}.{a}", "x.yz/w"), "yz.x");
  EXPECT_EQ(renamed("module.{*rest}", "{*rest}", "module.layers.0.w"), "layers.0.w");
  EXPECT_EQ(renamed("{*any}.weight", "w.{*any}", "a.weight.b.weight"), "w.a.weight.b");
  EXPECT_EQ(renamed("{a}.{a}.w", "{a}", "x.x.w"), "x");
  EXPECT_EQ(renamed("a{{b}", "{{}", "a{b}"), "{}");
}

TEST(MapPattern, MatchesNothingElse) {
  for (const char* name : {"layers..w", "layers.1.2.w", "layers.1.w.", "xlayers.1.w", "layers.1/2.w", "layers.1"})
    EXPECT_EQ(renamed("layers.{i}.w", "{i}", name), "no") << name;
  EXPECT_EQ(renamed("{a}.{a}.w", "{a}", "x.y.w"), "no");
}

TEST(MapPattern, RefusesWhatCouldBeReadTwoWays) {
  for (const char* text : {"", "{", "{}", "{a b}", "{a}{b}", "{a}_{b}", "{*a}.{*b}", "{*a}{b}"})
    EXPECT_EQ(Pattern::parse(text).status().code(), CKPT_INVALID) << text;
}

TEST(MapPattern, TakesNoLongerThanTheProductOfTheLengths) {
  const std::string name(4000, 'a');
  EXPECT_EQ(renamed("{*x}.a.a.a.a.b", "{*x}", name), "no");
  EXPECT_FALSE(fits_place("*a*a*a*a*a*a*a*a*b", name));
}

TEST(MapGlob, Fits) {
  for (const auto& [glob, name] : std::map<std::string, std::string>{
           {"*", ""}, {"a*", "abc"}, {"*c", "abc"}, {"a?c", "abc"}, {"a**c", "ac"}, {"*b*", "abc"}})
    EXPECT_TRUE(fits_place(glob, name)) << glob;
  for (const auto& [glob, name] : std::map<std::string, std::string>{{"", "a"}, {"a", ""}, {"a?", "a"}, {"*c", "cb"}})
    EXPECT_FALSE(fits_place(glob, name)) << glob;
  for (const char* glob : {"a", "*b", "a/b", "?", "a/*c"}) EXPECT_TRUE(fits_place(glob, "a/b/c")) << glob;
  for (const char* glob : {"b", "a/b/", "a/bc", "/"}) EXPECT_FALSE(fits_place(glob, "a/b/c")) << glob;
}

TEST(MapSelection, APlaceMeansWhatIsBelowIt) {
  const Selection selection{{"model", "step*"}, {"*.bias"}};
  EXPECT_TRUE(selection.keeps("model/a/b"));
  EXPECT_TRUE(selection.keeps("step1"));
  EXPECT_FALSE(selection.keeps("model.x"));
  EXPECT_FALSE(selection.keeps("model/a.bias"));
  EXPECT_FALSE(selection.keeps("optimizer/model"));
}

// ---- loops ----

Result<uint64_t> sizes(const std::string& word) {
  return word == "H" ? uint64_t{3} : word == "K" ? uint64_t{2} : uint64_t{0};
}

class MapView : public ::testing::Test {
 protected:
  // Elements of `shape`, each its own number, as `pieces` of a file.
  void source(const Shape& shape, std::vector<ForeignPiece> pieces = {}) {
    numbers_.resize(*element_count(shape));
    for (size_t i = 0; i < numbers_.size(); i++) numbers_[i] = static_cast<uint32_t>(i);
    tensor_.shape = shape;
    tensor_.dtype = CKPT_DTYPE_U32;
    tensor_.pieces = std::move(pieces);
    if (tensor_.pieces.empty()) tensor_.pieces.push_back({{}, {}, std::nullopt, 0});
    view_ = View::of(shape);
  }
  // All of the computed tensor, read in ranges of `step` elements.
  std::vector<uint32_t> read(size_t step) {
    if (!tensor_.pieces[0].bytes.size) tensor_.pieces[0].bytes = files_.range_of(std::as_bytes(std::span(numbers_)));
    ComputedFile file;
    const auto place = file.add(CKPT_DTYPE_U32, CKPT_DTYPE_U32, view_.shape(), {{&tensor_, view_, 0, 0}}, files_);
    EXPECT_TRUE(place.ok()) << place.status().message();
    std::vector<uint32_t> out(place->size / 4);
    for (size_t at = 0; at < out.size(); at += step) {
      const auto bytes = std::as_writable_bytes(std::span(out)).subspan(at * 4, std::min(step, out.size() - at) * 4);
      const Status status = file.read_at(place->offset + at * 4, bytes);
      EXPECT_TRUE(status.ok()) << status.message();
    }
    return out;
  }
  Status rearrange(const std::string& text) { return view_.rearrange(*Rearrange::parse(text), sizes); }

  std::vector<uint32_t> numbers_;
  ForeignTensor tensor_;
  FileTable files_;
  View view_;
};

TEST_F(MapView, ViewPermuteAndViewAgain) {
  source(Shape::of(std::vector<uint64_t>{12, 5}));
  ASSERT_TRUE(rearrange("(H 2 d) in -> (H d 2) in").ok());
  EXPECT_EQ(to_text(view_.shape()), "[12, 5]");
  std::vector<uint32_t> expected(60);
  for (uint32_t h = 0; h < 3; h++)
    for (uint32_t i = 0; i < 2; i++)
      for (uint32_t j = 0; j < 2; j++)
        for (uint32_t c = 0; c < 5; c++) expected[(h * 4 + 2 * i + j) * 5 + c] = (h * 4 + j * 2 + i) * 5 + c;
  for (const size_t step : {60u, 7u, 1u}) EXPECT_EQ(read(step), expected) << step;
}

TEST_F(MapView, ExchangingTheSidesUndoesIt) {
  const Rearrange there = *Rearrange::parse("a (H b) (2 c) -> (c a) H b 2");
  source(Shape::of(std::vector<uint64_t>{5, 6, 4}));
  ASSERT_TRUE(view_.rearrange(there, sizes).ok());
  EXPECT_EQ(to_text(view_.shape()), "[10, 3, 2, 2]");
  EXPECT_NE(read(9), numbers_);
  auto size = [](const std::string& word) { return word == "a" ? Result<uint64_t>(5) : sizes(word); };
  ASSERT_TRUE(view_.rearrange(there.backwards(), size).ok());
  EXPECT_TRUE(view_.is_identity() || read(9) == numbers_);
  EXPECT_EQ(to_text(view_.shape()), "[5, 6, 4]");
}

TEST_F(MapView, AnyOrderOfAnyFactorsAgreesWithTheLongWay) {
  std::mt19937 random(7);
  for (int round = 0; round < 60; round++) {
    const std::vector<uint64_t> f = {1 + random() % 3, 1 + random() % 4, 1 + random() % 3, 1 + random() % 5};
    source(Shape::of(std::vector<uint64_t>{f[0] * f[1], f[2] * f[3]}));
    std::vector<int> order = {0, 1, 2, 3};
    std::shuffle(order.begin(), order.end(), random);
    const std::string word = "abcd";
    auto size = [&](const std::string& of) { return Result<uint64_t>(of == "a" ? f[0] : of == "d" ? f[3] : 0); };
    const std::string right =
        std::string("(") + word[order[0]] + ' ' + word[order[1]] + ") " + word[order[2]] + ' ' + word[order[3]];
    ASSERT_TRUE(view_.rearrange(*Rearrange::parse("(a b) (c d) -> " + right), size).ok()) << right;
    std::vector<uint32_t> expected;
    std::array<uint64_t, 4> x{};
    for (x[order[0]] = 0; x[order[0]] < f[order[0]]; x[order[0]]++)
      for (x[order[1]] = 0; x[order[1]] < f[order[1]]; x[order[1]]++)
        for (x[order[2]] = 0; x[order[2]] < f[order[2]]; x[order[2]]++)
          for (x[order[3]] = 0; x[order[3]] < f[order[3]]; x[order[3]]++)
            expected.push_back(static_cast<uint32_t>((x[0] * f[1] + x[1]) * f[2] * f[3] + x[2] * f[3] + x[3]));
    EXPECT_EQ(read(1 + random() % 50), expected) << right;
  }
}

TEST_F(MapView, PiecesOfTheSourceAreBoxesAndFlatRanges) {
  const Shape shape = Shape::of(std::vector<uint64_t>{6, 4});
  std::vector<std::vector<uint32_t>> memory;
  std::vector<ForeignPiece> boxes, ranges;
  for (const auto& [row, column, rows, columns] :
       std::vector<std::array<uint64_t, 4>>{{0, 0, 2, 4}, {2, 0, 4, 1}, {2, 1, 4, 3}}) {
    auto& elements = memory.emplace_back();
    for (uint64_t i = 0; i < rows; i++)
      for (uint64_t j = 0; j < columns; j++) elements.push_back(static_cast<uint32_t>((row + i) * 4 + column + j));
    ForeignPiece piece;
    piece.region.kind = RegionKind::kBox;
    piece.region.box = {Shape::of(std::vector<uint64_t>{row, column}), Shape::of(std::vector<uint64_t>{rows, columns})};
    boxes.push_back(piece);
  }
  for (const auto& [begin, size] : std::vector<std::pair<uint64_t, uint64_t>>{{0, 5}, {5, 18}, {23, 1}}) {
    auto& elements = memory.emplace_back();
    for (uint64_t i = 0; i < size; i++) elements.push_back(static_cast<uint32_t>(begin + i));
    ForeignPiece piece;
    piece.region.kind = RegionKind::kFlat;
    piece.region.flat_offset = begin;
    piece.region.flat_size = size;
    ranges.push_back(piece);
  }
  for (size_t i = 0; i < 3; i++) {
    boxes[i].bytes = files_.range_of(std::as_bytes(std::span(memory[i])));
    ranges[i].bytes = files_.range_of(std::as_bytes(std::span(memory[3 + i])));
  }
  std::vector<uint32_t> turned;
  for (uint32_t c = 0; c < 4; c++)
    for (uint32_t r = 0; r < 6; r++) turned.push_back(r * 4 + c);
  for (const auto& pieces : {boxes, ranges}) {
    source(shape, pieces);
    EXPECT_EQ(read(5), numbers_);
    ASSERT_TRUE(rearrange("r c -> c r").ok());
    EXPECT_EQ(read(5), turned);
  }
}

TEST_F(MapView, RefusesSizesThatDoNotFit) {
  source(Shape::of(std::vector<uint64_t>{10, 5}));
  EXPECT_EQ(rearrange("(H d) in -> d H in").code(), CKPT_MISMATCH);
  EXPECT_EQ(rearrange("a b c -> c b a").code(), CKPT_MISMATCH);
  EXPECT_EQ(rearrange("(a b) c -> a b c").code(), CKPT_INVALID);
  EXPECT_EQ(view_.narrow(0, 8, 3).code(), CKPT_MISMATCH);
  EXPECT_EQ(view_.narrow(2, 0, 1).code(), CKPT_MISMATCH);
  for (const char* text : {"a b", "a -> b", "(a -> a", "a a -> a a", "a ((b)) -> a b", "0 a -> a 0", "a- -> a-"})
    EXPECT_EQ(Rearrange::parse(text).status().code(), CKPT_INVALID) << text;
}

TEST_F(MapView, SaysWhatADimensionWasPutTogetherOfThatCannotBeCut) {
  source(Shape::of(std::vector<uint64_t>{6, 4}));
  ASSERT_TRUE(rearrange("(a 2) b -> (2 a) b").ok());
  const Status status = rearrange("(a 2) b -> a 2 b");
  EXPECT_EQ(status.code(), CKPT_MISMATCH);
  EXPECT_NE(status.message().find("put it together of 2 x 3"), std::string::npos) << status.message();
}

// ---- mappings ----

TEST(Mapping, RefusesWhatHasNoMeaning) {
  for (const char* rules : {R"([{"to": "a"}])", R"([{"match": "a"}])", R"([{"match": "a", "to": "b", "drop": true}])",
                            R"([{"match": "a", "to": "b", "oops": 1}])", R"([{"match": "{i}.a", "to": "b"}])",
                            R"([{"match": ["a", "b"], "to": "c"}])", R"([{"match": "a", "to": ["b", "c"]}])",
                            R"([{"match": "a", "to": ["b", "c"], "split": {"dim": 0, "sizes": [1]}}])",
                            R"([{"match": "a", "to": "b", "cast": "f33"}])",
                            R"([{"match": "a", "to": "b", "ops": [{"turn": 1}]}])", R"({})", R"([1])"}) {
    const auto mapping = Mapping::parse(std::string(R"({"rules": )") + rules + "}", "m");
    EXPECT_EQ(mapping.status().code(), CKPT_INVALID) << rules;
  }
  for (const char* text : {"", "[]", R"({"rules": [], "else": 1})", R"({"rules": [], "unmatched": "x"})"})
    EXPECT_EQ(Mapping::parse(text, "m").status().code(), CKPT_INVALID) << text;
}

TEST(Mapping, SaysWhichRuleDoesNotRunBackwards) {
  const auto back =
      Mapping::parse(R"({"rules": [{"match": "a", "to": "b"}, {"match": "c", "to": "d", "cast": "f16"}]})", "m")
          ->backwards();
  EXPECT_EQ(back.status().code(), CKPT_UNSUPPORTED);
  EXPECT_NE(back.status().message().find("rule 2 (c)"), std::string::npos) << back.status().message();
}

TEST(Mapping, VariablesTakeTheFirstExpressionThatIsKnown) {
  Variables variables;
  variables.define("H", {"config.heads"});
  variables.define("K", {"config.kv_heads", "H"});
  variables.define("D", {"config.text.hidden / H"});
  variables.define("L", {"L"});
  EXPECT_EQ(variables.evaluate("H").status().code(), CKPT_NOT_FOUND);
  ASSERT_TRUE(variables.use_config(R"({"heads": 4, "kv_heads": null, "text": {"hidden": 12}, "z": -1})", "c").ok());
  EXPECT_EQ(*variables.evaluate("2 * K * D"), 24u);
  EXPECT_EQ(variables.evaluate("D / 2").status().code(), CKPT_MISMATCH);
  EXPECT_EQ(variables.evaluate("L").status().code(), CKPT_INVALID);
  EXPECT_EQ(*variables.size_of("in"), 0u);
  EXPECT_EQ(variables.use_config("[", "c").code(), CKPT_FORMAT);
}

TEST(Mapping, VariablesThatNameEachOtherAreToldOnce) {
  Variables variables;
  for (int i = 0; i < 24; i++) {
    std::string terms = strformat("x{}", i + 1);
    for (int k = 1; k < 40; k++) terms += strformat("*x{}", i + 1);
    variables.define(strformat("x{}", i), {terms});
  }
  variables.define("x24", {"1"});
  EXPECT_EQ(*variables.evaluate("x0"), 1u);  // 40^24 terms, each by itself
  EXPECT_EQ(variables.values().size(), 25u);
  for (int i = 0; i < 100; i++) variables.define(strformat("y{}", i), {strformat("y{}", i + 1)});
  EXPECT_EQ(variables.evaluate("y0").status().code(), CKPT_INVALID) << "a chain without end";
}

TEST(Mapping, RefusesWhatIsDeepOrLong) {
  const std::string deep = std::string(200000, '[') + std::string(200000, ']');
  for (const std::string& text :
       {R"({"rules": [], "unmatched": )" + deep + "}", R"({"rules": [{"match": )" + deep + R"(, "to": "a"}]})",
        R"({"rules": [], "vars": {"x": )" + deep + "}}", R"({"rules": [], "about": )" + deep + "}",
        R"({"rules": [], "vars": {"x": ")" + std::string(5000, '1') + R"("}})"})
    EXPECT_EQ(Mapping::parse(text, "m").status().code(), CKPT_INVALID) << text.substr(0, 60);
  Variables variables;
  EXPECT_EQ(variables.use_config(R"({"a": )" + deep + "}", "c").code(), CKPT_FORMAT);
}

class MapCalls : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    ::setenv("CKPT_MAPS", CKPT_SOURCE_DIR "/maps", 1);
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
  const std::string fixtures = CKPT_SOURCE_DIR "/tests/interop/fixtures/maps/";
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
