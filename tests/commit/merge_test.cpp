// The merge of parts' indexes into MANIFEST, directly and by way of groups of ranks.
#include <thread>

#include "codec/checksum.h"
#include "commit/grouped.h"
#include "commit/random_parts.h"

namespace ckpt::commit {
namespace {

TEST(Merge, GivesTheBytesThatItAlwaysGave) {
  codec::Hasher all;
  for (uint64_t seed = 0; seed < 400; seed++) {
    const Drafted drafted = RandomSave(seed, seed % 2 ? 6 : 40).parts();
    auto parts = open_parts(drafted);
    ASSERT_TRUE(parts.ok()) << parts.status().message();
    auto merged = merge_parts(*parts, {}, *drafted.inner, "c", false);
    ASSERT_TRUE(merged.ok()) << seed << ": " << merged.status().message();
    all.update(merged->file);
  }
  EXPECT_EQ(to_hex(all.digest()), "a4345056ea5b2fe582fac723036d8f1d");
}

TEST(Merge, RefusesWhatItAlwaysRefused) {
  std::map<std::string, int> outcomes;
  for (uint64_t seed = 1000; seed < 1400; seed++) {
    RandomSave save(seed, 12);
    save.spoil();
    const Drafted drafted = save.parts();
    auto parts = open_parts(drafted);
    ASSERT_TRUE(parts.ok()) << parts.status().message();
    auto merged = merge_parts(*parts, {}, *drafted.inner, "c", false);
    outcomes[status_name(merged.status().code())]++;
  }
  std::string text;
  for (const auto& [name, count] : outcomes) text += name + " " + std::to_string(count) + " ";
  EXPECT_EQ(text, "FORMAT 5 MISMATCH 252 OK 143 ");
}

// ---- replica groups ----

// Adds rows [first, first + count) of "t", which both ranks hold.
Status add_rows(save::Save& save, uint32_t rank, int64_t first, int64_t count, const std::vector<std::byte>& memory) {
  ckpt_tensor_desc desc{};
  desc.struct_size = sizeof desc;
  desc.dtype = CKPT_DTYPE_U8;
  desc.ndim = 2;
  desc.shape[0] = 8;
  desc.shape[1] = desc.extent[1] = 4;
  desc.region_kind = CKPT_REGION_BOX;
  desc.offset[0] = first;
  desc.extent[0] = count;
  desc.replica_index = rank;
  desc.replica_count = 2;
  return save.add_tensor("t", desc, memory.data(), memory.size());
}

TEST(ReplicaGroups, ThatDifferInOneOfSeveralRegionsOfATensorAreToldWhichOne) {
  auto store = fresh_memory_store();
  auto leader = open_session(store, 0, 2), other = open_session(store, 1, 2, leader->string().c_str());
  const std::vector<std::byte> memory(32);
  auto save_two = [&](const std::shared_ptr<session::Session>& session, int64_t rows) -> Status {
    CKPT_ASSIGN(auto save, save::Save::make(session, "s1", 1, {}));
    CKPT_TRY(add_rows(*save, session->rank(), 0, 2, memory));
    CKPT_TRY(add_rows(*save, session->rank(), 2, 3, memory));
    CKPT_TRY(add_rows(*save, session->rank(), 5, rows, memory));
    return run_whole(*save);
  };
  std::thread thread([&] { (void)save_two(other, 2); });
  const Status told = save_two(leader, 3);
  thread.join();
  EXPECT_EQ(told.code(), CKPT_MISMATCH) << told.message();
  EXPECT_EQ(*told.detail("expected"), "u8 [8, 4] box [5:8, 0:4]");
  EXPECT_EQ(*told.detail("found"), "u8 [8, 4] box [5:7, 0:4]");
}

// ---- groups ----

TEST(Groups, OfAnySizeGiveTheBytesOfTheDirectMerge) {
  for (uint64_t seed = 2000; seed < 2300; seed++) {
    const Drafted drafted = RandomSave(seed, seed % 2 ? 9 : 30).parts();
    auto parts = open_parts(drafted);
    ASSERT_TRUE(parts.ok()) << parts.status().message();
    auto direct = merge_parts(*parts, {}, *drafted.inner, "c", false);
    ASSERT_TRUE(direct.ok()) << direct.status().message();
    for (size_t size : {1, 2, 3, 5, 8}) {
      auto grouped = merge_in_groups(drafted, *parts, size);
      ASSERT_EQ(outcome_of(direct), outcome_of(grouped)) << "seed " << seed << ", groups of " << size;
    }
  }
}

TEST(Groups, OfAnySizeRefuseWhatTheDirectMergeRefuses) {
  for (uint64_t seed = 3000; seed < 3300; seed++) {
    RandomSave save(seed, 12);
    save.spoil();
    const Drafted drafted = save.parts();
    auto parts = open_parts(drafted);
    ASSERT_TRUE(parts.ok()) << parts.status().message();
    auto direct = merge_parts(*parts, {}, *drafted.inner, "c", false);
    for (size_t size : {1, 2, 3, 5, 8}) {
      auto grouped = merge_in_groups(drafted, *parts, size);
      ASSERT_EQ(direct.status().code(), grouped.status().code())
          << outcome_of(direct) << "\n"
          << outcome_of(grouped) << "\nseed " << seed << ", groups of " << size;
    }
  }
}

TEST(Groups, AreRefusedIfABitOfTheirFileChanged) {
  const Drafted drafted = RandomSave(1, 4).parts();
  auto parts = open_parts(drafted);
  auto gathered = gather_parts(*parts);
  ASSERT_TRUE(gathered.ok()) << gathered.status().message();
  const format::Buffer file = gathered->encode();
  std::vector<std::byte> bytes(file.begin(), file.end());
  const auto ranks = static_cast<uint32_t>(parts->size());
  const Id save = gathered->summary.save_id;
  for (size_t i = 0; i < bytes.size(); i += 1 + i / 200) {
    bytes[i] ^= std::byte{1};
    EXPECT_FALSE(Gathered::decode(bytes, save, 0, ranks).ok()) << "byte " << i;
    EXPECT_FALSE(Gathered::decode(Bytes(bytes).first(i), save, 0, ranks).ok()) << "cut at " << i;
    bytes[i] ^= std::byte{1};
  }
  EXPECT_TRUE(Gathered::decode(bytes, save, 0, ranks).ok());
  EXPECT_FALSE(Gathered::decode(bytes, {9, 9}, 0, ranks).ok());
  EXPECT_FALSE(Gathered::decode(bytes, save, 1, ranks).ok());
  EXPECT_FALSE(Gathered::decode(bytes, save, 0, ranks + 1).ok());
}

// A group of another program may say anything: its digest is right.
TEST(Groups, ThatSayWhatNoPartCanSayAreRefusedOrMakeNoManifest) {
  const Drafted drafted = RandomSave(2001, 9).parts();
  auto parts = open_parts(drafted);
  ASSERT_GT(parts->size(), 3u);
  const auto rest = std::span<const checkpoint::PartFile>(*parts).subspan(1);
  auto direct = merge_parts(*parts, {}, *drafted.inner, "c", false);
  auto gathered = gather_parts(rest);
  ASSERT_TRUE(direct.ok() && gathered.ok());
  Random random(7);
  int refused = 0, failed = 0, made = 0;
  for (int round = 0; round < 800; round++) {
    auto& numbers = gathered->numbers;
    const size_t at = random.below(numbers.size());
    const uint64_t before = numbers[at];
    numbers[at] = random.one_in(2) ? random.below(9) : random.one_in(2) ? before + 1 : random.below(1 << 20);
    auto decoded =
        Gathered::decode(Bytes(gathered->encode()), gathered->summary.save_id, 1, static_cast<uint32_t>(rest.size()));
    numbers[at] = before;
    if (!decoded.ok()) {
      refused++;
      continue;
    }
    auto merged =
        merge_parts(std::span<const checkpoint::PartFile>(*parts).first(1), {&*decoded, 1}, *drafted.inner, "c", false);
    (merged.ok() ? made : failed)++;
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(failed, made) << refused << " refused, " << failed << " failed, " << made << " made";
}

TEST(Groups, TellEqualBoxesSideBySideInOneRun) {
  std::vector<uint64_t> rows;
  for (uint64_t rank = 0; rank < 1000; rank++)
    for (uint64_t number :
         {uint64_t{1}, 4 * rank, uint64_t{0}, uint64_t{4}, uint64_t{128}, uint64_t{0}, uint64_t{512}, rank})
      rows.push_back(number);
  LargeVector<uint64_t> runs;
  put_runs(rows, 8, &runs);
  EXPECT_EQ(runs.size(), 1u + 2 * 8);
}

TEST(Groups, TellAnyRowsAgain) {
  Random random(5);
  for (int round = 0; round < 300; round++) {
    std::vector<uint64_t> rows, again;
    const size_t width = random.between(1, 5), count = random.below(30);
    for (size_t i = 0; i < count * width; i++) rows.push_back(random.one_in(20) ? random.next() : random.below(3));
    LargeVector<uint64_t> runs;
    put_runs(rows, width, &runs);
    EXPECT_TRUE(are_runs(runs, width));
    for_each_row(std::span<const uint64_t>(runs), width,
                 [&](std::span<const uint64_t> row) { again.insert(again.end(), row.begin(), row.end()); });
    ASSERT_EQ(rows, again);
    runs.push_back(7);
    EXPECT_FALSE(are_runs(runs, width));
  }
}

}  // namespace
}  // namespace ckpt::commit
