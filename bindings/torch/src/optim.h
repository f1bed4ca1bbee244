// Optimizers to and from state trees of Python's shape: {"state": {0: {…}}, "param_groups": [{…, "params": [0, 1]}]}.
// What ckpt's Python saved of modules and optimizers together has names instead of numbers.
#ifndef CKPT_TORCH_OPTIM_H
#define CKPT_TORCH_OPTIM_H

#include <map>

#include "collector.h"
#include "load_plan.h"

namespace ckpt_torch {
namespace internal {

// What the model calls its parameters. One that is not there is found by its place.
using ParameterNames = std::map<const c10::TensorImpl*, std::string>;

// Null if no hook handles it.
const OptimizerHook* hook_of(const torch::optim::Optimizer& optimizer, const OptimizerHooks& hooks);

// "Adam", or the class_name() of its hook. UNSUPPORTED, naming `where`, if neither we nor a hook know the optimizer.
std::string optimizer_class(const torch::optim::Optimizer& optimizer, const OptimizerHooks& hooks,
                            const std::string& where);

void save_optimizer(Collector& out, const torch::optim::Optimizer& optimizer, const OptimizerHooks& hooks,
                    const std::string& where);

// Checks `node` against the optimizer (MISMATCH) and asks for its tensors; the optimizer changes in the plan's
// finish(). `saved_class`: the class of the saved optimizer, "" if unknown.
void plan_optimizer(LoadPlan& plan, const Node& node, torch::optim::Optimizer& optimizer, const OptimizerHooks& hooks,
                    const std::string& saved_class, const ParameterNames& names);

}  // namespace internal
}  // namespace ckpt_torch
#endif
