#include "base/thread.h"

#include <pthread.h>
#include <signal.h>

#include <new>
#include <system_error>

namespace ckpt {

bool start_thread(std::thread* thread, const std::function<void()>& body) noexcept {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    *thread = std::thread(body);
  } catch (const std::system_error&) {
  } catch (const std::bad_alloc&) {
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread->joinable();
}

}  // namespace ckpt
