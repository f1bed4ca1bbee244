// Runs one function on several threads and waits; the first error wins and stops the others.
#pragma once

#include <atomic>
#include <functional>

#include "base/status.h"

namespace ckpt {

// min(cores, 4) where `wanted` is 0: enough to keep a disk busy while another thread hashes.
unsigned thread_count(int64_t wanted);

// Calls body(worker, stop) on `threads` threads (one of them this one). A body that fails sets `stop`; the others
// should return soon.
Status run_parallel(unsigned threads,
                    const std::function<Status(unsigned worker, const std::atomic<bool>& stop)>& body);

// Calls body(i) for i in [0, count), handed out one by one.
Status for_each_parallel(unsigned threads, size_t count, const std::function<Status(size_t)>& body);

}  // namespace ckpt
