// Kills a process at every system call of an operation, and lets every system call fail in every way, once and from
// then on. What was committed stays loadable byte for byte, nothing half done is ever taken for a checkpoint, and the
// next start works. strace does this to real processes on a real directory.
// Not covered here: power loss. The kernel keeps what a process wrote when the process dies, synced or not. So a
// library without a single fsync would pass the kill matrix. Two other tests watch the syncs: Durability below checks
// their order in a trace, and in the errno matrix a sync that fails must never end in OK.
// By default a sample of the points; CKPT_CRASH_ALL=1: all, CKPT_CRASH_ALL=renameat2:error=EEXIST: those that begin so.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <set>

#include "api/process.h"

using namespace ckpt_test;

namespace {

// These tests do not depend on a real disk, and memory is faster. The order of syncs is read from a trace.
const char* memory_backed() { return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : nullptr; }

// One point of so many, where each may fail in many ways: a sanitizer makes processes start slowly.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kOneErrorOf = 97;
#else
constexpr size_t kOneErrorOf = 37;
#endif

const char* all_points() { return std::getenv("CKPT_CRASH_ALL"); }

// An operation on a copy of a prepared store. One process is the victim.
struct Operation {
  std::string start;                  // opens the sessions before any fault; "" for none
  std::vector<std::string> commands;  // the faults hit these; other ranks get the first one too
  uint32_t world = 1, victim = 0;
  std::set<int64_t> latest;        // the steps that may be the latest afterwards
  std::vector<std::string> stays;  // checkpoints that must exist afterwards, whatever happens
  bool rendezvous = false;
  std::string finish{};  // what another process does afterwards, before the next start
  std::vector<std::string> files{"MANIFEST", "PART_000"};  // of step 2 afterwards
  std::string before{};                                    // what all sessions do before any fault
};

class Faults : public ::testing::Test {
 protected:
  void SetUp() override {
    CKPT_NEEDS_STRACE();
    base_ = scratch_ / "base";
  }
  // The store that every point starts from: checkpoints of steps 1 … n, labelled "s<step>".
  void prepare(int count, uint32_t world = 1, const std::string& settings = "") {
    Ranks ranks(base_, world);
    for (int step = 1; step <= count; step++)
      ranks.all_answer("save s" + std::to_string(step) + " " + std::to_string(step) + settings, "OK");
  }
  // Adds an attempt that a crash left open.
  void prepare_leftover() {
    Ranks ranks(base_, 2);
    ranks[0].send(std::string("save left 9") + kLong);
    ASSERT_TRUE(await([&] { return count_state(base_, CKPT_CHECKPOINT_OPEN) == 1; }));
    ASSERT_TRUE(await([&] { return names_in(base_ + "/left.2.1").size() == 1; }));
  }

  // A store with steps 1 and 2, and one that has a copy of step 1.
  std::string prepare_copies(const std::string& settings = "") {
    prepare(2, 1, " large=1" + settings);
    const std::string source = scratch_ / "source";
    std::filesystem::rename(base_, source);
    const Reply copied = Program(base_).call("copy " + source + " s1");
    EXPECT_EQ(copied.status, "OK") << copied;
    return source;
  }

  std::string fresh_copy() {
    std::string uri = scratch_ / ("store" + std::to_string(number_++));
    copy_tree(base_, uri);
    return uri;
  }

  // Runs the operation, with these arguments of strace for the victim. `victim` holds its answers, the last one last.
  struct Outcome {
    std::vector<Reply> victim, others;
    bool injected = false;
    std::string log;
  };
  Outcome run(const std::string& uri, const Operation& operation, const std::vector<std::string>& faults,
              const std::string& timeout = kLong);

  // What must hold after every point.
  void check_store(const std::string& uri, const Operation& operation);
  void finish(const std::string& uri, const Operation& operation);
  void check_next_start(const std::string& uri);

  // How often an undisturbed victim makes each system call.
  std::map<std::string, int> count_calls(const Operation& operation);
  // Takes one point in `stride`.
  std::vector<std::string> sample(std::vector<std::string> points, size_t stride) const;

  // Kills the victim at the entry of each of its calls.
  void kill_everywhere(const Operation& operation, size_t stride);
  void check_kill(const Operation& operation, const std::string& rule);
  bool check_kill(const Operation& operation, const std::string& rule, const std::string& timeout);
  // Lets each of these calls fail: by itself, and together with all that follow it.
  void fail_everywhere(const Operation& operation, const std::vector<std::string>& calls);
  void check_failure(const Operation& operation, const std::string& rule);

  Scratch scratch_{memory_backed()};
  std::string base_;
  int number_ = 0, hit_ = 0, refused_ = 0, passed_ = 0;
};

Faults::Outcome Faults::run(const std::string& uri, const Operation& operation, const std::vector<std::string>& faults,
                            const std::string& timeout) {
  Outcome outcome;
  std::vector<std::unique_ptr<Program>> programs;
  for (uint32_t rank = 0; rank < operation.world; rank++) programs.push_back(std::make_unique<Program>(uri));
  std::string string = "-";
  for (uint32_t rank = 0; rank < operation.world && !operation.start.empty(); rank++) {
    Reply reply = programs[rank]->call(opening(rank, operation.world, string) + operation.start);
    EXPECT_EQ(reply.status, "OK") << reply;
    if (rank == 0) string = reply.text;
  }
  if (!operation.before.empty()) {
    for (auto& program : programs) program->send(operation.before + kLong);
    for (auto& program : programs) EXPECT_EQ(program->read().status, "OK");
  }
  Program& victim = *programs[operation.victim];
  EXPECT_TRUE(victim.trace(faults));
  auto command_of = [&](uint32_t rank, const std::string& command) {
    const std::string deadline = operation.world > 1 ? timeout : "";
    return (operation.rendezvous ? opening(rank, operation.world) + command : command) + deadline;
  };
  for (uint32_t rank = 0; rank < operation.world; rank++)
    if (rank != operation.victim) programs[rank]->send(command_of(rank, operation.commands[0]));
  for (const std::string& command : operation.commands) {
    outcome.victim.push_back(victim.call(command_of(operation.victim, command)));
    if (outcome.victim.back().status == "DIED") break;
  }
  for (uint32_t rank = 0; rank < operation.world; rank++)
    if (rank != operation.victim) outcome.others.push_back(programs[rank]->read());
  outcome.log = victim.trace_log();
  outcome.injected = outcome.log.find("(INJECTED)") != std::string::npos;
  return outcome;
}

void Faults::check_store(const std::string& uri, const Operation& operation) {
  EXPECT_TRUE(operation.latest.count(latest_step(uri))) << latest_step(uri);
  for (const Info& info : entries_of(uri)) {
    EXPECT_NE(info.state, CKPT_CHECKPOINT_DAMAGED) << info.id;
    if (info.state == CKPT_CHECKPOINT_COMMITTED) {
      EXPECT_EQ(problem_of(uri, info.id), "");
    }
  }
  for (const std::string& id : operation.stays) EXPECT_EQ(problem_of(uri, id), "");
}

void Faults::finish(const std::string& uri, const Operation& operation) {
  if (operation.finish.empty()) return;
  const Reply finished = Program(uri).call(operation.finish);
  ASSERT_EQ(finished.status, "OK") << finished;
  EXPECT_EQ(latest_step(uri), *operation.latest.rbegin());
  // An empty temporary file stays for an hour: its writer may be about to open it.
  auto names = names_in(uri + "/s2.1.1");
  std::erase_if(names, [&](const std::string& name) {
    return name.find(".tmp.") != name.npos && std::filesystem::file_size(uri + "/s2.1.1/" + name) == 0;
  });
  EXPECT_EQ(names, operation.files);
}

void Faults::check_next_start(const std::string& uri) {
  Store store = open_store(uri);
  Session session = open_session(store);
  ckpt_save* raw = nullptr;
  Error error;
  ASSERT_EQ(ckpt_save_new(&raw, session.get(), "after", 1000, nullptr, error), CKPT_OK) << error.text();
  Save save(raw);
  ASSERT_EQ(small_state::add(save.get(), 0, 1, 1000, false, error), CKPT_OK) << error.text();
  ASSERT_EQ(ckpt_save_run(save.get(), error), CKPT_OK) << error.text();
  EXPECT_EQ(latest_step(uri), 1000);
  EXPECT_EQ(problem_of(uri, "latest"), "");
  EXPECT_EQ(count_state(uri, CKPT_CHECKPOINT_OPEN), 0u);
  EXPECT_EQ(count_state(uri, CKPT_CHECKPOINT_ABORTED), 0u);
  EXPECT_EQ(names_in(uri + "/.ckpt/trash"), std::vector<std::string>{});
  EXPECT_EQ(names_in(uri + "/.ckpt/attempts"), std::vector<std::string>{});
  EXPECT_LE(names_in(uri + "/.ckpt/recycled").size(), 1u);
}

std::map<std::string, int> Faults::count_calls(const Operation& operation) {
  Outcome clean = run(fresh_copy(), operation, {"-e", "trace=all"});
  EXPECT_EQ(clean.victim.back().status, "OK") << clean.victim.back();
  std::map<std::string, int> counts;
  for (const TracedCall& call : traced_calls(clean.log)) counts[call.name] = std::max(counts[call.name], call.number);
  for (const char* never : {"exit_group", "exit", "restart_syscall", "futex"}) counts.erase(never);
  return counts;
}

std::vector<std::string> Faults::sample(std::vector<std::string> points, size_t stride) const {
  if (const std::string wanted = all_points() ? all_points() : ""; !wanted.empty()) {
    std::erase_if(points, [&](const std::string& point) { return wanted != "1" && !point.starts_with(wanted); });
    return points;
  }
  std::vector<std::string> taken;
  for (size_t i = 0; i < points.size(); i += stride) taken.push_back(points[i]);
  return taken;
}

void Faults::check_kill(const Operation& operation, const std::string& rule) {
  SCOPED_TRACE(rule);
  with_growing_deadlines([&](const std::string& timeout) { return check_kill(operation, rule, timeout); });
}

bool Faults::check_kill(const Operation& operation, const std::string& rule, const std::string& timeout) {
  std::string uri = fresh_copy();
  Outcome outcome = run(uri, operation, {"-e", "inject=" + rule}, timeout);
  const Reply& last = outcome.victim.back();
  const bool gave_up = operation.world > 1 && (last.status == "TIMEOUT" || last.status == "ABORTED");
  EXPECT_TRUE(gave_up || last.status == "DIED" || last.status == "OK") << last;
  if (last.status == "DIED") hit_++;
  int64_t latest = latest_step(uri);
  for (const Reply& other : outcome.others) {
    EXPECT_TRUE(other.status == "OK" || other.status == "TIMEOUT" || other.status == "ABORTED") << other;
    // If one rank was told OK, the store must agree.
    bool committed = !operation.rendezvous && other.status == "OK";
    EXPECT_TRUE(!committed || latest == *operation.latest.rbegin()) << other;
  }
  check_store(uri, operation);
  finish(uri, operation);
  check_next_start(uri);
  remove_tree(uri);
  return !gave_up;
}

void Faults::kill_everywhere(const Operation& operation, size_t stride) {
  std::vector<std::string> points;
  for (const auto& [name, count] : count_calls(operation))
    for (int call = 1; call <= count; call++) points.push_back(name + ":signal=SIGKILL:when=" + std::to_string(call));
  auto taken = sample(points, stride);
  for (size_t i = 0; i < taken.size() && !HasFailure(); i++) check_kill(operation, taken[i]);
  std::cout << "killed at " << hit_ << " of " << points.size() << " calls\n";
}

bool is_a_named_error(const std::string& status) {
  return status != "DIED" && status != "SILENT" && status != "INTERNAL" && status != "UNKNOWN" && !status.empty();
}

void Faults::check_failure(const Operation& operation, const std::string& rule) {
  SCOPED_TRACE(rule);
  std::string uri = fresh_copy();
  Outcome outcome = run(uri, operation, {"-e", "trace=" + rule.substr(0, rule.find(':')), "-e", "inject=" + rule});
  const Reply& last = outcome.victim.back();
  int64_t latest = latest_step(uri), before = *operation.latest.begin(), after = *operation.latest.rbegin();
  for (const Reply& reply : outcome.victim) EXPECT_TRUE(is_a_named_error(reply.status)) << reply;
  if (last.status == "OK") {
    EXPECT_EQ(latest, after);
    // A save syncs everything before it says OK.
    bool sync_failed = rule.starts_with("fsync") && rule.find("EINTR") == std::string::npos && outcome.injected;
    EXPECT_FALSE(sync_failed && before != after) << outcome.log;
  } else if (last.status != "COMMIT_UNKNOWN") {
    EXPECT_EQ(latest, before) << last;
  }
  hit_ += outcome.injected;
  (last.status == "OK" ? passed_ : refused_)++;
  check_store(uri, operation);
  finish(uri, operation);
  check_next_start(uri);
  remove_tree(uri);
}

// The errors that a call may return.
std::vector<std::string> errors_of(const std::string& name) {
  bool names_a_file = name.starts_with("open") || name.starts_with("mkdir") || name.starts_with("rename");
  bool stores = name == "pwrite64" || name == "fsync" || name == "fallocate" || name == "close" || names_a_file;
  std::vector<std::string> errors{"EIO"};
  if (stores) errors.insert(errors.end(), {"ENOSPC", "EDQUOT"});
  if (names_a_file) errors.insert(errors.end(), {"EMFILE", "EACCES", "ENOENT"});
  if (name == "pread64" || name == "openat2" || name == "newfstatat") errors.push_back("ESTALE");
  if (name == "fallocate") errors.push_back("EOPNOTSUPP");
  if (name == "renameat2") errors.insert(errors.end(), {"EINVAL", "EEXIST"});
  if (name == "openat2") errors.push_back("ENOSYS");
  if (name == "linkat") errors.insert(errors.end(), {"EXDEV", "EPERM", "EMLINK", "EOPNOTSUPP", "EEXIST", "ENOENT"});
  if (name == "flock") errors.insert(errors.end(), {"ENOLCK", "EAGAIN"});
  if (name != "getdents64") errors.push_back("EINTR");
  return errors;
}

void Faults::fail_everywhere(const Operation& operation, const std::vector<std::string>& calls) {
  std::vector<std::string> points;
  auto counts = count_calls(operation);
  for (const std::string& name : calls)
    for (const std::string& error : errors_of(name))
      for (int call = 1; call <= counts[name]; call++)
        for (const char* from : {"", "+"})
          // No test of endless EINTR, which would be retried for ever, or endless ESTALE: a reopened handle is fresh.
          if ((error != "EINTR" && error != "ESTALE") || !*from)
            points.push_back(name + ":error=" + error + ":when=" + std::to_string(call) + from);
  auto taken = sample(points, kOneErrorOf);
  for (size_t i = 0; i < taken.size() && !HasFailure(); i++) check_failure(operation, taken[i]);
  std::cout << "hit at " << hit_ << " of " << points.size() << " points: " << refused_ << " ended in an error, "
            << passed_ << " in OK\n";
}

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

// ---- the order of the syncs ----

// Finds the pieces in the text, each after the one before. Returns the index of the first that is missing.
size_t count_in_order(const std::string& text, const std::vector<std::string>& pieces) {
  size_t at = 0;
  for (size_t i = 0; i < pieces.size(); i++) {
    at = text.find(pieces[i], at);
    if (at == std::string::npos) return i;
    at += pieces[i].size();
  }
  return pieces.size();
}

TEST_F(Durability, PartAndRecordAreSyncedBeforeTheirNamesAndTheDirectoriesAfter) {
  prepare(1);
  std::string uri = fresh_copy();
  Outcome outcome = run(uri, {.start = " ", .commands = {"save new 2 threads=1"}, .latest = {2}, .stays = {}},
                        {"-e", "trace=mkdirat,fsync,renameat2,pwrite64"});
  ASSERT_EQ(outcome.victim.back().status, "OK");
  // strace -y shows the path of a descriptor: "fsync(5</store/new.2.1/PART_000.tmp.1234>)".
  std::vector<std::string> order{"mkdirat(",   "\"new.2.1\"",                   // the attempt's directory …
                                 "fsync(",     uri + ">)",                      // … lasts
                                 "pwrite64(",  uri + "/new.2.1/PART_000.tmp.",  // the part's bytes …
                                 "fsync(",     uri + "/new.2.1/PART_000.tmp.",  // … last
                                 "renameat2(", "\"PART_000\"",
                                 "fsync(",     uri + "/new.2.1>)",              // before its name, which lasts too
                                 "fsync(",     uri + "/new.2.1/MANIFEST.tmp.",  // before the commit record's bytes last
                                 "renameat2(", "\"MANIFEST\"",
                                 "fsync(",     uri + "/new.2.1>)"};
  size_t found = count_in_order(outcome.log, order);
  EXPECT_EQ(found, order.size()) << "missing in order: " << order[std::min(found, order.size() - 1)] << "\n"
                                 << outcome.log;
}

// The sync of the part's name is that of all names of its directory.
TEST_F(Durability, SecondNamesLastBeforeTheCommitRecord) {
  prepare(1, 1, " frozen=1");
  const std::string uri = fresh_copy();
  Outcome outcome =
      run(uri, {.start = " ", .commands = {"save new 2 threads=1 incremental=on frozen=1"}, .latest = {2}, .stays = {}},
          {"-e", "trace=linkat,fsync,renameat2"});
  ASSERT_EQ(outcome.victim.back().status, "OK");
  const std::vector<std::string> order{"linkat(", "\"PART_000\"",     "renameat2(", "\"PART_000\"",
                                       "fsync(",  uri + "/new.2.1>)", "renameat2(", "\"MANIFEST\""};
  const size_t found = count_in_order(outcome.log, order);
  EXPECT_EQ(found, order.size()) << "missing in order: " << order[std::min(found, order.size() - 1)] << "\n"
                                 << outcome.log;
}

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
