#include "store/s3/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

namespace ckpt::store::s3 {

static constexpr size_t kMostOutput = 1 << 20;
static constexpr std::chrono::seconds kPatience{60};

namespace {

struct Descriptor {
  int value = -1;
  ~Descriptor() { close(); }
  void close() {
    if (value >= 0) ::close(value);
    value = -1;
  }
};

}  // namespace

// Whether it has ended. A trainer that ignores SIGCHLD leaves nothing to wait for.
static bool has_ended(pid_t child, int* status) {
  const pid_t found = ::waitpid(child, status, WNOHANG);
  return found == child || (found < 0 && errno == ECHILD);
}

// What it prints until it ends, even if something that it has started keeps its output open. False: time is up, or it
// prints too much; then it has not ended.
static bool read_until_end(int from, pid_t child, std::string* text, int* status) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  constexpr int kPollMs = 20;
  char buffer[4096];
  for (bool ended = false;;) {
    if (!ended && std::chrono::steady_clock::now() >= end) return false;
    ended = ended || has_ended(child, status);
    pollfd wait{.fd = from, .events = POLLIN, .revents = 0};
    if (::poll(&wait, 1, ended ? 0 : kPollMs) <= 0) {
      if (ended) return true;
      continue;
    }
    const ssize_t count = ::read(from, buffer, sizeof buffer);
    if (count > 0) text->append(buffer, static_cast<size_t>(count));
    if (text->size() > kMostOutput) return ended;
    if (count == 0 || (count < 0 && errno != EINTR)) from = -1;  // poll waits without it
  }
}

// The child takes signals as a fresh program does, whatever the thread that starts it blocks, has a group of its own,
// so that it can be ended with what it has started, and reads nothing of what is meant for the trainer.
static int spawn_shell(const std::string& command, int output, pid_t* child) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  const char* const arguments[] = {"sh", "-c", command.c_str(), nullptr};
  const int error = posix_spawn(child, "/bin/sh", &actions, &attributes, const_cast<char* const*>(arguments), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

Result<std::string> output_of(const std::string& command) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return from_errno(errno, "make", "a pipe");
  Descriptor from{ends[0]}, to{ends[1]};
  pid_t child = 0;
  if (const int error = spawn_shell(command, to.value, &child)) return from_errno(error, "start", "/bin/sh");
  to.close();
  std::string text;
  int status = 0;
  const bool ended = read_until_end(from.value, child, &text, &status);
  if (!ended) {
    ::kill(-child, SIGKILL);
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
  }
  if (!ended || text.size() > kMostOutput)
    return Status(CKPT_IO, "it did not end within a minute, or printed more than a MiB");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return Status(CKPT_IO, strformat("it ended with status {}", WIFEXITED(status) ? WEXITSTATUS(status) : -1));
  return text;
}

}  // namespace ckpt::store::s3
