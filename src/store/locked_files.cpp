#include "store/locked_files.h"

#include <pthread.h>
#include <unistd.h>

#include <new>

namespace ckpt::store {

LockedFiles& LockedFiles::of_process() {
  static LockedFiles& files = *new LockedFiles;  // never destroyed: a fork may come at any time
  return files;
}

LockedFiles::LockedFiles() {
  const int refused = pthread_atfork([] { of_process().mutex_.lock(); }, [] { of_process().mutex_.unlock(); },
                                     [] { of_process().close_all(); });
  if (refused) throw std::bad_alloc();  // the next lock tries again
}

void LockedFiles::add(int fd) {
  std::lock_guard lock(mutex_);
  fds_.insert(fd);
}

void LockedFiles::remove(int fd) {
  std::lock_guard lock(mutex_);
  fds_.erase(fd);
}

void LockedFiles::close_all() {
  for (int fd : fds_) close(fd);
  fds_.clear();
  mutex_.unlock();
}

}  // namespace ckpt::store
