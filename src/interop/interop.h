// Other people's checkpoints to and from ours. Sits on top of the public C API; a store sees no difference between an
// import and a trainer of world size 1. Threads: calls are independent of each other; a reader may be shared.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "ckpt.h"

namespace ckpt::interop {

// import.cpp: saves a .safetensors file, a directory of them or a Hugging Face index as one checkpoint (ckpt_import in
// ckpt.h). Every header is checked before anything is written. `info` may be null; its struct_size is the caller's.
Status import_checkpoint(const ckpt_store* store, const char* path, const char* label, int64_t step,
                         const ckpt_options* options, ckpt_checkpoint_info* info);

// export.cpp: writes a checkpoint in another format (ckpt_export in ckpt.h). `path` appears complete or not at all.
Status export_checkpoint(const ckpt_reader* reader, const char* path, const ckpt_options* options);

}  // namespace ckpt::interop
