// Copies a checkpoint into another store.
#pragma once

#include "base/call_options.h"
#include "base/job.h"
#include "base/report.h"
#include "checkpoint/checkpoint.h"

namespace ckpt::maintain {

// Makes the same checkpoint in `to`: same directory, parts and MANIFEST, byte for byte. Every byte is checked on its
// way. MANIFEST goes last, so an unfinished copy is no checkpoint; the next call goes on with it. See ckpt_reader_copy.
// Errors of `to` have its URI as detail "store".
Status copy_checkpoint(const checkpoint::Checkpoint& from, store::Store& to, const CopyOptions& options, Report* report,
                       Job& job);

}  // namespace ckpt::maintain
