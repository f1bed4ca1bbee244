// All ranks or none: ranks die, come late, fail or skip a save. What is every other rank told, and what is in the store
// then? Every rank is a process of its own.
#include <signal.h>

#include <filesystem>

#include "api/process.h"
#include "api/ranks.h"

using namespace ckpt_test;

namespace {

class CommitTest : public ::testing::Test {
 protected:
  // A checkpoint "first" of step 1, which must survive everything that follows.
  void save_first(Ranks& ranks) { ranks.all_answer("save first 1", "OK"); }
  void expect_only_first() {
    EXPECT_EQ(latest_step(uri), 1);
    EXPECT_EQ(problem_of(uri, "latest"), "");
    EXPECT_EQ(count_state(uri, CKPT_CHECKPOINT_COMMITTED), 1u);
  }
  void expect_new(int64_t step) {
    EXPECT_EQ(latest_step(uri), step);
    EXPECT_EQ(problem_of(uri, "latest"), "");
    EXPECT_EQ(problem_of(uri, "first"), "");
  }
  // What a restart after the failure does.
  void expect_next_session_works(uint32_t world) {
    Ranks next(uri, world);
    next.all_answer("save next 77", "OK");
    EXPECT_EQ(latest_step(uri), 77);
    EXPECT_EQ(problem_of(uri, "latest"), "");
    EXPECT_EQ(count_state(uri, CKPT_CHECKPOINT_OPEN), 0u);
    EXPECT_EQ(count_state(uri, CKPT_CHECKPOINT_ABORTED), 0u);
  }
  bool await_part(const std::string& id, int part) {
    return await([&] { return exists(uri + "/" + id + "/PART_00" + std::to_string(part)); });
  }

  void fresh_store() { uri = scratch / ("store" + std::to_string(++number)); }

  Scratch scratch;
  int number = 0;
  std::string uri = scratch / "store";
};
using Commit = CommitTest;
using DeadRank = CommitTest;
using FailingRank = CommitTest;
using ExistingLabel = CommitTest;
using Listing = CommitTest;

const std::string kLongSave = std::string("save second 2") + kLong;
const std::string kShortSave = std::string("save second 2") + kShort;

}  // namespace

// ---- a rank dies ----

TEST_F(DeadRank, BeforeItsPartIsTimeoutThatNamesIt) {
  with_growing_deadlines([&](const std::string& timeout) {
    fresh_store();
    Ranks ranks(uri, 3);
    save_first(ranks);
    ranks[1].kill();
    ranks[2].send(kLongSave);
    Reply leader = ranks[0].call("save second 2" + timeout), other = ranks[2].read();
    EXPECT_EQ(leader.status, "TIMEOUT") << leader;
    EXPECT_EQ(other.status, "ABORTED") << other;  // told at once, not at its own deadline
    expect_only_first();
    expect_next_session_works(2);
    return leader.ranks == "1";  // rank 2 had done its part
  });
}

TEST_F(DeadRank, InTheMiddleOfItsPartIsTimeoutThatNamesIt) {
  CKPT_NEEDS_STRACE();
  with_growing_deadlines([&](const std::string& timeout) {
    fresh_store();
    Ranks ranks(uri, 3);
    save_first(ranks);
    // The data is written, but not yet durable.
    EXPECT_TRUE(ranks[1].trace({"-e", "trace=fsync", "-e", "inject=fsync:signal=SIGKILL:when=1"}));
    ranks[1].send(kLongSave);
    ranks[2].send(kLongSave);
    Reply leader = ranks[0].call("save second 2" + timeout), victim = ranks[1].read(), other = ranks[2].read();
    EXPECT_EQ(leader.status, "TIMEOUT") << leader;
    EXPECT_EQ(other.status, "ABORTED") << other;
    expect_only_first();
    expect_next_session_works(3);
    return leader.ranks == "1" && victim.status == "DIED";
  });
}

TEST_F(DeadRank, AfterItsPartDoesNotHinderTheCommit) {
  Ranks ranks(uri, 3);
  save_first(ranks);
  ranks[0].send(kLongSave);
  ranks[1].send(kLongSave);
  ASSERT_TRUE(await_part("second.1.1", 1));
  ranks[1].kill();
  EXPECT_EQ(ranks[2].call(kLongSave).status, "OK");
  EXPECT_EQ(ranks[0].read().status, "OK");
  expect_new(2);
  expect_next_session_works(3);
}

TEST_F(DeadRank, ZeroBeforeItOpensTheAttemptIsTimeoutOfTheOthers) {
  Ranks ranks(uri, 2);
  save_first(ranks);
  ranks[0].kill();
  Reply reply = ranks[1].call(kShortSave);
  EXPECT_EQ(reply.status, "TIMEOUT") << reply;
  EXPECT_EQ(reply.ranks, "0");
  expect_only_first();
  expect_next_session_works(2);
}

TEST_F(DeadRank, ZeroBeforeItsCommitIsNamedByTheOthersAndNothingIsCommitted) {
  Ranks ranks(uri, 3);
  save_first(ranks);
  ranks[0].send(kLongSave);
  ASSERT_TRUE(await_part("second.1.1", 0));
  ranks[0].kill();
  Reply reply = ranks[1].call(kShortSave);
  EXPECT_TRUE(reply.status == "TIMEOUT" || reply.text.find("rank 0 is gone") != std::string::npos) << reply;
  EXPECT_EQ(reply.ranks, "0");
  // The first rank that gives up closes the attempt for all.
  Reply late = ranks[2].call(kLongSave);
  EXPECT_EQ(late.status, "ABORTED") << late;
  EXPECT_EQ(late.rank, "1");
  expect_only_first();
  expect_next_session_works(3);
}

TEST_F(DeadRank, ZeroAfterTheCommitIsOkForTheOthers) {
  CKPT_NEEDS_STRACE();
  Ranks ranks(uri, 2);
  save_first(ranks);
  // The first file that rank 0 removes is the attempt record, after the commit.
  ASSERT_TRUE(ranks[0].trace({"-e", "trace=unlinkat", "-e", "inject=unlinkat:signal=SIGKILL:when=1"}));
  ranks[0].send(kLongSave);
  EXPECT_EQ(ranks[1].call(kLongSave).status, "OK");
  EXPECT_EQ(ranks[0].read().status, "DIED");
  expect_new(2);
  expect_next_session_works(2);
}

TEST_F(DeadRank, SoftwareThatIsOnlySlowIsWaitedFor) {
  Ranks ranks(uri, 3);
  save_first(ranks);
  ranks[1].signal(SIGSTOP);
  ranks[1].send(kLongSave);
  ranks[0].send(kLongSave);
  ranks[2].send(kLongSave);
  ASSERT_TRUE(await_part("second.1.1", 2));
  EXPECT_FALSE(exists(uri + "/second.1.1/MANIFEST"));
  ranks[1].signal(SIGCONT);
  for (size_t rank = 0; rank < 3; rank++) EXPECT_EQ(ranks[rank].read().status, "OK");
  expect_new(2);
}

TEST_F(DeadRank, ZombieZeroThatWakesAfterTheOthersGaveUpCannotCommit) {
  Ranks ranks(uri, 2);
  save_first(ranks);
  ranks[0].send(kLongSave);
  ASSERT_TRUE(await_part("second.1.1", 0));
  ranks[0].signal(SIGSTOP);
  Reply other = ranks[1].call(kShortSave);
  EXPECT_EQ(other.status, "TIMEOUT") << other;
  ranks[0].signal(SIGCONT);
  Reply leader = ranks[0].read();
  EXPECT_EQ(leader.status, "ABORTED") << leader;
  expect_only_first();
  ranks.all_answer("save second 2", "OK");
  expect_new(2);
}

// ---- a rank fails ----

TEST_F(FailingRank, WhoseDiskIsFullSaysSoAndTheOthersLearnItAtOnce) {
  CKPT_NEEDS_STRACE();
  Ranks ranks(uri, 3);
  save_first(ranks);
  ASSERT_TRUE(ranks[1].trace({"-e", "trace=fallocate", "-e", "inject=fallocate:error=ENOSPC"}));
  for (size_t rank : {0u, 1u, 2u}) ranks[rank].send(kLongSave);
  Reply failed = ranks[1].read();
  EXPECT_EQ(failed.status, "NO_SPACE") << failed;
  for (size_t rank : {0u, 2u}) {
    Reply other = ranks[rank].read();
    EXPECT_EQ(other.status, "ABORTED") << other;
    EXPECT_EQ(other.rank, "1");
    EXPECT_NE(other.text.find("NO_SPACE"), std::string::npos) << other;
  }
  expect_only_first();
  expect_next_session_works(3);
}

TEST_F(FailingRank, ZeroWhoseDiskIsFullSaysSoAndTheOthersLearnItAtOnce) {
  CKPT_NEEDS_STRACE();
  Ranks ranks(uri, 2);
  save_first(ranks);
  ASSERT_TRUE(ranks[0].trace({"-e", "trace=fallocate", "-e", "inject=fallocate:error=ENOSPC"}));
  for (size_t rank : {0u, 1u}) ranks[rank].send(kLongSave);
  EXPECT_EQ(ranks[0].read().status, "NO_SPACE");
  Reply other = ranks[1].read();
  EXPECT_EQ(other.status, "ABORTED") << other;
  EXPECT_EQ(other.rank, "0");
  expect_only_first();
  expect_next_session_works(2);
}

TEST_F(FailingRank, ZeroThatCannotReadTheStoreForAMomentTriesAgain) {
  CKPT_NEEDS_STRACE();
  save_first(*std::make_unique<Ranks>(uri, 2));
  // Rank 0 polls for the part of rank 1: it looks for the part, for the MANIFEST and for the directory.
  for (const char* when : {"1", "2", "3"}) {
    Ranks ranks(uri, 2);
    const std::string label = std::string("again") + when, save = "save " + label + " 2" + kLong;
    ranks[0].send(save);
    const std::string part = uri + "/" + label + "." + ranks.string.substr(11, 1) + ".1/PART_000";
    ASSERT_TRUE(await([&] { return exists(part); }));
    ASSERT_TRUE(ranks[0].trace({"-e", "trace=openat2", "-e", std::string("inject=openat2:error=EIO:when=") + when}));
    ASSERT_TRUE(await([&] { return ranks[0].trace_so_far().find("(INJECTED)") != std::string::npos; }));
    Reply other = ranks[1].call(save), leader = ranks[0].read();
    EXPECT_EQ(leader.status, "OK") << leader;
    EXPECT_EQ(other.status, "OK") << other;
    expect_new(2);
  }
  expect_next_session_works(2);
}

TEST_F(FailingRank, ThatCannotCloseTheAttemptDoesNotSayThatNothingWasCommitted) {
  CKPT_NEEDS_STRACE();
  // Rank 1's first renameat2 publishes its part, the second its tombstone. Rank 0 sleeps meanwhile; then it finds all
  // parts.
  Ranks ranks(uri, 2);
  save_first(ranks);
  ranks[0].send(kLongSave);
  ASSERT_TRUE(await_part("second.1.1", 0));
  ranks[0].signal(SIGSTOP);
  ASSERT_TRUE(ranks[1].trace({"-e", "trace=renameat2", "-e", "inject=renameat2:error=ENOSPC:when=2+"}));
  Reply other = ranks[1].call(kShortSave);
  EXPECT_EQ(other.status, "COMMIT_UNKNOWN") << other;
  ranks[0].signal(SIGCONT);
  Reply leader = ranks[0].read();
  EXPECT_EQ(leader.status, "OK") << leader;
  expect_new(2);
}

TEST_F(Listing, PassesOverForeignDirectoriesThatItMayNotOpen) {
  CKPT_NEEDS_STRACE();
  Ranks ranks(uri, 1);
  save_first(ranks);
  std::filesystem::create_directory(uri + "/lost+found");
  ASSERT_TRUE(ranks[0].trace(
      {"-P", "lost+found", "-P", "lost+found/MANIFEST", "-e", "trace=openat2", "-e", "inject=openat2:error=EACCES"}));
  Reply next = ranks[0].call("save second 2");
  EXPECT_EQ(next.status, "OK") << next;
  EXPECT_NE(ranks[0].trace_log().find("INJECTED"), std::string::npos);
  expect_new(2);
}

// ---- the commit record ----

// After its rename the record exists. If the directory cannot be synced, nobody knows whether it lasts.
TEST_F(Commit, WhoseRecordCannotBeMadeDurableIsCommitUnknown) {
  CKPT_NEEDS_STRACE();
  for (const char* error : {"EIO", "ENOSPC", "EDQUOT", "ENOMEM"}) {
    Ranks ranks(uri, 1);
    // A save syncs: record, its directory, root, part, its directory, MANIFEST, its directory.
    ASSERT_TRUE(
        ranks[0].trace({"-e", "trace=fsync,renameat2", "-e", std::string("inject=fsync:when=9+:error=") + error}));
    Reply reply = ranks[0].call(std::string("save ") + error + " 5");
    std::string log = ranks[0].trace_log();
    size_t renamed = log.rfind("MANIFEST\""), injected = log.find("INJECTED");
    ASSERT_NE(injected, std::string::npos) << log;
    ASSERT_GT(injected, renamed) << log;
    EXPECT_EQ(reply.status, "COMMIT_UNKNOWN") << error << " " << reply;
  }
}

TEST_F(Commit, RankThatSkippedAnotherLabelStillAgreesOnTheAttempt) {
  Ranks ranks(uri, 2);
  save_first(ranks);
  EXPECT_EQ(ranks[0].call(kShortSave).status, "TIMEOUT");  // rank 1 leaves "second" out
  ranks.all_answer("save third 3", "OK");
  expect_new(3);
  // Only rank 0 has counted this attempt at the label. The error says so, and a new start counts afresh.
  Reply other;
  ranks[1].send(std::string("save second 2") + kShort);
  Reply leader = ranks[0].call(kShortSave);
  other = ranks[1].read();
  EXPECT_EQ(leader.status, "TIMEOUT") << leader;
  EXPECT_NE(other.status, "OK") << other;
  Ranks again(uri, 2);
  again.all_answer("save second 4", "OK");
  expect_new(4);
}

TEST_F(Commit, WithWaitZeroRanksReturnWhenTheirPartIsDurable) {
  Ranks ranks(uri, 3);
  save_first(ranks);
  ranks[0].send(kLongSave + " wait=0");
  Reply other = ranks[1].call(kLongSave + " wait=0");
  EXPECT_EQ(other.status, "OK") << other;
  EXPECT_TRUE(exists(uri + "/second.1.1/PART_001"));
  expect_only_first();  // rank 2 has not come yet
  EXPECT_EQ(ranks[2].call(kLongSave + " wait=0").status, "OK");
  EXPECT_EQ(ranks[0].read().status, "OK");  // rank 0 waits nevertheless, since it commits
  expect_new(2);
}

TEST_F(Commit, LatestIsTheNewestBySessionAndOrderAndNeverByStepOrLabel) {
  {
    Ranks ranks(uri, 1);
    for (const char* save : {"save z 100", "save a 7", "save m 50"}) ranks.all_answer(save, "OK");
    EXPECT_EQ(latest_step(uri), 50);
  }
  Ranks ranks(uri, 2);
  ranks.all_answer("save b 5", "OK");
  EXPECT_EQ(latest_step(uri), 5);
  ranks.all_answer("save z 4 on_existing=keep", "OK");
  EXPECT_EQ(latest_step(uri), 4);
  std::vector<int64_t> steps;
  for (const Info& info : entries_of(uri)) steps.push_back(info.step);
  EXPECT_EQ(steps, (std::vector<int64_t>{100, 7, 50, 5, 4}));
  EXPECT_EQ(problem_of(uri, "label:z"), "");
  EXPECT_EQ(find(open_store(uri), "label:z").step, 4);
}

// ---- a label that exists ----

TEST_F(ExistingLabel, IsExistsOnAllRanksAndNothingIsWritten) {
  Ranks ranks(uri, 3);
  save_first(ranks);
  auto before = snapshot(uri + "/first.1.1");
  ranks.all_answer(std::string("save first 2") + kLong, "EXISTS");
  expect_only_first();
  EXPECT_EQ(snapshot(uri + "/first.1.1"), before);
  for (const Info& info : entries_of(uri))
    for (const auto& name : names_in(uri + "/" + info.id))
      EXPECT_TRUE(std::string(info.id) == "first.1.1" || !name.starts_with("PART_")) << info.id << "/" << name;
  ranks.all_answer("save second 2", "OK");
  expect_new(2);
  Ranks next(uri, 1);
  next.all_answer("save first 3", "EXISTS");
  EXPECT_EQ(entries_of(uri).size(), 2u);
}

TEST_F(ExistingLabel, IsReplacedOnceTheNewOneIsDurable) {
  Ranks ranks(uri, 2);
  save_first(ranks);
  ranks.all_answer("save first 2 on_existing=replace", "OK");
  EXPECT_EQ(latest_step(uri), 2);
  EXPECT_EQ(problem_of(uri, "latest"), "");
  EXPECT_EQ(entries_of(uri).size(), 1u);
  // A replacement that fails keeps the old one.
  ranks[1].kill();
  EXPECT_EQ(ranks[0].call(std::string("save first 3 on_existing=replace") + kShort).status, "TIMEOUT");
  EXPECT_EQ(latest_step(uri), 2);
  EXPECT_EQ(problem_of(uri, "first"), "");
}

// ---- list ----

TEST_F(Listing, StatesOfAllKinds) {
  Ranks ranks(uri, 2);
  save_first(ranks);
  ranks.all_answer("save broken 2", "OK");
  EXPECT_EQ(ranks[0].call(std::string("save aborted 3") + kShort).status, "TIMEOUT");
  ranks[0].send(std::string("save open 4") + kLong);
  ASSERT_TRUE(await_part("open.1.1", 0));
  write_file(uri + "/broken.1.1/MANIFEST", "damaged");
  EXPECT_EQ(state_of(uri, "first.1.1"), CKPT_CHECKPOINT_COMMITTED);
  EXPECT_EQ(state_of(uri, "broken.1.1"), CKPT_CHECKPOINT_DAMAGED);
  EXPECT_EQ(state_of(uri, "aborted.1.1"), CKPT_CHECKPOINT_ABORTED);
  EXPECT_EQ(state_of(uri, "open.1.1"), CKPT_CHECKPOINT_OPEN);
  EXPECT_EQ(latest_step(uri), 1);
  EXPECT_TRUE(problem_of(uri, "aborted.1.1").starts_with("ABORTED")) << problem_of(uri, "aborted.1.1");
  EXPECT_TRUE(problem_of(uri, "open.1.1").starts_with("INCOMPLETE")) << problem_of(uri, "open.1.1");
  EXPECT_TRUE(problem_of(uri, "broken.1.1").starts_with("FORMAT")) << problem_of(uri, "broken.1.1");
}
