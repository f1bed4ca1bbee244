#include <c10/util/accumulate.h>

#include <algorithm>
#include <cmath>

#include "optim.h"
#include "optim_fields.h"

namespace ckpt_torch {
namespace internal {

namespace {

[[noreturn]] void mismatch(const std::string& message) { fail(CKPT_MISMATCH, message); }

// A number that may have been saved as a tensor of one element, as Python does with "step" and sometimes "lr".
class Numbers {
 public:
  explicit Numbers(LoadPlan& plan) : plan_(plan) {}

  void real(uint64_t node, std::function<void(double)> set) {
    ckpt_node n = plan_.tree()[node];
    if (n.kind == CKPT_NODE_FLOAT) return set(n.float_value);
    if (n.kind == CKPT_NODE_INT) return set(static_cast<double>(n.int_value));
    auto tensor = one_element(node);
    plan_.make([tensor, set] { set(tensor().item().toDouble()); });
  }

  void count(uint64_t node, std::function<void(int64_t)> set) {
    ckpt_node n = plan_.tree()[node];
    std::string path = plan_.tree().path(node);
    auto whole = [path](double value) {
      if (!(value >= 0 && value < 9e15 && value == std::floor(value)))
        mismatch(in_quotes(path) + ": expected a count, found " + std::to_string(value));
      return static_cast<int64_t>(value);
    };
    if (n.kind == CKPT_NODE_INT) return set(n.int_value);
    if (n.kind == CKPT_NODE_FLOAT) return set(whole(n.float_value));
    auto tensor = one_element(node);
    plan_.make([tensor, set, whole] {
      at::Tensor value = tensor();
      set(at::isIntegralType(value.scalar_type(), false) ? value.item().toLong() : whole(value.item().toDouble()));
    });
  }

 private:
  std::function<at::Tensor()> one_element(uint64_t node) {
    const TreeView& tree = plan_.tree();
    auto refuse = [&](const std::string& found) {
      mismatch(in_quotes(tree.path(node)) + ": expected a number, found " + found);
    };
    if (!tree.is_tensor(node)) refuse(tree.kind_name(node));
    auto shape = plan_.shape_of(node);
    if (c10::multiply_integers(shape) != 1) refuse("a tensor of shape " + shape_text(shape));
    return plan_.fresh(node);
  }

  LoadPlan& plan_;
};

// The fields of one dict of the tree, for a class of optimizer.
class Dict {
 public:
  Dict(LoadPlan& plan, uint64_t node, const char* class_name)
      : plan_(plan), tree_(plan.tree()), node_(node), class_(class_name) {
    if (!tree_.has_entries(node))
      mismatch(in_quotes(tree_.path(node)) + ": expected a dict, found " + tree_.kind_name(node));
  }
  uint64_t get(const char* name) const {
    uint64_t child = tree_.find(node_, name);
    if (child == CKPT_NODE_END)
      mismatch(in_quotes(tree_.path(node_)) + " has no " + in_quotes(name) +
               ": it was not saved from an optimizer of class " + class_);
    return child;
  }
  uint64_t find(const char* name) const { return tree_.find(node_, name); }
  [[noreturn]] void expected(uint64_t node, const char* what) const {
    mismatch(in_quotes(tree_.path(node)) + ": expected " + what + ", found " + tree_.kind_name(node));
  }

 protected:
  LoadPlan& plan_;
  const TreeView& tree_;
  uint64_t node_;
  const char* class_;
};

class LoadOptionsOf : public OptionVisitor, private Dict {
 public:
  LoadOptionsOf(LoadPlan& plan, uint64_t node, const char* class_name) : Dict(plan, node, class_name) {}
  void real(const char* name, double& value) override {
    Numbers(plan_).real(get(name), [&value](double v) { value = v; });
  }
  void pair(const char* name, std::tuple<double, double>& value) override {
    uint64_t node = get(name);
    auto children = tree_.children(node);
    if (!TreeView::is_list(tree_[node]) || children.size() != 2) expected(node, "two numbers");
    Numbers(plan_).real(children[0], [&value](double v) { std::get<0>(value) = v; });
    Numbers(plan_).real(children[1], [&value](double v) { std::get<1>(value) = v; });
  }
  void flag(const char* name, bool& value) override {
    uint64_t node = get(name);
    if (tree_[node].kind != CKPT_NODE_BOOL) expected(node, "a bool");
    value = tree_[node].bool_value != 0;
  }
  void integer(const char* name, int64_t& value) override {
    if (tree_[get(name)].kind != CKPT_NODE_INT) expected(get(name), "an integer");
    value = tree_[get(name)].int_value;
  }
  void integer_or_none(const char* name, std::optional<int64_t>& value) override {
    value.reset();
    if (tree_[get(name)].kind == CKPT_NODE_NULL) return;
    integer(name, value.emplace());
  }
  void text_or_none(const char* name, std::optional<std::string>& value) override {
    uint64_t node = get(name);
    value.reset();
    if (tree_[node].kind == CKPT_NODE_NULL) return;
    if (tree_[node].kind != CKPT_NODE_TEXT) expected(node, "text or None");
    value = tree_.text(node);
  }
};

class LoadStateOf : public StateVisitor, private Dict {
 public:
  LoadStateOf(LoadPlan& plan, uint64_t node, const char* class_name, const at::Tensor& param, int64_t flat_size)
      : Dict(plan, node, class_name), param_(param), flat_size_(flat_size) {}

  void count(const char* name, int64_t& value) override {
    Numbers(plan_).count(get(name), [&value](int64_t v) { value = v; });
  }
  void real(const char* name, double& value) override {
    Numbers(plan_).real(get(name), [&value](double v) { value = v; });
  }
  void tensor(const char* name, at::Tensor& value, Extent extent, bool required) override {
    value = at::Tensor();
    uint64_t node = required ? get(name) : find(name);
    if (node == CKPT_NODE_END || (tree_[node].kind == CKPT_NODE_NULL && !required)) return;
    ask(node, value, extent);
  }
  void tensors(const char* name, const TensorList& list, Extent extent) override {
    uint64_t node = find(name);
    bool absent = node == CKPT_NODE_END || tree_[node].kind == CKPT_NODE_NULL;
    if (!absent && !TreeView::is_list(tree_[node])) expected(node, "a list of tensors");
    auto children = absent ? std::vector<uint64_t>() : tree_.children(node);
    list.resize(children.size());
    for (size_t i = 0; i < children.size(); i++)
      if (tree_[children[i]].kind != CKPT_NODE_NULL) ask(children[i], list.at(i), extent);
  }

 private:
  void ask(uint64_t node, at::Tensor& value, Extent extent) {
    at::Tensor param = param_;
    if (extent == Extent::kScalar && !tree_.is_tensor(node))  // Python's LBFGS starts with a plain number
      return Numbers(plan_).real(node, [&value, param](double v) { value = at::full({}, v, param.options()); });
    if (!tree_.is_tensor(node)) expected(node, "a tensor");
    auto shape = plan_.shape_of(node);
    bool fits = true;
    if (extent == Extent::kParam) fits = at::IntArrayRef(shape) == param.sizes();
    if (extent == Extent::kFlat) fits = shape == std::vector<int64_t>{flat_size_};
    if (extent == Extent::kScalar) fits = c10::multiply_integers(shape) == 1;
    if (!fits)
      mismatch(in_quotes(tree_.path(node)) + " has shape " + shape_text(shape) + ", the parameter " +
               shape_text(param.sizes()) + ": it belongs to another model");
    auto get = plan_.fresh(node, param);
    bool convert = plan_.options().convert && param.is_floating_point();
    plan_.make([get, &value, param, convert] {
      at::Tensor loaded = get();
      value = convert && loaded.is_floating_point() ? loaded.to(param.device(), param.scalar_type())
                                                    : loaded.to(param.device());
    });
  }

  at::Tensor param_;
  int64_t flat_size_;
};

// Settings of Python's optimizers that LibTorch's lack: those that change what a step does are refused.
void check_foreign_options(LoadPlan& plan, uint64_t group, const std::string& class_name,
                           const std::vector<std::string>& known) {
  const TreeView& tree = plan.tree();
  for (uint64_t child : tree.entries(group)) {
    std::string key = tree.key(child);
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    bool on = tree[child].kind == CKPT_NODE_BOOL && tree[child].bool_value != 0;
    if (key == "maximize" && on)
      fail(CKPT_UNSUPPORTED,
           in_quotes(tree.path(child)) + " is set, and LibTorch's " + class_name + " cannot maximize");
    if (key == "decoupled_weight_decay" && on != (class_name == "AdamW"))
      mismatch(in_quotes(tree.path(child)) + ": it was saved from " + (on ? "AdamW" : "Adam") + ", not " + class_name);
    bool idle = tree[child].kind == CKPT_NODE_NULL || (tree[child].kind == CKPT_NODE_BOOL && !on);
    if (!idle && key != "decoupled_weight_decay")
      plan.ignored().push_back(tree.path(child) + ": LibTorch's " + class_name + " has no such option");
  }
}

class OptionNames : public OptionVisitor {
 public:
  std::vector<std::string> names{"params"};
  void real(const char* name, double&) override { names.push_back(name); }
  void pair(const char* name, std::tuple<double, double>&) override { names.push_back(name); }
  void flag(const char* name, bool&) override { names.push_back(name); }
  void integer(const char* name, int64_t&) override { names.push_back(name); }
  void integer_or_none(const char* name, std::optional<int64_t>&) override { names.push_back(name); }
  void text_or_none(const char* name, std::optional<std::string>&) override { names.push_back(name); }
};

// A parameter of the optimizer, with the index that it had where it was saved.
struct Saved {
  at::Tensor param;
  int64_t index;
  size_t group;
};

std::vector<uint64_t> check_groups(LoadPlan& plan, uint64_t node, const torch::optim::Optimizer& optimizer,
                                   std::vector<Saved>& params) {
  const TreeView& tree = plan.tree();
  auto counted = [](size_t n, const char* what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); };
  uint64_t groups = tree.find(node, "param_groups");
  if (groups == CKPT_NODE_END || !TreeView::is_list(tree[groups]))
    mismatch(in_quotes(tree.path(node)) + " has no list 'param_groups': it is not the state of an optimizer");
  auto saved = tree.children(groups);
  const auto& current = optimizer.param_groups();
  if (saved.size() != current.size())
    mismatch(in_quotes(tree.path(groups)) + ": the optimizer has " + counted(current.size(), "parameter group") +
             ", the checkpoint " + std::to_string(saved.size()) + ": it was saved from an optimizer of another model");
  for (size_t g = 0; g < saved.size(); g++) {
    uint64_t indices = tree.find(saved[g], "params");
    auto list = indices == CKPT_NODE_END ? std::vector<uint64_t>() : tree.children(indices);
    const auto& group = current[g].params();
    if (indices == CKPT_NODE_END || list.size() != group.size())
      mismatch(in_quotes(tree.path(saved[g])) + ": the group has " + counted(group.size(), "parameter") +
               ", the checkpoint " + std::to_string(list.size()) + ": it was saved from an optimizer of another model");
    for (size_t i = 0; i < list.size(); i++) {
      if (tree[list[i]].kind != CKPT_NODE_INT)
        mismatch(in_quotes(tree.path(list[i])) + ": expected an integer, found " + tree.kind_name(list[i]));
      if (group[i].is_meta())
        fail(CKPT_INVALID, in_quotes(tree.path(list[i])) + ": the optimizer's parameter is a meta tensor: it has no " +
                               "memory to be loaded into");
      params.push_back({group[i], tree[list[i]].int_value, g});
    }
  }
  return saved;
}

// Python's SGD without momentum keeps {"momentum_buffer": None}, which LibTorch would take for one that is there.
bool is_empty_momentum(const TreeView& tree, uint64_t entry) {
  uint64_t buffer = tree.find(entry, "momentum_buffer");
  return buffer != CKPT_NODE_END && tree[buffer].kind == CKPT_NODE_NULL && tree.entries(entry).size() == 1;
}

template <class K>
void plan_known(LoadPlan& plan, uint64_t node, torch::optim::Optimizer& optimizer, K kind) {
  const TreeView& tree = plan.tree();
  std::vector<Saved> params;
  auto groups = check_groups(plan, node, optimizer, params);
  std::vector<std::shared_ptr<torch::optim::OptimizerOptions>> options;
  for (size_t g = 0; g < groups.size(); g++) {
    options.emplace_back(optimizer.param_groups()[g].options().clone());
    auto& own = static_cast<typename K::Options&>(*options.back());
    OptionNames names;
    visit_options(own, names);
    LoadOptionsOf visitor(plan, groups[g], kind.name);
    visit_options(own, visitor);
    check_foreign_options(plan, groups[g], kind.name, names.names);
  }
  uint64_t state = tree.find(node, "state");
  if (state == CKPT_NODE_END) mismatch(in_quotes(tree.path(node)) + " has no 'state'");
  int64_t flat_size = 0;
  for (const Saved& saved : params) flat_size += saved.param.numel();
  std::vector<std::pair<at::Tensor, std::shared_ptr<typename K::State>>> states;
  size_t matched = 0;
  for (const Saved& saved : params) {
    uint64_t entry = tree.find(state, saved.index);
    if (entry == CKPT_NODE_END) continue;  // it never had a gradient
    matched++;
    if (is_empty_momentum(tree, entry)) continue;
    auto own = std::make_shared<typename K::State>();
    LoadStateOf visitor(plan, entry, kind.name, saved.param, flat_size);
    visit_state(*own, static_cast<typename K::Options&>(*options[saved.group]), visitor);
    states.emplace_back(saved.param, own);
  }
  if (matched != tree.entries(state).size())
    mismatch(in_quotes(tree.path(state)) + " has state of parameters that no group lists");
  plan.apply([&optimizer, options, states] {
    for (size_t g = 0; g < options.size(); g++)
      static_cast<typename K::Options&>(optimizer.param_groups()[g].options()) =
          static_cast<const typename K::Options&>(*options[g]);
    auto& all = optimizer.state();
    all.clear();
    using Key = typename std::decay_t<decltype(all)>::key_type;
    for (const auto& [param, own] : states)
      all[state_key<Key>(param)] = std::make_unique<typename K::State>(std::move(*own));
  });
}

}  // namespace

void plan_optimizer(LoadPlan& plan, uint64_t node, torch::optim::Optimizer& optimizer, const OptimizerHooks& hooks,
                    const std::string& saved_class) {
  const std::string where = plan.tree().path(node);
  std::string own_class = optimizer_class(optimizer, hooks, where);
  if (!saved_class.empty() && saved_class != own_class)
    mismatch(in_quotes(where) + " was saved from " + saved_class + ", the optimizer is " + own_class);
  if (const OptimizerHook* hook = hook_of(optimizer, hooks)) {
    auto value = plan.value(node);
    auto state = std::make_shared<c10::IValue>();
    plan.make([value, state] { *state = value(); });
    plan.apply([hook, &optimizer, state] { hook->load_state_dict(optimizer, *state); });
    return;
  }
  with_kind(optimizer, [&](auto kind) { plan_known(plan, node, optimizer, kind); });
}

}  // namespace internal
}  // namespace ckpt_torch
