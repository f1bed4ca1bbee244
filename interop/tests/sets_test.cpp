// Directories of several files: what they are told by, how the files become one state, and what is refused.
#include <filesystem>

#include "interop/src/formats.h"
#include "interop/src/read_back.h"
#include "paths.h"
#include "sets_fixture.h"

namespace ckpt::interop {
namespace {

TEST_F(Sets, BinFilesAndTheirIndexAreOneDict) {
  const SavedTensor a = floats("a.w", {2}, 1), b = floats("b.w", {3}, 2);
  pt("hf/pytorch_model-00001-of-00002.bin", {a});
  pt("hf/pytorch_model-00002-of-00002.bin", {b});
  const std::string tree = R"({"a.w":)" + leaf("a.w") + R"(,"b.w":)" + leaf("b.w") + "}";
  EXPECT_EQ(tree_of(imported("hf"), "import"), tree);
  index("hf/pytorch_model.bin.index.json",
        R"("a.w": "pytorch_model-00001-of-00002.bin", "b.w": "pytorch_model-00002-of-00002.bin")");
  const std::string label = imported("hf");
  EXPECT_EQ(tree_of(label, "import"), tree);
  EXPECT_EQ(values(label, "b.w", 12), b.data);
  EXPECT_EQ(tree_of(imported("hf/pytorch_model.bin.index.json"), "import"), tree);
}

TEST_F(Sets, ABinFileComesBeforeShardsAndTheirIndex) {
  const SavedTensor a = floats("a", {2}, 1), b = floats("b", {2}, 2);
  pt("hf/pytorch_model.bin", {a});
  pt("hf/pytorch_model-00002-of-00002.bin", {b});
  EXPECT_EQ(tree_of(imported("hf"), "import"), R"({"a":)" + leaf("a") + "}");
  index("hf/pytorch_model.bin.index.json", R"("b": "pytorch_model-00002-of-00002.bin")");
  EXPECT_EQ(tree_of(imported("hf"), "import"), R"({"a":)" + leaf("a") + "}");
  index("hf/pytorch_model.bin.index.json", R"("a": "pytorch_model.bin", "b": "pytorch_model-00002-of-00002.bin")");
  EXPECT_EQ(tree_of(imported("hf"), "import"), R"({"b":)" + leaf("b") + R"(,"a":)" + leaf("a") + "}");
}

// What torch.jit.save wrote, and torch.save of the same module's state_dict().
TEST_F(Sets, TheValuesOfATorchScriptArchiveAreThoseOfItsStateDict) {
  const std::string folder = CKPT_SOURCE_DIR "/interop/tests/fixtures/";
  ASSERT_EQ(import_from(folder + "torchscript.pt", "script").code, CKPT_OK);
  ASSERT_EQ(import_from(folder + "torchscript_state.pt", "state").code, CKPT_OK);
  EXPECT_EQ(values("script", "hidden/weight", 24), values("state", "hidden.weight", 24));
  EXPECT_EQ(values("script", "hidden/bias", 8), values("state", "hidden.bias", 8));
  EXPECT_EQ(values("script", "scale", 8), values("state", "scale", 8));
  EXPECT_NE(tree_of("script", "import").find("__torch__."), std::string::npos);
  const client::Reader reader(open("script", "import"));
  EXPECT_EQ(reader.attr("import.code"), std::optional<std::string>("forward"));
}

TEST_F(Sets, AnIndexOfBinFilesThatLiesIsRefused) {
  pt("hf/pytorch_model-00001-of-00002.bin", {floats("a", {2}, 1)});
  pt("hf/pytorch_model-00002-of-00002.bin", {floats("a", {2}, 1)});
  EXPECT_EQ(import_from(path("hf"), "l").code, CKPT_FORMAT);  // a name in two files
  index("hf/pytorch_model.bin.index.json", R"("b": "pytorch_model-00001-of-00002.bin")");
  EXPECT_EQ(detail(import_from(path("hf"), "l"), "tensor"), "b");
  index("hf/pytorch_model.bin.index.json", R"("a": "../pytorch_model-00001-of-00002.bin")");
  EXPECT_EQ(import_from(path("hf"), "l").code, CKPT_FORMAT);
  index("hf/pytorch_model.bin.index.json", R"("a": "pytorch_model-00003-of-00002.bin")");
  EXPECT_EQ(import_from(path("hf"), "l").code, CKPT_NOT_FOUND);
  index("hf/pytorch_model.bin.index.json", "");
  EXPECT_EQ(import_from(path("hf"), "l").code, CKPT_INCOMPLETE);
  EXPECT_EQ(import_from(path("hf/pytorch_model.bin.index.json"), "l").code, CKPT_INCOMPLETE);
}

TEST_F(Sets, ATrainersDirectoryIsItsWholeState) {
  pt("checkpoint-5/pytorch_model.bin", {floats("w", {2}, 1)});
  pt("checkpoint-5/optimizer.pt", {floats("state/0/exp_avg", {2}, 2)},
     R"({"state":{"$":"dict","items":[[0,{"exp_avg":)" + leaf("state/0/exp_avg") + R"(}]]},"param_groups":[]})");
  pt("checkpoint-5/scheduler.pt", {}, R"({"last_epoch":5})");
  pt("checkpoint-5/rng_state_0.pth", {floats("cpu", {1}, 3)});
  pt("checkpoint-5/rng_state_1.pth", {floats("cpu", {1}, 4)});
  write_file(path("checkpoint-5/trainer_state.json"), "{\"epoch\": 1}");
  const std::string label = imported("checkpoint-5");
  EXPECT_EQ(tree_of(label, "import"),
            R"({"model":{"w":)" + leaf("model/w") + R"(},"optimizer":{"state":{"$":"dict","items":[[0,{"exp_avg":)" +
                leaf("optimizer/state/0/exp_avg") +
                R"(}]]},"param_groups":[]},"scheduler":{"last_epoch":5},"rng_state":{"rank0":{"cpu":)" +
                leaf("rng_state/rank0/cpu") + R"(},"rank1":{"cpu":)" + leaf("rng_state/rank1/cpu") +
                R"(}},"trainer_state":"{\"epoch\": 1}"})");
  EXPECT_EQ(values(label, "rng_state/rank1/cpu", 4), floats("", {1}, 4).data);
  ckpt_reader* reader = open(label, "import");
  EXPECT_STREQ(ckpt_reader_attr(reader, nullptr, "import.files"),
               R"(["optimizer.pt","pytorch_model.bin","rng_state_0.pth","rng_state_1.pth","scheduler.pt",)"
               R"("trainer_state.json"])");
  ckpt_reader_free(reader);
}

TEST_F(Sets, TheNewestEpochOfTorchtuneAndItsRecipe) {
  for (const char* epoch : {"0", "10", "9"}) {
    const std::string at = std::string("out/epoch_") + epoch + '/';
    pt(at + "model-00001-of-00002.bin", {floats("a", {2}, static_cast<unsigned>(std::atoi(epoch)))});
    pt(at + "model-00002-of-00002.bin", {floats("b", {2}, 7)});
    pt(at + "adapter_model.pt", {floats("lora", {1}, 8)});
  }
  pt("out/recipe_state/recipe_state.pt", {floats("optimizer/m", {1}, 9)},
     R"({"optimizer":{"m":)" + leaf("optimizer/m") + R"(},"seed":3,"epochs_run":11})");
  const std::string label = imported("out");
  EXPECT_EQ(tree_of(label, "import"), R"({"model":{"a":)" + leaf("model/a") + R"(,"b":)" + leaf("model/b") +
                                          R"(},"adapter":{"lora":)" + leaf("adapter/lora") + R"(},"optimizer":{"m":)" +
                                          leaf("optimizer/m") + R"(},"seed":3,"epochs_run":11})");
  EXPECT_EQ(values(label, "model/a", 8), floats("", {2}, 10).data);
  // An adapter does not stand for a model.
  std::filesystem::remove(path("out/epoch_10/model-00002-of-00002.bin"));
  const Failure in = import_from(path("out"), "cut");
  EXPECT_EQ(in.code, CKPT_INCOMPLETE);
  EXPECT_NE(in.message.find("model-00002-of-00002.bin is missing"), std::string::npos) << in.message;
}

TEST_F(Sets, AnOlderTorchtuneHasTheEpochInItsNames) {
  pt("out/hf_model_0001_0.pt", {floats("a", {2}, 1)});
  pt("out/hf_model_0001_1.pt", {floats("a", {2}, 2)});
  pt("out/hf_model_0002_1.pt", {floats("b", {2}, 3)});
  pt("out/adapter_1.pt", {floats("lora", {1}, 4)});
  pt("out/recipe_state.pt", {}, R"({"seed":3})");
  const std::string label = imported("out");
  EXPECT_EQ(tree_of(label, "import"), R"({"model":{"a":)" + leaf("model/a") + R"(,"b":)" + leaf("model/b") +
                                          R"(},"adapter":{"lora":)" + leaf("adapter/lora") + R"(},"seed":3})");
  EXPECT_EQ(values(label, "model/a", 8), floats("", {2}, 2).data);
}

// ---- what the real programs wrote: fixtures/make_*.py ----

const std::string kFixtures = CKPT_SOURCE_DIR "/interop/tests/fixtures/";

TEST_F(Sets, ARealTrainersDirectoryIsItsWholeState) {
  ASSERT_EQ(import_from(kFixtures + "hf_trainer", "all").code, CKPT_OK);
  ASSERT_EQ(import_from(kFixtures + "hf_trainer/model.safetensors", "model").code, CKPT_OK);
  ASSERT_EQ(import_from(kFixtures + "hf_trainer/optimizer.pt", "optimizer").code, CKPT_OK);
  const std::string q = "model.layers.0.self_attn.q_proj.weight";
  EXPECT_EQ(values("all", "model/" + q, 256), values("model", q, 256));
  EXPECT_EQ(values("all", "optimizer/state/0/exp_avg", 160), values("optimizer", "state/0/exp_avg", 160));
  const std::string tree = tree_of("all", "import");
  for (const char* key : {R"("model":{)", R"("optimizer":{)", R"("scheduler":{)", R"("rng_state":{)", "global_step"})
    EXPECT_NE(tree.find(key), std::string::npos) << key;
}

TEST_F(Sets, OlmosNamesAreItsKeys) {
  for (const char* kind : {"safetensors", "pt"}) {
    const std::string label = std::string("olmo-") + kind;
    const Failure in = import_from(kFixtures + "olmo_" + kind, label);
    ASSERT_EQ(in.code, CKPT_OK) << in.message;
    const std::string tree = tree_of(label, "import");
    for (const std::string& part :
         {R"("transformer.wte.weight":)" + leaf("model/transformer.wte.weight"), std::string(R"("betas":[0.9,0.95])"),
          std::string(R"("global_step":7)"), R"("exp_avg":)" + leaf("optim/state/1/exp_avg")})
      EXPECT_NE(tree.find(part), std::string::npos) << part << tree;
    const float weight[6] = {10, 11, 12, 13, 14, 15}, moment[6] = {1.5, 1.5, 1.5, 1.5, 1.5, 1.5};
    EXPECT_EQ(values(label, "model/transformer.wte.weight", 24),
              std::string(reinterpret_cast<const char*>(weight), 24));
    EXPECT_EQ(values(label, "optim/state/1/exp_avg", 24), std::string(reinterpret_cast<const char*>(moment), 24));
  }
}

TEST_F(Sets, NamesThatAreNoneOfOlmosAreRefused) {
  std::filesystem::create_directory(path("olmo"));
  write_file(path("olmo/config.yaml"), "");
  // A name; no pickle; a pickle of something else; of a call.
  for (const char* name : {"w", "AAAA", "gASVBgAAAAAAAABdlEsBYS4=", "Y29zCnN5c3RlbQooUydpZCcKdFIu"}) {
    write_file(path("olmo/model.safetensors"), file_of(padded("{" + entry(name, "U8", "[1]", 0, 1) + "}"), "x"));
    const Failure in = import_from(path("olmo"), "l");
    EXPECT_TRUE(in.code == CKPT_FORMAT || in.code == CKPT_UNSUPPORTED) << name << in.message;
  }
}

TEST_F(Sets, EveryKindOfComposersFilesHoldsTheSameState) {
  const std::string at = kFixtures + "composer/ep1-ba2-rank0";
  const std::string weight = "state/model/module.0.weight";
  const std::string moment = "state/optimizers/AdamW/state/module.0.weight/exp_avg_sq";
  ASSERT_EQ(import_from(at + ".tar", "tar").code, CKPT_OK);
  for (const char* ending : {".tar.gz", ".tar.bz2", ".tar.lzma", ".pt.xz", ".pt.lz4", ".pt.zst"}) {
    const std::string label = std::string("l") + ending;
    const Failure in = import_from(at + ending, label);
    ASSERT_EQ(in.code, CKPT_OK) << ending << in.message;
    EXPECT_EQ(values(label, weight, 60), values("tar", weight, 60)) << ending;
    EXPECT_EQ(values(label, moment, 60), values("tar", moment, 60)) << ending;
  }
  std::filesystem::create_symlink(at + ".tar.gz", path("latest-rank0.pt"));
  EXPECT_EQ(values(imported("latest-rank0.pt"), weight, 60), values("tar", weight, 60));
}

TEST_F(Sets, ComposersFilesThatAreCutOrDamagedAreRefused) {
  for (const char* ending : {".tar", ".tar.gz", ".tar.bz2", ".tar.lzma", ".pt.xz", ".pt.lz4", ".pt.zst"}) {
    const std::string sound = read_file(kFixtures + "composer/ep1-ba2-rank0" + ending);
    // The last 10 KiB of a tar may be padding.
    for (const size_t size : {size_t{600}, sound.size() / 2, std::min(sound.size() - 20, size_t{20000})}) {
      write_file(path("cut"), sound.substr(0, size));
      const Failure in = import_from(path("cut"), "cut");
      EXPECT_TRUE(in.code == CKPT_CORRUPT || in.code == CKPT_FORMAT) << ending << size << in.message;
    }
    std::string damaged = sound;
    damaged[sound.size() / 3] ^= 0x10;
    write_file(path("damaged"), damaged);
    EXPECT_NE(import_from(path("damaged"), "damaged").code, CKPT_OK) << ending;
  }
}

std::string tar_entry(const std::string& name, const std::string& data, char kind = '0') {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  char number[16];
  std::snprintf(number, sizeof number, "%011zo", data.size());
  header.replace(124, 11, number);
  header[156] = kind;
  header.replace(257, 6, std::string("ustar\0", 6));
  header.replace(148, 8, "        ");
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  std::snprintf(number, sizeof number, "%06o", sum);
  header.replace(148, 6, number);
  header[154] = '\0';
  return header + data + std::string((512 - data.size() % 512) % 512, '\0');
}

TEST_F(Sets, ATarWithMoreThanTheStatesIsRefusedByName) {
  pt("a.pt", {floats("w", {2}, 1)});
  const std::string end(1024, '\0'), states = tar_entry("composer_states.pt", read_file(path("a.pt")));
  const auto in = [&](const std::string& bytes) {
    write_file(path("a.tar"), bytes);
    return import_from(path("a.tar"), "l" + std::to_string(saves_++));
  };
  EXPECT_EQ(in(tar_entry("", "", '5') + states + end).code, CKPT_OK);
  EXPECT_EQ(
      in(tar_entry("x", "28 path=composer_states.pt\n", 'x') + tar_entry("y", read_file(path("a.pt"))) + end).code,
      CKPT_FORMAT);  // not told by its first entry
  EXPECT_EQ(in(tar_entry("", "", '5') + tar_entry("x", "27 path=composer_states.pt\n", 'x') +
               tar_entry("y", read_file(path("a.pt"))) + end)
                .code,
            CKPT_OK);
  EXPECT_EQ(detail(in(states + tar_entry("deepspeed/mp_rank_00.pt", "x") + end), "found"), "deepspeed/mp_rank_00.pt");
  EXPECT_EQ(in(states + tar_entry("composer_states.pt", "", '2') + end).code, CKPT_FORMAT);
  EXPECT_EQ(in(states + states + end).code, CKPT_FORMAT);
  EXPECT_EQ(in(tar_entry("", "", '5') + end).code, CKPT_FORMAT);
  std::string huge = states + end;
  huge.replace(124, 11, "77777777777");
  EXPECT_EQ(in(huge).code, CKPT_FORMAT);
}

// ---- and out again ----

TEST_F(Sets, EveryKindOfComposersFilesIsWrittenAndHoldsTheSameState) {
  ASSERT_EQ(import_from(kFixtures + "composer/ep1-ba2-rank0.tar", "tar").code, CKPT_OK);
  for (const std::string ending : {".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.lzma", ".tar.xz", ".pt", ".pt.gz",
                                   ".pt.bz2", ".pt.xz", ".pt.lz4", ".pt.zst"}) {
    const Failure out = export_to(path("a" + ending), "tar", {{"format", "composer"}}, "import");
    ASSERT_EQ(out.code, CKPT_OK) << ending << out.message;
    const std::string label = imported("a" + ending);
    EXPECT_EQ(tree_of(label, "import"), tree_of("tar", "import")) << ending;
    EXPECT_EQ(differences("tar", "import", label, "import"), std::vector<std::string>()) << ending;
  }
  // Each packed as its name says.
  EXPECT_EQ(read_file(path("a.tar")).substr(257, 5), "ustar");
  EXPECT_EQ(read_file(path("a.tar")).size() % 512, 0U);
  EXPECT_EQ(read_file(path("a.tar.lzma")).substr(1, 4), "7zXZ");
  EXPECT_EQ(read_file(path("a.pt.bz2")).substr(0, 3), "BZh");
  EXPECT_EQ(read_file(path("a.pt")).substr(0, 2), "PK");
  const Failure other = export_to(path("a.zip"), "tar", {{"format", "composer"}}, "import");
  EXPECT_EQ(other.code, CKPT_INVALID);
  EXPECT_NE(other.message.find(".tar.lzma"), std::string::npos) << other.message;
}

TEST_F(Sets, NumpysValuesAreWrittenAsNumpysForComposer) {
  const auto number = [](const char* type, const char* value) {
    return record(std::string("numpy.") + type, std::string("\"value\":") + value);
  };
  const std::string tree = R"({"a":)" + record("numpy.ndarray", R"("data":)" + leaf("a")) + R"(,"f":)" +
                           record("numpy.ndarray", R"("data":)" + leaf("f") + R"(,"order":"F")") + R"(,"n":[)" +
                           number("float32", "0.25") + ',' + number("float16", "-1.5") + ',' +
                           number("float64", "0.1") + ',' + number("bool_", "true") + ',' + number("int8", "-3") + ',' +
                           number("uint64", R"({"$":"int","value":"18446744073709551615"})") + "]}";
  save("n", {{floats("a", {3}, 1), floats("f", {2, 3}, 2)}, {}, tree});
  ASSERT_EQ(export_to(path("n.pt"), "n", {{"format", "composer"}}).code, CKPT_OK);
  const std::string label = imported("n.pt");
  EXPECT_EQ(tree_of(label, "import"), tree);
  EXPECT_EQ(differences("n", "main", label, "import"), std::vector<std::string>());
}

// The order of its elements would be another than the file says.
TEST_F(Sets, AnArrayInFortransOrderThatIsComputedIsRefused) {
  const std::string tree = R"({"f":)" + record("numpy.ndarray", R"("data":)" + leaf("f") + R"(,"order":"F")") + "}";
  save("n", {{floats("f", {2, 3}, 2)}, {}, tree});
  const Failure failure = export_to(path("n.pt"), "n", {{"format", "composer"}, {"cast", "f16"}});
  EXPECT_EQ(failure.code, CKPT_UNSUPPORTED) << failure.message;
  EXPECT_EQ(detail(failure, "tensor"), "f");
}

// What an imported file wanted to run must not come out as something that runs.
TEST_F(Sets, NoClassButHarmlessOnesIsWrittenAsAnObject) {
  const std::string args = R"("args":{"$":"tuple","items":["id"]})";
  save("o", {{}, {}, R"({"x":)" + record("posix.system", args) + "}"});
  EXPECT_EQ(detail(export_to(path("o.pt"), "o", {{"format", "composer"}}), "found"), "posix.system");
  save("p", {{}, {}, R"({"x":)" + record("pathlib.PosixPath", args) + "}"});
  ASSERT_EQ(export_to(path("p.pt"), "p", {{"format", "composer"}}).code, CKPT_OK);
  EXPECT_EQ(tree_of(imported("p.pt"), "import"), tree_of("p", "main"));
  save("q", {{}, {}, R"({"x":)" + record("pathlib.PosixPath", args + R"(,"state":{"a":1})") + "}"});
  EXPECT_EQ(export_to(path("q.pt"), "q", {{"format", "composer"}}).code, CKPT_UNSUPPORTED);
}

std::vector<std::string> names_below(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (!entry.is_directory()) names.push_back(std::filesystem::relative(entry.path(), folder));
  std::sort(names.begin(), names.end());
  return names;
}

TEST_F(Sets, AnOlmoDirectoryIsWrittenWithItsConfiguration) {
  for (const char* kind : {"safetensors", "pt"}) {
    const std::string label = std::string("olmo-") + kind, to = std::string("step-") + kind;
    ASSERT_EQ(import_from(kFixtures + "olmo_" + kind, label).code, CKPT_OK);
    const Failure out = export_to(path(to), label, {{"format", "olmo"}}, "import");
    ASSERT_EQ(out.code, CKPT_OK) << out.message;
    EXPECT_EQ(names_below(path(to)), names_below(kFixtures + "olmo_" + kind));
    EXPECT_EQ(read_file(path(to + "/config.yaml")), read_file(kFixtures + "olmo_" + kind + "/config.yaml"));
    const std::string again = imported(to);
    EXPECT_EQ(tree_of(again, "import"), tree_of(label, "import"));
    EXPECT_EQ(differences(label, "import", again, "import"), std::vector<std::string>());
  }
  save("other", {{floats("w", {2}, 1)}, {}, R"({"weights":)" + leaf("w") + "}"});
  EXPECT_EQ(detail(export_to(path("x"), "other", {{"format", "olmo"}}), "found"), "weights");
  save("own", {{floats("w", {2}, 1)}, {}, R"({"model":{"w":)" + leaf("w") + "}}"});
  const Failure without = export_to(path("x"), "own", {{"format", "olmo"}});
  EXPECT_EQ(without.code, CKPT_MISMATCH);
  EXPECT_NE(without.message.find("config.yaml"), std::string::npos);
  write_file(path("mine.yaml"), "model: mine\n");
  const std::string given = path("mine.yaml");
  ASSERT_EQ(export_to(path("x"), "own", {{"format", "olmo"}, {"config", given.c_str()}}).code, CKPT_OK);
  EXPECT_EQ(names_below(path("x")), (std::vector<std::string>{"config.yaml", "model.pt"}));
  EXPECT_EQ(read_file(path("x/config.yaml")), "model: mine\n");
  EXPECT_EQ(tree_of(imported("x"), "import"), R"({"model":{"w":)" + leaf("model/w") + "}}");
}

TEST_F(Sets, OlmosSafetensorsHoldEachTensorAndValueUnderItsKeys) {
  const std::string optim = R"({"state":{},"1":{},"param_groups":[{"lr":0.1,"betas":{"$":"tuple","items":[1,2]}}],)"
                            R"("by_id":{"$":"dict","items":[[7,)" +
                            leaf("optim/by_id/7") + R"(]]},"few":)" + leaf("optim/few") + "}";
  const std::string tree = R"({"model":{"a.b":)" + leaf("model/a.b") + R"(,"none":)" + leaf("model/none") +
                           R"(},"optim":)" + optim + R"(,"train":{"rng":[)" + leaf("train/rng/0") + "]}}";
  save("s", {{floats("model/a.b", {2, 2}, 1),
              floats("model/none", {0}, 2),
              floats("optim/by_id/7", {3}, 3),
              floats("train/rng/0", {1}, 4),
              {"optim/few", CKPT_DTYPE_F4_E2M1FN, {6}, pattern(3, 5)}},
             {},
             tree});
  write_file(path("c.yaml"), "x: y\n");
  const std::string config = path("c.yaml");
  const auto out = [&](const char* label, const char* to) {
    return export_to(path(to), label,
                     {{"format", "olmo-safetensors"}, {"config", config.c_str()}, {"verify_after", "1"}});
  };
  const Failure written = out("s", "o");
  ASSERT_EQ(written.code, CKPT_OK) << written.message;
  EXPECT_EQ(names_below(path("o")),
            (std::vector<std::string>{"config.yaml", "model.safetensors", "optim.safetensors", "train.pt"}));
  const std::string label = imported("o");
  EXPECT_EQ(values(label, "optim/by_id/7", 12), floats("", {3}, 3).data);
  EXPECT_EQ(values(label, "optim/few", 3), pattern(3, 5)) << "of less than a byte, like the pickles' elements";
  const std::string again = tree_of(label, "import");
  for (const char* part : {R"("state":{})", R"("betas":{"$":"tuple","items":[1,2]})", R"("1":{})"})
    EXPECT_NE(again.find(part), std::string::npos) << part << again;
  save("list", {{floats("m", {1}, 1)}, {}, R"({"optim":{"x":[)" + leaf("m") + "]}}"});
  const Failure list = out("list", "p");
  EXPECT_EQ(list.code, CKPT_UNSUPPORTED);
  EXPECT_EQ(detail(list, "path"), "optim/x") << list.message;
  save("object", {{}, {}, R"({"optim":{"x":)" + record("torch.Size", R"("items":{"$":"tuple","items":[1]})") + "}}"});
  EXPECT_EQ(out("object", "p").code, CKPT_UNSUPPORTED);
  EXPECT_FALSE(std::filesystem::exists(path("p")));
}

TEST_F(Sets, TheIndexOfAGivenModelSaysWhichFilesTorchtuneWrites) {
  std::filesystem::create_directory(path("base"));
  index("base/model.safetensors.index.json",
        R"("a": "model-00002-of-00002.safetensors", "b": "model-00001-of-00002.safetensors", "tied": "x.safetensors")");
  save("flat", {{floats("a", {2}, 1), floats("b", {3}, 2)}, {}, ""});
  pt("old/hf_model_0001_1.pt", {floats("a", {2}, 1), floats("b", {3}, 2)});
  pt("old/adapter_1.pt", {floats("lora", {1}, 4)});
  const std::string base = path("base"), old = imported("old");
  for (const auto& [label, run, format] : {std::tuple("flat", "main", "torchtune"),
                                           {old.c_str(), "import", "torchtune"},
                                           {"flat", "main", "safetensors"}}) {
    const std::string to = std::string(format) + label, in = to == "safetensorsflat" ? to : to + "/epoch_0";
    const Failure out =
        export_to(path(to), label, {{"format", format}, {"config", base.c_str()}, {"verify_after", "1"}}, run);
    ASSERT_EQ(out.code, CKPT_OK) << to << out.message;
    std::vector<std::string> files = {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                                      "model.safetensors.index.json"};
    if (label == old) files.insert(files.begin(), "adapter_model.pt");
    EXPECT_EQ(names_below(path(in)), files) << to;
    EXPECT_EQ(values(imported(in + "/model-00001-of-00002.safetensors"), "b", 12), floats("", {3}, 2).data);
    EXPECT_NE(read_file(path(in + "/model-00002-of-00002.safetensors")).find(R"("format":"pt")"), std::string::npos);
  }
  save("more", {{floats("a", {2}, 1), floats("c", {3}, 2)}, {}, ""});
  const Failure more = export_to(path("x"), "more", {{"format", "torchtune"}, {"config", base.c_str()}});
  EXPECT_EQ(more.code, CKPT_MISMATCH) << more.message;
  EXPECT_EQ(detail(more, "tensor"), "c");
  EXPECT_FALSE(std::filesystem::exists(path("x")));
}

TEST_F(Sets, TorchtunesDirectoriesAreWrittenAsTheyWere) {
  const std::string recipe = R"({"optimizer":{"m":)" + leaf("optimizer/m") + R"(},"seed":3,"epochs_run":11})";
  pt("bin/epoch_7/model-00001-of-00002.bin", {floats("a", {2}, 1)});
  pt("bin/epoch_7/model-00002-of-00002.bin", {floats("b", {2}, 2), floats("c", {0}, 3)});
  pt("bin/epoch_7/adapter_model.pt", {floats("lora", {1}, 4)});
  pt("bin/recipe_state/recipe_state.pt", {floats("optimizer/m", {1}, 5)}, recipe);
  pt("indexed/epoch_0/model-00001-of-00002.bin", {floats("a", {2}, 1)});
  pt("indexed/epoch_0/model-00002-of-00002.bin", {floats("b/c", {3}, 2)}, R"({"b/c":)" + leaf("b/c") + "}");
  index("indexed/epoch_0/pytorch_model.bin.index.json",
        R"("a": "model-00001-of-00002.bin", "b/c": "model-00002-of-00002.bin")");
  pt("old/hf_model_0001_1.pt", {floats("a", {2}, 1)});
  pt("old/hf_model_0002_1.pt", {floats("b", {2}, 2)});
  pt("old/recipe_state.pt", {}, R"({"seed":3})");
  pt("one/torchtune_model_0.pt", {floats("a", {2}, 1)});
  pt("lora/epoch_0/adapter_model.pt", {floats("lora", {1}, 4)});
  save("flat", {{floats("a", {2}, 1), floats("b", {3}, 2)}, {}, ""});
  std::filesystem::create_directories(path("hf/epoch_2"));
  ASSERT_EQ(export_to(path("hf/epoch_2"), "flat", {{"format", "safetensors"}, {"shard_bytes", "8"}}).code, CKPT_OK);
  pt("hf/recipe_state/recipe_state.pt", {}, R"({"seed":4})");
  for (const std::string from : {"bin", "indexed", "old", "one", "lora", "hf"}) {
    const std::string label = imported(from), to = from + "-out";
    const Failure out = export_to(path(to), label, {{"format", "torchtune"}}, "import");
    ASSERT_EQ(out.code, CKPT_OK) << from << out.message;
    EXPECT_EQ(names_below(path(to)), names_below(path(from)));
    const std::string again = imported(to);
    EXPECT_EQ(tree_of(again, "import"), tree_of(label, "import")) << from;
    EXPECT_EQ(differences(label, "import", again, "import"), std::vector<std::string>()) << from;
  }
  const std::string map = read_file(path("indexed-out/epoch_0/pytorch_model.bin.index.json"));
  EXPECT_EQ(map,
            "{\n  \"metadata\": {\n    \"total_size\": 20\n  },\n  \"weight_map\": {\n"
            "    \"a\": \"model-00001-of-00002.bin\",\n    \"b/c\": \"model-00002-of-00002.bin\"\n  }\n}\n");
  // The tensors are in the files where they were.
  EXPECT_EQ(read_file(path("hf-out/epoch_2/model-00001-of-00002.safetensors")),
            read_file(path("hf/epoch_2/model-00001-of-00002.safetensors")));
  EXPECT_EQ(tree_of(imported("bin-out/epoch_7/model-00002-of-00002.bin"), "import"),
            R"({"b":)" + leaf("b") + R"(,"c":)" + leaf("c") + "}");
}

TEST_F(Sets, WeightsFromElsewhereBecomeATorchtuneDirectory) {
  save("flat", {{floats("a", {2}, 1), floats("b", {3}, 2)}, {}, ""});
  const Failure out = export_to(path("new"), "flat", {{"format", "torchtune"}, {"shard_bytes", "8"}});
  ASSERT_EQ(out.code, CKPT_OK) << out.message;
  EXPECT_EQ(names_below(path("new")), (std::vector<std::string>{"epoch_0/model-00001-of-00002.safetensors",
                                                                "epoch_0/model-00002-of-00002.safetensors",
                                                                "epoch_0/model.safetensors.index.json"}));
  EXPECT_EQ(values(imported("new"), "model/b", 12), floats("", {3}, 2).data);
  save("other", {{floats("net/a", {2}, 1)}, {}, R"({"net":{"a":)" + leaf("net/a") + "}}"});
  EXPECT_EQ(detail(export_to(path("other"), "other", {{"format", "torchtune"}}), "found"), "net");
}

TEST_F(Sets, PathsThatLeaveTheDirectoryAreRefusedAndNothingIsLeft) {
  const auto out = [&](const std::string& label, const std::string& paths) {
    save(label, {{floats("model/a", {2}, 1)}, {}, R"({"model":{"a":)" + leaf("model/a") + R"(}})"},
         {{"torchtune.files", paths}});
    return export_to(path("out"), label, {{"format", "torchtune"}});
  };
  int number = 0;
  for (const char* paths : {R"(["../a.bin"])", R"(["a/../../b.bin"])", R"(["/tmp/a.bin"])", R"(["a/b/c.bin"])",
                            R"([".hidden/a.bin"])", R"(["a.bin","a.bin"])", R"({"a":"b"})", "x"}) {
    const Failure refused = out("h" + std::to_string(number++), paths);
    EXPECT_EQ(refused.code, CKPT_FORMAT) << paths << refused.message;
  }
  EXPECT_NE(out("clash", R"(["x/a.bin","x"])").code, CKPT_OK);
  EXPECT_TRUE(std::filesystem::is_empty(directory_));
}

TEST_F(Sets, WhatIsExportedInAnyFormatIsReadBack) {
  const std::string tree = R"({"model":{"a":)" + leaf("model/a") + R"(,"b":)" + leaf("model/b") + R"(},"n":3})";
  save("s", {{floats("model/a", {3, 5}, 1), floats("model/b", {0}, 2)}, {}, tree}, {{"olmo.config", "run_name: r"}});
  for (const std::string format : {"safetensors", "pt", "hfai", "dcp", "composer", "torchtune"}) {
    const std::string to = path(format == "composer" ? "x.tar" : format);
    const Failure out = export_to(to, "s", {{"format", format.c_str()}, {"shards", "1"}, {"verify_after", "1"}});
    // Only some take shards.
    const Failure again =
        out.code == CKPT_INVALID ? export_to(to, "s", {{"format", format.c_str()}, {"verify_after", "1"}}) : out;
    EXPECT_EQ(again.code, CKPT_OK) << format << again.message;
  }
  EXPECT_EQ(export_to(path("at"), "s", {{"at", "model"}, {"verify_after", "1"}}).code, CKPT_OK);
  EXPECT_EQ(export_to(path("cast"), "s", {{"cast", "bf16"}, {"only", "model/a"}, {"verify_after", "1"}}).code, CKPT_OK);
  save("flat", {{floats("a", {3}, 1)}, {}, ""});
  EXPECT_EQ(export_to(path("flat"), "flat", {{"format", "torchtune"}, {"verify_after", "1"}}).code, CKPT_OK);
  EXPECT_EQ(import_from(path("dcp"), "back", {{"verify_after", 1}}).code, CKPT_OK);
}

TEST_F(Sets, WhatDiffersFromWhatWasToBeWrittenIsFound) {
  pt("same.pt", {floats("a", {300, 5}, 1), floats("b", {2}, 2)});
  pt("value.pt", {floats("a", {300, 5}, 1), floats("b", {2}, 3)});
  pt("shape.pt", {floats("a", {1500}, 1)});
  pt("name.pt", {floats("c", {2}, 2)});
  pt("missing.pt", {floats("a", {300, 5}, 1)});
  pt("more.pt", {floats("a", {300, 5}, 1), floats("b", {2}, 2), floats("c", {2}, 2)});
  save("s", {{floats("a", {300, 5}, 1), floats("b", {2}, 2)}, {}, ""});
  const client::Reader reader(open("s", "main"));
  const auto compare = [&](const std::string& file) {
    auto content = read_foreign(path(file), {});
    EXPECT_TRUE(content.ok());
    return compare_export(reader, *content, {}, {});
  };
  EXPECT_TRUE(compare("same.pt").ok());
  const Status value = compare("value.pt");
  EXPECT_EQ(value.code(), CKPT_CORRUPT) << value.message();
  EXPECT_EQ(*value.detail("tensor"), "b");
  EXPECT_EQ(compare("shape.pt").code(), CKPT_MISMATCH);
  EXPECT_EQ(compare("name.pt").code(), CKPT_MISMATCH);
  const Status missing = compare("missing.pt");
  EXPECT_EQ(missing.code(), CKPT_MISMATCH) << missing.message();
  EXPECT_EQ(*missing.detail("tensor"), "b");
  const Status more = compare("more.pt");
  EXPECT_EQ(more.code(), CKPT_MISMATCH) << more.message();
  EXPECT_EQ(*more.detail("tensor"), "c");
}

TEST_F(Sets, ValuesThatDifferOrAreMissingOrAreTooManyAreFound) {
  const std::string a = R"("a":)" + leaf("a");
  const auto tree = [&](const std::string& rest) { return "{" + a + rest + "}"; };
  const std::string whole = tree(R"(,"n":3,"l":[1,"x"],"d":{})");
  pt("same.pt", {floats("a", {2}, 1)}, whole);
  pt("differs.pt", {floats("a", {2}, 1)}, tree(R"(,"n":4,"l":[1,"x"],"d":{})"));
  pt("kind.pt", {floats("a", {2}, 1)}, tree(R"(,"n":3.0,"l":[1,"x"],"d":{})"));
  pt("missing.pt", {floats("a", {2}, 1)}, tree(R"(,"n":3,"l":[1],"d":{})"));
  pt("empty.pt", {floats("a", {2}, 1)}, tree(R"(,"n":3,"l":[1,"x"])"));
  pt("more.pt", {floats("a", {2}, 1)}, tree(R"(,"n":3,"l":[1,"x"],"d":{},"z":null)"));
  save("s", {{floats("a", {2}, 1)}, {}, whole});
  const client::Reader reader(open("s", "main"));
  const auto found = [&](const std::string& file) {
    auto content = read_foreign(path(file), {});
    EXPECT_TRUE(content.ok());
    const Status status = compare_export(reader, *content, {}, {});
    const std::string* place = status.detail("tensor");
    return std::string(status_name(status.code())) + ' ' + (place ? *place : "");
  };
  EXPECT_EQ(found("same.pt"), "OK ");
  EXPECT_EQ(found("differs.pt"), "CORRUPT n");
  EXPECT_EQ(found("kind.pt"), "CORRUPT n");
  EXPECT_EQ(found("missing.pt"), "MISMATCH l/1");
  EXPECT_EQ(found("empty.pt"), "MISMATCH d");
  EXPECT_EQ(found("more.pt"), "MISMATCH z");
}

TEST_F(Sets, ReadingBackKnowsATensorByItsPlaceWhateverItsName) {
  const std::string parameter =
      record("torch.nn.parameter.Parameter", R"("data":)" + leaf("x7") + R"(,"requires_grad":true)");
  const std::string tree = R"({"model":)" + record("collections.OrderedDict", R"("items":{"w":)" + parameter + "}") +
                           R"(,"o":{"$":"dict","items":[[0,)" + leaf("m") + R"(],["0",5]]},"t":)" + leaf("tied") + "}";
  save("s", {{floats("x7", {3}, 1), floats("m", {2}, 2), floats("unused", {2}, 3)}, {{"tied", "m", {}, {}}}, tree});
  for (const char* format : {"pt", "composer"}) {
    const Failure out = export_to(path(format + std::string(".pt")), "s", {{"format", format}, {"verify_after", "1"}});
    EXPECT_EQ(out.code, CKPT_OK) << format << out.message;
  }
  const Failure part = export_to(path("m.pt"), "s", {{"format", "pt"}, {"at", "model"}, {"verify_after", "1"}});
  EXPECT_EQ(part.code, CKPT_OK) << part.message;
}

TEST_F(Sets, AnImportThatSavedLessOrMoreThanTheFilesHaveIsFound) {
  pt("one.pt", {floats("a", {2}, 1)}, R"({"a":)" + leaf("a") + R"(,"n":1})");
  pt("two.pt", {floats("a", {2}, 1), floats("b", {2}, 2)});
  pt("tree.pt", {floats("a", {2}, 1)}, R"({"a":)" + leaf("a") + R"(,"n":2})");
  const std::string label = imported("one.pt");
  const client::Reader saved(open(label, "import"));
  const auto compare = [&](const std::string& file) {
    auto content = read_foreign(path(file), {});
    EXPECT_TRUE(content.ok());
    return compare_import(saved, *content, {}).code();
  };
  EXPECT_EQ(compare("one.pt"), CKPT_OK);
  EXPECT_EQ(compare("two.pt"), CKPT_MISMATCH);
  EXPECT_EQ(compare("tree.pt"), CKPT_CORRUPT);
  const client::Reader more(open(imported("two.pt"), "import"));
  auto content = read_foreign(path("one.pt"), {});
  ASSERT_TRUE(content.ok());
  EXPECT_EQ(compare_import(more, *content, {}).code(), CKPT_MISMATCH);
}

TEST_F(Sets, NotStrictForgivesWhatAMappingDoesNotKnow) {
  pt("m.pt", {floats("a.w", {2}, 1), floats("z", {2}, 2)});
  write_file(path("m.json"), R"({"rules":[{"match":"a.{x}","to":"b.{x}"},{"match":"nothing","to":"x"}]})");
  const std::string map = path("m.json");
  const Failure strict = import_from(path("m.pt"), "l", {}, {{"map", map.c_str()}});
  EXPECT_EQ(strict.code, CKPT_MISMATCH) << strict.message;
  const Failure lax =
      import_from(path("m.pt"), "l", {}, {{"map", map.c_str()}, {"only", "a.w,z,q"}, {"strict", "none"}});
  EXPECT_EQ(lax.code, CKPT_OK) << lax.message;
  EXPECT_EQ(tree_of("l", "import"), R"({"b.w":)" + leaf("b.w") + R"(,"z":)" + leaf("z") + "}");
  EXPECT_EQ(import_from(path("m.pt"), "k", {}, {{"only", "q"}, {"strict", "exact"}}).code, CKPT_NOT_FOUND);
  const Failure typo = import_from(path("m.pt"), "k", {}, {{"exclude", "z,q"}});
  EXPECT_EQ(typo.code, CKPT_NOT_FOUND);
  EXPECT_EQ(typo.details.at("found"), "q") << typo.message;
  EXPECT_EQ(import_from(path("m.pt"), "k", {}, {{"exclude", "z,q"}, {"strict", "none"}}).code, CKPT_OK);
  write_file(path("keep.json"), R"({"unmatched":"keep","rules":[{"match":"a.{x}","to":"b.{x}"}]})");
  const std::string keep = path("keep.json");
  EXPECT_EQ(import_from(path("m.pt"), "j", {}, {{"map", keep.c_str()}, {"strict", "exact"}}).code, CKPT_MISMATCH);
  EXPECT_EQ(import_from(path("m.pt"), "j", {}, {{"map", keep.c_str()}, {"strict", "missing"}}).code, CKPT_OK);
}

}  // namespace
}  // namespace ckpt::interop
