// A checkpoint as one .pt file (ckpt_export in ckpt.h).
#pragma once

#include <string>

#include "base/status.h"
#include "ckpt.h"

namespace ckpt::interop {

// What torch.load(weights_only=True) makes the checkpoint's main tree of. `path` appears complete or not at all.
// EXISTS, UNSUPPORTED (a dtype that torch lacks; a record that weights_only refuses, unless `opaque_as_dict`), FORMAT
// (a tree that does not fit its checkpoint), CORRUPT, IO, NO_SPACE.
Status export_pt(const ckpt_reader* reader, const std::string& path, bool opaque_as_dict, const ckpt_options* options);

}  // namespace ckpt::interop
