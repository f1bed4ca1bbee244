// Modules and random generators: what is saved of them, and how it is loaded.
#ifndef CKPT_TORCH_STATE_H
#define CKPT_TORCH_STATE_H

#include "collector.h"
#include "load_plan.h"

namespace ckpt_torch {
namespace internal {

// INVALID if a module or optimizer is null.
void check_given(const State& state);

// {"conv.weight": …}, in the order of Python's state_dict(): parameters of all ranks, buffers of rank 0.
void save_module(Collector& out, const torch::nn::Module& module);

// Plans to read the module's tensors from the dict `node`. Names get `prefix` in `loaded` and in messages.
void plan_module(LoadPlan& plan, const Node& node, torch::nn::Module& module, const std::string& prefix,
                 Loaded& loaded);

// Adds the state of this process's generators as per-rank objects.
void save_rng(ckpt::Save& save);

// Plans to set the generators for which `rank` has saved a state; returns whether the CPU's is among them. MISMATCH for
// the state of another kind of generator.
bool plan_rng(LoadPlan& plan, const ckpt::Reader& reader, uint32_t rank, Rng mode);

}  // namespace internal
}  // namespace ckpt_torch
#endif
