// What was written, read back and compared with what it was made of, element by element. Stateless.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/job.h"
#include "interop/src/reader.h"
#include "interop/src/state.h"

namespace ckpt::interop {

// What an export was to write of a state.
struct Wanted {
  // Other places that what the format has at this one may have in the state.
  using Places = std::vector<std::string> (*)(const std::string& place);

  std::string at;             // option at: what is below that place
  bool tensors_only = false;  // all tensors by their names, no tree
  // Parts whose values the format has no place for, or another one.
  std::vector<std::string> no_values{};
  Places places = nullptr;                     // where the format has parts that a state need not have
  std::map<std::string, std::string> names{};  // of tensors in the files, where these call them otherwise: the state's
};

// That `files` has each tensor and each value of `state` that is wanted, with the same elements, and nothing else.
// MISMATCH for what is missing, for another dtype or shape and for what was not to be written, CORRUPT for elements or
// values that differ, all with the name; the errors of reading either.
Status compare_export(const State& state, ForeignCheckpoint& files, const Wanted& wanted, const ReadOptions& options);

// That an import saved each tensor of `files`, their objects and their tree, and nothing else.
Status compare_import(const client::Reader& saved, ForeignCheckpoint& files, const ReadOptions& options);

}  // namespace ckpt::interop
