// A checkpoint as the directory that hfai's dist_ckpt writes (hfai/layout.h), for its `load` or for plain torch.load.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "ckpt.h"
#include "interop/hfai/layout.h"

namespace ckpt::interop {

struct HfaiExport {
  uint32_t shards = 1;
  bool opaque_as_dict = false;
  uint64_t large_bytes = kHfaiLargeBytes;  // tensors above this are cut
};

// `path` appears complete or not at all. The tree must have "model", a dict or a list of dicts, and may have
// "optimizer", a dict with "state" or a list of them: MISMATCH. What else it has goes to part 0.
// EXISTS, UNSUPPORTED as an export to .pt, CORRUPT, IO, NO_SPACE.
Status export_hfai(const ckpt_reader* reader, const std::string& path, const HfaiExport& how,
                   const ckpt_options* options);

}  // namespace ckpt::interop
