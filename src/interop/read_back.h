// What was written, read back and compared with what it was made of, element by element. Stateless.
#pragma once

#include <functional>
#include <string>

#include "base/job.h"
#include "interop/reader.h"
#include "interop/state.h"

namespace ckpt::interop {

// The name in `state` of a tensor that `files` has.
using NameInState = std::function<std::string(const std::string& name)>;

// That `state` has each tensor of `files`, with the same elements. MISMATCH for another dtype or shape, or a name that
// is not there, CORRUPT for elements that differ, both with the tensor's name; the errors of reading either.
Status compare_with(const State& state, ForeignCheckpoint& files, const ReadOptions& options,
                    const NameInState& name_of);

}  // namespace ckpt::interop
