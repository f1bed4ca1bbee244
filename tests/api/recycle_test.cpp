// Saves that overwrite the part files of removed checkpoints: what they write, what others see, and which files are
// kept.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "api/process.h"
#include "api/ranks.h"

using namespace ckpt_test;

namespace {

using Names = std::vector<std::string>;
const Setting kKeepOne{"keep_last", 1};

class RecycleTest : public ::testing::Test {
 protected:
  std::string pool() const { return scratch / "store/.ckpt/recycled"; }
  std::string part_of(const std::string& id, int rank = 0) const {
    return uri + "/" + id + "/PART_00" + std::to_string(rank);
  }
  // One rank saves one tensor of these bytes. Returns the statistics.
  ckpt_job_stats save(const Session& session, const std::string& label, const Bytes& data,
                      const std::vector<Setting>& settings = {kKeepOne}) {
    Save made = new_save(session, label, settings);
    add(made.get(), "t", whole(CKPT_DTYPE_U8, {static_cast<int64_t>(data.size())}), data);
    const Job job = start(made);
    finish(job, CKPT_JOB_COMMITTED);
    return stats_of(job);
  }
  Bytes load(const Store& store, size_t size) {
    Reader reader = open_reader(store);
    return load_one(reader, "t", whole(CKPT_DTYPE_U8, {static_cast<int64_t>(size)}), size);
  }
  // "" if a full verification of the latest finds nothing.
  std::string damage(const Store& store) { return to_text(verify(open_reader(store).get())); }

  Scratch scratch;
  const std::string uri = scratch / "store";
};
using Recycle = RecycleTest;

ino_t inode_of(const std::string& path) {
  struct stat found{};
  EXPECT_EQ(stat(path.c_str(), &found), 0) << path;
  return found.st_ino;
}

const Bytes kOld(3 << 20, 0xA5);

}  // namespace

TEST_F(Recycle, ASaveWritesIntoThePartThatTheOneBeforeRetired) {
  Store store = open_store(uri);
  Session session = open_session(store);
  EXPECT_EQ(save(session, "s1", kOld).recycled, 0u);
  ino_t first = inode_of(part_of("s1.1.1"));
  EXPECT_EQ(save(session, "s2", kOld).recycled, 0u);
  EXPECT_EQ(names_in(pool()), Names{"PART_000"});
  for (const char* label : {"s3", "s4", "s5"}) {
    Bytes data = pattern(3 << 20, static_cast<uint64_t>(label[1]));
    EXPECT_EQ(save(session, label, data).recycled, 1u) << label;
    EXPECT_TRUE(load(store, data.size()) == data) << label;
    EXPECT_EQ(damage(store), "") << label;
  }
  EXPECT_EQ(inode_of(part_of("s5.1.1")), first) << "two files take turns";
}

// The old part is full of one byte that the new part does not have.
TEST_F(Recycle, NoOldByteIsLeftInANewPart) {
  for (const char* direct : {"auto", "off"})
    for (const char* codec : {"none", "lz4"})
      for (size_t size : {(size_t{1} << 20) + 1, (size_t{2} << 20) - 4095, size_t{2500000}, size_t{5} << 20}) {
        SCOPED_TRACE(std::string(direct) + " " + codec + " " + std::to_string(size));
        std::filesystem::remove_all(uri);
        ckpt_store* raw = nullptr;
        Error error;
        ASSERT_EQ(ckpt_store_open(&raw, uri.c_str(), options({{"direct_io", direct}}).get(), error), CKPT_OK);
        Store store(raw);
        Session session = open_session(store);
        save(session, "s1", kOld);
        save(session, "s2", kOld);
        ASSERT_EQ(names_in(pool()), Names{"PART_000"});
        // Overwrites the donor's other bytes too: its header and its index.
        std::string path = pool() + "/PART_000", marks(std::filesystem::file_size(path), '\xA5');
        int fd = open(path.c_str(), O_WRONLY);
        ASSERT_EQ(pwrite(fd, marks.data(), marks.size(), 0), static_cast<ssize_t>(marks.size()));
        close(fd);
        // One tensor alone in its block, or several of odd sizes: gaps within blocks, between them and at the end.
        Save made = new_save(session, "s3", {{"compression", codec}});
        std::vector<Bytes> kept{Bytes(size, 0x11)};
        if (size % 2 == 0) kept.insert(kept.end(), {Bytes(333, 0x22), Bytes(size / 3, 0x33)});
        for (size_t i = 0; i < kept.size(); i++)
          add(made.get(), "t" + std::to_string(i), whole(CKPT_DTYPE_U8, {static_cast<int64_t>(kept[i].size())}),
              kept[i]);
        run(made);
        // Checksums and other numbers may contain the byte by chance, but never eight in a row.
        EXPECT_EQ(read_file(part_of("s3.1.1")).find(std::string(8, '\xA5')), std::string::npos);
        EXPECT_EQ(damage(store), "");
      }
}

TEST_F(Recycle, EveryWayToRemoveACheckpointFeedsThePool) {
  Store store = open_store(uri);
  Session session = open_session(store);
  save(session, "s1", kOld, {});
  save(session, "s1", kOld, {{"on_existing", "replace"}});
  EXPECT_EQ(names_in(pool()), Names{"PART_000"});
  EXPECT_EQ(save(session, "s2", kOld, {}).recycled, 1u);
  Error error;
  EXPECT_EQ(ckpt_store_remove(store.get(), "s1.1.2", error), CKPT_OK) << error.text();
  EXPECT_EQ(save(session, "s3", kOld, {}).recycled, 1u);
  EXPECT_EQ(ckpt_store_prune(store.get(), options({kKeepOne}).get(), nullptr, error), CKPT_OK) << error.text();
  EXPECT_EQ(save(session, "s4", kOld, {}).recycled, 1u);
  EXPECT_EQ(names_in(pool()), Names{});
}

TEST_F(Recycle, TheAttemptOfADeadSessionFeedsThePool) {
  {
    Ranks ranks(uri, 2);
    ranks[0].send(std::string("save left 9 large=1") + kLong);
    ASSERT_TRUE(await([&] { return exists(part_of("left.1.1")); }));
  }
  Store store = open_store(uri);
  Session session = open_session(store);
  EXPECT_FALSE(exists(uri + "/left.1.1"));
  EXPECT_EQ(names_in(pool()), Names{"PART_000"});
  EXPECT_EQ(save(session, "s1", kOld).recycled, 1u);
}

TEST_F(Recycle, EachRankTakesOneAndNoneTwice) {
  World world(uri, 3);
  for (int step = 1; step <= 5; step++) {
    std::vector<Bytes> data;
    for (uint32_t rank = 0; rank < 3; rank++) data.push_back(pattern(2 << 20, static_cast<uint64_t>(step * 10) + rank));
    world.commit("s" + std::to_string(step), {kKeepOne, {"wait", 1}}, [&](uint32_t rank, ckpt_save* save) {
      auto desc = box(CKPT_DTYPE_U8, {3, 2 << 20}, {rank, 0}, {1, 2 << 20});
      add(save, "t", desc, data[rank]);
    });
    Reader reader = open_reader(world.store);
    for (uint32_t rank = 0; rank < 3; rank++) {
      auto desc = box(CKPT_DTYPE_U8, {3, 2 << 20}, {rank, 0}, {1, 2 << 20});
      EXPECT_TRUE(load_one(reader, "t", desc, 2 << 20) == data[rank]) << step;
    }
    EXPECT_EQ(names_in(pool()).size(), step == 1 ? 0u : 3u);
    EXPECT_EQ(damage(world.store), "");
  }
}

TEST_F(Recycle, ThePoolIsNoCheckpointAndInNobodysWay) {
  Store store = open_store(uri);
  Session session = open_session(store);
  for (const char* label : {"s1", "s2", "s3"}) save(session, label, kOld);
  EXPECT_EQ(entries_of(uri).size(), 1u);
  EXPECT_EQ(latest_id(uri), "s3.1.1");
  Error error;
  for (const char* id : {".ckpt/recycled", ".ckpt", "recycled"})
    EXPECT_NE(ckpt_store_remove(store.get(), id, error), CKPT_OK) << id;
  EXPECT_EQ(names_in(pool()), Names{"PART_000"});
  std::filesystem::remove_all(pool());
  EXPECT_EQ(save(session, "s4", kOld).recycled, 0u) << "deleting it is always fine";
}

// ---- readers across a prune ----

TEST_F(Recycle, AViewOfAReaderKeepsItsBytes) {
  Store store = open_store(uri);
  Session session = open_session(store);
  save(session, "s1", kOld);
  Reader reader = open_reader(store);
  const void* data = nullptr;
  uint64_t size = 0;
  Error error;
  ASSERT_EQ(ckpt_reader_map(reader.get(), "t", nullptr, &data, &size, error), CKPT_OK) << error.text();
  // Removes it like a stranger who knows nothing of the reader's lock.
  std::filesystem::create_directories(uri + "/.ckpt/trash");
  std::filesystem::rename(uri + "/s1.1.1", uri + "/.ckpt/trash/s1.1.1.0");
  Session next = open_session(store);
  EXPECT_EQ(names_in(uri + "/.ckpt/trash"), Names{});
  for (const char* label : {"s2", "s3", "s4"}) save(next, label, pattern(3 << 20, 1));
  EXPECT_EQ(Bytes(static_cast<const unsigned char*>(data), static_cast<const unsigned char*>(data) + size), kOld);
}
