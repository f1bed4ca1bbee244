#include "base/thread.h"

#include <pthread.h>

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

SignalsOff::SignalsOff() noexcept {
  grow_stacks();
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before_);
}
SignalsOff::~SignalsOff() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

}  // namespace ckpt
