// Each system call of each call of the library is held in turn, as a disk or a file server that hangs holds it: the
// call ends by the end of its time and ten seconds, says what it waits for, and the earlier checkpoint is still there.
// CKPT_STALL_ALL=1: each system call; else some of them.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <sstream>
#include <thread>

#include "api/process.h"

namespace ckpt_test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kTimeMs = 1500, kMostMs = kTimeMs + 10000;
constexpr const char* kHeld = ":delay_enter=40000000:when=";  // microseconds: longer than all that may happen
constexpr size_t kAtOnce = 8;                                 // they wait, most of the time

// What may wait for a disk.
constexpr const char* kCalls[] = {"openat2",   "openat",     "pwrite64", "pread64",   "fsync",
                                  "renameat2", "mkdirat",    "madvise",  "fallocate", "newfstatat",
                                  "unlinkat",  "getdents64", "flock",    "ftruncate", "close"};

struct Stalled {
  std::string command;  // of crash_program; URI in it is that of the store
  size_t points = 3;    // of all, unless CKPT_STALL_ALL
  bool opens = false;   // it is a session that is opened
};

class StallMatrix : public testing::Test {
 protected:
  void SetUp() override {
    CKPT_NEEDS_STRACE();
    for (const int step : {1, 2, 3}) {
      Program program(base_);
      ASSERT_EQ(program.call(opening(0, 1)).status, "OK");
      const std::string step_text = std::to_string(step);
      ASSERT_EQ(program.call("save s" + step_text + " " + step_text + " large=1").status, "OK");
    }
  }

  std::string fresh_copy() {
    std::string uri = scratch_ / ("store" + std::to_string(number_++));
    copy_tree(base_, uri);
    return uri;
  }

  // One run with these arguments of strace; how long it took goes to `ms`.
  Reply run(const std::string& uri, const Stalled& stalled, const std::vector<std::string>& arguments, int64_t* ms,
            std::string* log) {
    Program program(uri);
    if (!stalled.opens) {
      EXPECT_EQ(program.call(opening(0, 1)).status, "OK");
    }
    EXPECT_TRUE(program.trace(arguments));
    const auto begin = Clock::now();
    std::string command = stalled.command + " timeout_ms=" + std::to_string(kTimeMs);
    if (const size_t at = command.find("URI"); at != command.npos) command.replace(at, 3, uri);
    Reply reply = program.call(command);
    *ms = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count();
    if (log)
      *log = program.trace_log();
    else
      program.let_go();
    return reply;
  }

  std::vector<std::string> points_of(const Stalled& stalled);
  void fail_slowly(const Stalled& stalled);
  void check_point(const Stalled& stalled, const std::string& point);
  void stall_everywhere(const Stalled& stalled);

  Scratch scratch_;
  const std::string base_ = scratch_ / "base";
  std::atomic<int> number_{0}, held_{0};
};

std::vector<std::string> StallMatrix::points_of(const Stalled& stalled) {
  int64_t ms = 0;
  std::string log;
  const Reply clean = run(fresh_copy(), stalled, {"-e", "trace=all"}, &ms, &log);
  EXPECT_EQ(clean.status, stalled.opens ? "TIMEOUT" : "OK") << clean;  // nobody else comes
  // Files elsewhere (/proc, /sys) do not hang. Where another thread has one in the same place, nothing is held there.
  std::map<std::pair<std::string, int>, bool> in_store;
  for (const TracedCall& call : traced_calls(log)) {
    const bool here = call.line.find(scratch_.path()) != std::string::npos ||
                      call.line.find("MADV_POPULATE_READ") != std::string::npos;  // of a file that is mapped
    const auto [place, first] = in_store.try_emplace({call.name, call.number}, here);
    if (!first) place->second = place->second && here;
  }
  std::vector<std::string> points;
  for (const char* call : kCalls)
    for (int number = 1; in_store.contains({call, number}); number++)
      if (in_store[{call, number}]) points.push_back(call + std::string(kHeld) + std::to_string(number));
  return points;
}

void StallMatrix::check_point(const Stalled& stalled, const std::string& point) {
  const std::string uri = fresh_copy();
  int64_t ms = 0;
  const Reply reply =
      run(uri, stalled, {"-e", "trace=" + point.substr(0, point.find(':')), "-e", "inject=" + point}, &ms, nullptr);
  std::ostringstream at;
  at << stalled.command << " at " << point << ": " << reply << ", " << ms << " ms";
  EXPECT_LE(ms, kMostMs) << at.str();
  const bool fails = reply.status == "TIMEOUT" || reply.status == "COMMIT_UNKNOWN";
  EXPECT_TRUE(fails || reply.status == "OK") << at.str();
  const bool waits_for_ranks = stalled.opens && reply.text.find("did not come") != std::string::npos;
  EXPECT_TRUE(!fails || waits_for_ranks || reply.text.find("left behind") != std::string::npos) << at.str();
  if (fails && !waits_for_ranks) held_++;
  const char* kept = stalled.command.starts_with("prune") ? "s3" : "s1";
  EXPECT_EQ(problem_of(uri, kept), "") << at.str();
  remove_tree(uri);
}

void StallMatrix::stall_everywhere(const Stalled& stalled) {
  auto points = points_of(stalled);
  if (!std::getenv("CKPT_STALL_ALL")) {
    std::vector<std::string> some;
    const size_t stride = std::max<size_t>(points.size() / stalled.points, 1);
    for (size_t i = stride / 2; i < points.size(); i += stride) some.push_back(points[i]);
    points = std::move(some);
  }
  std::atomic<size_t> next{0};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < std::min(kAtOnce, points.size()); i++)
    threads.emplace_back([&] {
      for (size_t point; (point = next++) < points.size();) check_point(stalled, points[point]);
    });
  for (std::thread& thread : threads) thread.join();
  std::cout << held_ << " of " << points.size() << " calls were held until the thread was left behind\n";
}

// From the n-th of its kind on, each system call stands still for most of the time, and then fails.
void StallMatrix::fail_slowly(const Stalled& stalled) {
  std::string calls;
  for (const char* call : kCalls) calls += (calls.empty() ? "" : ",") + std::string(call);
  std::vector<std::thread> threads;
  for (const int from : {1, 2, 3, 5, 8})
    threads.emplace_back([this, &stalled, &calls, from] {
      const std::string uri = fresh_copy();
      const std::string slowly = "inject=" + calls + ":error=EIO:delay_enter=" + std::to_string(kTimeMs * 700) +
                                 ":when=" + std::to_string(from) + "+";
      int64_t ms = 0;
      const Reply reply = run(uri, stalled, {"-e", "trace=" + calls, "-e", slowly}, &ms, nullptr);
      EXPECT_LE(ms, kMostMs) << stalled.command << " where all fails slowly from call " << from << ": " << reply;
      EXPECT_EQ(problem_of(uri, "s3"), "") << from << ": " << reply;
      remove_tree(uri);
    });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(StallMatrix, WhatFailsSlowlyAgainAndAgainEndsInTime) {
  for (const char* command : {"save new 9 large=1", "load latest", "prune keep_last=1"})
    fail_slowly({.command = command});
}

TEST_F(StallMatrix, ASaveEndsInTime) { stall_everywhere({.command = "save new 9 large=1", .points = 8}); }
TEST_F(StallMatrix, ALoadEndsInTime) { stall_everywhere({.command = "load latest"}); }
TEST_F(StallMatrix, APruneEndsInTime) { stall_everywhere({.command = "prune keep_last=1", .points = 4}); }
TEST_F(StallMatrix, ARendezvousEndsInTime) {
  stall_everywhere({.command = "open 0 2 - rendezvous=1", .points = 4, .opens = true});
}
TEST_F(StallMatrix, ACopyEndsInTime) {
  const std::string from = fresh_copy();
  std::filesystem::rename(from, scratch_ / "from");
  stall_everywhere({.command = "copy " + (scratch_ / "from") + " s2.2.1", .points = 4});
}

// The last thing that it opens is the store's id, once all is there: for its report.
TEST_F(StallMatrix, ACopyThatIsThereIsNoFailureHoweverLateItsReportIs) {
  const std::string from = fresh_copy();
  std::filesystem::rename(from, scratch_ / "from");
  const Stalled copy{.command = "copy " + (scratch_ / "from") + " s2.2.1"};
  int64_t ms = 0;
  std::string log;
  ASSERT_EQ(run(fresh_copy(), copy, {"-e", "trace=openat2"}, &ms, &log).status, "OK");
  const auto opened = traced_calls(log);
  ASSERT_FALSE(opened.empty());
  EXPECT_NE(opened.back().line.find(".ckpt/store"), std::string::npos) << opened.back().line;
  const std::string late =
      "inject=openat2:delay_enter=" + std::to_string(kTimeMs * 2000) + ":when=" + std::to_string(opened.back().number);
  const Reply reply = run(fresh_copy(), copy, {"-e", "trace=openat2", "-e", late}, &ms, nullptr);
  EXPECT_EQ(reply.status, "OK") << reply;
  EXPECT_GE(ms, kTimeMs) << "it was late";
}

class ForeignStallMatrix : public StallMatrix {
 protected:
  void SetUp() override {
    StallMatrix::SetUp();
    ASSERT_EQ(Program(base_).call("export s1 " + file_).status, "OK");
  }
  const std::string file_ = scratch_ / "model.safetensors";
};
TEST_F(ForeignStallMatrix, AnImportEndsInTime) { stall_everywhere({.command = "import " + file_ + " i", .points = 6}); }
TEST_F(ForeignStallMatrix, AFileThatIsReadEndsInTime) { stall_everywhere({.command = "read " + file_}); }
TEST_F(ForeignStallMatrix, AnExportEndsInTime) { stall_everywhere({.command = "export s1 URI.out", .points = 4}); }

// What keeps the job from ending is the disk; what its caller wants is to go on.
TEST_F(StallMatrix, AJobThatIsFreedOnceStagedReturnsAlthoughItsPartCannotBeSynced) {
  int64_t ms = 0;
  const Stalled stalled{.command = "save new 9 large=1 free=1"};
  const Reply reply =
      run(fresh_copy(), stalled, {"-e", "trace=fsync", "-e", std::string("inject=fsync") + kHeld + "1+"}, &ms, nullptr);
  EXPECT_EQ(reply.status, "OK") << reply;
  EXPECT_LE(ms, kMostMs);
}

// Rank 0 gives up, since rank 1 does not come. It knows how the save ended before it tidies up.
TEST_F(StallMatrix, ASaveThatIsGivenUpReturnsAlthoughAnotherFileCannotBeRemoved) {
  const std::string uri = fresh_copy();
  Ranks ranks(uri, 2);
  ASSERT_TRUE(ranks[0].trace({"-e", "trace=unlinkat", "-e", std::string("inject=unlinkat") + kHeld + "1+"}));
  const auto begin = Clock::now();
  const Reply reply = ranks[0].call("save new 9 timeout_ms=" + std::to_string(kTimeMs));
  EXPECT_LE(std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count(), kMostMs);
  EXPECT_EQ(reply.status, "TIMEOUT") << reply;
  EXPECT_EQ(reply.ranks, "1") << reply;
  EXPECT_NE(reply.text.find("removal of"), std::string::npos) << reply;
  EXPECT_EQ(ranks[1].call("save new 9 timeout_ms=60000").status, "ABORTED") << "it was told first";
  ranks[0].let_go();
}

TEST_F(StallMatrix, ASaveThatIsRefusedReturnsAlthoughTheOthersCannotBeTold) {
  const std::string uri = fresh_copy();
  Ranks ranks(uri, 2);
  ASSERT_TRUE(ranks[0].trace({"-e", "trace=mkdirat", "-e", std::string("inject=mkdirat") + kHeld + "1+"}));
  const auto begin = Clock::now();
  const Reply reply = ranks[0].call("save new 9 chunk_bytes=8192");
  EXPECT_LE(std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count(), kMostMs);
  EXPECT_EQ(reply.status, "MISMATCH") << reply;
  EXPECT_NE(reply.text.find("left behind"), std::string::npos) << reply;
  ranks[0].let_go();
}

// What was left behind is not in the way of the next save.
TEST_F(StallMatrix, TheNextSaveOfASessionWorksIfTheDiskDoes) {
  const std::string uri = fresh_copy();
  Program program(uri);
  ASSERT_EQ(program.call(opening(0, 1)).status, "OK");
  ASSERT_TRUE(program.trace({"-e", "trace=fallocate", "-e", std::string("inject=fallocate") + kHeld + "1"}));
  const Reply held = program.call("save new 8 large=1 timeout_ms=" + std::to_string(kTimeMs));
  EXPECT_EQ(held.status, "TIMEOUT") << held;
  EXPECT_NE(held.text.find("preallocation of"), std::string::npos) << held;
  program.let_go();  // strace counts by threads, and would hold this one, too
  EXPECT_EQ(program.call("save next 9").status, "OK");
  EXPECT_EQ(latest_step(uri), 9);
}

}  // namespace
}  // namespace ckpt_test
