// The descriptors of all locks of this process. A child that fork() makes closes its copies: a lock must end with the
// process that took it, though a data loader's workers live on.
// May be used by any thread.
#pragma once

#include <mutex>
#include <set>

namespace ckpt::store {

class LockedFiles {
 public:
  static LockedFiles& of_process();
  void add(int fd);
  void remove(int fd);

 private:
  LockedFiles();
  void close_all();

  std::mutex mutex_;
  std::set<int> fds_;
};

}  // namespace ckpt::store
