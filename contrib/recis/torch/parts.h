// What a recis::CheckpointManager looks after: what it saves, and what the variables of load configs are. One thread.
#ifndef CKPT_TORCH_RECIS_PARTS_H
#define CKPT_TORCH_RECIS_PARTS_H

#include "ckpt_torch/recis.h"
#include "src/errors.h"

namespace ckpt_torch {
namespace recis {

// Variables, and of each something: its class, its name in a source.
using Names = std::map<std::string, std::string>;

struct Parts {
  struct Part {
    CheckpointManager::Dump dump;
    CheckpointManager::Put put;
  };

  // INVALID for a name that is taken: parts lie side by side in a checkpoint.
  void check(const std::string& name) const;
  State state() const;
  // The variables of the model and the class of each.
  Names variables() const;

  ManagerOptions options;
  Ranks ranks;
  std::map<std::string, Part> extra = {}, io_states = {};  // the sparse optimizer is among the former
  // What loads have begun to change and not come to the end with, nor replaced later: variables; of a table its ids.
  std::set<std::string> begun = {};
};

constexpr const char* kSparseOptim = "sparse_optim";

}  // namespace recis
}  // namespace ckpt_torch
#endif
