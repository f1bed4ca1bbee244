// A .pt as a state tree and a list of tensors: plain values as they are, torch's and numpy's objects and those of
// unknown classes as the records of schemas/STATE_TREE.md. Takes untrusted pickles: what a value that is shared a
// thousand times grows to is bounded, and where one holds itself a record says what stands there. Pure.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "interop/src/pt/sharing.h"
#include "interop/src/pt/source.h"
#include "tree/tree.h"

namespace ckpt::interop {

struct PtTree {
  tree::Tree tree;
  std::vector<NamedPtTensor> tensors;  // in the order of the tree; names are those of its leaves, each once
};

// Takes an object that its format knows better, whose path is `name`: true, and a leaf of that name stands for it.
// Paths are long where keys are, so one is made only of what is taken.
using TakeObject = std::function<Result<bool>(PickleRef object, const std::function<std::string()>& name)>;

// A tree may have more nodes and text than its pickle, since pickles share values: twice and 16 times as much, and this
// much beside. Trees of one reading share it, or as many small files as one likes would have it each.
struct SpareTree {
  uint64_t nodes = 1 << 18, text = 16 << 20;
};

// A value that cannot be had is a record of kCannotClass, which whoever keeps it must refuse (reader.h). FORMAT,
// UNSUPPORTED for what is wrong with all of it, or with what no value shows. `at`: the path of the value in the state
// that it is a part of; names of tensors begin with it.
Result<PtTree> make_tree(const PtSource& source, SpareTree& spare, std::string at = {}, const TakeObject& take = {});

}  // namespace ckpt::interop
