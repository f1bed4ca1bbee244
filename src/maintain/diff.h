// Comparing two checkpoints.
#pragma once

#include "base/report.h"
#include "checkpoint/checkpoint.h"

namespace ckpt::maintain {

// Names, dtypes, shapes, objects, attributes, then the elements where `values`.
Status diff_checkpoints(const checkpoint::Checkpoint& a, const checkpoint::Checkpoint& b, bool values, unsigned threads,
                        Report* report);

}  // namespace ckpt::maintain
