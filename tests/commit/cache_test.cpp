// Loads through a cache whose files come to harm: they never fail and never give other bytes, and the cache is mended.
// And whatever tells what the store holds looks past it.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "checkpoint/engine.h"
#include "maintain/copy.h"
#include "maintain/diff.h"
#include "maintain/repair.h"
#include "maintain/verify.h"
#include "store/remote_store.h"

namespace ckpt::commit {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kRows = 256, kColumns = 4096;  // 4 MiB
constexpr uint64_t kSmall = 40;                   // tensors of 100 elements each

std::vector<float> numbers(uint64_t count, uint64_t seed) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; i++) values[i] = static_cast<float>((i * 7 + seed) % 1000);
  return values;
}

Status save_state(const std::shared_ptr<store::Store>& store, const SaveOptions& options = {}) {
  auto session = open_session(store);
  CKPT_ASSIGN(auto save, save::Save::make(session, "s1", 1, options));
  const std::vector<float> large = numbers(kRows * kColumns, 0);
  CKPT_TRY(save->add_tensor("large", f32_rows(kRows, kColumns, 0, kRows), large.data(), large.size() * 4));
  std::vector<std::vector<float>> small;
  for (uint64_t i = 0; i < kSmall; i++) {
    small.push_back(numbers(100, i));
    CKPT_TRY(save->add_tensor(strformat("small.{}", i), f32_rows(10, 10, 0, 10), small[i].data(), 400));
  }
  const std::string object(300000, 'o');
  CKPT_TRY(save->add_object("object", "text/plain", CKPT_OBJECT_SHARED, as_bytes(object)));
  return run_whole(*save);
}

// Loads all of it, and compares.
Status load_state(const std::shared_ptr<store::Store>& store, const LoadOptions& options = {}) {
  CKPT_ASSIGN(auto checkpoint, checkpoint::Checkpoint::open(store, {"latest", "main"}));
  CKPT_ASSIGN(auto load, load::Load::make(checkpoint, options));
  std::vector<float> large(kRows * kColumns);
  CKPT_TRY(load->add_tensor("large", f32_rows(kRows, kColumns, 0, kRows), large.data(), large.size() * 4));
  std::vector<std::vector<float>> small(kSmall, std::vector<float>(100));
  for (uint64_t i = 0; i < kSmall; i++)
    CKPT_TRY(load->add_tensor(strformat("small.{}", i), f32_rows(10, 10, 0, 10), small[i].data(), 400));
  std::string object(300000, ' ');
  CKPT_TRY(load->add_object("object", 0, {reinterpret_cast<std::byte*>(object.data()), object.size()}));
  CKPT_TRY(run_whole(*load));
  EXPECT_TRUE(large == numbers(kRows * kColumns, 0));
  for (uint64_t i = 0; i < kSmall; i++) EXPECT_TRUE(small[i] == numbers(100, i)) << i;
  EXPECT_EQ(object, std::string(300000, 'o'));
  return Ok();
}

class CachedLoad : public testing::Test {
 protected:
  CachedLoad() {
    char pattern[] = "/tmp/ckpt-cached-XXXXXX";
    place_ = mkdtemp(pattern);
    disk_ = *store::open_posix((place_ / "store").string(), {});
  }
  ~CachedLoad() override { fs::remove_all(place_); }

  std::shared_ptr<store::Store> remote() { return std::make_shared<store::RemoteStore>(disk_, requests_); }
  std::shared_ptr<store::Store> cached() {
    auto store =
        store::open_cache(remote(), {.cache = {.directory = (place_ / "cache").string(), .bytes = store::kCacheRoom}});
    EXPECT_TRUE(store.ok()) << store.status().message();
    return *store;
  }
  // The one file of the cache.
  std::string entry() const {
    std::string found;
    for (const auto& file : fs::recursive_directory_iterator(place_ / "cache"))
      if (file.is_regular_file() && file.path().filename() != "lock") found = file.path().string();
    return found;
  }
  static void flip(const std::string& path, uint64_t offset) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(static_cast<std::streamoff>(offset));
    const char byte = static_cast<char>(file.get() ^ 4);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(byte);
  }
  // Everything that is in the part, as garbage.
  void poison() const {
    std::fstream file(entry(), std::ios::binary | std::ios::in | std::ios::out);
    file << std::string(fs::file_size(part()), 'x');
  }
  fs::path part() const { return place_ / "store" / "s1.1.1" / "PART_000"; }
  std::string take() {
    requests_->bytes = 0;
    return requests_.take();
  }

  fs::path place_;
  std::shared_ptr<store::Store> disk_;
  const store::Requests requests_;
};

TEST_F(CachedLoad, HealsEachByteThatCameToHarm) {
  for (const char* codec : {"none", "lz4"}) {
    fs::remove_all(place_ / "store");
    fs::remove_all(place_ / "cache");
    ASSERT_TRUE(save_state(disk_, {.compression = codec}).ok());
    ASSERT_TRUE(load_state(cached()).ok());
    const uint64_t size = fs::file_size(part());
    for (uint64_t offset = 11; offset < size; offset += size / 97) {
      flip(entry(), offset);
      take();
      const Status loaded = load_state(cached());
      EXPECT_TRUE(loaded.ok()) << codec << " at " << offset << ": " << loaded.message();
      EXPECT_LE(requests_->bytes, 2u << 20) << "only what was damaged";
    }
    take();
    EXPECT_TRUE(load_state(cached()).ok());
    EXPECT_EQ(take(), "0 0 0") << "it was mended";
  }
}

// A store that was emptied and begun again: the cache has another part, of the same name and size, and opens this one.
TEST_F(CachedLoad, OfAnotherCheckpointOfTheSameNameIsItsOwn) {
  ASSERT_TRUE(save_state(disk_).ok());
  ASSERT_TRUE(load_state(cached()).ok());
  const uint64_t size = fs::file_size(part());
  fs::remove_all(place_ / "store");
  ASSERT_TRUE(save_state(disk_).ok());
  ASSERT_EQ(fs::file_size(part()), size) << "or this test shows nothing";
  for (const char* asked : {"1 0 ", "0 0 0"}) {
    take();
    const Status loaded = load_state(cached());
    EXPECT_TRUE(loaded.ok()) << loaded.message();
    EXPECT_EQ(take().substr(0, strlen(asked)), asked);
  }
}

TEST_F(CachedLoad, ChecksWhatComesFromTheCacheWhateverTheCallerWants) {
  ASSERT_TRUE(save_state(disk_).ok());
  ASSERT_TRUE(load_state(cached()).ok());
  poison();
  const Status loaded = load_state(cached(), {.verify = false});
  EXPECT_TRUE(loaded.ok()) << loaded.message();
}

// As a power cut leaves it: the map was written, and the data was not.
TEST_F(CachedLoad, HealsBlocksThatAreMarkedAndWereNeverWritten) {
  ASSERT_TRUE(save_state(disk_).ok());
  ASSERT_TRUE(load_state(cached()).ok());
  {
    std::fstream file(entry(), std::ios::binary | std::ios::in | std::ios::out);
    file << std::string(fs::file_size(part()), '\0');
  }
  for (int i = 0; i < 2; i++) {
    take();
    const Status loaded = load_state(cached());
    EXPECT_TRUE(loaded.ok()) << loaded.message();
    EXPECT_EQ(requests_->reads == 0, i == 1);
  }
}

TEST_F(CachedLoad, OfAPartThatIsDamagedInTheStoreIsCorruptAsWithoutACache) {
  ASSERT_TRUE(save_state(disk_).ok());
  flip(part(), 1 << 20);
  for (int i = 0; i < 2; i++) EXPECT_EQ(load_state(cached()).code(), CKPT_CORRUPT);
}

// ---- what looks past it ----

Report verify(const std::shared_ptr<store::Store>& store) {
  auto checkpoint = checkpoint::Checkpoint::open(store, {"latest", "main"});
  EXPECT_TRUE(checkpoint.ok());
  Job job;
  EXPECT_TRUE(maintain::verify_checkpoint(**checkpoint, {}, job).ok());
  return job.report;
}

TEST_F(CachedLoad, VerificationTellsTheTruthAboutTheStore) {
  ASSERT_TRUE(save_state(disk_).ok());
  ASSERT_TRUE(load_state(cached()).ok());
  poison();
  take();
  EXPECT_EQ(verify(cached()).findings.size(), 0u);
  EXPECT_GE(requests_->bytes, fs::file_size(part()) * 9 / 10) << "it read the store";
  fs::remove_all(place_ / "cache");
  ASSERT_TRUE(load_state(cached()).ok());
  // As it would be on a server: other bytes of the same version.
  const timespec times[2] = {{0, UTIME_OMIT}, [this] {
                               struct stat found{};
                               EXPECT_EQ(stat(part().c_str(), &found), 0);
                               return found.st_mtim;
                             }()};
  flip(part(), 1 << 20);
  ASSERT_EQ(utimensat(AT_FDCWD, part().c_str(), times, 0), 0);
  EXPECT_TRUE(load_state(cached()).ok()) << "the cache has it still, or this test shows nothing";
  EXPECT_EQ(verify(cached()).findings.size(), 1u);
}

TEST_F(CachedLoad, CopiesComparisonsAndRepairsLookAtTheStore) {
  ASSERT_TRUE(save_state(disk_).ok());
  ASSERT_TRUE(load_state(cached()).ok());
  poison();
  auto checkpoint = *checkpoint::Checkpoint::open(cached(), {"latest", "main"});
  auto plain = *checkpoint::Checkpoint::open(disk_, {"latest", "main"});
  Job job;
  Report report;
  auto to = fresh_memory_store();
  const Status copied = maintain::copy_checkpoint(*checkpoint, *to, {}, &report, job);
  EXPECT_TRUE(copied.ok()) << copied.message();
  EXPECT_EQ(verify(to).findings.size(), 0u);
  Report differences;
  Job comparing;
  EXPECT_TRUE(maintain::diff_checkpoints(*checkpoint, *plain, true, 2, &differences, comparing).ok());
  EXPECT_EQ(differences.findings.size(), 0u);
  checkpoint.reset();
  plain.reset();
  ASSERT_TRUE(fs::remove(place_ / "store" / "s1.1.1" / "MANIFEST"));
  Job repairing;
  Report repaired;
  const Status made = maintain::repair_checkpoint(*cached(), "s1.1.1", false, false, &repaired, repairing);
  EXPECT_TRUE(made.ok()) << made.message();
}

TEST_F(CachedLoad, OfAManifestThatWasReplacedSinceIsVerifiedAsGone) {
  ASSERT_TRUE(save_state(disk_).ok());
  auto checkpoint = *checkpoint::Checkpoint::open(cached(), {"latest", "main"});
  fs::remove_all(place_ / "store");
  ASSERT_TRUE(save_state(disk_).ok());
  Job job;
  EXPECT_EQ(maintain::verify_checkpoint(*checkpoint, {}, job).code(), CKPT_GONE);
}

}  // namespace
}  // namespace ckpt::commit
