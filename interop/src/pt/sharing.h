// Which tensors of a .pt share memory, and what becomes of them: views that overlap become one tensor and aliases of
// it. Pure.
#pragma once

#include <vector>

#include "base/status.h"
#include "interop/src/pt/tensor.h"
#include "interop/src/reader.h"

namespace ckpt::interop {

struct NamedPtTensor {
  std::string name;
  PtTensor tensor;
};

// In the order given, but targets before their aliases. For each run of overlapping views of one dtype: one that covers
// all of it without gaps is the target of the others; where there is none, the run itself is added as a tensor of one
// dimension, "~storage/KEY" (no path of a state tree is called so). A view that repeats elements (stride 0) is kept as
// one where writing it out would take more than 64 KiB, or all of them together more than `room` bytes beyond those in
// the file. Views of packed elements, which no load gives, are tensors of their own, up to the same `room`. Views of
// one memory by several dtypes are separate tensors. `files` gets what they lie in, where it is not a mapped file; all
// are of part `rank`.
std::vector<ForeignTensor> plan_sharing(std::vector<NamedPtTensor> tensors, uint64_t room, FileTable& files,
                                        uint32_t rank = 0);

}  // namespace ckpt::interop
