// Who of an hfai directory's parts gets what of a checkpoint's tree: entries by bytes, tensors above a size cut into
// one row of elements for each part. Made before anything is written. Pure but for the reader.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "interop/src/client.h"
#include "interop/src/tensor_stream.h"

namespace ckpt::interop {

// A tensor that is cut.
struct HfaiCut {
  uint32_t outer;  // the entry of the optimizer's state that it is in; the tensor itself in a model
  uint32_t node;
  TensorRange whole;
};

// The entries of a model, or of the "state" of an optimizer.
struct HfaiAssigned {
  uint32_t dict;                         // the DICT of the model, or of the optimizer with all its keys
  uint32_t entries;                      // the DICT that is assigned
  std::map<uint32_t, uint32_t> part_of;  // of each entry that is not cut
  std::vector<HfaiCut> cuts;             // in the order of the tree
};

struct HfaiPlan {
  std::vector<HfaiAssigned> models, optimizers;
  std::vector<uint32_t> others;     // for part 0
  std::set<std::string> cut_names;  // so that nothing is an alias of what is cut
  std::set<uint32_t> cut_nodes;
};

// MISMATCH where the tree has no "model", or model and optimizer are not what hfai saves; FORMAT.
Result<HfaiPlan> assign_hfai(const State& state, const tree::Tree& tree, uint32_t parts, uint64_t large_bytes);

}  // namespace ckpt::interop
