// Faults for the tests of the POSIX store: system calls that fail on request, file systems that are full or read-only.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace ckpt::store {

// The next calls in this process; reset by the destructor. Counts are of calls through libc's names.
struct Faults {
  Faults();
  ~Faults();
  std::function<int(int fd)> fsync;      // an errno, or 0 to let it through
  std::function<void()> before_flock;    // once
  std::function<void(int fd)> on_lease;  // once, while a write lease is held
  std::function<void()> before_rename;   // of renameat2; once
  std::function<int()> after_rename;     // of renameat2: an errno to report although it was done, or 0
  std::function<long(size_t)> transfer;  // of pwrite and pread: at most how many bytes, or -errno
};

// Calls that the kernel refuses in a child process.
struct Refusal {
  long call;
  int error;
  int argument = -1;   // only where this argument …
  unsigned value = 0;  // … has this value
};

// From now on, for this thread and those that it starts; only in a child.
bool refuse(const std::vector<Refusal>& refusals);

// Runs `body` in a forked child under the refusals; its gtest failures become failures here.
void in_child(const std::vector<Refusal>& refusals, const std::function<void()>& body);

// A tmpfs of `options` mounted on an existing directory, in a mount namespace of this process.
class Mount {
 public:
  Mount(const std::string& path, const std::string& options);
  ~Mount();
  void make_read_only();
  bool ok() const { return ok_; }

 private:
  std::string path_;
  bool ok_ = false;
};

}  // namespace ckpt::store
