#include "api/crash_points.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>

namespace ckpt_test {

const char* memory_backed() { return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : nullptr; }

// One point of so many, where each may fail in many ways: a sanitizer makes processes start slowly.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kOneErrorOf = 97;
#else
constexpr size_t kOneErrorOf = 37;
#endif

const char* all_points() { return std::getenv("CKPT_CRASH_ALL"); }

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

void Faults::check_next_start(const std::string& uri, size_t kept) {
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
  EXPECT_LE(names_in(uri + "/.ckpt/recycled").size(), kept);
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

static bool is_a_named_error(const std::string& status) {
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
static std::vector<std::string> errors_of(const std::string& name) {
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

}  // namespace ckpt_test
