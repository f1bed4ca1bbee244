// Checking and comparing committed checkpoints, and rebuilding a lost manifest.
#pragma once

#include "base/options.h"
#include "session/checkpoint.h"
#include "session/job.h"

namespace ckpt::session {

enum class VerifyMode { kFull, kQuick, kSample };
struct VerifyOptions {
  VerifyMode mode = VerifyMode::kFull;
  uint64_t sample_k = 1, sample_n = 10;
  unsigned threads = 2;
};
// Findings go into the job's report, in the order of parts and offsets. Fails only where nothing can be said (IO, GONE,
// CANCELLED).
Status verify_checkpoint(const Checkpoint& checkpoint, const VerifyOptions& options, Job& job);

// Names, dtypes, shapes, objects, attributes, then the elements where `values`.
Status diff_checkpoints(const Checkpoint& a, const Checkpoint& b, bool values, unsigned threads, Report* report);

// See ckpt_reader_map. The bytes live as long as the checkpoint.
Result<Bytes> map_tensor(const Checkpoint& checkpoint, std::string_view name, bool verify, unsigned threads);

// See ckpt_store_repair.
Status repair_checkpoint(store::Store& store, std::string_view id, bool dry_run, bool force, Report* report);

}  // namespace ckpt::session
