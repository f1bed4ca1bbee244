// Checkpoints that a web server shows, opened in place by the C API.
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "api/ranks.h"
#include "paths.h"
#include "s3/file_server.h"

namespace ckpt_test {
namespace {

using ckpt::store::FileServer;

const std::string kGolden = std::string(CKPT_SOURCE_DIR) + "/tests/golden/r1";

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
    EXPECT_EQ(ckpt_report_count(Report(report).get()), 0u);
    EXPECT_TRUE(verify(b.get(), {}).empty());
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

TEST(WebCheckpoint, OfAStoreAndItsMirrorTheOneOnAServerHasTheCache) {
  const Scratch scratch;
  const Bytes data = pattern(1 << 20, 1);
  World world(scratch / "run", 1);
  world.commit("a", {}, [&](uint32_t, ckpt_save* save) { add(save, "w", whole(CKPT_DTYPE_U8, {1 << 20}), data); });
  FileServer server;
  server.put_directory("/run", scratch / "run");
  const std::string there = server.address() + "/run", lost = scratch / "lost", cache = scratch / "cache";
  for (const auto& [store, mirror] : {std::pair(lost, there), std::pair(there, lost)}) {
    for (const bool warm : {false, true}) {
      server.forget();
      const Store opened = open_store(
          store,
          {{"mirror", mirror.c_str()}, {"cache", (cache + "-" + store[0]).c_str()}, {"cache_bytes", int64_t{1} << 30}});
      EXPECT_EQ(load_one(open_reader(opened, "a.1.1"), "w", whole(CKPT_DTYPE_U8, {1 << 20}), 1 << 20), data);
      EXPECT_EQ(server.sent() < data.size() / 2, warm) << store << ": " << server.sent();
    }
  }
  ckpt_store* opened = nullptr;
  Error error;
  const Options local = options({{"mirror", lost.c_str()}, {"cache", cache.c_str()}});
  EXPECT_EQ(ckpt_store_open(&opened, (scratch / "run").c_str(), local.get(), error), CKPT_INVALID);
  EXPECT_NE(error.text().find("option cache: expected a store on a server"), std::string::npos) << error.text();
}

TEST(WebCheckpoint, ACacheThatCannotBeUsedIsDoneWithoutAndTheReportSaysSo) {
  const Scratch scratch;
  const Bytes data = pattern(1 << 20, 1);
  World world(scratch / "run", 1);
  world.commit("a", {}, [&](uint32_t, ckpt_save* save) { add(save, "w", whole(CKPT_DTYPE_U8, {1 << 20}), data); });
  FileServer server;
  server.put_directory("/run", scratch / "run");
  const std::string own = "/ckpt-cache-1." + std::to_string(geteuid());
  std::ofstream(scratch / "file") << "x";
  std::filesystem::create_directory(scratch / "taken");
  std::ofstream(scratch / ("taken" + own)) << "x";
  std::filesystem::create_directories(scratch / ("locked" + own + "/lock"));
  std::filesystem::permissions(scratch / ("locked" + own), std::filesystem::perms::owner_all);
  for (const std::string& cache :
       {scratch / "file", scratch / "taken", scratch / "locked", std::string("/proc/none")}) {
    for (const bool mirrored : {false, true}) {
      const std::string there = server.address() + "/run", mirror = mirrored ? there : "";
      const Store store =
          open_store(mirrored ? scratch / "lost" : there, {{"mirror", mirror.c_str()}, {"cache", cache.c_str()}});
      const Reader reader = open_reader(store, "a.1.1");
      EXPECT_EQ(load_one(reader, "w", whole(CKPT_DTYPE_U8, {1 << 20}), 1 << 20), data);
      ckpt_report* report = nullptr;
      Error error;
      ASSERT_EQ(ckpt_reader_report(reader.get(), &report, error), CKPT_OK) << error.text();
      const auto found = findings_of(Report(report).get());
      ASSERT_FALSE(found.empty());
      EXPECT_EQ(found[0].name, "");
      EXPECT_NE(found[0].status, CKPT_OK);
      EXPECT_NE(found[0].text.find("option cache"), std::string::npos) << found[0].text;
      EXPECT_NE(found[0].text.find(cache), std::string::npos) << found[0].text;
    }
  }
}

TEST(WebCheckpoint, ALoadAsksForItsPartsSeveralAtATime) {
  const Scratch scratch;
  const Bytes data = pattern(4000, 2);
  World world(scratch / "run", 4);
  world.commit("a", {}, [&](uint32_t rank, ckpt_save* save) {
    add(save, "w", box(CKPT_DTYPE_U8, {4000}, {rank * 1000}, {1000}), data.data() + size_t{rank} * 1000, 1000);
  });
  FileServer server;
  server.put_directory("/run", scratch / "run");
  std::mutex mutex;
  std::condition_variable changed;
  int asked = 0;
  bool met = false;
  server.script([&](const std::string& head) {
    if (head.find("/PART_") == head.npos) return "";
    std::unique_lock lock(mutex);
    met |= ++asked > 1;
    changed.notify_all();
    changed.wait_for(lock, std::chrono::seconds(10), [&] { return met; });
    asked--;
    return "";
  });
  const Reader reader = open_reader(open_store(server.address() + "/run"), "a.1.1");
  EXPECT_EQ(load_one(reader, "w", whole(CKPT_DTYPE_U8, {4000}), 4000), data);
  EXPECT_TRUE(met);
}

}  // namespace
}  // namespace ckpt_test
