#include "base/process.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <new>

namespace ckpt {

// A word that the kernel zeroes in every child process, so this process wrote any value other than 0. Null if the
// kernel cannot do that (Linux before 4.14).
static std::atomic<pid_t>* make_word() {
#ifdef MADV_WIPEONFORK
  constexpr size_t kBytes = 4096;
  void* page = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return nullptr;
  if (madvise(page, kBytes, MADV_WIPEONFORK) == 0) return new (page) std::atomic<pid_t>(0);
  munmap(page, kBytes);
#endif
  return nullptr;
}

pid_t current_process() {
  static std::atomic<pid_t>* const word = make_word();
  if (!word) return getpid();
  pid_t pid = word->load(std::memory_order_relaxed);
  if (pid == 0) word->store(pid = getpid(), std::memory_order_relaxed);
  return pid;
}

}  // namespace ckpt
