// Which process this is, for handles that must not be used by a forked child.
#pragma once

#include <sys/types.h>

namespace ckpt {

// getpid(), without its system call where the kernel lets us know of a fork by itself.
pid_t current_process();

}  // namespace ckpt
