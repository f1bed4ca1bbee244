// Import of a directory that hfai's dist_ckpt saved, as what its load() returns.
#pragma once

#include "base/status.h"
#include "ckpt.h"
#include "interop/import_save.h"

namespace ckpt::interop {

// One checkpoint with as many parts as the directory has. This process plays the ranks one after another: part r's
// tensors, and its pieces of those that were cut, are rank r's share, from the mapping, so that nothing is ever put
// together in memory. The statuses of open_hfai_parts and merge_hfai, EXISTS, IO, NO_SPACE.
Status import_hfai(const ImportRequest& request, ckpt_checkpoint_info* info);

}  // namespace ckpt::interop
