// Ranks as processes that a test drives, kills, stops and injects faults into; and what their store holds afterwards.
// Uses only ckpt.h.
#pragma once

#include <sys/types.h>

#include <functional>
#include <ostream>

#include "api/small_state.h"
#include "api/support.h"

namespace ckpt_test {

// What a program answered. The status is "DIED" if it ended instead, "SILENT" if it said nothing for very long.
struct Reply {
  std::string status, ranks, rank, text;
};
std::ostream& operator<<(std::ostream& out, const Reply& reply);

// A running crash_program on a store. The destructor kills it.
class Program {
 public:
  explicit Program(const std::string& uri);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void send(const std::string& command);
  Reply read();
  Reply call(const std::string& command);

  void kill();  // SIGKILL, then waits for its end
  void signal(int number);
  void await_stopped();  // by a SIGSTOP that its tracer injects
  pid_t pid() const { return pid_; }

  // Attaches strace with these arguments; its counts start here. False if this machine does not allow it.
  bool trace(const std::vector<std::string>& arguments);
  void let_go();  // strace ends, and holds nothing any more
  // What strace wrote. Ends the program first.
  std::string trace_log();
  std::string trace_so_far();

 private:
  pid_t pid_ = -1, tracer_ = -1;
  int channel_ = -1, tracer_end_ = -1;
  std::string buffer_, log_path_;
};

// Deadlines that a test gives to the library. Long if a rank must learn of something at once (it would end in TIMEOUT
// otherwise), short if the test is about the deadline itself.
inline constexpr const char* kLong = " timeout_ms=60000";
inline constexpr const char* kShort = " timeout_ms=700";

// Where other ranks have work to do before a deadline that the test waits out, it is as short as a quiet machine
// allows. On a busy one it may come too early: `scenario` then returns false, and is tried again with a longer one.
void with_growing_deadlines(const std::function<bool(const std::string& timeout)>& scenario);

// The command that opens a session.
std::string opening(uint32_t rank, uint32_t world, const std::string& string = "-");

// Running ranks that share a session by its string.
struct Ranks {
  Ranks(const std::string& uri, uint32_t count, const std::string& settings = "");
  Program& operator[](size_t rank) { return *programs[rank]; }
  // Gives every rank the same command, then collects their answers.
  std::vector<Reply> all(const std::string& command);
  // The same; every answer must be `status`.
  void all_answer(const std::string& command, const std::string& status);

  std::vector<std::unique_ptr<Program>> programs;
  std::string string;
};

// Skips a test on machines without strace or without the right to use it.
bool can_trace();
#define CKPT_NEEDS_STRACE() \
  if (!::ckpt_test::can_trace()) GTEST_SKIP() << "strace is not here, or may not attach to processes"

// A system call in the log of a trace (Program::trace_log). strace counts each call for each thread by itself: `number`
// is what `inject=…:when=` takes.
struct TracedCall {
  std::string name, line;
  int number = 0;
};
std::vector<TracedCall> traced_calls(const std::string& log);

// ---- the store ----
using Info = ckpt_checkpoint_info;
std::vector<Info> entries_of(const std::string& uri);
// The step of the latest checkpoint of a run; -1 if there is none.
int64_t latest_step(const std::string& uri, const char* run = "main");
std::string latest_id(const std::string& uri, const char* run = "main");
// "" if `selector` is a sound checkpoint with the content that its step implies; else what is wrong.
std::string problem_of(const std::string& uri, const std::string& selector, const char* run = "main");
// State of an entry; 0 if there is none.
int32_t state_of(const std::string& uri, const std::string& id);
size_t count_state(const std::string& uri, int32_t state);

// ---- files ----
bool exists(const std::string& path);
std::vector<std::string> names_in(const std::string& directory);  // sorted; empty if there is no such directory
void copy_tree(const std::string& from, const std::string& to);
void remove_tree(const std::string& path);
// All files below, with their bytes; for links, their target.
std::vector<std::pair<std::string, std::string>> snapshot(const std::string& directory);
// Waits, with a generous deadline, until `condition` holds.
bool await(const std::function<bool()>& condition);

}  // namespace ckpt_test
