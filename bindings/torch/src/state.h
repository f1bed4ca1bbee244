// Modules and random generators: what is saved of them, and how it is loaded.
#ifndef CKPT_TORCH_STATE_H
#define CKPT_TORCH_STATE_H

#include "collector.h"
#include "load_plan.h"
#include "selection.h"

namespace ckpt_torch {
namespace internal {

// INVALID if a module or optimizer is null.
void check_given(const State& state);

// {"conv.weight": …}, in the order of Python's state_dict(): parameters of all ranks, buffers of rank 0.
void save_module(Collector& out, const torch::nn::Module& module);

// Which of the module's tensors are loaded.
struct ModuleChoice {
  const Choice& choice;
  std::string saved_path;  // of the module's dict in the checkpoint
  std::string prefix;      // of names in `loaded` and in messages; paths in the state begin with it where that matters
};
// Plans to read the module's tensors from the dict `node`.
void plan_module(LoadPlan& plan, const Node& node, torch::nn::Module& module, const ModuleChoice& chosen,
                 Loaded& loaded);

// Adds the state of this process's generators as per-rank objects.
void save_rng(ckpt::Save& save);

// Plans to set the generators for which `rank` has saved a state, or of a new rank rank 0; returns whether the CPU's is
// among them. MISMATCH for the state of another kind of generator.
bool plan_rng(LoadPlan& plan, const Content& content, uint32_t rank, Rng mode);

}  // namespace internal
}  // namespace ckpt_torch
#endif
