// Import of one .pt file.
#pragma once

#include "base/status.h"
#include "ckpt.h"
#include "interop/import_save.h"

namespace ckpt::interop {

// Its tensors from the mapping, what shares memory as aliases, all else as the state tree. The statuses of ckpt_import.
Status import_pt(const ImportRequest& request, ckpt_checkpoint_info* info);

}  // namespace ckpt::interop
