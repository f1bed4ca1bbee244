// Files of which there are many and each needs little: numpy's, plain pickles, .nemo, adapters, variants and pipelines
// of Hugging Face; pointers to what is not there; and what only and exclude leave out before it is an error.
#include <filesystem>

#include "dcp_fixture.h"
#include "interop/src/client.h"
#include "interop/src/composer/tar.h"
#include "pt_fixture.h"
#include "sets_fixture.h"
#include "zip_fixture.h"

namespace ckpt::interop {
namespace {

using namespace pickled;

// A .npy of version 1.
std::string npy(const std::string& descr, const std::string& shape, const std::string& data, bool columns = false) {
  std::string dict =
      "{'descr': " + descr + ", 'fortran_order': " + (columns ? "True" : "False") + ", 'shape': " + shape + ", }";
  dict.append(63 - (10 + dict.size()) % 64, ' ') += '\n';
  return "\x93NUMPY\x01" + std::string(1, '\0') + little(static_cast<uint16_t>(dict.size())) + dict + data;
}

std::string array_of(const std::string& name, const std::string& more = "") {
  return R"({"$":"record","class":"numpy.ndarray","items":{"data":)" + leaf(name) + more + "}}";
}

TEST_F(Sets, ArraysOfNumpyAreReadWhereTheyLieOrUnpacked) {
  const std::string six = floats("", {6}, 1).data, b = npy("'<f4'", "(2, 3)", six),
                    c = npy("'<f4'", "(3, 2)", six, true);
  ZipItem packed{"b.npy", deflated(b), false, 8};
  packed.size = b.size();
  packed.crc = crc_of(b);
  write_file(path("x.npz"), make_zip({{"a/w.npy", b}, packed, {"c.npy", c}}).bytes);
  const std::string label = imported("x.npz");
  EXPECT_EQ(tree_of(label, "import"), R"({"a/w":)" + array_of("a~1w") + R"(,"b":)" + array_of("b") + R"(,"c":)" +
                                          array_of("c", R"(,"order":"F")") + "}");
  EXPECT_EQ(values(label, "a~1w", 24), six);
  EXPECT_EQ(values(label, "b", 24), six);
  std::string turned;
  for (const size_t at : {0, 3, 1, 4, 2, 5}) turned += six.substr(at * 4, 4);
  EXPECT_EQ(values(label, "c", 24), turned);
  write_file(path("x.npy"), b);
  EXPECT_EQ(tree_of(imported("x.npy"), "import"), array_of("state"));
}

// As ckpt.save() has them: bytes, and the dtype that Python makes of them.
TEST_F(Sets, ArraysOfTextDatesAndOtherNumbersAreBytesWithTheirDtype) {
  struct Case {
    std::string name, dtype;
    size_t width;
  };
  std::vector<ZipItem> items;
  const std::vector<Case> cases = {{"text", "<U2", 8},        {"bytes", "|S3", 3}, {"date", "<M8[D]", 8},
                                   {"delta", "<m8[25us]", 8}, {"big", ">f4", 4},   {"long", "<f16", 16},
                                   {"void", "|V5", 5},        {"one", "|S1", 1},   {"bigtext", ">U1", 4}};
  std::string data(64, '\0');
  for (size_t i = 0; i < data.size(); i++) data[i] = static_cast<char>('A' + i);
  for (const Case& one : cases)
    items.push_back({one.name + ".npy", npy("'" + one.dtype + "'", "(2,)", data.substr(0, 2 * one.width))});
  items.push_back({"turned.npy", npy("'>i2'", "(2, 3)", data.substr(0, 12), true)});
  write_file(path("x.npz"), make_zip(items).bytes);
  const std::string label = imported("x.npz");
  const std::string tree = tree_of(label, "import");
  for (const Case& one : cases) {
    const std::string record = array_of(one.name, R"(,"dtype":")" + one.dtype + "\"");
    EXPECT_NE(tree.find(R"(")" + one.name + R"(":)" + record), std::string::npos) << record << " in " << tree;
    EXPECT_EQ(values(label, one.name, 2 * one.width), data.substr(0, 2 * one.width));
  }
  std::string rows;
  for (const size_t at : {0, 2, 4, 1, 3, 5}) rows += data.substr(at * 2, 2);
  EXPECT_EQ(values(label, "turned", 12), rows);
  for (const char* none : {"|O", "<U0", "<f", "<x4", "<M8", "<M4[D]", "<f4[D]", "f4", "<U99999999", "<U-1"}) {
    write_file(path("x.npy"), npy(std::string("'") + none + "'", "(1,)", data));
    EXPECT_EQ(import_from(path("x.npy"), "none").code, CKPT_UNSUPPORTED) << none;
  }
  write_file(path("x.npy"), npy("'<U9'", "(2,)", data));
  EXPECT_EQ(import_from(path("x.npy"), "none").code, CKPT_FORMAT) << "72 bytes are not there";
}

TEST_F(Sets, AnArrayThatCannotBeHadIsLeftOutByName) {
  write_file(path("x.npz"), make_zip({{"o.npy", npy("'|O'", "(2,)", "12345678")},
                                      {"short.npy", npy("'<f8'", "(2,)", "12345678")},
                                      {"w.npy", npy("'<f4'", "(1,)", "abcd")}})
                                .bytes);
  const Failure in = import_from(path("x.npz"), "l");
  EXPECT_EQ(in.code, CKPT_UNSUPPORTED);
  EXPECT_NE(in.message.find("option exclude=o leaves it out"), std::string::npos) << in.message;
  EXPECT_EQ(import_from(path("x.npz"), "l", {}, {{"exclude", "o"}}).code, CKPT_FORMAT);
  EXPECT_EQ(import_from(path("x.npz"), "l", {}, {{"only", "w"}}).code, CKPT_OK);
  EXPECT_EQ(values("l", "w", 4), "abcd");
}

TEST_F(Sets, ACompressedArrayIsHeldAgainstItsChecksumAndUnpacksWithinMeasure) {
  const std::string b = npy("'<f4'", "(2, 3)", floats("", {6}, 1).data);
  ZipItem packed{"b.npy", deflated(b), false, 8};
  packed.size = b.size();
  packed.crc = crc_of("another");
  write_file(path("x.npz"), make_zip({packed}).bytes);
  EXPECT_EQ(import_from(path("x.npz"), "l").code, CKPT_CORRUPT);
  packed.size = 1 << 30;
  write_file(path("x.npz"), make_zip({packed}).bytes);
  const Failure in = import_from(path("x.npz"), "l");
  EXPECT_EQ(in.code, CKPT_FORMAT);
  EXPECT_NE(in.message.find("bytes at most: expected 67108864"), std::string::npos) << in.message;
}

TEST_F(Sets, APickleIsReadWithoutTorch) {
  write_file(path("x.pkl"), "\x80\x04" + dict({text("step"), integer(3)}) + ".");
  EXPECT_EQ(tree_of(imported("x.pkl"), "import"), R"({"step":3})");
  // What nobody would load is no part of one.
  write_file(path("x.pkl"), "\x80\x04" + dict({text("step"), integer(3)}) + ".\x80\x04N.");
  const Failure in = import_from(path("x.pkl"), "l");
  EXPECT_EQ(in.code, CKPT_FORMAT);
  EXPECT_NE(in.message.find("and 4 bytes follow"), std::string::npos) << in.message;
}

TEST_F(Sets, WhatIsChosenIsChosenBeforeAnythingElseCanFail) {
  const std::string bad = call(global("os", "system"), {text("id")});
  const std::string w = tensor(storage("0", "FloatStorage", 4), 0, {4}, {1});
  for (const std::string& whole :
       {bad, list({integer(1), dict({text("k"), bad})}), std::string("\x82\x05"),
        std::string(300, ']') + "N" + std::string(300, 'a'), tensor(storage("0", "FloatStorage", 4), 0, {5}, {1})}) {
    write_file(path("x.pt"),
               pt_of(dict({text("model"), dict({text("w"), w}), text("whole"), whole}), {{"0", "0123456789abcdef"}}));
    EXPECT_NE(import_from(path("x.pt"), "l").code, CKPT_OK);
    for (const auto& [option, value] : {std::pair{"only", "model"}, {"only", "*w"}, {"exclude", "whole"}}) {
      const std::string label = "l" + std::to_string(saves_++);
      const Failure in = import_from(path("x.pt"), label, {}, {{option, value}});
      ASSERT_EQ(in.code, CKPT_OK) << option << in.message;
      EXPECT_EQ(tree_of(label, "import"), R"({"model":{"w":)" + leaf("model/w") + "}}");
    }
  }
}

TEST_F(Sets, DamageOfWhatIsLeftOutIsNoError) {
  pt("checkpoint-5/pytorch_model.bin", {floats("w", {2}, 1), floats("v", {2}, 2)});
  std::string bytes = read_file(path("checkpoint-5/pytorch_model.bin"));
  bytes[bytes.find(floats("v", {2}, 2).data)] ^= 1;
  write_file(path("checkpoint-5/pytorch_model.bin"), bytes);
  EXPECT_EQ(import_from(path("checkpoint-5/pytorch_model.bin"), "l").code, CKPT_CORRUPT);
  EXPECT_EQ(import_from(path("checkpoint-5/pytorch_model.bin"), "file", {}, {{"exclude", "v"}}).code, CKPT_OK);
  write_file(path("checkpoint-5/optimizer.pt"), "no .pt");
  write_file(path("checkpoint-5/trainer_state.json"), "{}");
  const Failure in = import_from(path("checkpoint-5"), "l", {}, {{"exclude", "model/v"}});
  EXPECT_EQ(in.code, CKPT_FORMAT);
  EXPECT_NE(in.message.find("option exclude=optimizer leaves it out"), std::string::npos) << in.message;
  EXPECT_EQ(import_from(path("checkpoint-5"), "set", {}, {{"exclude", "model/v,optimizer"}}).code, CKPT_OK);
  EXPECT_EQ(import_from(path("checkpoint-5"), "only", {}, {{"only", "model/w"}}).code, CKPT_OK);
}

// Of each directory or file `bad` cannot be had, and is nobody's who leaves it out or chooses `good`.
TEST_F(Sets, FilesTensorsAndPartsThatCannotBeHadAreLeftOutByName) {
  const SavedTensor good = floats("good", {2}, 1);
  save("good", {{good}, {}, ""});
  const auto safetensors = [&](const std::string& to) {
    std::filesystem::create_directories(std::filesystem::path(path(to)).parent_path());
    ASSERT_EQ(export_to(path(to), "good").code, CKPT_OK);
  };
  safetensors("set/model-00001-of-00002.safetensors");
  index("set/model.safetensors.index.json",
        R"("good": "model-00001-of-00002.safetensors", "bad": "model-00002-of-00002.safetensors")");
  pt("bin/pytorch_model-00001-of-00002.bin", {good});
  index("bin/pytorch_model.bin.index.json",
        R"("good": "pytorch_model-00001-of-00002.bin", "bad": "pytorch_model-00002-of-00002.bin")");
  write_file(path("x.safetensors"),
             file_of(padded("{" + entry("good", "F32", "[1]", 0, 4) + "," + entry("bad", "F99", "[1]", 4, 8) + "}"),
                     "abcdefgh"));
  safetensors("tune/epoch_0/model-00001-of-00001.safetensors");
  safetensors("acc/model.safetensors");
  safetensors("pipe/unet/diffusion_pytorch_model.safetensors");
  for (const char* folder : {"tune/recipe_state", "pipe/vae"}) std::filesystem::create_directories(path(folder));
  write_file(path("pipe/model_index.json"), "{}");
  for (const char* file :
       {"tune/recipe_state/recipe_state.pt", "acc/random_states_0.pkl", "pipe/vae/diffusion_pytorch_model.safetensors"})
    write_file(path(file), "no file of torch");
  const std::string storage = call(global("torch.storage", "_load_from_bytes"), {text("x")});
  write_file(path("x.pkl"),
             "\x80\x04" + dict({text("good"), integer(1), text("bad"), tensor(storage, 0, {1}, {1})}) + ".");
  for (const auto& [from, bad, chosen] : {std::tuple("set", "bad", "good"),
                                          {"bin", "bad", "good"},
                                          {"x.safetensors", "bad", "good"},
                                          {"tune", "recipe_state", "model"},
                                          {"acc", "random_states", "model"},
                                          {"pipe", "vae", "unet"},
                                          {"x.pkl", "bad", "model"}}) {
    const Failure in = import_from(path(from), "l");
    EXPECT_NE(in.code, CKPT_OK) << from;
    EXPECT_NE(in.message.find(std::string("option exclude=") + bad), std::string::npos) << from << in.message;
    const std::string label = "l" + std::to_string(saves_++);
    const Failure without = import_from(path(from), label, {}, {{"exclude", bad}});
    EXPECT_EQ(without.code, CKPT_OK) << from << without.message;
    const Failure only = import_from(path(from), label + "-only", {}, {{"only", chosen}, {"strict", "none"}});
    EXPECT_EQ(only.code, CKPT_OK) << from << only.message;
  }
  EXPECT_EQ(import_from(path("set"), "m").code, CKPT_NOT_FOUND);
}

TEST_F(Sets, OfAFileThatIsMissingAllTensorsAreSaidAtOnce) {
  save("w", {{floats("w", {2}, 1)}, {}, ""});
  std::filesystem::create_directories(path("set"));
  ASSERT_EQ(export_to(path("set/a.safetensors"), "w").code, CKPT_OK);
  index("set/model.safetensors.index.json", R"("w": "a.safetensors", "x": "b.safetensors", "y": "b.safetensors")");
  const Failure in = import_from(path("set"), "l");
  EXPECT_EQ(in.code, CKPT_NOT_FOUND);
  EXPECT_NE(in.message.find("option exclude=x,y leaves out all 2"), std::string::npos) << in.message;
  EXPECT_EQ(import_from(path("set"), "l", {}, {{"exclude", "x,y"}}).code, CKPT_OK);
  // Of very many some are named, in an error that stays a line.
  std::string many = R"("w": "a.safetensors")";
  for (int i = 0; i < 900; i++) many += strformat(R"(, "tensor.{}": "b.safetensors")", i);
  index("set/model.safetensors.index.json", many);
  const Failure long_one = import_from(path("set"), "l");
  EXPECT_LT(long_one.message.size(), 1024u);
  EXPECT_NE(long_one.message.find("option exclude=tensor.0 leaves it out; 899 more need the same"), std::string::npos)
      << long_one.message;
}

TEST_F(Sets, TheIndexOfAVariantThatIsReadIsNotLeftOut) {
  const SavedTensor w = floats("w", {2}, 1);
  save("w", {{w}, {}, ""});
  std::filesystem::create_directory(path("v"));
  ASSERT_EQ(export_to(path("v/model.fp16-00001-of-00001.safetensors"), "w").code, CKPT_OK);
  index("v/model.safetensors.index.fp16.json", R"("w": "model.fp16-00001-of-00001.safetensors")");
  index("v/model.safetensors.index.bf16.json", R"("w": "model.bf16-00001-of-00001.safetensors")");
  ASSERT_EQ(import_from(path("v/model.safetensors.index.fp16.json"), "one").code, CKPT_OK);
  EXPECT_NE(import_from(path("v"), "two").code, CKPT_OK);
  std::filesystem::remove(path("v/model.safetensors.index.bf16.json"));
  ckpt_reader* reader = open(imported("v"), "import");
  EXPECT_EQ(ckpt_reader_attr(reader, nullptr, "import.left_out"), nullptr);
  ckpt_reader_free(reader);
}

TEST_F(Sets, PrefixesOfWrappersAreTakenOffInAnyOrder) {
  const auto of = [&](const std::vector<std::string>& names) {
    std::vector<SavedTensor> tensors;
    for (const std::string& name : names) tensors.push_back(floats(name, {1}, 1));
    const std::string file = "w" + std::to_string(saves_) + ".pt", label = "p" + file;
    pt(file, tensors);
    EXPECT_EQ(import_from(path(file), label, {}, {{"prefixes", "auto"}}).code, CKPT_OK);
    return tree_of(label, "import");
  };
  const std::string plain = R"({"a.w":)" + leaf("a.w") + R"(,"b":)" + leaf("b") + "}";
  EXPECT_EQ(of({"_orig_mod.module.a.w", "_orig_mod.module.b"}), plain);
  EXPECT_EQ(of({"module._orig_mod.a._checkpoint_wrapped_module.w", "module._orig_mod.b"}), plain);
  EXPECT_EQ(of({"module.a.w", "b"}), R"({"module.a.w":)" + leaf("module.a.w") + R"(,"b":)" + leaf("b") + "}");
  EXPECT_EQ(of({"_orig_mod.b", "b"}), R"({"_orig_mod.b":)" + leaf("_orig_mod.b") + R"(,"b":)" + leaf("b") + "}");
}

TEST_F(Sets, ANemoFileIsTheWeightsInIt) {
  pt("w.pt", {floats("w", {2}, 1)});
  const auto file = [](const std::string& name, std::string data) {
    const std::string header = tar_header(name, data.size());
    data.resize(round_up(data.size(), kTarBlock));
    return header + data;
  };
  const std::string config = file("./model_config.yaml", "a: 1\n"), end(2 * kTarBlock, '\0');
  write_file(path("m.nemo"), config + file("./model_weights.ckpt", read_file(path("w.pt"))) + end);
  const std::string label = imported("m.nemo");
  EXPECT_EQ(tree_of(label, "import"), R"({"w":)" + leaf("w") + "}");
  EXPECT_EQ(client::Reader(open(label, "import")).attr("nemo.config"), std::optional<std::string>("a: 1\n"));
  write_file(path("n.nemo"), config + end);
  EXPECT_NE(import_from(path("n.nemo"), "l").message.find("model_weights.ckpt"), std::string::npos);
  write_file(path("n.nemo"), config + file("./model_weights/.metadata", "x") + end);
  EXPECT_NE(import_from(path("n.nemo"), "l").message.find("import its model_weights"), std::string::npos);
}

// ---- Hugging Face ----

class HuggingFace : public Sets {
 protected:
  void safetensors(const std::string& file, const std::string& tensor) {
    std::filesystem::create_directories(std::filesystem::path(path(file)).parent_path());
    write_file(path(file), file_of(padded("{" + entry(tensor, "F32", "[1]", 0, 4) + "}"), "abcd"));
  }
  std::string tensors(const std::string& from) { return tree_of(imported(from), "import"); }
  static std::string dict_of(const std::string& name) { return "{\"" + name + "\":" + leaf(name) + "}"; }
};

TEST_F(HuggingFace, AnIndexOfAVariantIsReadAndWrittenAgain) {
  safetensors("m/model.bf16-00001-of-00002.safetensors", "a");
  safetensors("m/model.bf16-00002-of-00002.safetensors", "b");
  index("m/model.safetensors.index.bf16.json",
        R"("a": "model.bf16-00001-of-00002.safetensors", "b": "model.bf16-00002-of-00002.safetensors")");
  const std::string label = imported("m");
  ASSERT_EQ(export_to(path("out"), label, {{"format", "safetensors"}}, "import").code, CKPT_OK);
  EXPECT_TRUE(std::filesystem::exists(path("out/model.safetensors.index.bf16.json")));
  EXPECT_FALSE(std::filesystem::exists(path("out/model.safetensors.index.json")));
  std::filesystem::remove(path("m/model.bf16-00002-of-00002.safetensors"));
  EXPECT_EQ(import_from(path("m"), "gone").code, CKPT_NOT_FOUND);
  // The model itself comes before its variants.
  safetensors("m/model.safetensors", "c");
  EXPECT_EQ(tensors("m"), dict_of("c"));
}

TEST_F(HuggingFace, TwoVariantsAreNotMixed) {
  for (const std::string variant : {"bf16", "fp16"}) {
    safetensors("m/model." + variant + "-00001-of-00001.safetensors", variant);
    index("m/model.safetensors.index." + variant + ".json",
          "\"" + variant + "\": \"model." + variant + "-00001-of-00001.safetensors\"");
  }
  EXPECT_EQ(import_from(path("m"), "l").code, CKPT_MISMATCH);
  EXPECT_EQ(tensors("m/model.safetensors.index.fp16.json"), dict_of("fp16"));
}

TEST_F(HuggingFace, AdaptersAndPipelinesAreRead) {
  pt("adapter/adapter_model.bin", {floats("lora", {2}, 1)});
  EXPECT_EQ(tensors("adapter"), dict_of("lora"));
  safetensors("pipe/unet/diffusion_pytorch_model.safetensors", "u");
  pt("pipe/vae/diffusion_pytorch_model.bin", {floats("v", {2}, 1)});
  safetensors("pipe/text_encoder/model.safetensors", "t");
  write_file(path("pipe/model_index.json"), "{}");
  EXPECT_EQ(tensors("pipe"), R"({"text_encoder":{"t":)" + leaf("text_encoder/t") + R"(},"unet":{"u":)" +
                                 leaf("unet/u") + R"(},"vae":{"v":)" + leaf("vae/v") + "}}");
}

// ---- what is left out ----

class LeftOut : public HuggingFace {
 protected:
  std::vector<std::string> by_file(const std::string& from) {
    ckpt_file* file = nullptr;
    must([&](auto** err) { return ckpt_file_open(&file, path(from).c_str(), nullptr, err); });
    std::vector<std::string> names;
    while (const char* name = ckpt_file_left_out(file, names.size())) names.emplace_back(name);
    EXPECT_EQ(ckpt_file_left_out(file, UINT64_MAX), nullptr);
    ckpt_file_free(file);
    return names;
  }
  std::optional<std::string> by_import(const std::string& from) {
    return client::Reader(open(imported(from), "import")).attr("import.left_out");
  }
};

TEST_F(LeftOut, IsNamedByTheFileAndByTheImport) {
  safetensors("m/model.safetensors", "w");
  EXPECT_EQ(by_file("m"), std::vector<std::string>());
  EXPECT_FALSE(by_import("m").has_value());
  write_file(path("m/rng_state.pth"), "x");
  std::filesystem::create_directory(path("m/runs"));
  EXPECT_EQ(by_file("m"), (std::vector<std::string>{"rng_state.pth", "runs/"}));
  EXPECT_EQ(by_import("m"), R"(["rng_state.pth","runs/"])");
  EXPECT_EQ(by_file("m/model.safetensors"), std::vector<std::string>());
  EXPECT_EQ(ckpt_file_left_out(nullptr, 0), nullptr);
}

TEST_F(LeftOut, OfVeryManyIsCounted) {
  safetensors("m/model.safetensors", "w");
  for (int i = 0; i < 300; i++) write_file(path("m/z" + std::to_string(i)), "");
  const std::vector<std::string> names = by_file("m");
  ASSERT_EQ(names.size(), 257u);
  EXPECT_EQ(names.back(), "and 44 more");
}

// Beside the directory of DCP of its sharded strategies.
TEST_F(LeftOut, IsNotTheMetaFileOfLightningButThatOfAnotherProgram) {
  const std::string data = floats("", {2}, 1).data, w = dcp::entry({2}, data);
  const auto size = static_cast<int64_t>(w.size());
  std::filesystem::create_directory(path("d"));
  write_file(path("d/.metadata"),
             dcp::metadata({text("state_dict.w"), dcp::tensor({2}, {dcp::chunk({0}, {2})})},
                           dict({text("state_dict.w"), tuple({text("state_dict"), text("w")})}),
                           {dcp::index("state_dict.w", dcp::size({0})), dcp::place("__0_0.distcp", 0, size)}));
  write_file(path("d/__0_0.distcp"), w);
  write_file(path("d/meta.pt"), pt_of(dict({text("epoch"), integer(3)})));
  const std::string model = R"({"state_dict":{"w":)" + leaf("state_dict/w") + "}";
  const std::string label = imported("d");
  EXPECT_EQ(tree_of(label, "import"), model + R"(,"epoch":3})");
  EXPECT_EQ(values(label, "state_dict/w", 8), data);
  EXPECT_EQ(by_file("d"), std::vector<std::string>());
  write_file(path("d/meta.pt"), "no .pt");
  EXPECT_EQ(tree_of(imported("d"), "import"), model + "}");
  EXPECT_EQ(by_file("d"), std::vector<std::string>{"meta.pt"});
  EXPECT_EQ(by_import("d"), R"(["meta.pt"])");
}

// ---- pointers ----

TEST_F(HuggingFace, ANewestThatIsNotThereIsNamedWithWhatIs) {
  const auto said = [&](const std::string& from) {
    const Failure in = import_from(path(from), "l");
    EXPECT_EQ(in.code, CKPT_NOT_FOUND) << in.message;
    return in.message;
  };
  safetensors("tune/epoch_0/model-00001-of-00001.safetensors", "w");
  std::filesystem::create_directories(path("tune/epoch_1"));
  EXPECT_NE(said("tune").find("epoch_1"), std::string::npos);
  std::filesystem::create_directories(path("megatron/iter_0000001"));
  for (const char* name : {".metadata", "metadata.json", "common.pt"})
    write_file(path(std::string("megatron/iter_0000001/") + name), "");
  write_file(path("megatron/latest_checkpointed_iteration.txt"), "20");
  const std::string text = said("megatron");
  EXPECT_NE(text.find("iter_0000020"), std::string::npos) << text;
  EXPECT_NE(text.find("import one of \"iter_0000001\""), std::string::npos) << text;
}

}  // namespace
}  // namespace ckpt::interop
