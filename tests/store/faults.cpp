#include "faults.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <utility>

namespace ckpt::store {

static Faults* current = nullptr;

Faults::Faults() { current = this; }
Faults::~Faults() { current = nullptr; }

}  // namespace ckpt::store

// These names take precedence over libc's in the whole test program.
using ckpt::store::current;

extern "C" int fsync(int fd) {
  int error = current && current->fsync ? current->fsync(fd) : 0;
  if (error == 0) return static_cast<int>(syscall(SYS_fsync, fd));
  errno = error;
  return -1;
}

// The function has the name of a struct, as in libc.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
extern "C" int flock(int fd, int how) {
  if (auto hook = current ? std::exchange(current->before_flock, nullptr) : nullptr) hook();
  return static_cast<int>(syscall(SYS_flock, fd, how));
}
#pragma GCC diagnostic pop

extern "C" int renameat2(int from_directory, const char* from, int to_directory, const char* to, unsigned flags) {
  if (auto hook = current ? std::exchange(current->before_rename, nullptr) : nullptr) hook();
  long result = syscall(SYS_renameat2, from_directory, from, to_directory, to, flags);
  int error = result == 0 && current && current->after_rename ? current->after_rename() : 0;
  if (error == 0) return static_cast<int>(result);
  errno = error;
  return -1;
}

extern "C" int fcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  long argument = va_arg(arguments, long);
  va_end(arguments);
  int result = static_cast<int>(syscall(SYS_fcntl, fd, command, argument));
  if (result == 0 && command == F_SETLEASE && argument == F_WRLCK)
    if (auto hook = current ? std::exchange(current->on_lease, nullptr) : nullptr) hook(fd);
  return result;
}

static bool shorten(size_t* size) {
  if (!current || !current->transfer || *size == 0) return true;
  long allowed = current->transfer(*size);
  if (allowed < 0) {
    errno = static_cast<int>(-allowed);
    return false;
  }
  *size = static_cast<size_t>(allowed);
  return true;
}

extern "C" ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  return shorten(&size) ? syscall(SYS_pwrite64, fd, data, size, offset) : -1;
}

extern "C" ssize_t pread(int fd, void* data, size_t size, off_t offset) {
  return shorten(&size) ? syscall(SYS_pread64, fd, data, size, offset) : -1;
}

namespace ckpt::store {

static void add_refusal(std::vector<sock_filter>& filter, const Refusal& refusal) {
  constexpr auto kLoad = BPF_LD | BPF_W | BPF_ABS;
  constexpr auto kEqual = BPF_JMP | BPF_JEQ | BPF_K;
  const bool conditional = refusal.argument >= 0;
  filter.push_back(BPF_STMT(kLoad, offsetof(seccomp_data, nr)));
  filter.push_back(
      BPF_JUMP(kEqual, static_cast<unsigned>(refusal.call), 0, static_cast<unsigned char>(conditional ? 3 : 1)));
  if (conditional) {
    unsigned at = static_cast<unsigned>(offsetof(seccomp_data, args) + 8 * static_cast<unsigned>(refusal.argument));
    filter.push_back(BPF_STMT(kLoad, at));
    filter.push_back(BPF_JUMP(kEqual, refusal.value, 0, 1));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(refusal.error)));
}

bool refuse(const std::vector<Refusal>& refusals) {
  std::vector<sock_filter> filter;
  for (const Refusal& refusal : refusals) add_refusal(filter, refusal);
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

void in_child(const std::vector<Refusal>& refusals, const std::function<void()>& body) {
  std::fflush(nullptr);
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (!refusals.empty() && !refuse(refusals)) _exit(2);
    body();
    std::fflush(nullptr);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "the child ended by signal " << WTERMSIG(status);
  ASSERT_NE(WEXITSTATUS(status), 2) << "seccomp filters are not available here";
  EXPECT_EQ(WEXITSTATUS(status), 0) << "failures of the child stand above";
}

static bool own_mounts() {
  static const bool done = [] {
    int flags = CLONE_NEWNS | (geteuid() == 0 ? 0 : CLONE_NEWUSER);
    if (unshare(flags) != 0) return false;
    // EINVAL: in a chroot, "/" is not a mount point; whoever made the chroot has decided what is shared.
    return mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 || errno == EINVAL;
  }();
  return done;
}

TestMount::TestMount(const std::string& path, const std::string& options, const char* type) : path_(path) {
  ok_ = own_mounts() && mount("none", path.c_str(), type, 0, options.c_str()) == 0;
  EXPECT_TRUE(ok_) << "this test mounts " << type << " and needs root or user namespaces: " << std::strerror(errno);
}

void TestMount::make_read_only() {
  ok_ = ok_ && mount("none", path_.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) == 0;
  EXPECT_TRUE(ok_) << std::strerror(errno);
}

TestMount::~TestMount() { umount2(path_.c_str(), MNT_DETACH); }

}  // namespace ckpt::store
