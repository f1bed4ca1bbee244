// Compares two checkpoints.
#pragma once

#include "base/job.h"
#include "base/report.h"
#include "checkpoint/checkpoint.h"

namespace ckpt::maintain {

// Compares names, dtypes, shapes, objects and attributes; then the elements, if `values` is set.
Status diff_checkpoints(const checkpoint::Checkpoint& a, const checkpoint::Checkpoint& b, bool values, unsigned threads,
                        Report* report, Job& job);

}  // namespace ckpt::maintain
