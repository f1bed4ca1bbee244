// Checking a committed checkpoint.
#pragma once

#include "base/job.h"
#include "base/options.h"
#include "checkpoint/checkpoint.h"

namespace ckpt::maintain {

enum class VerifyMode { kFull, kQuick, kSample };
struct VerifyOptions {
  VerifyMode mode = VerifyMode::kFull;
  uint64_t sample_k = 1, sample_n = 10;
  unsigned threads = 2;
};
// Findings go into the job's report, in the order of parts and offsets. Fails only where nothing can be said (IO, GONE,
// CANCELLED).
Status verify_checkpoint(const checkpoint::Checkpoint& checkpoint, const VerifyOptions& options, Job& job);

}  // namespace ckpt::maintain
