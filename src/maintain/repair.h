// Rebuilds a lost manifest.
#pragma once

#include <string_view>

#include "base/job.h"
#include "base/report.h"
#include "store/store.h"

namespace ckpt::maintain {

// See ckpt_store_repair.
Status repair_checkpoint(store::Store& store, std::string_view id, bool dry_run, bool force, Report* report,
                         const Job& job = Job());

}  // namespace ckpt::maintain
