#include "base/thread.h"

#include <pthread.h>
#include <signal.h>

#include <new>
#include <system_error>

namespace ckpt {

// musl gives a thread 128 KiB, less than a TLS library or a deep tree may take. Later threads of others get more, too.
static void grow_stacks() {
#ifndef __GLIBC__
  pthread_attr_t wanted;
  pthread_attr_init(&wanted);
  pthread_attr_setstacksize(&wanted, 2 << 20);
  pthread_setattr_default_np(&wanted);
  pthread_attr_destroy(&wanted);
#endif
}

bool start_thread(std::thread* thread, const std::function<void()>& body) noexcept {
  grow_stacks();
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
