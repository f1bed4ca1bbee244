// The parts of an hfai directory as one state: what hfai's load() returns, without putting anything together in memory.
// The tree and the names of its tensors are those of the .pt that torch.save would make of that. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "format/tree.h"
#include "interop/foreign_tensor.h"
#include "interop/hfai/parts.h"

namespace ckpt::interop {

// Elements [begin, begin + size) of a tensor that was cut.
struct HfaiPiece {
  std::string name;
  uint16_t dtype = 0;
  Shape shape;  // of the whole
  uint64_t begin = 0, size = 0;
  Bytes data;
};

struct HfaiState {
  format::Tree tree;
  // By part:
  std::vector<std::vector<ForeignTensor>> tensors;  // a target before its aliases
  std::vector<std::vector<HfaiPiece>> pieces;
};

// FORMAT: a key in two parts, a tensor that is both cut and whole, pieces that differ in dtype or do not add up.
Result<HfaiState> merge_hfai(std::vector<HfaiPart>& parts);

}  // namespace ckpt::interop
