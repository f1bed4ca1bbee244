// Files that each rank wrote: those of real torch runs (fixtures/ranks) are what torch itself puts together; what does
// not fit is refused by name.
#include <filesystem>

#include "interop/src/client.h"
#include "interop/src/formats.h"
#include "pt_fixture.h"
#include "store_fixture.h"

namespace ckpt::interop {
namespace {

namespace fs = std::filesystem;

class Shards : public StoreTest {
 protected:
  void make(const std::string& file, const std::string& bytes) {
    fs::create_directories(fs::path(path(file)).parent_path());
    write_file(path(file), bytes);
  }
  std::string values(const std::string& label, const std::string& name, const std::vector<int64_t>& shape) {
    const client::Reader reader(open(label, "import"));
    std::string data(floats(name, shape).data.size(), '\0');
    load_whole(reader.get(), name, describe(CKPT_DTYPE_F32, shape), data);
    return data;
  }
  // Of all but the attributes that an import leaves.
  std::vector<std::string> differ(const std::string& a, const std::string& b) {
    std::vector<std::string> found = differences(a, "import", b, "import");
    std::erase_if(found, [](const std::string& text) { return text.starts_with("attribute of the checkpoint"); });
    return found;
  }
};

// ---- ShardedTensors, byte by byte ----

namespace st {

using namespace pickled;

std::string object(const std::string& module, const std::string& name, const Items& slots) {
  return with_state(global("torch.distributed._shard." + module, name) + ")\x81", tuple({none, dict(slots)}));
}
std::string list_of(const std::vector<int64_t>& values) {
  Items items;
  for (const int64_t value : values) items.push_back(integer(value));
  return list(items);
}
// Of one rank: rows of `tensor` at `offsets`.
std::string shard(const std::vector<int64_t>& offsets, const std::vector<int64_t>& sizes, const std::string& tensor) {
  return object("sharded_tensor.shard", "Shard",
                {text("tensor"), tensor, text("metadata"),
                 object("metadata", "ShardMetadata",
                        {text("shard_offsets"), list_of(offsets), text("shard_sizes"), list_of(sizes)})});
}
std::string sharded(const std::vector<int64_t>& size, const Items& shards, const std::vector<int64_t>& said,
                    const std::string& dtype = "float32") {
  const std::string cls = global("torch.distributed._shard.sharded_tensor.api", "ShardedTensor");
  const std::string metadata =
      with_state(global("torch.distributed._shard.sharded_tensor.metadata", "ShardedTensorMetadata") + ")\x81",
                 dict({text("size"), integers(said)}));
  return call(global("torch._tensor", "_rebuild_from_type_v2"),
              {global("torch._utils", "_rebuild_wrapper_subclass"), cls,
               tuple({cls, global("torch", dtype), integers(size)}), tuple({list(shards), metadata})});
}
std::string rows(int64_t count) { return tensor(storage("0", "FloatStorage", 2 * count), 0, {count, 2}, {2, 1}); }
// {"w": rows [first, first + count) of [4, 2]} and more keys.
std::string file(int64_t first, int64_t count, const Items& more = {}) {
  Items items = {text("w"), sharded({4, 2}, {shard({first, 0}, {count, 2}, rows(count))}, {4, 2})};
  items.insert(items.end(), more.begin(), more.end());
  return pt_of(dict(items), {{"0", pattern(static_cast<size_t>(8 * count), static_cast<unsigned>(first))}});
}

}  // namespace st

// ---- what torch wrote ----

TEST_F(Shards, WhatRanksOfTorchWroteIsWhatTorchPutsTogether) {
  for (const std::string name : {"dtensor", "grid", "sharded"}) {
    SCOPED_TRACE(name);
    const Failure in = import_from(fixture("ranks/" + name), name);
    ASSERT_EQ(in.code, CKPT_OK) << in.message;
    ASSERT_EQ(import_from(fixture("ranks/" + name + ".pt"), name + "-pt").code, CKPT_OK);
    EXPECT_EQ(differ(name, name + "-pt"), std::vector<std::string>());
    EXPECT_EQ(tree_of(name, "import"), tree_of(name + "-pt", "import"));
  }
}

TEST_F(Shards, OlmosTorchLegacyIsModelOptimAndTrain) {
  const Failure in = import_from(fixture("ranks/torch_legacy"), "all");
  ASSERT_EQ(in.code, CKPT_OK) << in.message;
  ASSERT_EQ(import_from(fixture("ranks/torch_legacy.pt"), "pt").code, CKPT_OK);
  for (const std::string& text : differ("all", "pt"))
    EXPECT_TRUE(text.find("train/") != std::string::npos || text.starts_with("object state")) << text;
  std::string tree = tree_of("pt", "import");
  tree.pop_back();
  EXPECT_EQ(tree_of("all", "import"), tree + R"(,"train":{"epoch":0,"global_step":2,"rng":{"torch":)" +
                                          record("ckpt.PerRank", R"("rank0":)" + leaf("train/rng/torch/rank0") +
                                                                     R"(,"rank1":)" + leaf("train/rng/torch/rank1")) +
                                          "}}}");
  const client::Reader reader(open("all", "import"));
  EXPECT_STREQ(ckpt_reader_attr(reader.get(), nullptr, "olmo.config"), "run_name: r\n");
}

TEST_F(Shards, OlmosLocalIsWholeParametersAndTheirStates) {
  const Failure in = import_from(fixture("ranks/local"), "all");
  ASSERT_EQ(in.code, CKPT_OK) << in.message;
  ASSERT_EQ(import_from(fixture("ranks/local.pt"), "pt").code, CKPT_OK);
  std::vector<std::string> other = differ("all", "pt");
  std::erase_if(other, [](const std::string& text) { return text.starts_with("object state"); });
  EXPECT_EQ(other, std::vector<std::string>());
  // Parameters come in the order in which FSDP has them.
  std::string tree = tree_of("all", "import");
  EXPECT_NE(tree.find(R"("0.weight":)" + leaf("model/0.weight")), std::string::npos) << tree;
  EXPECT_NE(tree.find(R"("param_names":["0.weight","0.bias","1.weight","1.bias"])"), std::string::npos) << tree;
  EXPECT_NE(tree.find(R"("train":{"epoch":0,"global_step":2})"), std::string::npos) << tree;
}

TEST_F(Shards, OlmosLocalThatLacksARankOrContradictsIsRefused) {
  const auto fresh = [&] {
    fs::remove_all(path("d"));
    fs::copy(fixture("ranks/local"), path("d"), fs::copy_options::recursive);
  };
  fresh();
  fs::remove(path("d/model/rank1.pt"));
  expect_refused("d", CKPT_INCOMPLETE, {"expected files of 2 ranks, as metadata.yaml says, found 1"});
  make("d/metadata.yaml", "world_size: 1\n");
  expect_refused("d", CKPT_INCOMPLETE, {"no file has flat"});
  fresh();
  fs::remove(path("d/optim/rank1.pt"));
  expect_refused("d", CKPT_INCOMPLETE, {"optim", "expected files of 2 ranks"});
  // The other rank's optimizer.
  fs::copy(path("d/optim/rank0.pt"), path("d/optim/rank1.pt"));
  expect_refused("d", CKPT_MISMATCH, {"optim/rank1.pt", "elements, as the rank has of"});
  fresh();
  const std::string whole = read_file(path("d/model/rank1.pt"));
  for (size_t size = 0; size < whole.size(); size += 397) {
    write_file(path("d/model/rank1.pt"), whole.substr(0, size));
    const Failure failure = import_from(path("d"), "refused");
    ASSERT_TRUE(failure.code == CKPT_FORMAT || failure.code == CKPT_UNSUPPORTED) << size << failure.message;
  }
}

// As torch 2.0 says it, where the first parameter of a rank is one that the rank before began.
TEST_F(Shards, OlmosLocalOfAnOlderTorchHasOtherNumbers) {
  using namespace pickled;
  const auto rank = [](int64_t first, const std::string& offsets, const std::string& data, const Items& mark = {}) {
    const std::string shapes =
        tuple({call(global("torch", "Size"), {integers({2, 3})}), call(global("torch", "Size"), {integers({2})})});
    const std::string flat = tensor(storage("0", "FloatStorage", 4), 0, {4}, {1}, false, mark);
    const std::string handle =
        dict({text("flat_param.data"), flat, text("flat_param._fqns"), tuple({text("w"), text("b")}),
              text("flat_param._shapes"), shapes, text("flat_param._shard_indices"), integers({first, 1}),
              text("flat_param._shard_param_offsets"), offsets});
    return pt_of(dict({text("modules"),
                       list({dict({text("name"), text("_fsdp_wrapped_module.m"), text("handles"), list({handle})})})}),
                 {{"0", data}});
  };
  const std::string w = pattern(24, 1), b = pattern(8, 2);
  make("d/model/rank0.pt", rank(0, tuple({integers({0, 3})}), w.substr(0, 16)));
  make("d/model/rank1.pt", rank(0, tuple({integers({4, 5}), integers({0, 1})}), w.substr(16) + b));
  make("d/metadata.yaml", "world_size: 2\n");
  make("d/config.yaml", "a: b\n");
  const Failure in = import_from(path("d"), "a");
  ASSERT_EQ(in.code, CKPT_OK) << in.message;
  EXPECT_EQ(values("a", "model/m.w", {2, 3}), w);
  EXPECT_EQ(values("a", "model/m.b", {2}), b);
  make("d/model/rank1.pt", rank(0, tuple({integers({3, 5}), integers({0, 0})}), w.substr(16) + b));
  expect_refused("d", CKPT_MISMATCH, {"rank1.pt", "\"m.w\"", "the same elements"});
  make("d/model/rank1.pt", rank(1, tuple({integers({0, 1}), integers({0, 1})}), w.substr(16) + b));
  expect_refused("d", CKPT_FORMAT, {"rank1.pt", "_shard_indices"});
  // The mark of a flat tensor would be lost with it.
  for (const char* mark : {"neg", "conj"}) {
    make("d/model/rank1.pt",
         rank(0, tuple({integers({4, 5}), integers({0, 1})}), w.substr(16) + b, {text(mark), boolean(true)}));
    expect_refused("d", CKPT_FORMAT, {"rank1.pt", "flat_param.data of one dimension"});
  }
}

// ---- olmo_core 0.1 ----

namespace core {

std::string sft(const std::vector<std::tuple<std::string, std::string, std::string>>& tensors) {
  std::string header, data;
  for (const auto& [name, dtype, bytes] : tensors) {
    const std::string count = std::to_string(dtype == "F32" ? bytes.size() / 4 : bytes.size());
    header +=
        (header.empty() ? "{" : ",") + entry(name, dtype, "[" + count + "]", data.size(), data.size() + bytes.size());
    data += bytes;
  }
  return file_of(padded(header + "}"), data);
}

std::string metadata(const std::string& tensors) { return R"({"tensors":{)" + tensors + "}}"; }
std::string described(const std::string& name, const std::string& shape, const std::string& dtype,
                      const std::string& files, const std::string& key = "shard_spec_per_file") {
  return '"' + name + R"(":{"shape":)" + shape + R"(,"is_sharded":true,"dtype":")" + dtype + R"(",")" + key + R"(":{)" +
         files + "}}";
}
std::string flat(int file, const std::string& ranges) {
  return strformat(R"("rank_{}.safetensors":{{"flattened_offsets":{},"local_shape":null,"global_offset":null}})", file,
                   ranges);
}

}  // namespace core

TEST_F(Shards, OlmoCoresRangesAndBoxesAreWholeTensors) {
  using namespace core;
  const std::string w = pattern(24, 1), b = pattern(16, 2),
                    group = pickled::document(pickled::dict({pickled::text("lr"), pickled::real(0.5)}));
  const std::string columns =
      R"("rank_0.safetensors":{"flattened_offsets":null,"local_shape":[2,1],"global_offset":[0,0]},)"
      R"("rank_1.safetensors":{"flattened_offsets":null,"local_shape":[2,1],"global_offset":[0,1]})";
  const std::string left = b.substr(0, 4) + b.substr(8, 4), right = b.substr(4, 4) + b.substr(12, 4);
  const std::string of_w = flat(0, "[[0,1],[5,6]]") + "," + flat(1, "[[1,5]]") + "," + flat(2, "[[0,0]]");
  make("d/config.yaml", "a: b\n");
  make("d/model/rank_0.safetensors", sft({{"a.w", "F32", w.substr(0, 4) + w.substr(20)}, {"b", "F32", left}}));
  make("d/model/rank_1.safetensors", sft({{"a.w", "F32", w.substr(4, 16)}, {"b", "F32", right}}));
  make("d/model/rank_2.safetensors", sft({{"a.w", "F32", ""}}));
  const std::string model =
      metadata(described("a.w", "[2,3]", "F32", of_w) + "," + described("b", "[2,2]", "F32", columns));
  make("d/model/metadata.json", model);
  make("d/optim/rank_0.safetensors", sft({{"state.a.w.__exp_avg", "F32", w}, {"param_group0", "U8", group}}));
  make("d/optim/metadata.json", metadata(described("state.a.w.__exp_avg", "[2,3]", "F32",
                                                   R"("rank_0.safetensors":[0,6])", "flattened_offsets_per_file") +
                                         "," +
                                         described("param_group0", strformat("[{}]", group.size()), "U8",
                                                   flat(0, strformat("[[0,{}]]", group.size())))));
  make("d/train/rank0.pt", pt_of(pickled::dict({pickled::text("epoch"), pickled::integer(3)})));
  const Failure in = import_from(path("d"), "a");
  ASSERT_EQ(in.code, CKPT_OK) << in.message;
  EXPECT_EQ(tree_of("a", "import"), R"({"model":{"a.w":)" + leaf("model/a.w") + R"(,"b":)" + leaf("model/b") +
                                        R"(},"optim":{"state":{"a.w":{"exp_avg":)" + leaf("optim/state/a.w/exp_avg") +
                                        R"(}},"param_groups":[{"lr":0.5}]},"train":{"epoch":3}})");
  EXPECT_EQ(values("a", "model/a.w", {2, 3}), w);
  EXPECT_EQ(values("a", "model/b", {2, 2}), b);
  EXPECT_EQ(values("a", "optim/state/a.w/exp_avg", {2, 3}), w);

  const auto wrong = [&](const std::string& from, const std::string& to, ckpt_status code,
                         const std::vector<std::string>& texts) {
    std::string text = model;
    text.replace(text.find(from), from.size(), to);
    make("d/model/metadata.json", text);
    expect_refused("d", code, texts);
  };
  // What a rank has nothing of may be missing in its file, and nothing else.
  make("d/model/rank_2.safetensors", sft({{"c", "F32", ""}}));
  EXPECT_EQ(import_from(path("d"), "nothing").code, CKPT_OK);
  EXPECT_EQ(differ("a", "nothing"), std::vector<std::string>());
  wrong("[[0,0]]", "[[0,1]]", CKPT_INCOMPLETE, {"a.w", "rank_2.safetensors lacks it"});
  wrong(of_w, flat(2, "[[0,0]]"), CKPT_INCOMPLETE, {"a.w", "no file has anything"});
  wrong("[[1,5]]", "[[2,6]]", CKPT_MISMATCH, {"a.w", "the same elements"});
  wrong("[[1,5]]", "[[1,4]]", CKPT_MISMATCH, {"a.w", "rank_1.safetensors has 16 bytes of it, expected 12"});
  wrong("[[1,5]]", "[[1,9]]", CKPT_MISMATCH, {"a.w"});
  wrong("[[1,5]]", "[[5,1]]", CKPT_FORMAT, {"a.w"});
  wrong("[[1,5]]", "[[3,7]]", CKPT_FORMAT, {"a.w", "outside"});
  wrong("[2,3]", "[2,4]", CKPT_INCOMPLETE, {"a.w", "no file has"});
  wrong("[2,3]", "[2,-3]", CKPT_FORMAT, {"a.w"});
  wrong("\"F32\"", "\"F64\"", CKPT_MISMATCH, {"a.w", "F64"});
  wrong("rank_1.safetensors", "../rank_1.safetensors", CKPT_FORMAT, {"expected a file rank_N.safetensors"});
  wrong("rank_1.safetensors", "rank_7.safetensors", CKPT_INCOMPLETE, {"rank_7.safetensors is missing"});
  for (size_t size = 0; size < model.size(); size += 7) {
    make("d/model/metadata.json", model.substr(0, size));
    expect_refused("d", CKPT_FORMAT, {"metadata.json"});
  }
  make("d/model/metadata.json", model);
  make("d/optim/rank_0.safetensors",
       sft({{"state.a.w.__exp_avg", "F32", w},
            {"param_group0", "U8",
             (pickled::document(pickled::call(pickled::global("os", "system"), {pickled::text("x")})) +
              std::string(group.size(), ' '))
                 .substr(0, group.size())}}));
  EXPECT_NE(import_from(path("d"), "code").code, CKPT_OK);
}

TEST_F(Shards, WhatOlmoCoreWroteIsWhatItsRanksHad) {
  const Failure in = import_from(fixture("olmo_core"), "core");
  ASSERT_EQ(in.code, CKPT_OK) << in.message;
  ASSERT_EQ(import_from(fixture("olmo_core.pt"), "pt").code, CKPT_OK);
  std::vector<std::string> found = differ("core", "pt");
  std::erase_if(found, [](const std::string& text) {
    return text.find("model/") == std::string::npos && text.find("exp_avg") == std::string::npos;
  });
  EXPECT_EQ(found, std::vector<std::string>());
  const std::string tree = tree_of("core", "import");
  for (const char* text : {R"("global_step":2)", R"("lr":0.01)", R"("transformer.blocks.0.att_proj.bias":{)"})
    EXPECT_NE(tree.find(text), std::string::npos) << text;
}

// The files of torch_new and of OLMo-core 3: DCP, and the trainer's state of each rank.
TEST_F(Shards, OlmosTorchNewAndOlmoCoreAreModelOptimAndTrain) {
  make("d/train/rank0.pt", pt_of(pickled::dict({pickled::text("seed"), pickled::integer(1)})));
  make("d/train/rank1.pt", pt_of(pickled::dict({pickled::text("seed"), pickled::integer(2)})));
  fs::copy(fixture("dcp/fsdp2"), path("d/model_and_optim"), fs::copy_options::recursive);
  ASSERT_EQ(import_from(fixture("dcp/fsdp2"), "dcp").code, CKPT_OK);
  std::string tree = tree_of("dcp", "import");
  tree.pop_back();
  for (const char* name : {"config.yaml", ".metadata.json"}) {
    make(std::string("d/") + name, "{}");
    const std::string label = name + (name[0] == '.' ? 1 : 0);
    const Failure in = import_from(path("d"), label);
    ASSERT_EQ(in.code, CKPT_OK) << in.message;
    EXPECT_EQ(tree_of(label, "import"),
              tree + R"(,"train":{"seed":)" + record("ckpt.PerRank", R"("rank0":1,"rank1":2)") + "}}");
    for (const std::string& text : differ("dcp", label)) EXPECT_TRUE(text.starts_with("object state")) << text;
    fs::remove(path(std::string("d/") + name));
  }
}

// Of OLMo and Megatron: with files of their own beside those of DCP.
TEST_F(Shards, DirectoriesAroundADcpFindItsElementsOnlyWhenTheyAreWanted) {
  for (const char* name : {"new/config.yaml", "core/.metadata.json"}) {
    const std::string folder = fs::path(name).parent_path();
    make(folder + "/train/rank0.pt", pt_of(pickled::dict({pickled::text("seed"), pickled::integer(1)})));
    fs::copy(fixture("dcp/fsdp2"), path(folder + "/model_and_optim"), fs::copy_options::recursive);
    make(name, "{}");
  }
  for (const fs::path& directory : std::initializer_list<fs::path>{
           path("new"), path("core"), fixture("megatron/0.13.1"), fixture("megatron/0.16.1")}) {
    SCOPED_TRACE(directory);
    Result<ForeignCheckpoint> content = read_foreign(directory, {});
    ASSERT_TRUE(content.ok()) << content.status().message();
    ASSERT_TRUE(content->locate);
    size_t cut = 0;
    for (const ForeignTensor& tensor : content->tensors)
      if (tensor.pieces.size() > 1)
        for (const ForeignPiece& piece : tensor.pieces) cut += piece.bytes.size == 0;
    EXPECT_GT(cut, 0U);
    const Status found = content->find_elements({});
    ASSERT_TRUE(found.ok()) << found.message();
    for (const ForeignTensor& tensor : content->tensors) {
      uint64_t bytes = 0;
      bool apart = tensor.is_alias();
      for (const ForeignPiece& piece : tensor.pieces) bytes += piece.bytes.size, apart |= piece.strides.has_value();
      EXPECT_TRUE(apart || bytes == tensor.bytes()) << tensor.name;
    }
  }
}

TEST_F(Shards, FilesAreReadInPlace) {
  ckpt_file* file = nullptr;
  must([&](auto** err) { return ckpt_file_open(&file, fixture("ranks/sharded").c_str(), nullptr, err); });
  EXPECT_STREQ(ckpt_file_format(file), "ranks");
  EXPECT_EQ(ckpt_file_tensor_count(file), 3u);
  ckpt_file_free(file);
}

// ---- what ranks have of their own ----

TEST_F(Shards, ValuesThatDifferAreOfEachRankAndEqualOnesAreOne) {
  using namespace pickled;
  for (int64_t rank = 0; rank < 2; rank++)
    make(strformat("d/x_rank{}.pt", rank),
         st::file(2 * rank, 2,
                  {text("seed"), integer(7 + rank), text("same"), list({integer(1), real(0.5)}), text("rng"),
                   dict({text("cpu"), tensor(storage("0", "FloatStorage", 4), 0, {2}, {1})}), text("state"),
                   list({integer(rank), integer(3)}), text(rank == 0 ? "first" : "second"), none}));
  const Failure in = import_from(path("d"), "a");
  ASSERT_EQ(in.code, CKPT_OK) << in.message;
  const auto own = [](const std::string& a, const std::string& b) {
    return record("ckpt.PerRank", R"("rank0":)" + a + R"(,"rank1":)" + b);
  };
  EXPECT_EQ(tree_of("a", "import"), R"({"w":)" + leaf("w") + R"(,"seed":)" + own("7", "8") +
                                        R"(,"same":[1,0.5],"rng":{"cpu":)" +
                                        own(leaf("rng/cpu/rank0"), leaf("rng/cpu/rank1")) + R"(},"state":)" +
                                        own("[0,3]", "[1,3]") + R"(,"first":null,"second":null})");
  EXPECT_EQ(values("a", "w", {4, 2}), pattern(16, 0) + pattern(16, 2));
  EXPECT_EQ(values("a", "rng/cpu/rank1", {2}), pattern(8, 2));
}

// ---- what is refused ----

TEST_F(Shards, ARankThatIsMissingIsNamed) {
  for (const std::string name : {"dtensor", "grid", "sharded", "torch_legacy"}) {
    fs::remove_all(path("d"));
    fs::copy(fixture("ranks/" + name), path("d"));
    const std::string last = name == "grid" ? "model-rank3.pt" : name == "dtensor" ? "state_rank1.pt" : "rank1.pt";
    fs::remove(path("d/" + last));
    expect_refused("d", CKPT_INCOMPLETE, {"no file has", "tensor"});
    fs::copy(fixture("ranks/" + name) / last, path("d/" + last));
    std::string first = last;
    first[first.size() - 4] = '0';
    fs::remove(path("d/" + first));
    expect_refused("d", CKPT_INCOMPLETE, {first + " is missing"});
  }
}

TEST_F(Shards, ShardsThatOverlapOrContradictAreRefused) {
  make("d/rank0.pt", st::file(0, 2));
  make("d/rank1.pt", st::file(1, 3));
  expect_refused("d", CKPT_MISMATCH, {"rank1.pt", "rank0.pt", "\"w\"", "the same elements"});
  // Replicas, of which one differs.
  make("d/rank1.pt", st::file(2, 2));
  make("d/rank2.pt", st::file(2, 2));
  EXPECT_EQ(import_from(path("d"), "replicas").code, CKPT_OK);
  const auto with = [](const std::string& value) { return pt_of(value, {{"0", pattern(16, 9)}}); };
  make(
      "d/rank2.pt",
      with(pickled::dict({pickled::text("w"), st::sharded({4, 2}, {st::shard({2, 0}, {2, 2}, st::rows(2))}, {4, 2})})));
  expect_refused("d", CKPT_MISMATCH, {"rank2.pt", "is not what rank1.pt has of it"});
  fs::remove(path("d/rank2.pt"));
  const auto one = [&](const std::string& value) {
    make("d/rank1.pt", with(pickled::dict({pickled::text("w"), value})));
  };
  one(st::sharded({4, 2}, {st::shard({2, 0}, {1, 2}, st::rows(2))}, {4, 2}));
  expect_refused("d", CKPT_MISMATCH, {"rank1.pt", "\"w\"", "shape of a shard: expected [1, 2], found [2, 2]"});
  one(st::sharded({4, 2}, {st::shard({3, 0}, {2, 2}, st::rows(2))}, {4, 2}));
  expect_refused("d", CKPT_FORMAT, {"outside"});
  one(st::sharded({4, 2}, {st::shard({-1, 0}, {2, 2}, st::rows(2))}, {4, 2}));
  expect_refused("d", CKPT_FORMAT, {"shard_offsets: -1"});
  one(st::sharded({4, 2}, {st::shard({2}, {2}, st::rows(2))}, {4, 2}));
  expect_refused("d", CKPT_FORMAT, {"outside"});
  one(st::sharded({4, 2}, {st::shard({2, 0}, {2, 2}, st::rows(2))}, {5, 2}));
  expect_refused("d", CKPT_MISMATCH, {"size in its metadata: expected [4, 2], found [5, 2]"});
  one(st::sharded({5, 2}, {st::shard({2, 0}, {2, 2}, st::rows(2))}, {5, 2}));
  expect_refused("d", CKPT_MISMATCH, {"rank1.pt", "expected f32 [4, 2] as rank0.pt says, found f32 [5, 2]"});
  one(st::sharded({4, 2}, {st::shard({2, 0}, {2, 2}, st::rows(2))}, {4, 2}, "float64"));
  expect_refused("d", CKPT_MISMATCH, {"dtype of a shard: expected f64, found f32"});
  one(st::sharded({1ll << 62, 4}, {}, {1ll << 62, 4}));
  expect_refused("d", CKPT_FORMAT, {"\"w\""});
  one(st::rows(2));
  expect_refused("d", CKPT_MISMATCH, {"\"w\"", "values of other kinds"});
}

TEST_F(Shards, EveryCutOfARanksFileIsRefused) {
  for (const std::string name : {"dtensor/state_rank1.pt", "torch_legacy/rank1.pt"}) {
    fs::remove_all(path("d"));
    fs::copy(fixture("ranks/" + name).parent_path(), path("d"));
    const std::string file = path("d/" + name.substr(name.find('/') + 1)), whole = read_file(file);
    for (size_t size = 0; size < whole.size(); size += 397) {
      write_file(file, whole.substr(0, size));
      const Failure failure = import_from(path("d"), "refused");
      ASSERT_TRUE(failure.code == CKPT_FORMAT || failure.code == CKPT_UNSUPPORTED || failure.code == CKPT_CORRUPT)
          << size << ": " << failure.code << failure.message;
    }
  }
}

TEST_F(Shards, DamageIsNamedOrHarmless) {
  ASSERT_EQ(import_from(fixture("ranks/dtensor"), "sound").code, CKPT_OK);
  fs::copy(fixture("ranks/dtensor"), path("d"));
  const std::string whole = read_file(path("d/state_rank1.pt"));
  for (size_t at = 0; at < whole.size(); at += 211) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    write_file(path("d/state_rank1.pt"), damaged);
    const std::string label = "x" + std::to_string(at);
    const Failure failure = import_from(path("d"), label);
    if (failure.code != CKPT_OK) continue;  // between the entries of a zip
    EXPECT_EQ(differences("sound", "import", label, "import"), std::vector<std::string>()) << at;
  }
}

TEST_F(Shards, CodeInARanksFileIsRefusedByName) {
  using namespace pickled;
  make("d/rank0.pt", st::file(0, 2));
  make("d/rank1.pt", st::file(2, 2, {text("x"), call(global("os", "system"), {text("true")})}));
  expect_refused("d", CKPT_UNSUPPORTED, {"rank1.pt", "os.system"});
}

TEST_F(Shards, FilesOfSeveralKindsAreNoneOfThis) {
  make("d/a_rank0.pt", st::file(0, 4));
  make("d/b_rank0.pt", st::file(0, 4));
  expect_refused("d", CKPT_NOT_FOUND, {"a_rank0.pt"});
  fs::remove(path("d/b_rank0.pt"));
  make("d/rank.pt", "x");
  make("d/rank01.pt", "x");
  make("d/frank1.pt", "x");
  EXPECT_EQ(import_from(path("d"), "a").code, CKPT_OK);
}

}  // namespace
}  // namespace ckpt::interop
