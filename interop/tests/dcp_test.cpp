// Directories of torch.distributed.checkpoint: those that real torches wrote (fixtures/dcp) are to ckpt what they are
// to torch; what an export writes an import makes the same state of; what does not fit is refused by name.
#include <filesystem>

#include "dcp_fixture.h"
#include "interop/src/dcp/format.h"
#include "paths.h"
#include "store_fixture.h"

namespace ckpt::interop {
namespace {

namespace fs = std::filesystem;

class Dcp : public StoreTest {
 protected:
  static fs::path fixture(const std::string& name) { return StoreTest::fixture("dcp/" + name); }
  std::string part(const std::string& name, const std::string& file = ".metadata") { return path(name) + '/' + file; }

  // A directory with this metadata, and one file of the entries.
  void make(const std::string& name, const std::string& metadata, const std::string& file = {}) {
    fs::create_directories(path(name));
    write_file(part(name), metadata);
    if (!file.empty()) write_file(part(name, "__0_0.distcp"), file);
  }
  Failure export_dcp(const std::string& label, const std::string& to, int64_t shards, uint64_t cut_from,
                     const char* run = "main") {
    const client::Reader reader(open(label, run));
    Job job;
    const ExportRequest request{reader, path(to), {.shards = shards}, job};
    const Result<ExportPlan> plan = plan_dcp(request, cut_from);
    const Status status = plan.ok() ? write_export(request, *plan) : plan.status();
    return {status.code(), status.message(), {}};
  }
  // One that torch wrote, which a test may damage.
  void copy_fixture(const std::string& name) { fs::copy(fixture(name), path(name), fs::copy_options::recursive); }
};

// w of [4, 2] in two rows of two each, in one file.
struct TwoRows {
  std::string first = dcp::entry({2, 2}, pattern(16, 1)), second = dcp::entry({2, 2}, pattern(16, 2));
  std::string file = first + second;
  std::string described = dcp::tensor({4, 2}, {dcp::chunk({0, 0}, {2, 2}), dcp::chunk({2, 0}, {2, 2})});
  pickled::Items items{pickled::text("m.w"), described};
  std::string paths = pickled::dict({pickled::text("m.w"), pickled::tuple({pickled::text("m"), pickled::text("w")})});
  pickled::Items places{dcp::index("m.w", dcp::size({0, 0})), dcp::place("__0_0.distcp", 0, size(first)),
                        dcp::index("m.w", dcp::size({2, 0})), dcp::place("__0_0.distcp", size(first), size(second))};
  std::string metadata() const { return dcp::metadata(items, paths, places); }
  static int64_t size(const std::string& bytes) { return static_cast<int64_t>(bytes.size()); }
};

// ---- what torch wrote ----

TEST_F(Dcp, WhatTorchWroteIsWhatTorchMakesOfIt) {
  size_t count = 0;
  for (const auto& found : fs::directory_iterator(fixture(""))) {
    const std::string name = found.path().filename();
    if (!found.is_directory() || !fs::exists(fixture(name + ".pt"))) continue;
    SCOPED_TRACE(name);
    count++;
    const Failure in = import_from(fixture(name), name);
    ASSERT_EQ(in.code, CKPT_OK) << in.message;
    ASSERT_EQ(import_from(fixture(name + ".pt"), name + "-pt").code, CKPT_OK);
    EXPECT_EQ(differences(name, "import", name + "-pt", "import"), std::vector<std::string>());
    EXPECT_EQ(tree_of(name, "import"), tree_of(name + "-pt", "import"));
  }
  EXPECT_GE(count, 11u);
}

// What torch cannot make one file of is compared with what it can.
TEST_F(Dcp, OtherWritersGiveTheSameState) {
  for (const char* name : {"zstd", "safetensors", "no_collectives", "fsdp2", "hf"}) {
    const Failure in = import_from(fixture(name), name);
    ASSERT_EQ(in.code, CKPT_OK) << name << ": " << in.message;
  }
  // All tensors of a safetensors blob are without checksums, and the import says so.
  const std::vector<std::string> blob = differences("zstd", "import", "safetensors", "import");
  ASSERT_EQ(blob.size(), 1u);
  EXPECT_NE(blob[0].find("import.unchecked"), std::string::npos) << blob[0];
  // Each rank has a seed of its own; all else is the same, but for the order of keys that one rank alone has.
  std::string tree = tree_of("no_collectives", "import"), other = tree_of("zstd", "import");
  const std::string seeds = R"(,"seed":)" + record("ckpt.PerRank", R"("rank0":100,"rank1":101)");
  const std::string rng = R"(,"rng":{"rank0":)" + leaf("rng/rank0") + R"(,"rank1":)" + leaf("rng/rank1") + "}";
  for (const auto& [text, part] : {std::pair(&tree, seeds), {&tree, rng}, {&other, rng}}) {
    const size_t at = text->find(part);
    ASSERT_NE(at, std::string::npos) << *text;
    text->erase(at, part.size());
  }
  EXPECT_EQ(tree, other);
  // Hugging Face's has the model alone, by its own names.
  ASSERT_EQ(export_to(path("model"), "fsdp2", {{"format", "dcp"}, {"at", "model"}}, "import").code, CKPT_OK);
  ASSERT_EQ(import_from(path("model"), "model").code, CKPT_OK);
  std::vector<std::string> model = differences("model", "import", "hf", "import");
  std::erase_if(model, [](const std::string& text) { return text.find("state") != std::string::npos; });
  EXPECT_EQ(model, std::vector<std::string>());
}

// ---- Megatron ----

TEST_F(Dcp, WhatMegatronWroteIsWhatItsRanksHave) {
  const fs::path folder = fs::path(CKPT_SOURCE_DIR) / "interop/tests/fixtures/megatron";
  size_t versions = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.is_directory()) continue;
    versions++;
    const std::string version = entry.path().filename();
    SCOPED_TRACE(version);
    const Failure in = import_from(entry.path(), version);
    ASSERT_EQ(in.code, CKPT_OK) << in.message;
    ASSERT_EQ(import_from(entry.path().string() + ".pt", version + "-pt").code, CKPT_OK);
    // The directory has what is common and random states, too.
    std::vector<std::string> found = differences(version, "import", version + "-pt", "import");
    std::erase_if(found, [](const std::string& text) {
      return text.find("weight") == std::string::npos && text.find("bias") == std::string::npos;
    });
    EXPECT_EQ(found, std::vector<std::string>());
    ckpt_reader* reader = open(version, "import");
    EXPECT_STREQ(ckpt_reader_attr(reader, nullptr, "import.files"),
                 R"(["iter_0000002","latest_checkpointed_iteration.txt"])");
    ckpt_reader_free(reader);
    const std::string tree = tree_of(version, "import");
    for (const char* text : {R"("iteration":2)", R"("args":{"lr":0.01})", R"("rng_state/shard_0.1_1.)",
                             R"("optimizer.state.exp_avg_sq.down.bias":)"})
      EXPECT_NE(tree.find(text), std::string::npos) << text;
  }
  EXPECT_GE(versions, 1u);
}

// Byte by byte, as the sources of 0.13 and 0.20 have it.

// w of [4, 6] by two ranks in each dimension, [2, 3] each; the first one's box is cut after its second element.
TEST_F(Dcp, MegatronsIterationHasItsTensorsInTheirOwnShapeAndWhatIsCommon) {
  std::string file, whole(96, '\0');
  pickled::Items chunks, places;
  const auto add = [&](int64_t i, int64_t j, int64_t from, int64_t to) {
    const std::string data =
        pattern(static_cast<size_t>(4 * (to - from)), static_cast<unsigned>(100 * i + 10 * j + from));
    const std::string entry = dcp::entry({1, 1, to - from}, data);
    chunks.push_back(dcp::chunk({i, j, from}, {1, 1, to - from}));
    places.push_back(dcp::index("optimizer.w", dcp::size({i, j, from})));
    places.push_back(dcp::place("__0_0.distcp", static_cast<int64_t>(file.size()), static_cast<int64_t>(entry.size())));
    file += entry;
    for (int64_t at = from; at < to; at++)
      whole.replace(static_cast<size_t>(4 * ((2 * i + at / 3) * 6 + 3 * j + at % 3)), 4,
                    data.substr(static_cast<size_t>(4 * (at - from)), 4));
  };
  add(0, 0, 0, 2);
  add(0, 0, 2, 6);
  add(0, 1, 0, 6);
  add(1, 0, 0, 6);
  add(1, 1, 0, 6);
  const auto metadata = [&](const std::vector<int64_t>& shape) {
    const std::string data =
        pickled::dict({pickled::text("nd_reformulated_orig_global_shape"), pickled::integers(shape)});
    return dcp::metadata({pickled::text("optimizer.w"), dcp::tensor({2, 2, 6}, chunks)}, pickled::none, places,
                         {pickled::text("optimizer.w"), data});
  };
  make("run/iter_0000007", metadata({4, 6}), file);
  write_file(part("run/iter_0000007", "metadata.json"), R"({"sharded_backend": "torch_dist"})");
  write_file(part("run/iter_0000007", "common.pt"),
             pt_of(pickled::dict({pickled::text("iteration"), pickled::integer(7)})));
  write_file(part("run", "latest_checkpointed_iteration.txt"), "7");
  const Failure in = import_from(path("run"), "m");
  ASSERT_EQ(in.code, CKPT_OK) << in.message;
  EXPECT_EQ(tree_of("m", "import"), R"({"optimizer.w":)" + leaf("optimizer.w") + R"(,"common":{"iteration":7}})");
  save("expected", {{{"optimizer.w", CKPT_DTYPE_F32, {4, 6}, whole}}, {}, ""});
  std::vector<std::string> found = differences("m", "import", "expected", "main");
  std::erase_if(found, [](const std::string& text) { return text.find("optimizer.w") == std::string::npos; });
  EXPECT_EQ(found, std::vector<std::string>());
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{4, 7}, {4, 6, 1}, {8, 6}}) {
    write_file(part("run/iter_0000007"), metadata(shape));
    expect_refused("run", CKPT_MISMATCH, {"optimizer.w", "mcore_data"});
  }
  fs::remove(part("run/iter_0000007", "common.pt"));
  EXPECT_NE(import_from(path("run"), "none").code, CKPT_OK);
}

TEST_F(Dcp, ShardOfHuggingFaceThatIsMissingOrTwiceIsFound) {
  copy_fixture("hf");
  fs::remove(part("hf", "shard-00001-model-00001-of-00002.safetensors"));
  expect_refused("hf", CKPT_INCOMPLETE, {"0.weight"});
  fs::remove_all(path("hf"));
  copy_fixture("hf");
  fs::copy(part("hf", "shard-00001-model-00001-of-00002.safetensors"),
           part("hf", "shard-00003-model-00001-of-00002.safetensors"));
  EXPECT_EQ(import_from(path("hf"), "a").code, CKPT_OK);  // replicas
  const std::string file =
      file_of(padded(R"({"__metadata__":{"DCP_SHARDING_INFO":"{\"w\":{\"saved_offsets\":[1]}}"},)" +
                     entry("w", "F32", "[1,2]", 0, 8) + "}"),
              pattern(8));
  write_file(part("hf", "shard-00004-model-00001-of-00002.safetensors"), file);
  expect_refused("hf", CKPT_FORMAT, {"shard-00004", "where", "w"});
}

TEST_F(Dcp, DamagedPackedEntriesAreRefusedUnlessNothingOfThemChanged) {
  ASSERT_EQ(import_from(fixture("zstd"), "sound").code, CKPT_OK);
  copy_fixture("zstd");
  const std::string file = read_file(part("zstd", "__1_0.distcp"));
  for (size_t at = 0; at < file.size(); at += 97) {
    std::string damaged = file;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    write_file(part("zstd", "__1_0.distcp"), damaged);
    const std::string label = "x" + std::to_string(at);
    const Failure failure = import_from(path("zstd"), label);
    if (failure.code == CKPT_OK) {  // between the entries of a zip
      EXPECT_EQ(differences("sound", "import", label, "import"), std::vector<std::string>()) << at;
      EXPECT_EQ(tree_of("sound", "import"), tree_of(label, "import")) << at;
      continue;
    }
    EXPECT_TRUE(failure.code == CKPT_CORRUPT || failure.code == CKPT_FORMAT || failure.code == CKPT_UNSUPPORTED ||
                failure.code == CKPT_MISMATCH)
        << at << ": " << failure.code << ' ' << failure.message;
  }
}

// ---- round trips ----

Saved trained() {
  Saved state;
  state.tensors = {floats("model/w", {10, 7}, 1),
                   floats("model/b", {5}, 2),
                   floats("optimizer/state/w/m", {10, 7}, 3),
                   {"model/count", CKPT_DTYPE_I64, {}, pattern(8)},
                   {"model/none", CKPT_DTYPE_F32, {0, 3}, ""},
                   floats("list/1", {2}, 4),
                   {"half", CKPT_DTYPE_BF16, {3}, pattern(6)}};
  state.tree = R"({"model":{"w":)" + leaf("model/w") + R"(,"b":)" + leaf("model/b") + R"(,"count":)" +
               leaf("model/count") + R"(,"none":)" + leaf("model/none") + R"(},"optimizer":{"state":{"w":{"m":)" +
               leaf("optimizer/state/w/m") + R"(,"step":2.0}}},"list":[{"lr":0.5},)" + leaf("list/1") +
               R"(,[]],"half":)" + leaf("half") +
               R"(,"epoch":3,"betas":{"$":"tuple","items":[0.9,0.999]},"plain":[1,"x"],"empty":{},"a.b":null})";
  return state;
}

TEST_F(Dcp, AnyNumberOfFilesGivesTheSameState) {
  save("a", trained());
  for (const int64_t shards : {1, 2, 3, 16}) {
    const std::string name = std::to_string(shards);
    const Failure out = export_dcp("a", name, shards, 100);
    ASSERT_EQ(out.code, CKPT_OK) << out.message;
    for (int64_t i = 0; i < shards; i++) EXPECT_TRUE(fs::exists(part(name, strformat("__{}_0.distcp", i))));
    const Failure in = import_from(path(name), "from" + name);
    ASSERT_EQ(in.code, CKPT_OK) << in.message;
    EXPECT_EQ(differences("a", "main", "from" + name, "import"), std::vector<std::string>());
    EXPECT_EQ(tree_of("from" + name, "import"), tree_of("a", "main"));
  }
}

TEST_F(Dcp, ExportRefusesWhatHasNoNameOfItsOwn) {
  Saved state;
  state.tree = R"({"a":{"b":1},"a.b":2})";
  save("a", state);
  EXPECT_EQ(export_dcp("a", "out", 1, 100).code, CKPT_UNSUPPORTED);
  state.tree = R"([1])";
  save("list", state);
  EXPECT_EQ(export_dcp("list", "out", 1, 100).code, CKPT_MISMATCH);
  EXPECT_FALSE(fs::exists(path("out")));
}

// ---- what is read ----

TEST_F(Dcp, StateWithoutPathsIsADictOfNames) {
  const TwoRows rows;
  make("d", dcp::metadata(rows.items, pickled::none, rows.places), rows.file);
  ASSERT_EQ(import_from(path("d"), "a").code, CKPT_OK);
  EXPECT_EQ(tree_of("a", "import"), R"({"m.w":)" + leaf("m.w") + "}");
}

// torch conjugates and negates elements when they are used; what is stored is something else.
TEST_F(Dcp, AnEntryThatIsToBeConjugatedOrNegatedIsRefused) {
  for (const char* flag : {"conj", "neg"}) {
    const std::string pickle =
        pickled::call(pickled::torch_util("_rebuild_tensor_v2"),
                      {pickled::storage("0", "FloatStorage", 2), pickled::integer(0), pickled::integers({2}),
                       pickled::integers({1}), pickled::boolean(false), pickled::ordered_dict(),
                       pickled::dict({pickled::text(flag), pickled::boolean(true)})});
    const std::string entry = pt_of(pickle, {{"0", pattern(8)}});
    make(flag,
         dcp::metadata({pickled::text("w"), dcp::tensor({2}, {dcp::chunk({0}, {2})})}, pickled::none,
                       {dcp::index("w", dcp::size({0})), dcp::place("__0_0.distcp", 0, TwoRows::size(entry))}),
         entry);
    expect_refused(flag, CKPT_UNSUPPORTED, {"__0_0.distcp", "\"w\" are to be " + std::string(flag)});
  }
}

TEST_F(Dcp, MetadataOfARankThatIsMissingIsNamed) {
  copy_fixture("no_collectives");
  fs::remove(part("no_collectives", "__0.metadata"));
  expect_refused("no_collectives", CKPT_INCOMPLETE, {"__0.metadata is missing"});
}

// As OLMo-core and Megatron have them.
TEST_F(Dcp, ClassesAreToldWhereverTheyAre) {
  const TwoRows rows;
  std::string metadata = rows.metadata();
  for (const auto& [from, to] :
       {std::pair("torch.distributed.checkpoint.filesystem\n_StorageInfo", "olmo_core.io\nInfo"),
        {"torch.distributed.checkpoint.metadata\nMetadata\n", "megatron\nMCoreMetadata\n"}})
    for (size_t at = metadata.find(from); at != std::string::npos; at = metadata.find(from, at))
      metadata.replace(at, std::string_view(from).size(), to);
  make("d", metadata, rows.file);
  const Failure in = import_from(path("d"), "a");
  EXPECT_EQ(in.code, CKPT_OK) << in.message;
}

TEST_F(Dcp, SameChunkOfTwoRanksIsTakenOnce) {
  TwoRows rows;
  rows.items[1] = dcp::tensor({4, 2}, {dcp::chunk({2, 0}, {2, 2}), dcp::chunk({0, 0}, {2, 2}),
                                       dcp::chunk({2, 0}, {2, 2}), dcp::chunk({4, 0}, {0, 2})});
  make("d", rows.metadata(), rows.file);
  EXPECT_EQ(import_from(path("d"), "a").code, CKPT_OK);
}

// ---- what is refused ----

TEST_F(Dcp, FileThatIsMissingOrCutIsNamed) {
  const TwoRows rows;
  make("d", rows.metadata());
  expect_refused("d", CKPT_INCOMPLETE, {"__0_0.distcp is missing", "m.w"});
  write_file(part("d", "__0_0.distcp"), rows.file.substr(0, rows.file.size() - 1));
  expect_refused("d", CKPT_INCOMPLETE, {"__0_0.distcp is cut", std::to_string(rows.file.size())});
  fs::remove(part("d"));
  expect_refused("d", CKPT_NOT_FOUND, {".metadata", "never ended"});
}

TEST_F(Dcp, EveryCutOfTheMetadataIsRefused) {
  const TwoRows rows;
  make("d", rows.metadata(), rows.file);
  for (size_t size = 0; size < rows.metadata().size(); size += 5) {
    write_file(part("d"), rows.metadata().substr(0, size));
    const Failure failure = import_from(path("d"), "refused");
    ASSERT_TRUE(failure.code == CKPT_FORMAT || failure.code == CKPT_UNSUPPORTED) << size << ": " << failure.message;
  }
}

TEST_F(Dcp, ChunksThatLeaveAGapOrOverlapAreRefused) {
  TwoRows rows;
  rows.items[1] = dcp::tensor({5, 2}, {dcp::chunk({0, 0}, {2, 2}), dcp::chunk({2, 0}, {2, 2})});
  make("d", rows.metadata(), rows.file);
  expect_refused("d", CKPT_INCOMPLETE, {"m.w", "[4:5, 0:2]"});
  rows.items[1] = dcp::tensor({3, 2}, {dcp::chunk({0, 0}, {2, 2}), dcp::chunk({1, 0}, {2, 2})});
  make("d", rows.metadata(), rows.file);
  expect_refused("d", CKPT_MISMATCH, {"m.w", "same elements"});
  rows.items[1] = dcp::tensor({3, 2}, {dcp::chunk({0, 0}, {2, 2}), dcp::chunk({2, 0}, {2, 2})});
  make("d", rows.metadata(), rows.file);
  expect_refused("d", CKPT_FORMAT, {"m.w"});
  rows = TwoRows();
  rows.places.resize(2);
  make("d", rows.metadata(), rows.file);
  expect_refused("d", CKPT_INCOMPLETE, {"m.w", "no file has [2:4, 0:2]"});
}

TEST_F(Dcp, AbsurdNumbersAreRefused) {
  constexpr int64_t kHuge = int64_t{1} << 62;
  TwoRows rows;
  rows.items[1] = dcp::tensor({kHuge, 4}, {dcp::chunk({0, 0}, {kHuge, 4})});
  make("d", rows.metadata(), rows.file);
  expect_refused("d", CKPT_FORMAT, {"m.w"});
  rows = TwoRows();
  rows.items[1] = dcp::tensor({-1, 2}, {});
  make("d", rows.metadata(), rows.file);
  expect_refused("d", CKPT_FORMAT, {"m.w", "size"});
  rows = TwoRows();
  rows.items[1] = dcp::tensor(std::vector<int64_t>(17, 1), {});
  make("d", rows.metadata(), rows.file);
  expect_refused("d", CKPT_UNSUPPORTED, {"17 dimensions"});
  rows = TwoRows();
  rows.places[1] = dcp::place("__0_0.distcp", kHuge, INT64_MAX);
  make("d", rows.metadata(), rows.file);
  expect_refused("d", CKPT_INCOMPLETE, {"is cut"});
  rows = TwoRows();
  rows.paths = pickled::dict({pickled::text("m.w"), pickled::tuple({pickled::text("m"), pickled::integer(kHuge)})});
  make("d", rows.metadata(), rows.file);
  expect_refused("d", CKPT_FORMAT, {"the list"});
}

// Each would be opened for itself: a few bytes of metadata would make many of one file.
TEST_F(Dcp, EntriesThatLieInEachOtherAreRefused) {
  TwoRows rows;
  for (const int64_t begin : {int64_t{0}, int64_t{1}, TwoRows::size(rows.first) - 1}) {
    rows.places[3] = dcp::place("__0_0.distcp", begin, TwoRows::size(rows.second));
    make("d", rows.metadata(), rows.file);
    expect_refused("d", CKPT_FORMAT, {"__0_0.distcp: two entries lie at " + std::to_string(begin)});
  }
  const std::string value = pt_of(pickled::integer(3));
  for (const int64_t begin : {int64_t{0}, TwoRows::size(value) - 1}) {
    make("v",
         dcp::metadata({pickled::text("a"), dcp::value(), pickled::text("b"), dcp::value()}, pickled::none,
                       {dcp::index("a"), dcp::place("__0_0.distcp", 0, TwoRows::size(value)), dcp::index("b"),
                        dcp::place("__0_0.distcp", begin, TwoRows::size(value))}),
         value + value);
    expect_refused("v", CKPT_FORMAT, {"two values lie at"});
  }
}

// A list of chunks that every tensor has: what it says is a thousand times its size.
TEST_F(Dcp, MetadataThatRepeatsItselfIsRefused) {
  constexpr int kMany = 3000;
  const std::string first = dcp::chunk({0, 0}, {1, 1}) + std::string("q\0", 2);
  std::string chunks = "](" + first;
  for (int i = 1; i < kMany; i++) chunks += std::string("h\0", 2);
  chunks += "eq\x01";
  pickled::Items items;
  for (int i = 0; i < kMany; i++) {
    items.push_back(pickled::text("w" + std::to_string(i)));
    items.push_back(dcp::object("TensorStorageMetadata",
                                {pickled::text("properties"), dcp::properties("float32"), pickled::text("size"),
                                 dcp::size({1, 1}), pickled::text("chunks"), i == 0 ? chunks : "h\x01"}));
  }
  make("d", dcp::metadata(items, pickled::none, {}), "x");
  expect_refused("d", CKPT_UNSUPPORTED, {"repeats values"});
}

TEST_F(Dcp, FilesOutsideTheDirectoryAreRefused) {
  for (const std::string name : {"../__0_0.distcp", "/etc/passwd", "a/../../b", "", "a\nb", "..", "\xff"}) {
    TwoRows rows;
    rows.places[1] = dcp::place(name, 0, 1);
    make("d", rows.metadata(), rows.file);
    const Failure failure = import_from(path("d"), "refused");
    EXPECT_EQ(failure.code, CKPT_FORMAT) << name << ": " << failure.message;
  }
}

TEST_F(Dcp, ChunkThatIsNotWhatTheMetadataSaysIsRefused) {
  TwoRows rows;
  rows.items[1] = dcp::tensor({4, 2}, {dcp::chunk({0, 0}, {2, 2}), dcp::chunk({2, 0}, {2, 2})}, "int32");
  make("d", rows.metadata(), rows.file);
  expect_refused("d", CKPT_MISMATCH, {"m.w", "dtype: expected i32", "found f32"});
  rows.items[1] = dcp::tensor({2, 4}, {dcp::chunk({0, 0}, {2, 2}), dcp::chunk({0, 2}, {2, 2})});
  rows.places = {dcp::index("m.w", dcp::size({0, 0})), dcp::place("__0_0.distcp", 0, TwoRows::size(rows.first)),
                 dcp::index("m.w", dcp::size({0, 2})),
                 dcp::place("__0_0.distcp", TwoRows::size(rows.first), TwoRows::size(rows.second))};
  make("d", rows.metadata(), rows.file);
  EXPECT_EQ(import_from(path("d"), "a").code, CKPT_OK);  // rows or columns: nothing tells
  rows.items[1] = dcp::tensor({4, 2}, {dcp::chunk({0, 0}, {1, 2}), dcp::chunk({1, 0}, {3, 2})});
  rows.places[2] = dcp::index("m.w", dcp::size({1, 0}));
  make("d", rows.metadata(), rows.file);
  expect_refused("d", CKPT_MISMATCH, {"m.w", "shape: expected [", ", 2] as", "found [2, 2]"});
  rows = TwoRows();
  // The second is sound: both are read at once, and of two errors either may come first.
  make("d", rows.metadata(), std::string(rows.first.size(), 'x') + rows.second);
  expect_refused("d", CKPT_FORMAT, {"__0_0.distcp at 0"});
}

TEST_F(Dcp, WhatFailedToFindItsElementsFailsAgain) {
  const TwoRows rows;
  make("d", rows.metadata(), std::string(rows.file.size(), 'x'));
  Result<ForeignCheckpoint> content = read_dcp(path("d"), {});
  ASSERT_TRUE(content.ok()) << content.status().message();
  EXPECT_EQ(content->find_elements({}).code(), CKPT_FORMAT);
  EXPECT_EQ(content->find_elements({}).code(), CKPT_FORMAT);
}

TEST_F(Dcp, PathsThatContradictEachOtherAreRefused) {
  TwoRows rows;
  const std::string seed = pt_of(pickled::integer(7));
  auto refused = [&](const std::string& path) {
    const std::string paths = pickled::dict(
        {pickled::text("m.w"), pickled::tuple({pickled::text("m"), pickled::text("w")}), pickled::text("seed"), path});
    pickled::Items items = rows.items, places = rows.places;
    items.insert(items.end(), {pickled::text("seed"), dcp::value()});
    places.insert(places.end(),
                  {dcp::index("seed"), dcp::place("__0_0.distcp", TwoRows::size(rows.file), TwoRows::size(seed))});
    make("d", dcp::metadata(items, paths, places), rows.file + seed);
    expect_refused("d", CKPT_FORMAT, {"seed"});
  };
  refused(pickled::tuple({pickled::text("m"), pickled::text("w")}));
  refused(pickled::tuple({pickled::text("m")}));
  refused(pickled::tuple({pickled::text("m"), pickled::text("w"), pickled::text("x")}));
  refused(pickled::tuple({pickled::text("m"), pickled::integer(0)}));
  refused(pickled::tuple({}));
  refused(pickled::tuple({pickled::none}));
  refused(pickled::integer(3));
}

TEST_F(Dcp, WhatIsNotKnownIsNamed) {
  TwoRows rows;
  rows.items[1] = dcp::tensor({4, 2}, {}, "float99");
  make("d", rows.metadata(), rows.file);
  expect_refused("d", CKPT_UNSUPPORTED, {"torch.float99"});
  rows = TwoRows();
  rows.places[1] = dcp::place("__0_0.distcp", 0, 4, pickled::list({pickled::text("stream.lzma")}));
  make("d", rows.metadata(), rows.file);
  expect_refused("d", CKPT_UNSUPPORTED, {"stream.lzma"});
  rows = TwoRows();
  rows.items[1] = dcp::object("OtherStorageMetadata", {});
  make("d", rows.metadata(), rows.file);
  expect_refused("d", CKPT_UNSUPPORTED, {"OtherStorageMetadata"});
  make("d", pickled::document(pickled::call(pickled::global("os", "system"), {pickled::text("true")})), rows.file);
  expect_refused("d", CKPT_UNSUPPORTED, {"os.system"});
  make("d", pickled::document(pickled::dict({})), rows.file);
  expect_refused("d", CKPT_FORMAT, {"Metadata"});
}

TEST_F(Dcp, DirectoryAroundOneNamesIt) {
  const TwoRows rows;
  make("run/optimizer_0", rows.metadata(), rows.file);
  write_file(path("run") + "/scheduler.bin", "x");
  expect_refused("run", CKPT_NOT_FOUND, {"optimizer_0"});
}

TEST_F(Dcp, DamagedBytesAreFound) {
  const TwoRows rows;
  std::string file = rows.file;
  const size_t at = file.find(pattern(16, 2));
  ASSERT_NE(at, std::string::npos);
  file[at] = static_cast<char>(file[at] ^ 1);
  make("d", rows.metadata(), file);
  expect_refused("d", CKPT_CORRUPT, {"__0_0.distcp", "CRC-32"});
}

}  // namespace
}  // namespace ckpt::interop
