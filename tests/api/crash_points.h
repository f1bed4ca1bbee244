// Operations of a process on a copy of a prepared store, with something done to its system calls, and what must hold
// afterwards.
#pragma once

#include <map>
#include <set>

#include "api/process.h"

namespace ckpt_test {

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

// Where these tests work: they do not depend on a real disk, and memory is faster. Null: the default.
const char* memory_backed();
// CKPT_CRASH_ALL; null: a sample.
const char* all_points();

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
  // `kept`: so many files of a retired checkpoint, at most, wait for reuse.
  void check_next_start(const std::string& uri, size_t kept = 1);

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

}  // namespace ckpt_test
