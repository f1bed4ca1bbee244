// Checking and comparing committed checkpoints, and rebuilding a lost manifest.
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

// Names, dtypes, shapes, objects, attributes, then the elements where `values`.
Status diff_checkpoints(const checkpoint::Checkpoint& a, const checkpoint::Checkpoint& b, bool values, unsigned threads,
                        Report* report);

// See ckpt_store_repair.
Status repair_checkpoint(store::Store& store, std::string_view id, bool dry_run, bool force, Report* report);

}  // namespace ckpt::maintain
