// Rebuilding MANIFEST from the parts.
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <filesystem>

#include "api/process.h"
#include "api/sample.h"

namespace ckpt_test {
namespace {

namespace fs = std::filesystem;
using ckpt_golden::Contents;

struct Repaired {
  ckpt_status status;
  std::string problem;
  std::vector<Found> found;
};

Repaired repair(const Sample& sample, const std::vector<Setting>& settings, const std::string& id) {
  ckpt_report* report = nullptr;
  Error error;
  ckpt_status status = ckpt_store_repair(sample.store(), id.c_str(),
                                         settings.empty() ? nullptr : options(settings).get(), &report, error);
  Report owner(report);
  return {status, error.text(), report ? findings_of(report) : std::vector<Found>{}};
}
Repaired repair(const Sample& sample, const std::vector<Setting>& settings) {
  return repair(sample, settings, sample.id());
}

ckpt_checkpoint_info info_of(const Sample& sample, const std::string& id) {
  auto info = sized<ckpt_checkpoint_info>();
  Error error;
  EXPECT_EQ(ckpt_store_find(sample.store(), id.c_str(), nullptr, &info, error), CKPT_OK) << error.text();
  return info;
}

TEST(Repair, LostManifestIsRebuiltByteForByte) {
  for (const char* compression : {"none", "auto"}) {
    Sample sample(sample_contents(compression));
    std::string before = read_file(sample.file("MANIFEST"));
    fs::remove(sample.file("MANIFEST"));
    EXPECT_EQ(sample.try_open(), CKPT_INCOMPLETE);
    Repaired done = repair(sample, {{"dry_run", 0}});
    ASSERT_EQ(done.status, CKPT_OK) << done.problem;
    ASSERT_EQ(done.found.size(), 1u) << to_text(done.found);
    EXPECT_EQ(done.found[0].kind, CKPT_FINDING_REPAIRED);
    EXPECT_TRUE(read_file(sample.file("MANIFEST")) == before) << "other bytes";
    EXPECT_TRUE(verify(sample.open().get()).empty());
    EXPECT_EQ(info_of(sample, sample.id()).flags & CKPT_CHECKPOINT_REBUILT, 0u);
    bool right;
    EXPECT_EQ(load_all(sample.open().get(), sample.contents(), &right), CKPT_OK);
    EXPECT_TRUE(right);
  }
}

TEST(Repair, DamagedManifestIsKeptAside) {
  Sample sample;
  std::string before = read_file(sample.file("MANIFEST")), damaged = before;
  damaged[100] = static_cast<char>(damaged[100] ^ 1);
  for (const std::string& bytes : {damaged, before.substr(0, before.size() / 2), std::string()}) {
    write_file(sample.file("MANIFEST"), bytes);
    auto names = names_in(sample.file(""));
    ASSERT_EQ(repair(sample, {}).status, CKPT_OK);
    EXPECT_TRUE(read_file(sample.file("MANIFEST")) == bytes) << "a dry run wrote";
    Repaired done = repair(sample, {{"dry_run", 0}});
    ASSERT_EQ(done.status, CKPT_OK) << done.problem;
    EXPECT_TRUE(read_file(sample.file("MANIFEST")) == before);
    std::vector<std::string> fresh, after = names_in(sample.file(""));
    std::set_difference(after.begin(), after.end(), names.begin(), names.end(), std::back_inserter(fresh));
    ASSERT_EQ(fresh.size(), 1u);
    EXPECT_EQ(fresh[0].rfind("MANIFEST.damaged.", 0), 0u) << fresh[0];
    EXPECT_TRUE(read_file(sample.file(fresh[0])) == bytes);
  }
  EXPECT_TRUE(verify(sample.open().get()).empty());
}

TEST(Repair, SoundManifestIsNeverReplaced) {
  Sample sample;
  std::string before = read_file(sample.file("MANIFEST"));
  for (int64_t force : {0, 1}) {
    EXPECT_EQ(repair(sample, {{"dry_run", 0}, {"force", force}}).status, CKPT_EXISTS);
    EXPECT_EQ(repair(sample, {{"force", force}}).status, CKPT_EXISTS);
  }
  EXPECT_TRUE(read_file(sample.file("MANIFEST")) == before);
  fs::remove(sample.file("PART_001"));  // which no repair brings back
  const Repaired done = repair(sample, {{"dry_run", 0}});
  EXPECT_EQ(done.status, CKPT_INCOMPLETE);
  EXPECT_NE(done.problem.find("PART_001"), std::string::npos) << done.problem;
  EXPECT_TRUE(read_file(sample.file("MANIFEST")) == before);
}

TEST(Repair, MissingPartIsIncompleteAndNamedAndNothingIsWritten) {
  for (std::string part : {"PART_000", "PART_001", "PART_002"}) {
    Sample sample;
    fs::remove(sample.file("MANIFEST"));
    fs::remove(sample.file(part));
    auto before = names_in(sample.file(""));
    for (int64_t force : {0, 1}) {
      Repaired done = repair(sample, {{"dry_run", 0}, {"force", force}});
      EXPECT_EQ(done.status, CKPT_INCOMPLETE) << done.problem;
      EXPECT_NE(done.problem.find(part), std::string::npos) << done.problem;
    }
    EXPECT_EQ(names_in(sample.file("")), before);
  }
}

TEST(Repair, DamagedPartIsNamedAndNothingIsWritten) {
  for (std::string part : {"PART_000", "PART_001", "PART_002"}) {
    Sample sample;
    fs::remove(sample.file("MANIFEST"));
    std::string bytes = read_file(sample.file(part)), cut = bytes.substr(0, 4096);
    size_t index = 0;
    std::memcpy(&index, &bytes[bytes.size() - 64], 8);
    for (size_t at : {size_t{20}, index + 40, bytes.size() - 30}) {
      Patch patch(sample.file(part), at, static_cast<unsigned char>(~bytes[at]));
      Repaired done = repair(sample, {{"dry_run", 0}});
      EXPECT_EQ(done.status, CKPT_CORRUPT) << part << " at " << at << ": " << done.problem;
      EXPECT_NE(done.problem.find(part), std::string::npos) << done.problem;
      EXPECT_FALSE(fs::exists(sample.file("MANIFEST")));
    }
  }
}

TEST(Repair, SwappedOrForeignPartIsRefusedAndNothingIsWritten) {
  Sample sample, stranger;
  fs::remove(sample.file("MANIFEST"));
  std::string one = read_file(sample.file("PART_001")), two = read_file(sample.file("PART_002"));
  write_file(sample.file("PART_001"), two);
  write_file(sample.file("PART_002"), one);
  Repaired done = repair(sample, {{"dry_run", 0}});
  EXPECT_EQ(done.status, CKPT_MISMATCH) << done.problem;
  EXPECT_NE(done.problem.find("PART_001"), std::string::npos) << done.problem;
  write_file(sample.file("PART_001"), one);
  write_file(sample.file("PART_002"), read_file(stranger.file("PART_002")));
  done = repair(sample, {{"dry_run", 0}});
  EXPECT_EQ(done.status, CKPT_MISMATCH) << done.problem;
  EXPECT_FALSE(fs::exists(sample.file("MANIFEST")));
}

TEST(Repair, UnknownDirectoryIsNamed) {
  Sample sample;
  const Repaired none = repair(sample, {}, "nothing.here");
  EXPECT_EQ(none.status, CKPT_NOT_FOUND) << none.problem;
  EXPECT_NE(none.problem.find(sample.id()), std::string::npos) << "the newest is named: " << none.problem;
  fs::create_directory(sample.scratch() / "empty");
  EXPECT_EQ(repair(sample, {}, "empty").status, CKPT_INCOMPLETE);
}

TEST(Repair, WhereTheStoresOwnFilesAreLostOnlyForceDecides) {
  Sample sample;
  std::string before = read_file(sample.file("MANIFEST"));
  fs::remove(sample.file("MANIFEST"));
  fs::remove_all(sample.scratch() / ".ckpt");
  Repaired done = repair(sample, {{"dry_run", 0}});
  EXPECT_EQ(done.status, CKPT_INCOMPLETE) << done.problem;
  EXPECT_NE(done.problem.find("force"), std::string::npos) << done.problem;
  EXPECT_FALSE(fs::exists(sample.file("MANIFEST")));
  ASSERT_EQ(repair(sample, {{"dry_run", 0}, {"force", 1}}).status, CKPT_OK);
  EXPECT_TRUE(info_of(sample, sample.id()).flags & CKPT_CHECKPOINT_REBUILT);
  EXPECT_TRUE(verify(sample.open().get()).empty());
  bool right;
  EXPECT_EQ(load_all(sample.open().get(), sample.contents(), &right), CKPT_OK);
  EXPECT_TRUE(right);
}

// An attempt whose parts all exist but whose commit does not: what a crash of rank 0 leaves.
TEST(Repair, AttemptThatNeverCommittedNeedsForceAndIsMarked) {
  Sample sample;
  ckpt_checkpoint_info info = info_of(sample, sample.id());
  fs::remove(sample.file("MANIFEST"));
  std::string records = sample.scratch() / ".ckpt/attempts/";
  ASSERT_TRUE(names_in(records).empty());
  char name[300];
  std::snprintf(name, sizeof name, "%llu.%llu.%s", static_cast<unsigned long long>(info.token),
                static_cast<unsigned long long>(info.attempt), info.label);
  write_file(records + name, "main\n");  // the record that a commit would have removed
  Repaired done = repair(sample, {{"dry_run", 0}});
  EXPECT_EQ(done.status, CKPT_INCOMPLETE) << done.problem;
  EXPECT_FALSE(fs::exists(sample.file("MANIFEST")));
  done = repair(sample, {{"dry_run", 0}, {"force", 1}});
  ASSERT_EQ(done.status, CKPT_OK) << done.problem;
  EXPECT_TRUE(info_of(sample, sample.id()).flags & CKPT_CHECKPOINT_REBUILT);
  EXPECT_TRUE(names_in(records).empty()) << "settled";
  EXPECT_EQ(repair(sample, {{"dry_run", 0}, {"force", 1}}).status, CKPT_EXISTS);
}

// The name says whose attempt it was; under another name nothing shows that it was committed.
TEST(Repair, CopyOfAnAttemptNeedsForce) {
  Sample sample;
  fs::remove(sample.file("MANIFEST"));
  fs::copy(sample.scratch() / sample.id(), sample.scratch() / "copy");
  Repaired done = repair(sample, {{"dry_run", 0}}, "copy");
  EXPECT_EQ(done.status, CKPT_INCOMPLETE) << done.problem;
  EXPECT_NE(done.problem.find("force"), std::string::npos) << done.problem;
  EXPECT_FALSE(fs::exists(sample.scratch() / "copy/MANIFEST"));
}

TEST(Repair, CheckpointOfAnotherStoreNeedsForce) {
  Sample sample, stranger;
  const std::string id = "other.1.1";  // a name that a session of this store could have given
  fs::copy(stranger.scratch() / stranger.id(), sample.scratch() / id);
  fs::remove(sample.scratch() / id + "/MANIFEST");
  Repaired done = repair(sample, {{"dry_run", 0}}, id);
  EXPECT_EQ(done.status, CKPT_INCOMPLETE) << done.problem;
  fs::remove_all(sample.scratch() / sample.id());
  fs::rename(sample.scratch() / id, sample.scratch() / sample.id());  // now it even has the right name
  done = repair(sample, {{"dry_run", 0}});
  EXPECT_EQ(done.status, CKPT_INCOMPLETE) << done.problem;
  EXPECT_NE(done.problem.find("force"), std::string::npos) << done.problem;
}

TEST(Repair, TombstoneIsFinal) {
  Sample sample;
  // A save that fails leaves a tombstone. Here rank 1 declares another shape.
  Contents bad = sample.contents();
  bad.label = "bad";
  std::string name;
  {
    Store store = open_store(sample.scratch().path());
    Session zero = open_session(store, 0, 2), one = open_session(store, 1, 2, ckpt_session_string(zero.get()));
    std::vector<std::thread> ranks;
    ckpt_status statuses[2];
    for (int rank : {0, 1})
      ranks.emplace_back([&, rank] {
        ckpt_save* save = nullptr;
        ASSERT_EQ(ckpt_save_new(&save, rank ? one.get() : zero.get(), "bad", 1, nullptr, nullptr), CKPT_OK);
        Save owner(save);
        if (rank == 0) name = ckpt_save_id(save);
        float memory[4] = {};
        ckpt_tensor_desc desc = box(CKPT_DTYPE_F32, {rank ? 5 : 4, 1}, {rank * 2, 0}, {2, 1});
        ASSERT_EQ(ckpt_save_add_tensor(save, "w", &desc, memory, sizeof memory, CKPT_DEVICE_CPU, 0, nullptr), CKPT_OK);
        statuses[rank] = ckpt_save_run(save, nullptr);
      });
    for (auto& rank : ranks) rank.join();
    ASSERT_EQ(statuses[0], CKPT_MISMATCH);
    ASSERT_NE(statuses[1], CKPT_OK);
  }
  for (int64_t force : {0, 1}) {
    Repaired done = repair(sample, {{"dry_run", 0}, {"force", force}}, name);
    EXPECT_EQ(done.status, CKPT_ABORTED) << done.problem;
  }
}

TEST(Repair, HeaderThatClaimsAHugeWorldCostsNothing) {
  Sample sample;
  fs::remove(sample.file("MANIFEST"));
  std::string bytes = read_file(sample.file("PART_000"));
  uint32_t world = 0xfffffff0;
  std::memcpy(&bytes[36], &world, sizeof world);
  uint64_t checksum = XXH3_64bits(bytes.data(), 72);
  std::memcpy(&bytes[72], &checksum, sizeof checksum);
  write_file(sample.file("PART_000"), bytes);
  Repaired done = repair(sample, {{"dry_run", 0}, {"force", 1}});
  EXPECT_EQ(done.status, CKPT_INCOMPLETE) << done.problem;
  EXPECT_NE(done.problem.find("PART_003"), std::string::npos) << done.problem;
}

}  // namespace
}  // namespace ckpt_test
