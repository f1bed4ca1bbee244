// Where on a mesh of ranks a rank is, and what of a DTensor it has. Takes untrusted pickles. Pure.
#pragma once

#include <optional>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "interop/src/pt/source.h"

namespace ckpt::interop {

// Positions [begin, end) of one dimension, which a rank has one after another.
struct Stretch {
  uint64_t begin = 0, end = 0;
};
// Which positions of each dimension the rank that wrote a DTensorSpec has. None: the rank is not in the mesh.
Result<std::optional<std::vector<std::vector<Stretch>>>> stretches_of_spec(const PtSource& source, PickleRef spec,
                                                                           const Shape& shape);

}  // namespace ckpt::interop
