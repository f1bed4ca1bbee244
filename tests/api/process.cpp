#include "api/process.h"
#include "paths.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

namespace ckpt_test {

namespace fs = std::filesystem;
// Far longer than any deadline that a test gives to the library.
static constexpr int kPatienceMs = 100000;

std::ostream& operator<<(std::ostream& out, const Reply& reply) {
  return out << reply.status << " (ranks \"" << reply.ranks << "\", rank \"" << reply.rank << "\"): " << reply.text;
}

// Starts a program with `input` as its standard input and `output` as its standard output or error.
static pid_t spawn(const std::vector<std::string>& words, int input, int output, int output_as) {
  std::vector<char*> argv;
  for (const auto& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_t pid = fork();
  if (pid != 0) return pid;
  if (input >= 0) dup2(input, STDIN_FILENO);
  dup2(output, output_as);
  execvp(argv[0], argv.data());
  _exit(127);
}

Program::Program(const std::string& uri) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
  channel_ = ends[0];
  pid_ = spawn({CKPT_TEST_PROGRAMS "/crash_program", uri}, ends[1], ends[1], STDOUT_FILENO);
  close(ends[1]);
  Reply hello = read();
  EXPECT_EQ(hello.status, "OK") << hello;
}

Program::~Program() {
  kill();
  close(channel_);
  if (tracer_end_ >= 0) close(tracer_end_);
  if (!log_path_.empty()) unlink(log_path_.c_str());
}

void Program::send(const std::string& command) {
  std::string line = command + "\n";
  (void)!::send(channel_, line.data(), line.size(), MSG_NOSIGNAL);
}

Reply Program::read() {
  for (;;) {
    if (size_t end = buffer_.find('\n'); end != std::string::npos) {
      std::istringstream line(buffer_.substr(0, end));
      buffer_.erase(0, end + 1);
      Reply reply;
      std::getline(line, reply.status, '\t');
      std::getline(line, reply.ranks, '\t');
      std::getline(line, reply.rank, '\t');
      std::getline(line, reply.text);
      return reply;
    }
    struct pollfd wait{channel_, POLLIN, 0};
    if (poll(&wait, 1, kPatienceMs) <= 0) return {"SILENT", "", "", ""};
    char chunk[4096];
    ssize_t size = ::read(channel_, chunk, sizeof chunk);
    if (size <= 0) return {"DIED", "", "", ""};
    buffer_.append(chunk, static_cast<size_t>(size));
  }
}

Reply Program::call(const std::string& command) {
  send(command);
  return read();
}

void Program::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  // The tracer may reap it late, but ends by itself once the program is dead.
  waitpid(pid_, nullptr, 0);
  if (tracer_ > 0) waitpid(tracer_, nullptr, 0);
  pid_ = tracer_ = -1;
}

void Program::let_go() {
  if (tracer_ <= 0) return;
  ::kill(tracer_, SIGKILL);
  waitpid(tracer_, nullptr, 0);
  tracer_ = -1;
}

void Program::signal(int number) { ::kill(pid_, number); }

void Program::await_stopped() {
  EXPECT_TRUE(await([&] { return read_file(log_path_).find("--- stopped by SIGSTOP ---") != std::string::npos; }));
}

// strace reports on its standard error that it has attached. What follows stays unread in the socket.
static bool await_attached(int end) {
  std::string said;
  char chunk[512];
  while (said.find("attached") == std::string::npos) {
    ssize_t size = ::read(end, chunk, sizeof chunk);
    if (size <= 0 || said.find("Operation not permitted") != std::string::npos) return false;
    said.append(chunk, static_cast<size_t>(size));
  }
  return true;
}

bool Program::trace(const std::vector<std::string>& arguments) {
  static std::atomic<int> number = 0;
  log_path_ = "/tmp/ckpt-strace." + std::to_string(getpid()) + "." + std::to_string(number++);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
  std::vector<std::string> words{"strace", "-f", "-y", "-o", log_path_, "-p", std::to_string(pid_)};
  words.insert(words.end(), arguments.begin(), arguments.end());
  tracer_ = spawn(words, -1, ends[1], STDERR_FILENO);
  close(ends[1]);
  tracer_end_ = ends[0];  // stays open, or strace would die of a broken pipe when it writes more
  return await_attached(tracer_end_);
}

std::string Program::trace_so_far() { return read_file(log_path_); }

std::string Program::trace_log() {
  kill();
  return read_file(log_path_);
}

void with_growing_deadlines(const std::function<bool(const std::string& timeout)>& scenario) {
  for (int deadline_ms : {250, 2500, 25000})
    if (scenario(" timeout_ms=" + std::to_string(deadline_ms)) || ::testing::Test::HasFailure()) return;
  ADD_FAILURE() << "the other ranks were late for every deadline";
}

// ---- several of them ----

std::string opening(uint32_t rank, uint32_t world, const std::string& string) {
  return "open " + std::to_string(rank) + " " + std::to_string(world) + " " + string;
}

Ranks::Ranks(const std::string& uri, uint32_t count, const std::string& settings) {
  for (uint32_t rank = 0; rank < count; rank++) {
    programs.push_back(std::make_unique<Program>(uri));
    Reply reply = programs[rank]->call(opening(rank, count, rank ? string : "-") + settings);
    EXPECT_EQ(reply.status, "OK") << "rank " << rank << ": " << reply;
    if (rank == 0) string = reply.text;
  }
}

std::vector<Reply> Ranks::all(const std::string& command) {
  for (auto& program : programs) program->send(command);
  std::vector<Reply> replies;
  for (auto& program : programs) replies.push_back(program->read());
  return replies;
}

void Ranks::all_answer(const std::string& command, const std::string& status) {
  for (const Reply& reply : all(command)) EXPECT_EQ(reply.status, status) << command << ": " << reply;
}

std::vector<TracedCall> traced_calls(const std::string& log) {
  std::map<std::pair<std::string, std::string>, int> by_thread;
  std::vector<TracedCall> calls;
  std::istringstream lines(log);  // "1234  openat(AT_FDCWD</>, …"
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string thread, call;
    words >> thread >> call;
    const size_t end = call.find('(');
    if (end == std::string::npos || !islower(static_cast<unsigned char>(call[0]))) continue;
    call.resize(end);
    const int number = ++by_thread[{thread, call}];
    calls.push_back({std::move(call), std::move(line), number});
  }
  return calls;
}

bool can_trace() {
  static const bool can = [] {
    Scratch scratch;
    Program program(scratch / "store");
    return program.trace({"-e", "trace=none"});
  }();
  return can;
}

// ---- the store ----

std::vector<Info> entries_of(const std::string& uri) { return entries_of(open_store(uri)); }

static bool find_latest(const std::string& uri, const char* run, Info* info) {
  Store store = open_store(uri);
  *info = {};
  info->struct_size = sizeof *info;
  Error error;
  ckpt_status status = ckpt_store_find(store.get(), "latest", options({{"run", run}}).get(), info, error);
  EXPECT_TRUE(status == CKPT_OK || status == CKPT_NOT_FOUND) << error.text();
  return status == CKPT_OK;
}

int64_t latest_step(const std::string& uri, const char* run) {
  Info info;
  return find_latest(uri, run, &info) ? info.step : -1;
}

std::string latest_id(const std::string& uri, const char* run) {
  Info info;
  return find_latest(uri, run, &info) ? info.id : "";
}

std::string problem_of(const std::string& uri, const std::string& selector, const char* run) {
  Store store = open_store(uri);
  ckpt_reader* raw = nullptr;
  Error error;
  if (ckpt_reader_open(&raw, store.get(), selector.c_str(), options({{"run", run}}).get(), error) != CKPT_OK)
    return error.text();
  Reader reader(raw);
  auto verdict = small_state::check(reader.get());
  return verdict.status == CKPT_OK ? "" : std::string(ckpt_status_name(verdict.status)) + ": " + verdict.text;
}

int32_t state_of(const std::string& uri, const std::string& id) {
  for (const Info& info : entries_of(uri))
    if (info.id == id) return info.state;
  return 0;
}

size_t count_state(const std::string& uri, int32_t state) {
  auto entries = entries_of(uri);
  return static_cast<size_t>(
      std::count_if(entries.begin(), entries.end(), [&](const Info& info) { return info.state == state; }));
}

// ---- files ----

bool exists(const std::string& path) { return fs::symlink_status(path).type() != fs::file_type::not_found; }

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator(directory, absent)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

void copy_tree(const std::string& from, const std::string& to) {
  fs::copy(from, to, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
}

void remove_tree(const std::string& path) { fs::remove_all(path); }

std::vector<std::pair<std::string, std::string>> snapshot(const std::string& directory) {
  std::vector<std::pair<std::string, std::string>> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    std::string path = entry.path(), what = "directory";
    if (entry.is_symlink())
      what = "link to " + fs::read_symlink(entry.path()).string();
    else if (entry.is_regular_file())
      what = read_file(path);
    files.emplace_back(path.substr(directory.size()), what);
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool await(const std::function<bool()>& condition) {
  auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace ckpt_test
