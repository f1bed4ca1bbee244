// Checks a committed checkpoint.
#pragma once

#include "base/job.h"
#include "base/options.h"
#include "checkpoint/checkpoint.h"

namespace ckpt::maintain {

enum class VerifyMode { kFull, kQuick, kSample };
struct VerifyOptions {
  ByName by_name{};
  VerifyMode mode = VerifyMode::kFull;
  uint64_t sample_k = 1, sample_n = 10;
  unsigned threads = 2;
};
// Puts findings into the job's report, in the order of parts and offsets. Fails only if it cannot tell (IO, GONE,
// CANCELLED).
Status verify_checkpoint(const checkpoint::Checkpoint& checkpoint, const VerifyOptions& options, Job& job);

}  // namespace ckpt::maintain
