// Optimizers to and from state trees of Python's shape: {"state": {0: {…}}, "param_groups": [{…, "params": [0, 1]}]}.
#ifndef CKPT_TORCH_OPTIM_H
#define CKPT_TORCH_OPTIM_H

#include "collector.h"
#include "load_plan.h"

namespace ckpt_torch {
namespace internal {

// Null where none handles it.
const OptimizerHook* hook_of(const torch::optim::Optimizer& optimizer, const OptimizerHooks& hooks);

// "Adam", or what its hook says; UNSUPPORTED, naming `where`, for an optimizer that neither we nor a hook know.
std::string optimizer_class(const torch::optim::Optimizer& optimizer, const OptimizerHooks& hooks,
                            const std::string& where);

void save_optimizer(Collector& out, const torch::optim::Optimizer& optimizer, const OptimizerHooks& hooks,
                    const std::string& where);

// Checks `node` against the optimizer, asks for its tensors, and leaves to the plan's end what changes the optimizer.
// `saved_class`: of the optimizer that was saved, "" where that is not known. MISMATCH.
void plan_optimizer(LoadPlan& plan, const Node& node, torch::optim::Optimizer& optimizer, const OptimizerHooks& hooks,
                    const std::string& saved_class);

}  // namespace internal
}  // namespace ckpt_torch
#endif
