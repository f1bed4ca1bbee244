#include "state.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <functional>
#include <mutex>
#include <unordered_map>

namespace ckpt_torch {
namespace internal {

void check_given(const State& state) {
  auto check_all = [](const auto& all, const char* list, const char* what) {
    for (size_t i = 0; i < all.size(); i++)
      if (all[i] == nullptr)
        fail(CKPT_INVALID, std::string(list) + "[" + std::to_string(i) + "]: there is no " + what + " in the pointer");
  };
  check_all(state.models.modules(), "models", "module");
  check_all(state.optimizers.optimizers(), "optimizers", "optimizer");
}

// ---- modules ----

using Visit = std::function<void(const std::string& name, const at::Tensor& tensor, Holder holder)>;

static void each_tensor(const torch::nn::Module& module, const std::string& prefix, const Visit& visit) {
  for (const auto& item : module.named_parameters(false)) visit(prefix + item.key(), item.value(), Holder::kAll);
  for (const auto& item : module.named_buffers(false)) visit(prefix + item.key(), item.value(), Holder::kRank0);
  for (const auto& item : module.named_children()) each_tensor(*item.value(), prefix + item.key() + ".", visit);
}

void save_module(Collector& out, const torch::nn::Module& module) {
  out.tree().begin(CKPT_NODE_DICT);
  each_tensor(module, "", [&](const std::string& name, const at::Tensor& tensor, Holder holder) {
    out.tree().key(name);
    out.tensor(tensor, holder);
  });
  out.tree().end();
}

void plan_module(LoadPlan& plan, const Node& node, torch::nn::Module& module, const ModuleChoice& chosen,
                 Loaded& loaded) {
  if (!has_entries(node))
    fail(CKPT_MISMATCH, in_quotes(path_of(node)) + ": expected a dict of tensors, found " + kind_name(node));
  const Choice& choice = chosen.choice;
  std::vector<std::pair<std::string, Node>> entries;
  std::unordered_map<std::string, Node> stored;
  for (const Node& child : dict_at(node)) {
    entries.emplace_back(choice.name(chosen.saved_path, child.name()), child);
    stored.emplace(entries.back());
  }
  std::vector<std::pair<std::string, at::Tensor>> lacking;
  each_tensor(module, "", [&](const std::string& name, const at::Tensor& tensor, Holder) {
    const std::string path = chosen.prefix + name;
    const auto found = stored.find(name);
    if (found == stored.end()) {
      if (choice.wants(path)) lacking.emplace_back(path, tensor);
      return;
    }
    const Node child = found->second;
    stored.erase(found);
    if (!choice.wants(path)) return;
    if (!tensor_at(child))
      fail(CKPT_MISMATCH, in_quotes(path_of(child)) + ": expected a tensor, found " + kind_name(child));
    const auto shape = choice.skip_shapes() ? plan.shape_of(child) : tensor.sizes().vec();
    if (tensor.sizes() == at::IntArrayRef(shape)) return plan.into(tensor, child, path);
    loaded.other_shape.push_back(path + ": " + shape_text(tensor.sizes()) + " in the module, " + shape_text(shape) +
                                 " in the checkpoint");
  });
  // Other programs save tied weights under one of their names.
  for (const auto& [path, tensor] : lacking) {
    if (const auto other = plan.tied(tensor))
      plan.into(tensor, *other, path);
    else
      loaded.missing.push_back(path);
  }
  stored.erase("_metadata");  // in a Python state_dict: the versions of its classes
  for (const auto& [name, child] : entries) {
    auto left = stored.find(name);
    if (left != stored.end() && left->second.number() == child.number() && choice.wants(chosen.prefix + name))
      loaded.unexpected.push_back(chosen.prefix + name);
  }
}

// ---- random generators ----

namespace {

struct Source {
  std::string name;  // of the object in the checkpoint
  at::Generator generator;
};

std::vector<Source> generators() {
  std::vector<Source> all{{"torch.rng.cpu", at::detail::getDefaultCPUGenerator()}};
  size_t gpus = at::hasCUDA() ? at::getNumGPUs() : 0;
  for (size_t i = 0; i < gpus; i++)
    all.push_back({"torch.rng.cuda." + std::to_string(i),
                   at::globalContext().defaultGenerator(at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(i)))});
  return all;
}

at::Tensor state_of(at::Generator generator) {
  std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state().to(at::kCPU).contiguous();
}

// Tries the state on a copy of the generator.
bool takes(at::Generator generator, const at::Tensor& state) {
  std::lock_guard<std::mutex> lock(generator.mutex());
  try {
    generator.clone().set_state(state);
  } catch (const c10::Error&) {
    return false;
  }
  return true;
}

}  // namespace

void save_rng(ckpt::Save& save) {
  for (const Source& source : generators()) {
    at::Tensor state = state_of(source.generator);
    save.add_object(source.name, "application/octet-stream", CKPT_OBJECT_PER_RANK, {state.data_ptr(), state.nbytes()});
  }
}

// The seed of a rank that saved none: FNV-1a of rank 0's state and the rank.
static uint64_t seed_of(const at::Tensor& state, uint32_t rank) {
  uint64_t hash = 0xcbf29ce484222325;
  auto add = [&](uint8_t byte) { hash = (hash ^ byte) * 0x100000001b3; };
  for (size_t i = 0; i < state.nbytes(); i++) add(state.data_ptr<uint8_t>()[i]);
  for (int shift = 0; shift < 32; shift += 8) add(static_cast<uint8_t>(rank >> shift));
  return hash;
}

bool plan_rng(LoadPlan& plan, const Content& content, uint32_t rank, Rng mode) {
  bool cpu = false;
  if (mode == Rng::keep) return false;
  for (const Source& source : generators()) {
    const uint32_t from = content.object(source.name, rank) ? rank : 0;
    const bool own_stream = from != rank && mode == Rng::same_rank;
    const auto info = content.object(source.name, from);
    if (!info) continue;
    at::Tensor now = state_of(source.generator);
    if (info->size != now.nbytes())
      fail(CKPT_MISMATCH, "the state of " + in_quotes(source.name) + " has " + std::to_string(info->size) +
                              " bytes, this LibTorch's generator " + std::to_string(now.nbytes()) +
                              ": load with Rng::keep");
    at::Tensor state = at::empty_like(now);
    plan.object(source.name, from, state);
    at::Generator generator = source.generator;
    std::string name = source.name;
    plan.make([generator, state, name] {
      if (!takes(generator, state))
        fail(CKPT_MISMATCH, "what the checkpoint has for " + in_quotes(name) +
                                " is no state of this LibTorch's generator: load with Rng::keep");
    });
    plan.apply([generator, state, own_stream, rank]() mutable {
      std::lock_guard<std::mutex> lock(generator.mutex());
      if (own_stream) return generator.set_current_seed(seed_of(state, rank));
      generator.set_state(state);
    });
    cpu |= source.name == "torch.rng.cpu";
  }
  return cpu;
}

}  // namespace internal
}  // namespace ckpt_torch
