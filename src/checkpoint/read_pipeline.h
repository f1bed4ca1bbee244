// Many file reads by a few threads. What the store has in memory is read by the thread that works on it. Other bytes
// are read through a queue, several reads in flight, so that disk and processors work at the same time.
#pragma once

#include "base/job.h"
#include "store/store.h"

namespace ckpt::checkpoint {

// A range of a file, and the memory that it may be read into directly, or null.
struct PipelineRead {
  std::shared_ptr<const store::Reader> file;
  uint64_t offset = 0, size = 0;
  std::byte* target = nullptr;
};

// What to read, and what to do with it. Calls for different reads run concurrently; `worker` is the number of the
// thread.
class PipelineWork {
 public:
  virtual ~PipelineWork() = default;
  virtual Result<PipelineRead> describe(size_t number) = 0;
  // The bytes of read `number` are in memory: at its target, or in a buffer that is valid until this returns.
  virtual Status arrived(size_t number, Bytes bytes, unsigned worker) = 0;
  // Reads by plain_read, in pieces that stay in the processor's cache. Also the retry of a direct read that failed, so
  // that the error names the place.
  virtual Status read(size_t number, unsigned worker) = 0;
  // Whether a read may take `bytes` more than it needs, for alignment.
  virtual bool may_pad(uint64_t bytes) = 0;
};

// The size of a read from the page cache: small enough to stay in the processor's cache until it was worked on.
inline constexpr uint64_t kCachePiece = 256 << 10;

struct PipelineLimits {
  unsigned threads = 1;
  unsigned slots = 0;         // reads in flight; 0: only plain reads
  uint64_t buffer_bytes = 0;  // for each slot; reads that need more are plain
};

// Returns when all is done, or after the first error. Nothing is in flight then.
Status run_pipeline(const store::Store& store, PipelineWork& work, size_t count, const PipelineLimits& limits,
                    Job& job);

}  // namespace ckpt::checkpoint
