// Files that a checkpoint can have from others of its store, which have them under names of their own: a copy need not
// send them, and a repair brings back what is lost. No state.
#pragma once

#include <span>
#include <string>

#include "base/job.h"
#include "checkpoint/catalog.h"
#include "format/part_record.h"

namespace ckpt::maintain {

// Gives the directory `id` the file of this record, if another committed checkpoint has it: the same part of the same
// save, with a sound index. The newest of `others` is asked first. The lender's id; "" if nobody has it, or files can
// have one name only. `dry_run`: only looks who has it. NOMEM, CANCELLED, TIMEOUT.
Result<std::string> borrow_from_others(store::Store& store, std::span<const checkpoint::CheckpointEntry> others,
                                       const std::string& id, const fb::Part& record, bool dry_run, const Job& job);

}  // namespace ckpt::maintain
