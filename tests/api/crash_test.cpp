// Kills a process at every system call of an operation, and lets every system call fail in every way, once and from
// then on. What was committed stays loadable byte for byte, nothing half done is ever taken for a checkpoint, and the
// next start works. strace does this to real processes on a real directory.
// The kernel keeps what a process wrote when the process dies, synced or not: losses of power are in power_test.cpp. In
// the errno matrix a sync that fails must never end in OK.
// By default a sample of the points; CKPT_CRASH_ALL=1: all, CKPT_CRASH_ALL=renameat2:error=EEXIST: those that begin so.
#include <algorithm>
#include <filesystem>

#include "api/crash_points.h"

using namespace ckpt_test;

namespace {

const std::vector<std::string> kCalls{"openat2",    "openat",   "pwrite64",   "pread64",   "fsync",     "renameat2",
                                      "mkdirat",    "mkdir",    "close",      "ftruncate", "fallocate", "fstat",
                                      "newfstatat", "unlinkat", "getdents64", "linkat"};
using KillMatrix = Faults;
using ErrnoMatrix = Faults;
using Durability = Faults;

}  // namespace

// ---- killed at every system call ----

TEST_F(KillMatrix, SaveLeavesTheEarlierCheckpointOrTheNewOne) {
  prepare(1);
  kill_everywhere({.start = " ", .commands = {"save new 2 threads=1"}, .latest = {1, 2}, .stays = {"s1.1.1"}}, 9);
}

TEST_F(KillMatrix, AsyncSaveLeavesTheEarlierCheckpointOrTheNewOne) {
  prepare(1);
  kill_everywhere({.start = " ", .commands = {"save new 2 threads=1 async=1"}, .latest = {1, 2}, .stays = {"s1.1.1"}},
                  9);
}

TEST_F(KillMatrix, ReplacingSaveLeavesTheOldOneOrTheNewOne) {
  prepare(1);
  kill_everywhere(
      {.start = " ", .commands = {"save s1 2 threads=1 on_existing=replace"}, .latest = {1, 2}, .stays = {}}, 13);
}

TEST_F(KillMatrix, SaveThatPrunesLeavesTheNewest) {
  prepare(3);
  kill_everywhere({.start = " ", .commands = {"save s4 4 threads=1 keep_last=1"}, .latest = {3, 4}, .stays = {}}, 15);
}

// Each save writes into the file that the save before retired, and retires the next.
TEST_F(KillMatrix, SavesThatRetireAndReuseLeaveTheNewest) {
  prepare(2, 1, " large=1 keep_last=1");
  ASSERT_EQ(names_in(base_ + "/.ckpt/recycled"), std::vector<std::string>{"PART_000"});
  kill_everywhere({.start = " ",
                   .commands = {"save s3 3 threads=1 keep_last=1 large=1", "save s4 4 threads=1 keep_last=1 large=1"},
                   .latest = {2, 3, 4},
                   .stays = {}},
                  23);
}

// A save that shares a tensor and rows of a table with the one before, of the same session.
Operation incremental_save(uint32_t world = 1) {
  return {.start = " ",
          .commands = {"save new 3 threads=1 incremental=on frozen=1"},
          .world = world,
          .latest = {2, 3},
          .stays = {"s1.1.1", "s2.2.1"},
          .before = "save s2 2 incremental=on frozen=1"};
}

TEST_F(KillMatrix, IncrementalSaveLeavesTheEarlierCheckpointOrTheNewOne) {
  prepare(1, 1, " frozen=1");
  kill_everywhere(incremental_save(), 9);
}

TEST_F(KillMatrix, IncrementalSavesThatRetireLeaveTheNewest) {
  prepare(2, 1, " frozen=1 incremental=on keep_last=1");
  kill_everywhere({.start = " ",
                   .commands = {"save s3 3 threads=1 keep_last=1 incremental=on frozen=1",
                                "save s4 4 threads=1 keep_last=1 incremental=on frozen=1"},
                   .latest = {2, 3, 4},
                   .stays = {}},
                  23);
}

// Rank 0 holds what is shared.
TEST_F(KillMatrix, RankZeroOfTwoThatSavesIncrementallyLeavesTheEarlierCheckpointOrTheNewOne) {
  prepare(1, 2, " frozen=1");
  kill_everywhere(incremental_save(2), 29);
}

TEST_F(KillMatrix, PruneLeavesTheNewest) {
  prepare(4);
  kill_everywhere({.start = "", .commands = {"prune keep_last=1"}, .latest = {4}, .stays = {"s4.1.1"}}, 11);
}

// A copy of step 2 into a store that has step 1 from the same place.
TEST_F(KillMatrix, CopyLeavesTheEarlierCheckpointAndIsFinishedByTheNext) {
  const std::string source = prepare_copies();
  kill_everywhere({.start = "",
                   .commands = {"copy " + source + " s2 threads=1"},
                   .latest = {1, 2},
                   .stays = {"s1.1.1"},
                   .finish = "copy " + source + " s2"},
                  7);
}

// The same of two steps that share a tensor, which is not sent again.
Operation borrowing_copy(const std::string& source) {
  const std::string copy = "copy " + source + " s2";
  const auto files = names_in(source + "/s2.1.1");  // one of them is shared
  return {"", {copy + " threads=1"}, 1, 0, {1, 2}, {"s1.1.1"}, false, copy, files};
}

TEST_F(KillMatrix, CopyThatBorrowsLeavesTheEarlierCheckpointAndIsFinishedByTheNext) {
  kill_everywhere(borrowing_copy(prepare_copies(" frozen=1 incremental=on")), 11);
}

TEST_F(KillMatrix, PruneOfWhatIsSharedLeavesTheNewest) {
  prepare(4, 1, " frozen=1 incremental=on");
  kill_everywhere({.start = "", .commands = {"prune keep_last=1"}, .latest = {4}, .stays = {"s4.1.1"}}, 13);
}

TEST_F(KillMatrix, RemoveLeavesTheOthers) {
  prepare(3);
  kill_everywhere({.start = "", .commands = {"remove s3.1.1"}, .latest = {2, 3}, .stays = {"s1.1.1", "s2.1.1"}}, 5);
}

TEST_F(KillMatrix, SessionOpenLosesNothingAndTheNextOneCleansUp) {
  prepare(1);
  prepare_leftover();
  kill_everywhere({.start = "", .commands = {"open 0 1 -"}, .latest = {1}, .stays = {"s1.1.1"}}, 9);
}

TEST_F(KillMatrix, FirstSessionOfAStoreCanBeRepeated) {
  std::filesystem::create_directories(base_);
  kill_everywhere({.start = "", .commands = {"open 0 1 -", "save new 2"}, .latest = {-1, 2}, .stays = {}}, 13);
}

TEST_F(KillMatrix, RankZeroOfTwoLeavesTheEarlierCheckpointOrTheNewOne) {
  prepare(1, 2);
  kill_everywhere({.start = " ",
                   .commands = {"save new 2 threads=1"},
                   .world = 2,
                   .victim = 0,
                   .latest = {1, 2},
                   .stays = {"s1.1.1"}},
                  29);
}

TEST_F(KillMatrix, RankOneOfTwoLeavesTheEarlierCheckpointOrTheNewOne) {
  prepare(1, 2);
  kill_everywhere({.start = " ",
                   .commands = {"save new 2 threads=1"},
                   .world = 2,
                   .victim = 1,
                   .latest = {1, 2},
                   .stays = {"s1.1.1"}},
                  11);
}

TEST_F(KillMatrix, RankZeroOfARendezvousLeavesARendezvousThatCanBeRepeated) {
  prepare(1);
  kill_everywhere({.start = "",
                   .commands = {" rendezvous=1"},
                   .world = 2,
                   .victim = 0,
                   .latest = {1},
                   .stays = {"s1.1.1"},
                   .rendezvous = true},
                  13);
}

TEST_F(KillMatrix, RankOneOfARendezvousLeavesARendezvousThatCanBeRepeated) {
  prepare(1);
  kill_everywhere({.start = "",
                   .commands = {" rendezvous=1"},
                   .world = 2,
                   .victim = 1,
                   .latest = {1},
                   .stays = {"s1.1.1"},
                   .rendezvous = true},
                  13);
}

// ---- every system call fails ----

TEST_F(ErrnoMatrix, SaveIsNeverAFalseOkAndDamagesNothing) {
  prepare(1);
  fail_everywhere({.start = " ", .commands = {"save new 2 threads=1"}, .latest = {1, 2}, .stays = {"s1.1.1"}}, kCalls);
}

TEST_F(ErrnoMatrix, AsyncSaveIsNeverAFalseOkAndDamagesNothing) {
  prepare(1);
  fail_everywhere({.start = " ", .commands = {"save new 2 threads=1 async=1"}, .latest = {1, 2}, .stays = {"s1.1.1"}},
                  {"openat2", "pwrite64", "fsync", "renameat2", "close"});
}

// "fcntl" takes the lease. Whatever it returns, the save goes on.
TEST_F(ErrnoMatrix, SaveThatRetiresAndReusesIsNeverAFalseOkAndDamagesNothing) {
  prepare(2, 1, " large=1 keep_last=1");
  fail_everywhere(
      {.start = " ", .commands = {"save s3 3 threads=1 keep_last=1 large=1"}, .latest = {2, 3}, .stays = {}},
      {"renameat", "fcntl", "fstatfs", "openat", "openat2", "newfstatat", "fstat", "unlinkat", "fallocate",
       "getdents64"});
}

TEST_F(ErrnoMatrix, IncrementalSaveIsNeverAFalseOkAndDamagesNothing) {
  prepare(1, 1, " frozen=1");
  fail_everywhere(incremental_save(), kCalls);
}

TEST_F(ErrnoMatrix, SessionOpenDamagesNothing) {
  prepare(1);
  prepare_leftover();
  fail_everywhere({.start = "", .commands = {"open 0 1 -"}, .latest = {1}, .stays = {"s1.1.1"}}, kCalls);
}

TEST_F(ErrnoMatrix, PruneKeepsTheNewest) {
  prepare(3, 1, " frozen=1 incremental=on");
  fail_everywhere({.start = "", .commands = {"prune keep_last=1"}, .latest = {3}, .stays = {"s3.1.1"}},
                  {"openat2", "openat", "pread64", "fsync", "renameat2", "mkdirat", "flock", "newfstatat", "unlinkat",
                   "getdents64"});
}

// The program compares what it loaded with what was saved, so OK means the right bytes.
TEST_F(ErrnoMatrix, CopyIsNeverAFalseOkAndIsFinishedByTheNext) {
  const std::string source = prepare_copies();
  fail_everywhere({.start = "",
                   .commands = {"copy " + source + " s2 threads=1"},
                   .latest = {1, 2},
                   .stays = {"s1.1.1"},
                   .finish = "copy " + source + " s2"},
                  kCalls);
}

TEST_F(ErrnoMatrix, CopyThatBorrowsIsNeverAFalseOkAndIsFinishedByTheNext) {
  fail_everywhere(borrowing_copy(prepare_copies(" frozen=1 incremental=on")), kCalls);
}

TEST_F(ErrnoMatrix, LoadIsTheRightBytesOrAnError) {
  prepare(2);
  fail_everywhere({.start = "", .commands = {"hold latest", "check"}, .latest = {2}, .stays = {"s1.1.1", "s2.1.1"}},
                  {"openat2", "openat", "pread64", "flock", "fstat", "newfstatat", "getdents64"});
}

// ---- a sync that failed ----

TEST_F(Durability, FileWhoseSyncFailedIsNeverSyncedAgain) {
  prepare(1);
  for (int call = 1; call <= 9; call++) {
    Outcome outcome =
        run(fresh_copy(), {.start = " ", .commands = {"save new 2 threads=1"}, .latest = {1}, .stays = {}},
            {"-e", "trace=fsync", "-e", "inject=fsync:error=EIO:when=" + std::to_string(call)});
    size_t failed = outcome.log.find("(INJECTED)");
    if (failed == std::string::npos) break;
    EXPECT_NE(outcome.victim.back().status, "OK");
    size_t start = outcome.log.rfind('<', failed), end = outcome.log.find('>', start);
    std::string file = outcome.log.substr(start, end - start);
    if (file.find(".tmp.") == std::string::npos)
      continue;  // the sync of a directory may be repeated: it has no pages to lose
    EXPECT_EQ(outcome.log.find(file, failed), std::string::npos) << outcome.log;
  }
}
