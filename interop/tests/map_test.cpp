// Mappings: names, loops over elements and rules.
#include <cstdlib>
#include <map>
#include <random>

#include "interop/src/client.h"
#include "interop/src/map/change.h"
#include "interop/src/map/computed.h"
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

}  // namespace
}  // namespace ckpt::interop
