// Faults for the tests of the POSIX store: system calls that fail on request, file systems that are full or read-only.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace ckpt::store {

// Faults of the next calls in this process, until the destructor resets them. Only calls through libc's names count.
struct Faults {
  Faults();
  ~Faults();
  std::function<int(int fd)> fsync;      // an errno, or 0 to let the call through
  std::function<void()> before_flock;    // once
  std::function<void(int fd)> on_lease;  // once, while a write lease is held
  std::function<void()> before_rename;   // before renameat2; once
  std::function<int()> after_rename;     // after renameat2: an errno to report although it succeeded, or 0
  std::function<long(size_t)> transfer;  // for pwrite and pread: the most bytes to transfer, or -errno
};

// A call that the kernel refuses in a child process.
struct Refusal {
  long call;
  int error;
  int argument = -1;   // refused only if this argument …
  unsigned value = 0;  // … has this value
};

// Refuses them from now on, for this thread and those that it starts. Only in a child.
bool refuse(const std::vector<Refusal>& refusals);

// Runs `body` in a forked child under the refusals. Its gtest failures become failures here.
void in_child(const std::vector<Refusal>& refusals, const std::function<void()>& body);

// A tmpfs, or a file system of another type, mounted with `options` on an existing directory in a mount namespace of
// this process.
class TestMount {
 public:
  TestMount(const std::string& path, const std::string& options, const char* type = "tmpfs");
  ~TestMount();
  void make_read_only();
  bool ok() const { return ok_; }

 private:
  std::string path_;
  bool ok_ = false;
};

}  // namespace ckpt::store
