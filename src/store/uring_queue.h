// The io_uring engine of IoQueue.
#pragma once

#include <memory>

#include "store/io_queue.h"

namespace ckpt::store {

// Null if the kernel or its administrator refuses io_uring, or if the kernel is too old for it to be worthwhile
// (uring.cpp).
std::unique_ptr<IoQueue> make_uring_queue(unsigned depth);

}  // namespace ckpt::store
