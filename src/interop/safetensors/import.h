// Import of a safetensors file, or of a set of them in a directory or under an index.
#pragma once

#include "base/status.h"
#include "ckpt.h"
#include "interop/import_save.h"

namespace ckpt::interop {

// Keeps the split into files and the metadata as attributes. The statuses of ckpt_import.
Status import_safetensors(const ImportRequest& request, ckpt_checkpoint_info* info);

}  // namespace ckpt::interop
