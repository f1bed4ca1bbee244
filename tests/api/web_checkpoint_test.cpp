// Checkpoints that a web server shows, opened in place by the C API.
#include <filesystem>

#include "api/sample.h"
#include "s3/file_server.h"

namespace ckpt_test {
namespace {

using ckpt::store::FileServer;

const std::string kGolden = std::string(CKPT_SOURCE_DIR) + "/tests/golden/r1";

Store open_store(const std::string& uri) {
  ckpt_store* store = nullptr;
  Error error;
  EXPECT_EQ(ckpt_store_open(&store, uri.c_str(), nullptr, error), CKPT_OK) << error.text();
  return Store(store);
}

Reader open_reader(const Store& store, const std::string& id) {
  ckpt_reader* reader = nullptr;
  Error error;
  EXPECT_EQ(ckpt_reader_open(&reader, store.get(), id.c_str(), nullptr, error), CKPT_OK) << error.text();
  return Reader(reader);
}

size_t findings(ckpt_report* report) {
  const size_t count = ckpt_report_count(report);
  ckpt_report_free(report);
  return count;
}

TEST(WebCheckpoint, EveryGoldenOneIsThereWhatItIsInItsDirectory) {
  FileServer server;
  server.put_directory("/a%20b/r1", kGolden);
  const Store here = open_store(kGolden), there = open_store(server.address() + "/a%20b/r1/");
  for (const auto& entry : std::filesystem::directory_iterator(kGolden)) {
    if (!entry.is_directory()) continue;
    const std::string id = entry.path().filename();
    SCOPED_TRACE(id);
    const Reader a = open_reader(here, id), b = open_reader(there, id);
    if (!a || !b) continue;
    ckpt_report* report = nullptr;
    Error error;
    ASSERT_EQ(ckpt_reader_diff(a.get(), b.get(), nullptr, &report, error), CKPT_OK) << error.text();
    EXPECT_EQ(findings(report), 0u);
    ckpt_job* job = nullptr;
    ASSERT_EQ(ckpt_reader_verify(b.get(), nullptr, &job, error), CKPT_OK) << error.text();
    ASSERT_EQ(ckpt_job_wait(job, CKPT_JOB_DONE, -1, error), CKPT_OK) << error.text();
    ASSERT_EQ(ckpt_job_report(job, &report, error), CKPT_OK) << error.text();
    EXPECT_EQ(findings(report), 0u);
    ckpt_job_free(job);
    const Store copy = open_store("mem:web-" + id);
    ASSERT_EQ(ckpt_reader_copy(b.get(), copy.get(), nullptr, nullptr, error), CKPT_OK) << error.text();
    EXPECT_TRUE(open_reader(copy, id));
  }
}

TEST(WebCheckpoint, LatestLabelsAndListsSayWhatToGiveInstead) {
  FileServer server;
  server.put_directory("/r1", kGolden);
  const Store store = open_store(server.address() + "/r1");
  const std::pair<const char*, ckpt_status> questions[] = {{"latest", CKPT_UNSUPPORTED},
                                                           {"step:1", CKPT_UNSUPPORTED},
                                                           {"label:dtypes", CKPT_UNSUPPORTED},
                                                           {"none-100", CKPT_NOT_FOUND},
                                                           {"none-100.7.1", CKPT_NOT_FOUND}};
  for (const auto& [selector, status] : questions) {
    ckpt_reader* reader = nullptr;
    Error error;
    EXPECT_EQ(ckpt_reader_open(&reader, store.get(), selector, nullptr, error), status) << selector << error.text();
    EXPECT_NE(error.text().find("step-100.7.1"), std::string::npos) << selector << error.text();
  }
  ckpt_list* list = nullptr;
  ckpt_runs* runs = nullptr;
  ckpt_session* session = nullptr;
  Error error;
  EXPECT_EQ(ckpt_store_list(store.get(), &list, error), CKPT_UNSUPPORTED) << error.text();
  EXPECT_EQ(ckpt_store_runs(store.get(), &runs, error), CKPT_UNSUPPORTED) << error.text();
  EXPECT_EQ(ckpt_session_open(&session, store.get(), 0, 1, nullptr, nullptr, error), CKPT_UNSUPPORTED) << error.text();
  EXPECT_NE(error.text().find("read-only"), std::string::npos) << error.text();
  EXPECT_EQ(ckpt_store_remove(store.get(), "dtypes", error), CKPT_UNSUPPORTED) << error.text();
}

TEST(WebCheckpoint, ADamagedOneIsDamagedAndOneThatMayNotBeReadIsNotAbsent) {
  FileServer server;
  server.put_directory("/r1", kGolden);
  server.put("/r1/dtypes/MANIFEST", "<html>not here</html>");
  const Store store = open_store(server.address() + "/r1");
  ckpt_reader* reader = nullptr;
  Error error;
  EXPECT_EQ(ckpt_reader_open(&reader, store.get(), "dtypes", nullptr, error), CKPT_FORMAT) << error.text();
  server.script([](const std::string&) { return ckpt::store::answer_of("403 Forbidden", ""); });
  EXPECT_EQ(ckpt_reader_open(&reader, store.get(), "lz4", nullptr, error), CKPT_IO) << error.text();
  EXPECT_NE(error.text().find("HTTP status 403"), std::string::npos) << error.text();
}

}  // namespace
}  // namespace ckpt_test
