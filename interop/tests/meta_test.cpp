// Meta's consolidated.NN.pth: several files are one model, and one model goes out in any number of files.
#include <filesystem>

#include "interop/src/sets/format.h"
#include "sets_fixture.h"

namespace ckpt::interop {
namespace {

using Meta = Sets;

// The model of two processes, each with its half.
std::vector<SavedTensor> half(unsigned seed, int64_t embeddings_rows, int64_t embeddings) {
  return {floats("tok_embeddings.weight", {embeddings_rows, embeddings}, seed),
          floats("norm.weight", {4}, 5),
          floats("output.weight", {3, 4}, seed + 10),
          floats("layers.0.attention.wq.weight", {2, 4}, seed + 20),
          floats("layers.0.attention.wo.weight", {4, 2}, seed + 30),
          floats("layers.0.ffn_norm.weight", {4}, 6)};
}

std::string side_by_side(const std::string& a, const std::string& b, size_t row) {
  std::string out;
  for (size_t at = 0; at < a.size(); at += row) out += a.substr(at, row) + b.substr(at, row);
  return out;
}

TEST_F(Meta, MetasFilesHoldBoxesOfTheTensors) {
  for (const bool llama3 : {false, true}) {
    const std::string folder = llama3 ? "three" : "two";
    const auto a = half(1, llama3 ? 3 : 6, llama3 ? 4 : 2), b = half(2, llama3 ? 3 : 6, llama3 ? 4 : 2);
    pt(folder + "/consolidated.00.pth", a);
    pt(folder + "/consolidated.01.pth", b);
    write_file(path(folder + "/params.json"), "{}");
    const std::string label = imported(folder);
    EXPECT_EQ(values(label, "tok_embeddings.weight", 96),
              llama3 ? a[0].data + b[0].data : side_by_side(a[0].data, b[0].data, 8));
    EXPECT_EQ(values(label, "norm.weight", 16), a[1].data);
    EXPECT_EQ(values(label, "output.weight", 96), a[2].data + b[2].data);
    EXPECT_EQ(values(label, "layers.0.attention.wq.weight", 64), a[3].data + b[3].data);
    EXPECT_EQ(values(label, "layers.0.attention.wo.weight", 64), side_by_side(a[4].data, b[4].data, 8));
  }
}

TEST_F(Meta, MetasFilesOfDifferentModelsAreRefused) {
  auto b = half(2, 3, 4);
  pt("m/consolidated.00.pth", half(1, 3, 4));
  pt("m/consolidated.02.pth", b);
  EXPECT_EQ(import_from(path("m"), "l").code, CKPT_INCOMPLETE);
  std::filesystem::rename(path("m/consolidated.02.pth"), path("m/consolidated.01.pth"));
  EXPECT_EQ(import_from(path("m"), "k").code, CKPT_OK);
  b[1] = floats("norm.weight", {4}, 99);
  std::filesystem::remove(path("m/consolidated.01.pth"));
  pt("m/consolidated.01.pth", b);
  EXPECT_EQ(detail(import_from(path("m"), "l"), "tensor"), "norm.weight");
  b.pop_back();
  std::filesystem::remove(path("m/consolidated.01.pth"));
  pt("m/consolidated.01.pth", b);
  EXPECT_EQ(import_from(path("m"), "l").code, CKPT_FORMAT);
}

TEST_F(Meta, WhatTorchMakesOfElementsIsTrueOfAllFilesOrRefused) {
  const auto file = [&](const std::string& name, const std::string& mark) {
    const std::string part = record("torch.Tensor", R"("data":)" + leaf("output.weight") + R"(,"neg":)" + mark);
    save(name, {{floats("output.weight", {3, 4}), floats("norm.weight", {4}, 5)},
                {},
                R"({"output.weight":)" + part + R"(,"norm.weight":)" + leaf("norm.weight") + "}"});
    return name;
  };
  const std::string plain = file("plain", "false"), negated = file("negated", "true");
  size_t count = 0;
  const auto import_of = [&](const std::string& first, const std::string& second) {
    const std::string folder = path("m" + std::to_string(count++));
    std::filesystem::create_directory(folder);
    EXPECT_EQ(export_to(folder + "/consolidated.00.pth", first).code, CKPT_OK);
    EXPECT_EQ(export_to(folder + "/consolidated.01.pth", second).code, CKPT_OK);
    return import_from(folder, "m" + std::to_string(count)).code;
  };
  EXPECT_EQ(import_of(plain, negated), CKPT_UNSUPPORTED);
  EXPECT_EQ(import_of(negated, plain), CKPT_UNSUPPORTED);
  EXPECT_EQ(import_of(negated, negated), CKPT_OK);
  EXPECT_NE(tree_of("m3", "import").find(R"("neg":true)"), std::string::npos);
}

// Of the model of `files` processes what the one of that number has; sizes divide by 8.
std::vector<SavedTensor> meta_part(unsigned number, int64_t files, bool llama3) {
  const std::string layer = "layers.0.";
  const auto part = [&](const std::string& name, int64_t rows, int64_t columns) {
    return floats(name, {rows, columns}, 1000 * number + static_cast<unsigned>(name.size()));
  };
  return {llama3 ? part("tok_embeddings.weight", 24 / files, 16) : part("tok_embeddings.weight", 24, 16 / files),
          floats("norm.weight", {16}, 1),
          part("output.weight", 24 / files, 16),
          part(layer + "attention.wq.weight", 16 / files, 16),
          part(layer + "attention.wk.weight", 8 / files, 16),
          part(layer + "attention.wv.weight", 8 / files, 16),
          part(layer + "attention.wo.weight", 16, 16 / files),
          part(layer + "feed_forward.w1.weight", 40 / files, 16),
          part(layer + "feed_forward.w3.weight", 40 / files, 16),
          part(layer + "feed_forward.w2.weight", 16, 40 / files),
          floats(layer + "ffn_norm.weight", {16}, 2),
          floats("rope.freqs", {2}, 3)};
}

TEST_F(Meta, MetasFilesGoOutAsTheyCameInOrInAnotherNumber) {
  const auto same = [&](const std::string& a, const std::string& b) {
    std::vector<std::string> found = differences(imported(a), "import", imported(b), "import");
    std::erase_if(found, [](const std::string& text) { return text.find("attribute") != std::string::npos; });
    return found.empty() ? std::string() : a + " and " + b + ": " + found[0];
  };
  for (const int64_t files : {2, 4})
    for (const bool llama3 : {false, true}) {
      const std::string folder = strformat("{}-{}", files, llama3 ? "three" : "two");
      const auto name = [](int64_t file) { return strformat("/consolidated.{:02}.pth", file); };
      for (int64_t i = 0; i < files; i++) pt(folder + name(i), meta_part(static_cast<unsigned>(i), files, llama3));
      const std::string label = imported(folder);
      const auto out = [&](const std::string& to, const char* shards) {
        std::vector<std::pair<const char*, const char*>> settings{{"format", "meta"}};
        if (shards) settings.emplace_back("shards", shards);
        const Failure failure = export_to(path(to), label, settings, "import");
        EXPECT_EQ(failure.code, CKPT_OK) << failure.message;
      };
      out(folder + "-again", nullptr);
      EXPECT_EQ(names_in_directory(path(folder + "-again"), nullptr), names_in_directory(path(folder), nullptr));
      for (int64_t i = 0; i < files; i++) EXPECT_EQ(same(folder + name(i), folder + "-again" + name(i)), "");
      out(folder + "-one", "1");
      EXPECT_EQ(names_in_directory(path(folder + "-one"), nullptr), std::vector<std::string>({"consolidated.00.pth"}));
      out(folder + "-eight", "8");
      EXPECT_EQ(names_in_directory(path(folder + "-eight"), nullptr).size(), 8u);
      for (const char* to : {"-one", "-eight"}) EXPECT_EQ(same(folder, folder + to), "");
      // Of one file nothing says how embeddings are divided; their number does, and both ways are read.
      const std::string one = imported(folder + "-one");
      const Failure failure = export_to(path(folder + "-two"), one, {{"format", "meta"}, {"shards", "2"}}, "import");
      EXPECT_EQ(failure.code, CKPT_OK) << failure.message;
      EXPECT_EQ(same(folder, folder + "-two"), "");
    }
}

TEST_F(Meta, TheNumberOfMetasEmbeddingsTellsWhetherTheyAreDivided) {
  for (const bool many : {false, true}) {
    const std::string folder = many ? "many" : "few";
    const int64_t rows = many ? 1 << 16 : 32000;
    save(folder, {{floats("tok_embeddings.weight", {rows, 2}, 1), floats("norm.weight", {2}, 2)}, {}, ""});
    ASSERT_EQ(export_to(path(folder), folder, {{"format", "meta"}, {"shards", "2"}}).code, CKPT_OK);
    const std::string part = imported(folder + "/consolidated.01.pth");
    const std::string whole = floats("", {rows, 2}, 1).data,
                      row = values(part, "tok_embeddings.weight", whole.size() / 2);
    EXPECT_EQ(row.substr(0, 4), many ? whole.substr(whole.size() / 2, 4) : whole.substr(4, 4));
  }
}

// Columns of a computed tensor, among them such that are more than are computed at once.
TEST_F(Meta, MappedWeightsAreDividedAmongMetasFiles) {
  const auto wo = floats("a.wo.weight", {1100, 1024}, 7), norm = floats("a.norm.weight", {4}, 1);
  save("s", {{wo, norm}, {}, ""});
  write_file(path("map.json"),
             R"({"rules": [{"match": "a.wo.weight", "to": "layers.0.attention.wo.weight", "ops": ["i j -> j i"]},)"
             R"( {"match": "a.norm.weight", "to": "norm.weight"}]})");
  const std::string map = path("map.json");
  const Failure out = export_to(path("m"), "s", {{"format", "meta"}, {"shards", "4"}, {"map", map.c_str()}});
  ASSERT_EQ(out.code, CKPT_OK) << out.message;
  const std::string label = imported("m"), found = values(label, "layers.0.attention.wo.weight", wo.data.size());
  std::string expected(wo.data.size(), '\0');
  for (size_t i = 0; i < 1100; i++)
    for (size_t j = 0; j < 1024; j++) expected.replace((j * 1100 + i) * 4, 4, wo.data.substr((i * 1024 + j) * 4, 4));
  EXPECT_TRUE(found == expected);
}

TEST_F(Meta, WhatIsNoModelOfMetasIsNotDivided) {
  const auto refused = [&](const std::string& label, const char* shards, ckpt_status code, const std::string& text) {
    const Failure out = export_to(path("out"), label, {{"format", "meta"}, {"shards", shards}});
    EXPECT_EQ(out.code, code);
    EXPECT_NE(out.message.find(text), std::string::npos) << out.message;
    EXPECT_FALSE(std::filesystem::exists(path("out")));
  };
  save("hf", {{floats("model.norm.weight", {4}, 1)}, {}, ""});
  refused("hf", "2", CKPT_MISMATCH, "llama-hf-to-meta");
  save("odd", {{floats("norm.weight", {4}, 1), floats("layers.0.attention.wo.weight", {4, 6}, 2)}, {}, ""});
  refused("odd", "4", CKPT_MISMATCH, "the 6 columns of");
  refused("odd", "100", CKPT_INVALID, "up to 99");
  save("value",
       {{floats("norm.weight", {4}, 1)}, {}, R"({"norm.weight":)" + leaf("norm.weight") + R"(,"output.weight":3})"});
  refused("value", "2", CKPT_MISMATCH, "is no tensor");
  save("list", {{floats("norm.weight", {4}, 1)}, {}, "[" + leaf("norm.weight") + "]"});
  refused("list", "2", CKPT_MISMATCH, "no dict");
}

}  // namespace
}  // namespace ckpt::interop
