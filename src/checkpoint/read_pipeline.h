// Many reads of files by a few threads. What the page cache holds is read from there by the thread that works on it;
// what it does not is read past it, several in flight, so that disk and processors work at the same time.
#pragma once

#include "base/job.h"
#include "store/store.h"

namespace ckpt::checkpoint {

// A range of a file, and the memory that it may be read to without a stop, or null.
struct PipelineRead {
  const store::Reader* file;
  uint64_t offset, size;
  std::byte* target;
};

// What is to be read, and what to do with it. Calls for different reads run at the same time; `worker` tells threads
// apart.
class PipelineWork {
 public:
  virtual ~PipelineWork() = default;
  virtual Result<PipelineRead> describe(size_t number) = 0;
  // The bytes of read `number` are in memory: at its target, or (wherever else) in a buffer until this returns.
  virtual Status arrived(size_t number, Bytes bytes, unsigned worker) = 0;
  // To be read by plain_read in pieces that stay in the processor's cache. Also the second try of a read that failed,
  // so that the error names the place.
  virtual Status read(size_t number, unsigned worker) = 0;
  // Whether so many bytes may be read beyond those of the reads, for alignment.
  virtual bool may_pad(uint64_t bytes) = 0;
};

// What one call reads where the page cache has it: it stays in the processor's cache until it was worked on.
inline constexpr uint64_t kCachePiece = 256 << 10;

struct PipelineLimits {
  unsigned threads = 1;
  unsigned slots = 0;         // reads in flight; 0: all are plain
  uint64_t buffer_bytes = 0;  // of a slot; reads that need more are plain
};

// Returns when all is done, or after the first error; then nothing is in flight any more.
Status run_pipeline(const store::Store& store, PipelineWork& work, size_t count, const PipelineLimits& limits,
                    Job& job);

}  // namespace ckpt::checkpoint
