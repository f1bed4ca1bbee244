// Directories of other programs on an S3 server: every layout that is read on this machine is read there, by ranges.
#include <filesystem>

#include "interop/folder.h"
#include "interop/formats.h"
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
    const Status put = (*store::open_s3(uri_, store::s3_options()))->put_over(key, as_bytes(content));
    ASSERT_TRUE(put.ok()) << put.message();
  }
  void expect_same(const std::string& here, const std::string& there) {
    EXPECT_EQ(differences(here, "import", there, "import"), std::vector<std::string>());
    EXPECT_EQ(tree_of(here, "import"), tree_of(there, "import"));
  }
  // A .pt of one tensor with so many numbers, and values beside it.
  void pt_file(const std::string& file, int64_t numbers, unsigned seed) {
    fs::create_directories(fs::path(path(file)).parent_path());
    const std::string label = "made-" + std::to_string(made_++);
    save(label, {{floats("w", {numbers}, seed), floats("same", {300'000}, 1)},
                 {},
                 R"({"w":)" + leaf("w") + R"(,"same":)" + leaf("same") + "}"});
    const Failure out = export_to(path(file), label, {{"format", "pt"}});
    ASSERT_EQ(out.code, CKPT_OK) << out.message;
  }

  store::FaultProxy proxy_{store::s3_endpoint()};
  const std::string uri_ = store::fresh_s3_uri();
  int made_ = 0;
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(S3Folder);

// ---- every layout ----

class S3Layout : public S3Folder {
 protected:
  // A directory of this machine that has that layout: a fixture, or an export.
  std::string made(const std::string& name) {
    const fs::path fixture = fs::path(CKPT_SOURCE_DIR) / "tests/interop/fixtures" / name;
    if (fs::exists(fixture)) return fixture;
    const std::string model = R"({"a":)" + leaf("model/a") + R"(,"norm.weight":)" + leaf("model/norm.weight") +
                              R"(,"wide.weight":)" + leaf("model/wide.weight") + "}";
    save("made", {{floats("model/a", {7, 5}), floats("model/norm.weight", {4}, 2), floats("model/wide.weight", {8, 4}, 3)},
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
    return {{"format", "safetensors"}, {"shard_bytes", "100"}};
  }
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(S3Layout);
INSTANTIATE_TEST_SUITE_P(
    S3, S3Layout,
    testing::ValuesIn(on_s3({"dcp/fsdp2", "dcp/no_collectives", "dcp/zstd", "dcp/hf", "megatron/0.16.1", "hf_trainer",
                             "accelerate/plain", "accelerate/bin", "accelerate/full", "accelerate/fsdp",
                             "accelerate/ranks", "deepspeed/zero1", "deepspeed/zero3", "deepspeed/universal",
                             "olmo_pt", "olmo_safetensors", "olmo_core", "ranks/local", "ranks/torch_legacy",
                             "ranks/dtensor", "ranks/sharded", "ranks/grid", "hfai", "torchtune", "meta", "sets"})));

TEST_P(S3Layout, IsImportedFromThereAsFromHere) {
  const std::string directory = made(GetParam());
  const uint64_t bytes = put(directory);
  const Failure here = import_from(directory, "here");
  ASSERT_EQ(here.code, CKPT_OK) << here.message;
  const Failure there = import_from(uri_, "there", {{"verify_after", 1}});
  ASSERT_EQ(there.code, CKPT_OK) << there.message;
  expect_same("here", "there");
  EXPECT_LE(proxy_.answered(), bytes * 5 / 4 + (256u << 10)) << "nothing of small files is fetched twice";
}

}  // namespace
}  // namespace ckpt::interop
