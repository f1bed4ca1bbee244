#include <set>

#include "optim.h"
#include "optim_fields.h"

namespace ckpt_torch {
namespace internal {

const OptimizerHook* hook_of(const torch::optim::Optimizer& optimizer, const OptimizerHooks& hooks) {
  for (const auto& hook : hooks)
    if (hook->handles(optimizer)) return hook.get();
  return nullptr;
}

std::string optimizer_class(const torch::optim::Optimizer& optimizer, const OptimizerHooks& hooks,
                            const std::string& where) {
  if (const OptimizerHook* hook = hook_of(optimizer, hooks)) return hook->class_name();
  std::string name;
  with_kind(optimizer, [&](auto kind) { name = kind.name; });
  if (name.empty())
    fail(CKPT_UNSUPPORTED, in_quotes(where) +
                               " is of a class that ckpt does not know (it knows SGD, Adam, AdamW, Adagrad, "
                               "RMSprop and LBFGS): give an OptimizerHook for it");
  return name;
}

namespace {

class SaveOptionsOf : public OptionVisitor {
 public:
  explicit SaveOptionsOf(Collector& out) : out_(out) {}
  void real(const char* name, double& value) override { out_.tree().key(name), out_.tree().add_float(value); }
  void pair(const char* name, std::tuple<double, double>& value) override {
    out_.tree().key(name);
    out_.tree().begin(CKPT_NODE_TUPLE);
    out_.tree().add_float(std::get<0>(value));
    out_.tree().add_float(std::get<1>(value));
    out_.tree().end();
  }
  void flag(const char* name, bool& value) override { out_.tree().key(name), out_.tree().add_bool(value); }
  void integer(const char* name, int64_t& value) override { out_.tree().key(name), out_.tree().add_int(value); }
  void integer_or_none(const char* name, std::optional<int64_t>& value) override {
    out_.tree().key(name);
    value ? out_.tree().add_int(*value) : out_.tree().add_null();
  }
  void text_or_none(const char* name, std::optional<std::string>& value) override {
    out_.tree().key(name);
    value ? out_.tree().add_text(*value) : out_.tree().add_null();
  }

 private:
  Collector& out_;
};

class SaveStateOf : public StateVisitor {
 public:
  explicit SaveStateOf(Collector& out) : out_(out) {}
  void count(const char* name, int64_t& value) override { out_.tree().key(name), out_.tree().add_int(value); }
  void real(const char* name, double& value) override { out_.tree().key(name), out_.tree().add_float(value); }
  void tensor(const char* name, at::Tensor& value, Extent, bool) override {
    if (!value.defined()) return;  // Python leaves these out
    out_.tree().key(name);
    out_.tensor(value, Holder::kAll);
  }
  void tensors(const char* name, const TensorList& list, Extent extent) override {
    if (extent == Extent::kAny && list.size == 0) return;
    out_.tree().key(name);
    out_.tree().begin(CKPT_NODE_LIST);
    for (size_t i = 0; i < list.size; i++) out_.tensor(list.at(i), Holder::kAll);
    out_.tree().end();
  }

 private:
  Collector& out_;
};

// What Python calls the parameters, in the optimizer's order: with the places of their modules if these are several.
// Nothing unless all are of given models.
std::vector<std::string> names_of(const torch::optim::Optimizer& optimizer, const ParameterNames& names) {
  std::set<std::vector<std::string>> places;
  std::vector<ParameterName> found;
  for (const auto& group : optimizer.param_groups())
    for (const at::Tensor& param : group.params()) {
      const auto [first, last] = names.equal_range(param.unsafeGetTensorImpl());
      if (first == last) return {};
      found.push_back(first->second);
      places.insert(first->second.place);
    }
  std::vector<std::string> out;
  for (const ParameterName& name : found) out.push_back(name.whole(places.size() > 1 ? name.place.size() : 0));
  return out;
}

// The visitors get copies, because a visitor may write to what it gets.
template <class K>
void save_known(Collector& out, const torch::optim::Optimizer& optimizer, const std::vector<std::string>& names) {
  out.tree().begin(CKPT_NODE_DICT);
  out.tree().key("state");
  out.tree().begin(CKPT_NODE_DICT);
  int64_t index = 0;
  for (const auto& group : optimizer.param_groups())
    for (const at::Tensor& param : group.params()) {
      const auto& all = optimizer.state();
      using Key = typename std::decay_t<decltype(all)>::key_type;
      auto found = all.find(state_key<Key>(param));
      if (found != all.end()) {
        auto state = found->second->clone();
        auto options = group.options().clone();
        out.tree().key(index);
        out.tree().begin(CKPT_NODE_DICT);
        SaveStateOf visitor(out);
        visit_state(static_cast<typename K::State&>(*state), static_cast<typename K::Options&>(*options), visitor);
        out.tree().end();
      }
      index++;
    }
  out.tree().end();
  out.tree().key("param_groups");
  out.tree().begin(CKPT_NODE_LIST);
  index = 0;
  for (const auto& group : optimizer.param_groups()) {
    auto options = group.options().clone();
    SaveOptionsOf visitor(out);
    out.tree().begin(CKPT_NODE_DICT);
    visit_options(static_cast<typename K::Options&>(*options), visitor);
    const size_t first = static_cast<size_t>(index);
    out.tree().key("params");
    out.tree().begin(CKPT_NODE_LIST);
    for (size_t i = 0; i < group.params().size(); i++) out.tree().add_int(index++);
    out.tree().end();
    if (!names.empty()) {  // as torch has them that was given names
      out.tree().key("param_names");
      out.tree().begin(CKPT_NODE_LIST);
      for (size_t i = first; i < static_cast<size_t>(index); i++) out.tree().add_text(names[i]);
      out.tree().end();
    }
    out.tree().end();
  }
  out.tree().end();
  out.tree().end();
}

}  // namespace

void save_optimizer(Collector& out, const torch::optim::Optimizer& optimizer, const OptimizerHooks& hooks,
                    const std::string& where, const ParameterNames& names) {
  bool known = false;
  out.refusable([&] { known = !optimizer_class(optimizer, hooks, where).empty(); });
  if (!known) return;
  if (const OptimizerHook* hook = hook_of(optimizer, hooks))
    return out.value(hook->state_dict(optimizer), Holder::kAll, where);
  with_kind(optimizer, [&](auto kind) { save_known<decltype(kind)>(out, optimizer, names_of(optimizer, names)); });
}

}  // namespace internal
}  // namespace ckpt_torch
