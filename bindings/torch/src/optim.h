// Optimizers to and from state trees of Python's shape: {"state": {0: {…}}, "param_groups": [{…, "params": [0, 1]}]}.
// What ckpt's Python saved of modules and optimizers together has names instead of numbers.
#ifndef CKPT_TORCH_OPTIM_H
#define CKPT_TORCH_OPTIM_H

#include <map>

#include "collector.h"
#include "load_plan.h"

namespace ckpt_torch {
namespace internal {

// What a checkpoint calls a parameter, and where it has the module: {"model", "0"}, "weight". Tied ones have several.
struct ParameterName {
  std::vector<std::string> place;
  std::string name;

  // With so many words of the place, from the last: "0.weight".
  std::string whole(size_t words) const {
    std::string out = name;
    for (size_t i = place.size(); i > 0 && words > 0; i--, words--) out = place[i - 1] + "." + out;
    return out;
  }
};
using ParameterNames = std::multimap<const c10::TensorImpl*, ParameterName>;

// Null if no hook handles it.
const OptimizerHook* hook_of(const torch::optim::Optimizer& optimizer, const OptimizerHooks& hooks);

// "Adam", or the class_name() of its hook. UNSUPPORTED, naming `where`, if neither we nor a hook know the optimizer.
std::string optimizer_class(const torch::optim::Optimizer& optimizer, const OptimizerHooks& hooks,
                            const std::string& where);

// By number, with the names of the parameters beside where all are known.
void save_optimizer(Collector& out, const torch::optim::Optimizer& optimizer, const OptimizerHooks& hooks,
                    const std::string& where, const ParameterNames& names);

// Checks `node` against the optimizer (MISMATCH) and asks for its tensors; the optimizer changes in the plan's
// finish(). `saved_class`: the class of the saved optimizer, "" if unknown. `other_shape`: gets the state of parameters
// of another shape, which stay as they are; without it that is MISMATCH.
void plan_optimizer(LoadPlan& plan, const Node& node, torch::optim::Optimizer& optimizer, const OptimizerHooks& hooks,
                    const std::string& saved_class, const ParameterNames& names, std::vector<std::string>* other_shape);

}  // namespace internal
}  // namespace ckpt_torch
#endif
