// Parts and manifests that are cut, grown, swapped, replaced or missing: what verify, the reader and a load report for
// each.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <filesystem>
#include <set>

#include "api/sample.h"

namespace ckpt_test {
namespace {

namespace fs = std::filesystem;
using ckpt_golden::Contents;

// Expects a finding for this part, and no load that gives wrong data.
void expect_blamed(const Sample& sample, const std::string& part, const std::string& what,
                   std::vector<Found>* all = nullptr) {
  Reader reader = sample.open();
  auto found = verify(reader.get());
  bool blamed = false;
  for (const Found& one : found) blamed |= one.part == part && one.status != CKPT_OK;
  EXPECT_TRUE(blamed) << what << ":\n" << to_text(found);
  bool right;
  ckpt_status status = load_all(reader.get(), sample.contents(), &right);
  EXPECT_TRUE(status != CKPT_OK || right) << what << ": loaded wrong data and said OK";
  if (all) *all = found;
}

void expect_only(const std::vector<Found>& found, const std::string& part, int32_t kind, ckpt_status status) {
  ASSERT_EQ(found.size(), 1u) << to_text(found);
  EXPECT_EQ(found[0].part, part);
  EXPECT_EQ(found[0].kind, kind) << to_text(found);
  EXPECT_EQ(found[0].status, status) << to_text(found);
}

TEST(VerifyDamage, SoundCheckpointHasAnEmptyReportInEveryMode) {
  for (const char* compression : {"none", "lz4", "bitplane-lz4", "auto"}) {
    Sample sample(sample_contents(compression));
    Reader reader = sample.open();
    for (const char* mode : {"full", "quick", "sample"}) {
      auto found = verify(reader.get(), {{"verify_mode", mode}});
      EXPECT_TRUE(found.empty()) << compression << " " << mode << "\n" << to_text(found);
    }
    bool right;
    EXPECT_EQ(load_all(reader.get(), sample.contents(), &right), CKPT_OK);
    EXPECT_TRUE(right);
  }
}

TEST(VerifyDamage, EveryTruncationOfAPartIsFound) {
  Sample sample;
  for (std::string part : {"PART_000", "PART_001", "PART_002"}) {
    std::string path = sample.file(part), bytes = read_file(path);
    std::set<size_t> sizes{0, 1, 79, 80, 81, 4095, 4097, bytes.size() - 1, bytes.size() - 71, bytes.size() - 73};
    for (size_t size = 0; size < bytes.size(); size += 64) sizes.insert(size);
    for (size_t size : sizes) {
      ASSERT_EQ(truncate(path.c_str(), static_cast<off_t>(size)), 0);
      expect_blamed(sample, part, part + " cut to " + std::to_string(size));
      if (HasFailure()) return;
      write_file(path, bytes);
    }
  }
}

TEST(VerifyDamage, PartCutWhileTheReaderIsOpenIsDamageAndNoCrash) {
  Sample sample;
  Reader reader = sample.open();
  ASSERT_TRUE(verify(reader.get()).empty());
  ASSERT_EQ(truncate(sample.file("PART_001").c_str(), 4096), 0);
  bool right;
  std::string problem;
  EXPECT_NE(load_all(reader.get(), sample.contents(), &right, &problem), CKPT_OK) << problem;
  EXPECT_NE(problem.find("PART_001"), std::string::npos) << problem;
}

TEST(VerifyDamage, AppendedBytesAreFound) {
  Sample sample;
  for (std::string part : {"PART_000", "PART_001", "PART_002"})
    for (size_t count : {1u, 64u, 4096u}) {
      std::string path = sample.file(part), bytes = read_file(path);
      write_file(path, bytes + std::string(count, 0));
      expect_blamed(sample, part, part + " with zeros after it");
      write_file(path, bytes + bytes.substr(0, count));
      expect_blamed(sample, part, part + " with more after it");
      write_file(path, bytes);
    }
}

TEST(VerifyDamage, ATruncationAnywhereInTheManifestIsRefused) {
  Sample sample;
  std::string path = sample.file("MANIFEST"), bytes = read_file(path);
  for (size_t size = 0; size < bytes.size(); size += size < 200 ? 1 : 5) {
    ASSERT_EQ(truncate(path.c_str(), static_cast<off_t>(size)), 0);
    std::string problem;
    ckpt_status status = sample.try_open(&problem);
    EXPECT_TRUE(status == CKPT_FORMAT || status == CKPT_CORRUPT) << size << ": " << problem;
    if (HasFailure()) return;
    write_file(path, bytes);
  }
  write_file(path, bytes + std::string(8, 0));
  EXPECT_EQ(sample.try_open(), CKPT_FORMAT);
  write_file(path, bytes + bytes);
  EXPECT_EQ(sample.try_open(), CKPT_FORMAT);
}

TEST(VerifyDamage, SwappedPartsAreMismatchedByName) {
  Contents contents = sample_contents("none");
  contents.tensors.clear();  // so that the parts have equal sizes
  contents.objects.clear();
  contents.aliases.clear();
  contents.tensors.push_back(
      {"flat", CKPT_DTYPE_F32, {6144}, ckpt_golden::Split::kReplicated, ckpt_golden::noise(24576, 1)});
  Sample sample(contents);
  ASSERT_EQ(fs::file_size(sample.file("PART_001")), fs::file_size(sample.file("PART_002")));
  fs::rename(sample.file("PART_001"), sample.file("x"));
  fs::rename(sample.file("PART_002"), sample.file("PART_001"));
  fs::rename(sample.file("x"), sample.file("PART_002"));
  std::vector<Found> found;
  expect_blamed(sample, "PART_001", "swapped", &found);
  ASSERT_EQ(found.size(), 2u) << to_text(found);
  for (const Found& one : found) EXPECT_EQ(one.status, CKPT_MISMATCH) << to_text(found);
  bool right;
  std::string problem;
  EXPECT_EQ(load_all(sample.open().get(), contents, &right, &problem), CKPT_MISMATCH) << problem;
}

TEST(VerifyDamage, PartOfAnotherSaveWithTheSameSizeIsMismatched) {
  Sample sample;
  Contents later = sample.contents();
  later.label = "later";
  later.tensors[0].bytes = ckpt_golden::noise_for(later.tensors[0].shape, later.tensors[0].dtype, 77);
  std::string other = sample.save(later);
  for (std::string part : {"PART_000", "PART_001", "PART_002"}) {
    std::string bytes = read_file(sample.file(part)), path = sample.file(part),
                foreign = sample.scratch() / (other + "/" + part);
    ASSERT_EQ(fs::file_size(foreign), bytes.size());
    write_file(path, read_file(foreign));
    std::vector<Found> found;
    expect_blamed(sample, part, "of another save", &found);
    expect_only(found, part, CKPT_FINDING_DAMAGED, CKPT_MISMATCH);
    bool right;
    EXPECT_EQ(load_all(sample.open().get(), sample.contents(), &right), CKPT_MISMATCH);
    write_file(path, bytes);
  }
}

TEST(VerifyDamage, WhatIsNoRegularFileIsNoPart) {
  Sample sample;
  std::string path = sample.file("PART_001"), kept = sample.file("kept");
  fs::rename(path, kept);
  ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
  expect_blamed(sample, "PART_001", "a directory");
  fs::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  expect_blamed(sample, "PART_001", "a FIFO");
  fs::remove(path);
  fs::create_symlink("kept", path);  // even a link to the very same part
  expect_blamed(sample, "PART_001", "a symlink");
  fs::remove(path);
  fs::create_symlink("/dev/zero", path);
  expect_blamed(sample, "PART_001", "a symlink to a device");
  fs::remove(path);
  fs::rename(kept, path);
  EXPECT_TRUE(verify(sample.open().get()).empty());
}

TEST(VerifyDamage, MissingPartIsIncompleteAndNamed) {
  Sample sample;
  fs::remove(sample.file("PART_001"));
  std::vector<Found> found;
  expect_blamed(sample, "PART_001", "missing", &found);
  expect_only(found, "PART_001", CKPT_FINDING_MISSING, CKPT_INCOMPLETE);
  auto quick = verify(sample.open().get(), {{"verify_mode", "quick"}});
  expect_only(quick, "PART_001", CKPT_FINDING_MISSING, CKPT_INCOMPLETE);
  bool right;
  std::string problem;
  EXPECT_EQ(load_all(sample.open().get(), sample.contents(), &right, &problem), CKPT_INCOMPLETE);
  EXPECT_NE(problem.find("PART_001"), std::string::npos) << problem;
}

TEST(VerifyDamage, FileThatIsNoPartIsFormat) {
  Sample sample;
  for (std::string bytes : {std::string(fs::file_size(sample.file("PART_001")), 'x'),
                            std::string(fs::file_size(sample.file("PART_001")), 0)}) {
    write_file(sample.file("PART_001"), bytes);
    std::vector<Found> found;
    expect_blamed(sample, "PART_001", "no part", &found);
    expect_only(found, "PART_001", CKPT_FINDING_DAMAGED, CKPT_FORMAT);
  }
}

// ---- MANIFEST with right digests and wrong content ----

template <typename T>
T at(const std::string& bytes, size_t offset) {
  T value;
  std::memcpy(&value, &bytes[offset], sizeof value);
  return value;
}
template <typename T>
void put(std::string& bytes, size_t offset, T value) {
  std::memcpy(&bytes[offset], &value, sizeof value);
}

// Recomputes the digests (FORMAT §2).
void seal(std::string& file) {
  const size_t trailer = file.size() - 88;
  const auto index = at<uint64_t>(file, trailer), root = at<uint64_t>(file, trailer + 8);
  const size_t summary = (index + 63) / 64 * 64 + at<uint64_t>(file, trailer + 16);
  XXH128_hash_t digest = XXH3_128bits(file.data() + index - root, root);
  put(file, trailer + 32, digest.low64);
  put(file, trailer + 40, digest.high64);
  digest = XXH3_128bits(file.data() + summary, at<uint64_t>(file, trailer + 24));
  put(file, trailer + 48, digest.low64);
  put(file, trailer + 56, digest.high64);
  put(file, trailer + 80, XXH3_64bits(file.data() + trailer, 80));
}

TEST(VerifyDamage, ManifestOfANewerRevisionIsRefusedAsSuch) {
  Sample sample;
  std::string bytes = read_file(sample.file("MANIFEST"));
  put(bytes, bytes.size() - 88 + 68, uint32_t{CKPT_FORMAT_REVISION + 1});
  seal(bytes);
  write_file(sample.file("MANIFEST"), bytes);
  std::string problem;
  EXPECT_EQ(sample.try_open(&problem), CKPT_REVISION) << problem;
  EXPECT_NE(problem.find("revision 1"), std::string::npos) << problem;
}

TEST(VerifyDamage, PartOfANewerRevisionIsRefusedAsSuch) {
  Sample sample;
  std::string bytes = read_file(sample.file("PART_001"));
  put(bytes, 8, uint32_t{CKPT_FORMAT_REVISION + 1});
  put(bytes, 72, XXH3_64bits(bytes.data(), 72));
  write_file(sample.file("PART_001"), bytes);
  expect_only(verify(sample.open().get()), "PART_001", CKPT_FINDING_DAMAGED, CKPT_REVISION);
}

TEST(VerifyDamage, PartOfAnotherWorldSizeIsRefused) {
  Sample sample;
  std::string bytes = read_file(sample.file("PART_001"));
  put(bytes, 36, uint32_t{4});
  put(bytes, 72, XXH3_64bits(bytes.data(), 72));
  write_file(sample.file("PART_001"), bytes);
  std::vector<Found> found;
  expect_blamed(sample, "PART_001", "world of 4", &found);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].status == CKPT_FORMAT || found[0].status == CKPT_MISMATCH) << to_text(found);
}

TEST(VerifyDamage, ManifestOfNoBytesOrOfNoRegularFileIsFormat) {
  Sample sample;
  std::string path = sample.file("MANIFEST"), kept = sample.file("kept");
  write_file(path, "");
  EXPECT_EQ(sample.try_open(), CKPT_FORMAT);
  fs::remove(path);
  ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
  EXPECT_EQ(sample.try_open(), CKPT_FORMAT);
  fs::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(sample.try_open(), CKPT_FORMAT);
}

// ---- modes ----

TEST(VerifyDamage, SamplesTogetherFindWhatOneAloneMayMiss) {
  Sample sample(sample_contents("none"));
  Reader reader = sample.open();
  for (const auto& tensor : sample.contents().tensors) {
    auto segment = sized<ckpt_segment_info>();
    if (ckpt_reader_segment_at(reader.get(), tensor.name.c_str(), 0, &segment, nullptr) != CKPT_OK) continue;
    std::string part = "PART_00" + std::to_string(segment.part), bytes = read_file(sample.file(part));
    Patch patch(sample.file(part), segment.part_offset, static_cast<unsigned char>(bytes[segment.part_offset]) ^ 1);
    size_t seen = 0;
    for (int64_t k = 1; k <= 4; k++)
      for (const Found& one : verify(reader.get(), {{"verify_mode", "sample"}, {"sample_k", k}, {"sample_n", 4}})) {
        EXPECT_EQ(one.name, tensor.name);
        seen++;
      }
    EXPECT_EQ(seen, 1u) << tensor.name << ": in exactly one share";
    EXPECT_EQ(verify(reader.get(), {{"verify_mode", "sample"}, {"sample_k", 1}, {"sample_n", 1}}).size(), 1u);
    EXPECT_TRUE(verify(reader.get(), {{"verify_mode", "quick"}}).empty()) << "quick reads no tensor data";
  }
}

TEST(VerifyDamage, SampleBeyondItsSharesIsInvalid) {
  Sample sample;
  Reader reader = sample.open();
  ckpt_job* job = nullptr;
  Error error;
  ckpt_status status = ckpt_reader_verify(
      reader.get(), options({{"verify_mode", "sample"}, {"sample_k", 3}, {"sample_n", 2}}).get(), &job, error);
  if (status == CKPT_OK) status = ckpt_job_wait(job, CKPT_JOB_DONE, -1, error);
  EXPECT_EQ(status, CKPT_INVALID) << error.text();
  ckpt_job_free(job);
}

TEST(VerifyDamage, EveryDamageIsListedInTheOrderOfPartsAndOffsets) {
  Sample sample(sample_contents("none"));
  Reader reader = sample.open();
  std::vector<std::unique_ptr<Patch>> patches;
  for (std::string part : {"PART_000", "PART_001", "PART_002"}) {
    std::string bytes = read_file(sample.file(part));
    patches.push_back(std::make_unique<Patch>(sample.file(part), 4096, static_cast<unsigned char>(~bytes[4096])));
    patches.push_back(std::make_unique<Patch>(sample.file(part), bytes.size() - 73, 1));
  }
  auto found = verify(reader.get(), {{"threads", 3}});
  ASSERT_EQ(found.size(), 6u) << to_text(found);
  for (size_t i = 0; i < found.size(); i++) {
    EXPECT_EQ(found[i].part, "PART_00" + std::to_string(i / 2)) << to_text(found);
    EXPECT_EQ(found[i].offset, i % 2 ? fs::file_size(sample.file(found[i].part)) - 73 : 4096u) << to_text(found);
  }
}

}  // namespace
}  // namespace ckpt_test
