// Checkpoints of which chunks lie in parts of earlier ones: what opens, loads, verifies and copies them.
#include "checkpoint/based.h"
#include "commit/retention.h"
#include "maintain/copy.h"
#include "maintain/verify.h"

namespace ckpt::checkpoint {
namespace {

using Loaded = std::map<std::string, std::string>;

Result<Loaded> load(const std::shared_ptr<Checkpoint>& checkpoint) {
  Loaded loaded{{"t", std::string(96, '?')}, {"o", std::string(5000, '?')}};
  CKPT_ASSIGN(auto load, load::Load::make(checkpoint, {}));
  ckpt_tensor_desc desc{};
  desc.struct_size = sizeof desc;
  desc.dtype = CKPT_DTYPE_U8;
  desc.ndim = 2;
  desc.shape[0] = 2;
  desc.shape[1] = 48;
  CKPT_TRY(load->add_tensor("t", desc, loaded["t"].data(), 96));
  CKPT_TRY(load->add_object("o", 1, std::as_writable_bytes(std::span(loaded["o"]))));
  CKPT_TRY(run_whole(*load));
  return loaded;
}
Result<Loaded> load(const Drafted& drafted) {
  CKPT_ASSIGN(auto checkpoint, drafted.open());
  return load(std::shared_ptr<Checkpoint>(std::move(checkpoint)));
}

std::vector<Finding> verify(const Drafted& drafted, const char* mode = "full") {
  auto checkpoint = drafted.open();
  if (!checkpoint.ok()) {
    Finding refused;
    refused.status = checkpoint.status().code();
    refused.text = checkpoint.status().message();
    return {refused};
  }
  Job job;
  Status status = maintain::verify_checkpoint(**checkpoint, {.verify_mode = mode}, job);
  EXPECT_TRUE(status.ok()) << status.message();
  return job.report.findings;
}

// Exactly one thing is wrong.
void expect_found(const std::vector<Finding>& findings, ckpt_status status, const std::string& part,
                  std::string_view text) {
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.status, status) << finding.text;
    EXPECT_EQ(finding.part, part) << finding.text;
    EXPECT_NE(finding.text.find(text), std::string::npos) << finding.text;
  }
  EXPECT_EQ(findings.size(), 1u);
}

TEST(Bases, AreFilesOfTheCheckpointAfterItsParts) {
  Based based;
  ASSERT_TRUE(based.merge().ok());
  auto opened = based.open();
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const Checkpoint& checkpoint = **opened;
  ASSERT_EQ(checkpoint.file_count(), 4u);
  EXPECT_EQ(checkpoint.name_of(2), "BASE_01000000000000000100000000000000_003");
  EXPECT_EQ(checkpoint.name_of(3), "BASE_01000000000000000200000000000000_000");
  EXPECT_EQ(*checkpoint.manifest().used(2), 32u);
  EXPECT_EQ(*checkpoint.manifest().used(3), 16u + 4096u);
  EXPECT_EQ(checkpoint.summary().used_bytes, 48u + 4096u);
  EXPECT_EQ(checkpoint.summary().base_bytes, based.bases[0].file.size() + based.bases[1].file.size());
  EXPECT_EQ(checkpoint.summary().part_count, 2u);
}

TEST(Bases, AreReadWhereAChunkLiesThere) {
  Based based;
  ASSERT_TRUE(based.merge().ok());
  auto loaded = load(based);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ((*loaded)["t"], Based::row(0) + Based::row(1));
  EXPECT_EQ((*loaded)["o"], of('o', 5000));
  based.flip(based.bases[0].key(), 4112);
  const Status damaged = load(based).status();
  expect_error(damaged, CKPT_CORRUPT, "tensor \"t\", elements 16 to 31");
  EXPECT_EQ(*damaged.detail("part"), format::file_name(based.bases[0].record));
}

// It may have been removed as a whole, which is no damage.
TEST(Bases, ThatAreMissingWhereTheSlotCannotBeReadAreNotCalledDamage) {
  Based based;
  ASSERT_TRUE(based.merge().ok());
  auto opened = based.open();
  ASSERT_TRUE(opened.ok());
  ASSERT_TRUE(based.inner->remove(based.bases[1].key(), false).ok());
  based.shell->before([](std::string_view, std::string_view key) {
    return key == "c/MANIFEST" ? Status(CKPT_IO, "the server is away") : Ok();
  });
  const Status told = load(std::shared_ptr<Checkpoint>(opened.take())).status();
  expect_error(told, CKPT_IO, "nobody knows whether the checkpoint was removed");
  expect_error(told, CKPT_IO, "the server is away");
}

TEST(Bases, ThatAreGoneOrOtherFilesAreNamed) {
  Based based;
  ASSERT_TRUE(based.merge().ok());
  const Based::Base &one = based.bases[0], &two = based.bases[1];
  ASSERT_TRUE(based.inner->remove(two.key(), false).ok());
  expect_error(load(based).status(), CKPT_INCOMPLETE, "the part is missing");
  EXPECT_FALSE(commit::check_quick(*based.inner, "c").ok());
  expect_found(verify(based), CKPT_INCOMPLETE, format::file_name(two.record), "the part is missing");
  auto longer = two.file;
  longer.resize(longer.size() + kAlign);
  based.put(two.key(), longer);
  expect_error(load(based).status(), CKPT_INCOMPLETE, "bytes, expected");
  based.put(two.key(), two.file);
  ASSERT_TRUE(load(based).ok());
  auto other = one.file;  // of another save
  const format::PartHeader header{1, {7, 7}, 3, 4, {1, 2}, 3, 8};
  std::ranges::copy(format::encode_part_header(header), other.begin());
  based.put(one.key(), other);
  expect_error(load(based).status(), CKPT_MISMATCH, "expected save " + to_hex(Based::kOne));
}

// What a part says of a base counts only if MANIFEST says the same.
TEST(Bases, AreThoseThatTheManifestDescribes) {
  Based based;
  Draft manifest(IndexKind::kManifest, 2);
  manifest.tensor("t", CKPT_DTYPE_U8, {2, 48}).grid({2, 1}, 1, {0, 1}).object("o", 1, {1});
  Drafted& drafted = based;
  drafted.commit(manifest);
  expect_error(load(based).status(), CKPT_FORMAT, "the manifest does not describe");
}

TEST(Bases, OfSeveralRanksAreSummedHoweverTheyAreGrouped) {
  Based based;
  ASSERT_TRUE(based.merge().ok());
  const auto direct = based.manifest();
  std::vector<PartFile> parts;
  for (uint32_t rank : {0u, 1u}) {
    auto part = open_part(*based.inner, "c", rank);
    ASSERT_TRUE(part.ok());
    parts.push_back(part.take());
  }
  auto gathered = commit::gather_parts(std::span(parts).subspan(1));
  ASSERT_TRUE(gathered.ok()) << gathered.status().message();
  const format::Buffer file = gathered->encode();
  std::vector<commit::Gathered> groups;
  auto decoded = commit::Gathered::decode(Bytes(file), {5, 6}, 1, 1);
  ASSERT_TRUE(decoded.ok()) << decoded.status().message();
  groups.push_back(decoded.take());
  auto merged = commit::merge_parts(std::span(parts).first(1), groups, *based.inner, "c", false);
  ASSERT_TRUE(merged.ok()) << merged.status().message();
  EXPECT_TRUE(std::ranges::equal(merged->file, direct));
  EXPECT_EQ(merged->bases, (std::vector<std::string>{format::file_name(based.bases[0].record),
                                                     format::file_name(based.bases[1].record)}));
}

TEST(Bases, ThatTwoRanksDescribeInTwoWaysAreAMismatch) {
  Based based;
  Draft part(IndexKind::kPart, 2);
  fb::Part other = based.bases[0].record;
  format::fields<format::PartFields>(std::span<const fb::Part>(&other, 1), 0).size += kAlign;
  part.builder.bases = {{other, 16}};
  part.tensor("t", CKPT_DTYPE_U8, {2, 48}).region(format::box({1, 0}, {1, 48}));
  part.segment(0, 48, {Data::at(4096, of('a', 48))}, {}, {1});
  based.indexes.pop_back();
  based.add(std::move(part), {});
  expect_error(based.merge(), CKPT_MISMATCH, "rank 1 describes BASE_01000000000000000100000000000000_003 otherwise");
}

TEST(Bases, AreVerifiedOnceAndWhole) {
  Based based;
  ASSERT_TRUE(based.merge().ok());
  for (const char* mode : {"full", "quick", "sample"}) EXPECT_TRUE(verify(based, mode).empty()) << mode;
  const std::string one = format::file_name(based.bases[0].record), two = format::file_name(based.bases[1].record);
  auto flipped = [&](const std::string& name, uint64_t offset, const char* mode = "full") {
    based.flip("c/" + name, offset);
    auto found = verify(based, mode);
    based.flip("c/" + name, offset);
    return found;
  };
  expect_found(flipped(one, 4112), CKPT_CORRUPT, one, "tensor \"t\", elements 16 to 31");
  expect_found(flipped(two, 4097), CKPT_CORRUPT, two, "tensor \"t\", elements 48 to 63");
  expect_found(flipped(two, 9000), CKPT_CORRUPT, two, "object \"o\"");
  expect_found(flipped(one, 4130), CKPT_CORRUPT, one, "nothing of this checkpoint");
  expect_found(flipped(one, 20000), CKPT_CORRUPT, one, "expected zero padding");
  EXPECT_TRUE(flipped(one, 4130, "sample").empty());
  for (const uint64_t in_index :
       {uint64_t{64 << 10} + 20, based.bases[0].record.index_offset() + based.bases[0].record.index_size() - 20}) {
    const auto found = flipped(one, in_index, "quick");
    expect_found(found, CKPT_CORRUPT, one, "");
  }
}

TEST(Bases, OfWhichAChunkIsNoneOrWhichCountOtherBytesAreFormat) {
  auto said = [](uint64_t used, uint64_t offset) {
    Based based;
    Draft part(IndexKind::kPart, 2);
    part.builder.bases = {{based.bases[0].record, used}};
    part.tensor("t", CKPT_DTYPE_U8, {2, 48}).region(format::box({1, 0}, {1, 48}));
    Data own;
    part.segment(0, 48, {own.put(4096, of('2')), own.put(4112, of('3')), Data::at(offset, of('a'))}, {}, {0, 0, 1});
    part.inline_object("o", 1, "o");
    based.indexes.pop_back();
    based.add(std::move(part), own);
    Status merged = based.merge();
    EXPECT_TRUE(merged.ok()) << merged.message();
    return verify(based, "quick");
  };
  const std::string one = "BASE_01000000000000000100000000000000_003";
  for (const Finding& finding : said(16, 4096)) EXPECT_EQ(finding.name, "o") << finding.text;  // its digest is none
  bool chunk = false, counted = false;
  for (const Finding& finding : said(16, 4100))
    chunk |= finding.text.find("is no chunk of that file") != std::string::npos;
  for (const Finding& finding : said(17, 4096)) counted |= finding.status == CKPT_FORMAT && finding.part == "PART_001";
  EXPECT_TRUE(chunk && counted);
}

TEST(Bases, AreCopiedWithTheCheckpoint) {
  Based based;
  ASSERT_TRUE(based.merge().ok());
  auto to = *store::open_memory("based-copy");
  auto checkpoint = based.open();
  ASSERT_TRUE(checkpoint.ok());
  for (int again = 0; again < 2; again++) {
    Report report;
    Job job;
    const Status copied = maintain::copy_checkpoint(**checkpoint, *to, {.check = "full"}, &report, job);
    ASSERT_TRUE(copied.ok()) << copied.message();
  }
  for (const Based::Base& base : based.bases) EXPECT_EQ(*to->get(base.key(), 1 << 20), base.file);
  auto copy = Checkpoint::open_quietly(*to, "c");
  ASSERT_TRUE(copy.ok()) << copy.status().message();
  auto loaded = load(std::shared_ptr<Checkpoint>(copy.take()));
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ((*loaded)["t"], Based::row(0) + Based::row(1));
}

}  // namespace
}  // namespace ckpt::checkpoint
