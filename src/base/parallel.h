// Runs one function on several threads and waits; the first error wins and stops the others.
#pragma once

#include <atomic>
#include <functional>

#include "base/status.h"

namespace ckpt {

// The number of threads. `wanted` 0 means min(cores, 4): enough to keep a disk busy while another thread hashes.
unsigned resolve_threads(int64_t wanted);

// Calls `work`. That there is no memory is NOMEM; any other exception, which would end the program, INTERNAL.
Status call_guarded(const std::function<Status()>& work);

// Calls body(worker, stop) on `threads` threads, this one included. When a body fails, `stop` becomes true; the others
// should then return soon.
Status run_parallel(unsigned threads,
                    const std::function<Status(unsigned worker, const std::atomic<bool>& stop)>& body);

// Calls body(i) for every i in [0, count). The threads take the indexes one by one.
Status for_each_parallel(unsigned threads, size_t count, const std::function<Status(size_t)>& body);

}  // namespace ckpt
