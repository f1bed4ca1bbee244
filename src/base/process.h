// Identifies the process, for handles that a forked child must not use.
#pragma once

#include <sys/types.h>

namespace ckpt {

// getpid(), without its system call if the kernel can mark a fork.
pid_t current_process();

}  // namespace ckpt
