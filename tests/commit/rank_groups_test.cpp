// The commit of a world whose ranks form groups.
#include <atomic>
#include <thread>

#include "ckpt_tree.h"
#include "commit/commit.h"
#include "commit/random_parts.h"
#include "commit/rank_groups.h"
#include "commit/retention.h"
#include "maintain/repair.h"
#include "store/weak_store.h"

namespace ckpt::commit {
namespace {

constexpr uint32_t kRanks = 8, kLeast = 5;  // groups of 3, 3 and 2 ranks; leaders 0, 3 and 6

// A rank of a save that writes one row of the tensor "t", by hand.
class GroupCommit : public ::testing::Test {
 protected:
  explicit GroupCommit(std::shared_ptr<store::Store> store = fresh_memory_store()) {
    inner = std::move(store);
    shell = std::make_shared<store::ShellStore>(inner);
    for (uint32_t rank = 0; rank < kRanks; rank++)
      sessions.push_back(open_session(shell, rank, kRanks, rank ? sessions[0]->string().c_str() : nullptr));
    settings = {.on_existing = "error", .protect = "", .timeout_ms = 60000, .group_from = kLeast};
  }
  // Its part; a wrong rank has another dtype.
  std::vector<std::byte> part_of(const session::Session& session, const session::Attempt& attempt) const {
    const uint32_t rank = session.rank();
    Draft draft(IndexKind::kPart, kRanks);
    format::Summary& summary = draft.builder.summary;
    const session::SessionPlan& plan = session.plan();
    summary.store_id = plan.store_id;
    summary.session_id = plan.session_id;
    summary.save_id = attempt.save_id;
    summary.label = attempt.label;
    summary.token = plan.token;
    summary.attempt = attempt.number;
    draft.tensor("t", wrong.contains(rank) ? CKPT_DTYPE_I8 : CKPT_DTYPE_U8, {kRanks, 16})
        .region(format::box({rank, 0}, {1, 16}));
    draft.segment(0, 16, {format::chunk(4096, 16)});
    const format::PartHeader header{1, attempt.save_id, rank, kRanks, plan.store_id, plan.token, attempt.number};
    return checkpoint::part_file(draft.encode(), header, 3 * kAlign);
  }
  // Opens the attempt, and writes the part.
  Status start(uint32_t rank) {
    session::Session& session = *sessions[rank];
    attempts[rank] = session.next_attempt("s1");
    Job job;
    CKPT_TRY(open_attempt(session, attempts[rank], settings, job));
    if (absent.contains(rank)) return Ok();
    return inner->put_if_absent(format::part_key(attempts[rank].directory, rank), part_of(session, attempts[rank]));
  }
  Status finish(uint32_t rank) {
    Job job;
    return finish_attempt(*sessions[rank], attempts[rank], settings, job);
  }
  // What each rank is told.
  std::vector<Status> save() {
    std::vector<Status> told(kRanks);
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < kRanks; rank++)
      threads.emplace_back([&, rank] {
        told[rank] = start(rank);
        if (told[rank].ok() && !absent.contains(rank) && !dead.contains(rank)) told[rank] = finish(rank);
      });
    for (std::thread& thread : threads) thread.join();
    return told;
  }
  std::string files() const {
    std::string text;
    const auto entries = inner->list("s1.1.1");
    for (const auto& entry : *entries) text += entry.name + " ";
    return text;
  }

  std::shared_ptr<store::Store> inner;
  std::shared_ptr<store::ShellStore> shell;
  std::vector<std::shared_ptr<session::Session>> sessions;
  session::Attempt attempts[kRanks];
  CommitSettings settings;
  std::set<uint32_t> absent, dead, wrong;  // without a part; with one, but not there any more; of another dtype
};

constexpr const char* kFiles = "MANIFEST PART_000 PART_001 PART_002 PART_003 PART_004 PART_005 PART_006 PART_007 ";

TEST_F(GroupCommit, CommitsTheManifestOfTheDirectMergeAndLeavesNoFileOfAGroup) {
  std::mutex mutex;
  std::set<std::string> put;
  shell->before([&](std::string_view operation, std::string_view key) {
    std::lock_guard lock(mutex);
    if (operation == "put" && key.find("GROUP") != key.npos) put.emplace(key);
    return Ok();
  });
  for (const Status& status : save()) EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(put, (std::set<std::string>{"s1.1.1/GROUP_001", "s1.1.1/GROUP_002"}));
  EXPECT_EQ(files(), kFiles);
  std::vector<checkpoint::PartFile> parts;
  for (uint32_t rank = 0; rank < kRanks; rank++) parts.push_back(checkpoint::open_part(*inner, "s1.1.1", rank).take());
  auto direct = merge_parts(parts, {}, *inner, "s1.1.1", false);
  ASSERT_TRUE(direct.ok()) << direct.status().message();
  EXPECT_EQ(as_text(Bytes(direct->file)), as_text(*inner->get("s1.1.1/MANIFEST", 1 << 20)));
}

// Listings that lag behind, no directories, no renames.
struct GroupCommitOnAWeakStore : GroupCommit {
  GroupCommitOnAWeakStore()
      : GroupCommit(std::make_shared<store::WeakStore>(std::make_shared<store::Bucket>(store::Weakness{}))) {}
};

TEST_F(GroupCommitOnAWeakStore, CommitsTheManifestOfTheDirectMerge) {
  for (const Status& status : save()) EXPECT_TRUE(status.ok()) << status.message();
  std::vector<checkpoint::PartFile> parts;
  for (uint32_t rank = 0; rank < kRanks; rank++) parts.push_back(checkpoint::open_part(*inner, "s1.1.1", rank).take());
  auto direct = merge_parts(parts, {}, *inner, "s1.1.1", false);
  ASSERT_TRUE(direct.ok()) << direct.status().message();
  EXPECT_EQ(as_text(Bytes(direct->file)), as_text(*inner->get("s1.1.1/MANIFEST", 1 << 20)));
  EXPECT_EQ(inner->open("s1.1.1/GROUP_001").status().code(), CKPT_NOT_FOUND);
}

TEST_F(GroupCommitOnAWeakStore, ALeaderGivesUpForARankThatDisagrees) {
  wrong = {4};
  const auto told = save();
  EXPECT_EQ(told[3].code(), CKPT_MISMATCH) << told[3].message();
  EXPECT_EQ(told[0].code(), CKPT_ABORTED) << told[0].message();
}

TEST_F(GroupCommit, Rank0OpensThePartsOfItsGroupAndTheFilesOfTheOthers) {
  settings.wait = false;
  for (uint32_t rank = 0; rank < kRanks; rank++) ASSERT_TRUE(start(rank).ok());
  std::map<std::string, int> opened;
  shell->before([&](std::string_view operation, std::string_view key) {
    if (operation == "open" && key.starts_with("s1.1.1/")) opened[std::string(key.substr(7, 4))]++;
    return Ok();
  });
  for (uint32_t rank : {1, 2, 4, 5, 7}) EXPECT_TRUE(finish(rank).ok());
  EXPECT_EQ(opened["PART"], 0);
  EXPECT_TRUE(finish(3).ok());
  EXPECT_TRUE(finish(6).ok());
  EXPECT_EQ(opened["PART"], 5);
  opened.clear();
  Status committed = finish(0);
  EXPECT_TRUE(committed.ok()) << committed.message();
  EXPECT_EQ(opened["PART"], 3);
  EXPECT_EQ(opened["GROU"], 2);
}

TEST_F(GroupCommit, NamesTheRankWhosePartIsMissing) {
  settings.timeout_ms = 300;
  absent = {4, 7};
  const auto told = save();
  EXPECT_EQ(told[0].code(), CKPT_TIMEOUT) << told[0].message();
  EXPECT_NE(told[0].message().find("no part of rank 4, 7 within 300 ms"), std::string::npos) << told[0].message();
  EXPECT_EQ(told[3].code(), CKPT_ABORTED) << told[3].message();
  EXPECT_EQ(told[1].code(), CKPT_ABORTED) << told[1].message();
}

TEST_F(GroupCommit, NamesTheLeaderThatDied) {
  settings.timeout_ms = 300;
  dead = {3};
  const auto told = save();
  EXPECT_EQ(told[0].code(), CKPT_TIMEOUT) << told[0].message();
  EXPECT_NE(told[0].message().find("rank 3 did not gather"), std::string::npos) << told[0].message();
  EXPECT_EQ(*told[0].detail("ranks"), "3");
}

TEST_F(GroupCommit, ALeaderGivesUpForARankThatDisagrees) {
  wrong = {4};
  const auto told = save();
  EXPECT_EQ(told[3].code(), CKPT_MISMATCH) << told[3].message();
  EXPECT_NE(told[3].message().find("tensor \"t\": rank 3 has u8"), std::string::npos) << told[3].message();
  EXPECT_EQ(told[0].code(), CKPT_ABORTED) << told[0].message();
  EXPECT_NE(told[0].message().find("rank 4 has"), std::string::npos) << told[0].message();
}

TEST_F(GroupCommit, RanksOfTwoGroupsThatDisagreeAreNamed) {
  wrong = {3, 4, 5};
  const auto told = save();
  EXPECT_EQ(told[0].code(), CKPT_MISMATCH) << told[0].message();
  EXPECT_EQ(*told[0].detail("ranks"), "0, 3");
}

TEST_F(GroupCommit, AFileOfAGroupThatStaysHarmsNobody) {
  shell->before([](std::string_view operation, std::string_view key) {
    return operation == "remove" && key.find("GROUP") != key.npos ? Status(CKPT_IO, "it stays") : Ok();
  });
  for (const Status& status : save()) EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(files(), std::string("GROUP_001 GROUP_002 ") + kFiles);
  auto entries = checkpoint::list_checkpoints(*inner);
  ASSERT_EQ(entries->size(), 1u);
  EXPECT_EQ((*entries)[0].state, CKPT_CHECKPOINT_COMMITTED);
  EXPECT_TRUE(check_quick(*inner, "s1.1.1").ok());
  const auto manifest = *inner->get("s1.1.1/MANIFEST", 1 << 20);
  ASSERT_TRUE(inner->remove("s1.1.1/MANIFEST", false).ok());
  Report report;
  Status repaired = maintain::repair_checkpoint(*inner, "s1.1.1", false, false, &report);
  EXPECT_TRUE(repaired.ok()) << repaired.message();
  EXPECT_EQ(*inner->get("s1.1.1/MANIFEST", 1 << 20), manifest);
  EXPECT_TRUE(remove_by_id(*inner, "s1.1.1").ok());
  EXPECT_EQ(inner->list("s1.1.1").status().code(), CKPT_NOT_FOUND);
}

TEST(RankGroups, FormByThemselvesInALargeWorld) {
  constexpr uint32_t kWorld = 600;  // groups of 25; two pages of parts in MANIFEST
  auto shell = std::make_shared<store::ShellStore>(fresh_memory_store());
  std::vector<std::shared_ptr<session::Session>> sessions;
  for (uint32_t rank = 0; rank < kWorld; rank++)
    sessions.push_back(open_session(shell, rank, kWorld, rank ? sessions[0]->string().c_str() : nullptr));
  std::atomic<int> put = 0;
  shell->before([&](std::string_view operation, std::string_view key) {
    put += operation == "put" && key.find("GROUP") != key.npos;
    return Ok();
  });
  Status committed;
  std::thread first([&] { committed = save_step(sessions[0], 1); });
  // Leaders last: they wait for their groups.
  for (bool leads : {false, true})
    for (uint32_t rank = 1; rank < kWorld; rank++)
      if ((rank % 25 == 0) == leads) {
        const Status saved = save_step(sessions[rank], 1, {.wait = false});
        EXPECT_TRUE(saved.ok()) << saved.message();
      }
  first.join();
  EXPECT_TRUE(committed.ok()) << committed.message();
  EXPECT_EQ(put, 23);
  const auto checkpoint = checkpoint::Checkpoint::open_quietly(*shell, "s1.1.1").take();
  EXPECT_EQ(checkpoint->object_count(), kWorld);
  EXPECT_EQ(checkpoint->root().part_pages.size(), 2u);
  EXPECT_EQ(checkpoint->object_at(kWorld - 1)->part, kWorld - 1);
}

// Saves a state tree of rank 20 of 256, which is in the second group, and one tensor of rank 200.
Status save_with_tree_of(std::string_view tensor) {
  constexpr uint32_t kWorld = 256;
  auto store = fresh_memory_store();
  std::vector<std::shared_ptr<session::Session>> sessions;
  for (uint32_t rank = 0; rank < kWorld; rank++)
    sessions.push_back(open_session(store, rank, kWorld, rank ? sessions[0]->string().c_str() : nullptr));
  auto save = [&](uint32_t rank, const SaveOptions& options) -> Status {
    CKPT_ASSIGN(auto mine, save::Save::make(sessions[rank], "s1", 1, options));
    const std::string json = strformat("{{\"w\":{{\"$\":\"tensor\",\"name\":\"{}\"}}}}", tensor);
    if (rank == 20) CKPT_TRY(mine->add_object("t", CKPT_TREE_MEDIA_TYPE, CKPT_OBJECT_PER_RANK, as_bytes(json)));
    ckpt_tensor_desc desc{};
    desc.struct_size = sizeof desc;
    desc.dtype = CKPT_DTYPE_U8;
    desc.ndim = 1;
    desc.shape[0] = 4;
    desc.replica_count = 1;
    if (rank == 200) CKPT_TRY(mine->add_tensor("of-200", desc, "data", 4));
    return run_whole(*mine);
  };
  Status committed;
  std::thread first([&] { committed = save(0, {}); });
  for (uint32_t rank = kWorld - 1; rank > 0; rank--) EXPECT_TRUE(save(rank, {.wait = false}).ok()) << rank;
  first.join();
  return committed;
}

TEST(RankGroups, ATreeMayNameATensorOfAnotherGroupAndNoneThatNobodyAdded) {
  const Status committed = save_with_tree_of("of-200"), refused = save_with_tree_of("of-201");
  EXPECT_TRUE(committed.ok()) << committed.message();
  EXPECT_EQ(refused.code(), CKPT_MISMATCH) << refused.message();
  EXPECT_NE(refused.message().find("object \"t\" of rank 20"), std::string::npos) << refused.message();
  EXPECT_NE(refused.message().find("of-201"), std::string::npos) << refused.message();
}

TEST(RankGroups, AreAboutAsManyAsTheirRanks) {
  EXPECT_EQ(RankGroups(255, 256).count(), 1u);
  EXPECT_FALSE(RankGroups(255, 256).leads(16));
  for (uint32_t world : {256u, 257u, 1000u, 10000u, 99999u, 100000u}) {
    const RankGroups groups(world, 256);
    uint32_t ranks = 0, leaders = 1;
    for (uint32_t group = 0; group < groups.count(); group++) ranks += groups.ranks(group);
    for (uint32_t rank = 0; rank < world; rank++) leaders += groups.leads(rank);
    EXPECT_EQ(ranks, world);
    EXPECT_EQ(leaders, groups.count());
    EXPECT_LE(groups.count(), groups.size);
    EXPECT_LE(groups.size, groups.count() + 2);
  }
}

}  // namespace
}  // namespace ckpt::commit
