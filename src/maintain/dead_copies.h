// Copies (copy.h) that nobody will finish: they hold space, and no session looks at them.
#pragma once

#include "base/job.h"
#include "base/report.h"
#include "store/store.h"

namespace ckpt::maintain {

// Removes unfinished copies whose process is gone, and what is left of their records; tells each in the report. Who
// copies holds a lock on the record; on a store without locks he shows signs of life, and only after a day without one
// he is taken to be gone. Where neither is known nothing is removed. What fails is told, and fails nothing.
void remove_dead_copies(store::Store& store, bool dry_run, Report* report, const Job& job);

}  // namespace ckpt::maintain
