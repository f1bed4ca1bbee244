// Directories of other programs on an S3 server: every layout that is read on this machine is read there, by ranges.
#include <filesystem>
#include <functional>
#include <mutex>

#include "interop/src/folder.h"
#include "interop/src/formats.h"
#include "paths.h"
#include "pt_fixture.h"
#include "s3/fault_proxy.h"
#include "s3/file_server.h"
#include "s3/server.h"
#include "store_fixture.h"

namespace ckpt::interop {
namespace {

namespace fs = std::filesystem;

// What only tests/s3/run.sh gives: none without a server.
std::vector<std::string> on_s3(std::vector<std::string> cases) {
  return store::s3_endpoint() ? std::move(cases) : std::vector<std::string>();
}

class S3Folder : public StoreTest, public testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    setenv("AWS_ENDPOINT_URL", proxy_.endpoint().c_str(), 1);
  }
  void TearDown() override {
    unsetenv("AWS_ENDPOINT_URL");
    StoreTest::TearDown();
  }
  uint64_t put(const fs::path& directory) { return store::put_directory_on_s3(directory, uri_); }
  void put_file(const std::string& key, const std::string& content) {
    const Status put = (*store::open_bucket(uri_, store::s3_options()))->put_over(key, as_bytes(content));
    ASSERT_TRUE(put.ok()) << put.message();
  }
  void expect_same(const std::string& here, const std::string& there) {
    EXPECT_EQ(differences(here, "import", there, "import"), std::vector<std::string>());
    EXPECT_EQ(tree_of(here, "import"), tree_of(there, "import"));
  }
  // The .pt files of three ranks: what each has of its own, what all have, and that by other strides. Not `alike`: of
  // rank 2 the last byte of what all have is another.
  void rank_files(const std::string& directory, bool alike = true) {
    fs::create_directories(path(directory));
    for (int rank = 0; rank < 3; rank++) {
      const std::string label = directory + std::to_string(rank);
      SavedTensor all = floats("all", {600, 500}, 1);
      if (rank == 2 && !alike) all.data.back() ^= 1;
      save(label, {{floats("own", {250'000}, static_cast<unsigned>(rank + 5)), std::move(all)},
                   {{"turned", "all", {500, 600}, {1, 500}}},
                   R"({"own":)" + leaf("own") + R"(,"all":)" + leaf("all") + R"(,"turned":)" + leaf("turned") + "}"});
      const Failure out =
          export_to(path(directory + "/rank" + std::to_string(rank) + ".pt"), label, {{"format", "pt"}});
      ASSERT_EQ(out.code, CKPT_OK) << out.message;
    }
  }
  Failure import_there(const std::string& label = "there") { return import_from(uri_, label); }
  // The first request of that beginning meets what happens now.
  void before(const std::string& line, std::function<void()> happens) {
    auto once = std::make_shared<std::once_flag>();
    proxy_.script([=](const std::string& asked) {
      if (asked.starts_with(line)) std::call_once(*once, happens);
      return std::string();
    });
  }
  std::string line_of(const std::string& file) const { return "GET /" + uri_.substr(5) + '/' + file; }

  store::FaultProxy proxy_{store::s3_endpoint()};
  const std::string uri_ = store::fresh_s3_uri();
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(S3Folder);

// ---- every layout ----

class S3Layout : public S3Folder {
 protected:
  // A directory of this machine that has that layout: a fixture, or an export.
  std::string made(const std::string& name) {
    const fs::path fixture = fs::path(CKPT_SOURCE_DIR) / "interop/tests/fixtures" / name;
    if (fs::exists(fixture)) return fixture;
    // Larger than what comes with the opening of a file.
    const std::string model = R"({"a":)" + leaf("model/a") + R"(,"norm.weight":)" + leaf("model/norm.weight") +
                              R"(,"x.wq.weight":)" + leaf("model/x.wq.weight") + "}";
    save("made", {{floats("model/a", {70'001, 5}), floats("model/norm.weight", {60'000}, 2),
                   floats("model/x.wq.weight", {6, 60'000}, 3)},
                  {},
                  name == "hfai" || name == "torchtune" ? R"({"model":)" + model + "}" : model});
    const Failure out = export_to(path(name), "made", settings_of(name));
    EXPECT_EQ(out.code, CKPT_OK) << out.message;
    return path(name);
  }
  static std::vector<std::pair<const char*, const char*>> settings_of(const std::string& name) {
    if (name == "hfai") return {{"format", "hfai"}, {"shards", "3"}};
    if (name == "torchtune") return {{"format", "torchtune"}};
    if (name == "meta") return {{"format", "meta"}, {"shards", "2"}};
    return {{"format", "safetensors"}, {"shard_bytes", "1000000"}};
  }
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(S3Layout);
INSTANTIATE_TEST_SUITE_P(S3, S3Layout,
                         testing::ValuesIn(on_s3({"dcp/fsdp2",
                                                  "dcp/no_collectives",
                                                  "dcp/zstd",
                                                  "dcp/hf",
                                                  "megatron/0.16.1",
                                                  "hf_trainer",
                                                  "accelerate/plain",
                                                  "accelerate/bin",
                                                  "accelerate/full",
                                                  "accelerate/fsdp",
                                                  "accelerate/ranks",
                                                  "deepspeed/zero1",
                                                  "deepspeed/zero3",
                                                  "deepspeed/universal",
                                                  "olmo_pt",
                                                  "olmo_safetensors",
                                                  "olmo_core",
                                                  "ranks/local",
                                                  "ranks/torch_legacy",
                                                  "ranks/dtensor",
                                                  "ranks/sharded",
                                                  "ranks/grid",
                                                  "hfai",
                                                  "torchtune",
                                                  "meta",
                                                  "sets"})));

TEST_P(S3Layout, IsImportedFromThereAsFromHere) {
  const std::string directory = made(GetParam());
  const uint64_t bytes = put(directory);
  const Failure here = import_from(directory, "here");
  ASSERT_EQ(here.code, CKPT_OK) << here.message;
  const Failure there = import_there();
  ASSERT_EQ(there.code, CKPT_OK) << there.message;
  expect_same("here", "there");
  const uint64_t words = 1000 * proxy_.requests();  // the heads of answers, and lists
  EXPECT_LE(proxy_.answered(), bytes * 21 / 20 + words) << "of " << bytes;
  const Failure again = import_from(uri_, "again", {{"verify_after", 1}});
  EXPECT_EQ(again.code, CKPT_OK) << again.message;
}

// ---- what is read ----

INSTANTIATE_TEST_SUITE_P(S3, S3Folder, testing::ValuesIn(on_s3({"S3"})));

TEST_P(S3Folder, WhatRanksHaveAlikeIsFoundToTheLastByteAndReadOnce) {
  for (const std::string name : {"alike", "unlike"}) {
    SCOPED_TRACE(name);
    rank_files(name, name == "alike");
    const uint64_t bytes = put(path(name)), before = proxy_.answered();
    ASSERT_EQ(import_from(path(name), "here-" + name).code, CKPT_OK);
    const Failure there = import_there("there-" + name);
    ASSERT_EQ(there.code, CKPT_OK) << there.message;
    EXPECT_LE(proxy_.answered() - before, bytes * 21 / 20 + (64u << 10)) << "of " << bytes;
    expect_same("here-" + name, "there-" + name);
    EXPECT_EQ(tree_of("there-" + name, "import").find("all/rank2") == std::string::npos, name == "alike");
  }
}

TEST_P(S3Folder, OnlyWhatDescribesTensorsIsReadOfWhatIsLookedAt) {
  fs::create_directories(path("d"));
  const std::string big = floats("w", {2'000'000}, 3).data;
  save("big", {{{"w", CKPT_DTYPE_F32, {2'000'000}, big}}, {}, R"({"w":)" + leaf("w") + "}"});
  ASSERT_EQ(export_to(path("d/pytorch_model.bin"), "big", {{"format", "pt"}}).code, CKPT_OK);
  put(path("d"));
  ckpt_file* file = nullptr;
  ckpt_options* options = nullptr;
  must([&](auto** err) { return ckpt_options_new(&options, err); });
  for (const char* name : {"verify", "tensor_data"})
    must([&](auto** err) { return ckpt_options_set_int(options, name, 0, err); });
  must([&](auto** err) { return ckpt_file_open(&file, uri_.c_str(), options, err); });
  EXPECT_LE(proxy_.answered(), 256u << 10);
  std::string row(4000, 0);
  ckpt_tensor_desc desc = describe(CKPT_DTYPE_F32, {2'000'000});
  desc.region_kind = CKPT_REGION_FLAT;
  desc.flat_offset = 1'000'000;
  desc.flat_size = 1000;
  must([&](auto** err) { return ckpt_file_read(file, 0, &desc, row.data(), row.size(), err); });
  EXPECT_EQ(row, big.substr(4'000'000, 4000));
  EXPECT_LE(proxy_.answered(), 768u << 10);
  ckpt_file_free(file);
  ckpt_options_free(options);
}

// ---- what changes, and what is odd ----

TEST_P(S3Folder, AFileThatVanishesOrIsReplacedAfterItWasListedIsNamed) {
  rank_files("d");
  put(path("d"));
  const auto refused = [&](const std::string& word) {
    const Failure failure = import_there("gone");
    EXPECT_EQ(failure.code, CKPT_GONE) << failure.message;
    EXPECT_NE(failure.message.find(word), std::string::npos) << failure.message;
    EXPECT_EQ(detail(failure, "path"), uri_ + "/rank1.pt");
  };
  std::string other = read_file(path("d/rank1.pt"));
  other.back() ^= 1;
  const auto direct = *store::open_bucket(uri_, store::s3_options());
  before(line_of("rank1.pt"), [&] { put_file("rank1.pt", other); });
  refused("replaced");
  before(line_of("rank1.pt"), [&] { put_file("rank1.pt", other + '!'); });
  refused("expected");
  before(line_of("rank1.pt"), [&] { (void)direct->remove("rank1.pt", false); });
  refused("not there any more");
  proxy_.script({});
  const Failure missing = import_there("missing");
  EXPECT_EQ(missing.code, CKPT_INCOMPLETE) << missing.message;
  EXPECT_EQ(detail(missing, "path"), uri_ + "/rank1.pt");
}

// What a list request of a folder is answered.
std::string list_of(const std::vector<std::string>& keys, const std::string& next = "") {
  std::string xml = "<?xml version=\"1.0\"?><ListBucketResult>";
  for (const std::string& key : keys)
    xml += "<Contents><Key>" + key +
           "</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>\"x\"</ETag><Size>7</Size></Contents>";
  xml += next.empty() ? "<IsTruncated>false</IsTruncated>"
                      : "<IsTruncated>true</IsTruncated><NextContinuationToken>" + next + "</NextContinuationToken>";
  return store::answer_of("200 OK", xml + "</ListBucketResult>");
}

// No key of a store has one, so the list is read as if they were not there.
TEST_P(S3Folder, NamesThatLeadOutOfTheDirectoryAreNotAskedFor) {
  const std::string prefix = uri_.substr(std::string("s3://ckpt-test/").size()) + '/';
  for (const std::string& name : {std::string(".."), std::string("."), std::string(300, 'a')}) {
    std::string asked;
    proxy_.script([&](const std::string& line) {
      const bool lists = line.starts_with("GET /ckpt-test?");
      if (!lists) asked += line + "\n";
      return lists ? list_of({prefix + "rank0.pt", prefix + name}) : std::string();
    });
    const Failure failure = import_from(uri_ + '/', "hostile");
    EXPECT_EQ(failure.code, CKPT_GONE) << failure.message;  // rank0.pt, which is not there either
    EXPECT_NE(asked.find("rank0.pt"), std::string::npos) << asked;
    EXPECT_EQ(asked.find('/' + name + ' '), std::string::npos) << asked;
  }
}

TEST_P(S3Folder, ADirectoryOfManyOtherThingsIsListedOnce) {
  const std::string prefix = uri_.substr(std::string("s3://ckpt-test/").size()) + '/';
  int lists = 0, others = 0;
  proxy_.script([&](const std::string& line) {
    if (!line.starts_with("GET /ckpt-test?")) return others++, std::string();
    std::vector<std::string> keys;
    for (int i = 0; i < 1000; i++) keys.push_back(prefix + strformat("{:02}/{:04}.log", lists, i).replace(2, 1, "-"));
    return lists++, list_of(keys, lists < 5 ? "t" + std::to_string(lists) : "");
  });
  const Failure failure = import_from(uri_ + '/', "logs");
  EXPECT_EQ(failure.code, CKPT_NOT_FOUND) << failure.message;
  EXPECT_NE(failure.message.find("5000 entries"), std::string::npos) << failure.message;
  EXPECT_LT(failure.message.size(), 4000u);
  EXPECT_EQ(lists, 5);
  EXPECT_EQ(others, 0);
  proxy_.script({});
  put_file("a", "1");
  put_file("b/c", "2");
  EXPECT_EQ((*store::open_bucket(uri_, store::s3_options()))->list_at_most("", 1).status().code(), CKPT_UNSUPPORTED);
}

TEST_P(S3Folder, AListThatFailsIsTheAnswerAndNotWhatFollowsFromIt) {
  put(fs::path(CKPT_SOURCE_DIR) / "interop/tests/fixtures/accelerate/fsdp");
  proxy_.script([&](const std::string& line) {
    const bool inner = line.starts_with("GET /ckpt-test?") && line.find("_fsdp_") != std::string::npos;
    return inner ? store::error_answer("403 Forbidden", "AccessDenied") : std::string();
  });
  const Failure failure = import_there();
  EXPECT_NE(failure.code, CKPT_OK);
  EXPECT_NE(failure.message.find("AccessDenied"), std::string::npos) << failure.message;
}

TEST_P(S3Folder, WhatIsNowhereIsNotThere) {
  for (const char* ending : {"", "/", "/x.pt"}) {
    const Failure failure = import_from(uri_ + ending, "nothing");
    EXPECT_EQ(failure.code, CKPT_NOT_FOUND) << failure.message;
    EXPECT_NE(failure.message.find(uri_), std::string::npos) << failure.message;
  }
  // An object that is a mark of a directory, and a file by its own address.
  rank_files("d");
  put(path("d"));
  (void)(*store::open_bucket(uri_.substr(0, uri_.rfind('/')), store::s3_options()))
      ->put_over(uri_.substr(uri_.rfind('/') + 1), {});
  EXPECT_EQ(import_there("marked").code, CKPT_OK);
  EXPECT_EQ(import_from(uri_ + "/rank0.pt", "one").code, CKPT_OK);
}

}  // namespace
}  // namespace ckpt::interop
