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

// False: time is up, or it prints too much.
static bool read_all(int from, std::string* text) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  char buffer[4096];
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    pollfd wait{.fd = from, .events = POLLIN, .revents = 0};
    if (left <= 0) return false;
    if (::poll(&wait, 1, static_cast<int>(left)) <= 0) continue;
    const ssize_t count = ::read(from, buffer, sizeof buffer);
    if (count == 0) return true;
    if (count < 0 && errno != EINTR) return false;
    if (count > 0) text->append(buffer, static_cast<size_t>(count));
    if (text->size() > kMostOutput) return false;
  }
}

// The child takes signals as a fresh program does, whatever the thread that starts it blocks.
static int spawn_shell(const std::string& command, int output, pid_t* child) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
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
  const bool complete = read_all(from.value, &text);
  if (!complete) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!complete) return Status(CKPT_IO, "it did not end within a minute, or printed more than a MiB");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return Status(CKPT_IO, strformat("it ended with status {}", WIFEXITED(status) ? WEXITSTATUS(status) : -1));
  return text;
}

}  // namespace ckpt::store::s3
