// Checks a committed checkpoint.
#pragma once

#include "base/call_options.h"
#include "base/job.h"
#include "checkpoint/checkpoint.h"

namespace ckpt::maintain {

// Puts findings into the job's report, in the order of parts and offsets. Fails only if it cannot tell (IO, GONE,
// CANCELLED).
Status verify_checkpoint(const checkpoint::Checkpoint& checkpoint, const VerifyOptions& options, Job& job);

}  // namespace ckpt::maintain
