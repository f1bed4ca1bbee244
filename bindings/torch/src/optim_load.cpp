#include <c10/util/accumulate.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

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

  void real(const Node& node, std::function<void(double)> set) {
    if (node.kind == CKPT_NODE_FLOAT || node.kind == CKPT_NODE_INT) return set(node.as_float());
    auto tensor = one_element(node);
    plan_.make([tensor, set] { set(tensor().item().toDouble()); });
  }

  void count(const Node& node, std::function<void(int64_t)> set) {
    const std::string path = path_of(node);
    auto whole = [path](double value) {
      if (!(value >= 0 && value < 9e15 && value == std::floor(value)))
        mismatch(in_quotes(path) + ": expected a count, found " + std::to_string(value));
      return static_cast<int64_t>(value);
    };
    if (node.kind == CKPT_NODE_INT) return set(node.int_value);
    if (node.kind == CKPT_NODE_FLOAT) return set(whole(node.float_value));
    auto tensor = one_element(node);
    plan_.make([tensor, set, whole] {
      at::Tensor value = tensor();
      set(at::isIntegralType(value.scalar_type(), false) ? value.item().toLong() : whole(value.item().toDouble()));
    });
  }

 private:
  std::function<at::Tensor()> one_element(const Node& node) {
    auto refuse = [&](const std::string& found) {
      mismatch(in_quotes(path_of(node)) + ": expected a number, found " + found);
    };
    if (!tensor_at(node)) refuse(kind_name(node));
    auto shape = plan_.shape_of(node);
    if (c10::multiply_integers(shape) != 1) refuse("a tensor of shape " + shape_text(shape));
    return plan_.fresh(node);
  }

  LoadPlan& plan_;
};

// Reads the fields of one dict of the tree, for a class of optimizers.
class Dict {
 public:
  Dict(LoadPlan& plan, const Node& node, const char* class_name) : plan_(plan), node_(node), class_(class_name) {
    if (!has_entries(node)) mismatch(in_quotes(path_of(node)) + ": expected a dict, found " + kind_name(node));
  }
  Node get(const char* name) const {
    const auto child = find(name);
    if (!child)
      mismatch(in_quotes(path_of(node_)) + " has no " + in_quotes(name) +
               ": it was not saved from an optimizer of class " + class_);
    return *child;
  }
  std::optional<Node> find(const char* name) const { return internal::find(node_, name); }
  [[noreturn]] void expected(const Node& node, const char* what) const {
    mismatch(in_quotes(path_of(node)) + ": expected " + what + ", found " + kind_name(node));
  }

 protected:
  LoadPlan& plan_;
  Node node_;
  const char* class_;
};

class LoadOptionsOf : public OptionVisitor, private Dict {
 public:
  LoadOptionsOf(LoadPlan& plan, const Node& node, const char* class_name) : Dict(plan, node, class_name) {}
  void real(const char* name, double& value) override {
    Numbers(plan_).real(get(name), [&value](double v) { value = v; });
  }
  void pair(const char* name, std::tuple<double, double>& value) override {
    const Node node = get(name);
    if (!is_list(node) || node.child_count != 2) expected(node, "two numbers");
    Numbers(plan_).real(node[0], [&value](double v) { std::get<0>(value) = v; });
    Numbers(plan_).real(node[1], [&value](double v) { std::get<1>(value) = v; });
  }
  void flag(const char* name, bool& value) override {
    const Node node = get(name);
    if (node.kind != CKPT_NODE_BOOL) expected(node, "a bool");
    value = node.bool_value != 0;
  }
  void integer(const char* name, int64_t& value) override {
    const Node node = get(name);
    if (node.kind != CKPT_NODE_INT) expected(node, "an integer");
    value = node.int_value;
  }
  void integer_or_none(const char* name, std::optional<int64_t>& value) override {
    value.reset();
    if (get(name).kind == CKPT_NODE_NULL) return;
    integer(name, value.emplace());
  }
  void text_or_none(const char* name, std::optional<std::string>& value) override {
    const Node node = get(name);
    value.reset();
    if (node.kind == CKPT_NODE_NULL) return;
    if (node.kind != CKPT_NODE_TEXT) expected(node, "text or None");
    value = text_of(node);
  }
};

class LoadStateOf : public StateVisitor, private Dict {
 public:
  // `skip`: what belongs to a parameter of another shape is no error.
  LoadStateOf(LoadPlan& plan, const Node& node, const char* class_name, const at::Tensor& param, int64_t flat_size,
              bool skip)
      : Dict(plan, node, class_name), param_(param), flat_size_(flat_size), skip_(skip) {}

  // What was skipped, with both shapes; "" if all fits.
  const std::string& other_shape() const { return other_shape_; }

  void count(const char* name, int64_t& value) override {
    Numbers(plan_).count(get(name), [&value](int64_t v) { value = v; });
  }
  void real(const char* name, double& value) override {
    Numbers(plan_).real(get(name), [&value](double v) { value = v; });
  }
  void tensor(const char* name, at::Tensor& value, Extent extent, bool required) override {
    value = at::Tensor();
    const auto node = required ? std::optional<Node>(get(name)) : find(name);
    if (node && (node->kind != CKPT_NODE_NULL || required)) ask(*node, value, extent);
  }
  void tensors(const char* name, const TensorList& list, Extent extent) override {
    const auto node = find(name);
    const bool absent = !node || node->kind == CKPT_NODE_NULL;
    if (!absent && !is_list(*node)) expected(*node, "a list of tensors");
    const auto nodes = absent ? std::vector<Node>() : children(*node);
    list.resize(nodes.size());
    for (size_t i = 0; i < nodes.size(); i++)
      if (nodes[i].kind != CKPT_NODE_NULL) ask(nodes[i], list.at(i), extent);
  }

 private:
  void ask(const Node& node, at::Tensor& value, Extent extent) {
    at::Tensor param = param_;
    if (extent == Extent::kScalar && !tensor_at(node))  // Python's LBFGS starts with a plain number
      return Numbers(plan_).real(node, [&value, param](double v) { value = at::full({}, v, param.options()); });
    if (!tensor_at(node)) expected(node, "a tensor");
    auto shape = plan_.shape_of(node);
    bool fits = true;
    if (extent == Extent::kParam) fits = at::IntArrayRef(shape) == param.sizes();
    if (extent == Extent::kFlat) fits = shape == std::vector<int64_t>{flat_size_};
    if (extent == Extent::kScalar) fits = c10::multiply_integers(shape) == 1;
    if (!fits && !skip_)
      mismatch(in_quotes(path_of(node)) + " has shape " + shape_text(shape) + ", the parameter " +
               shape_text(param.sizes()) + ": it belongs to another model");
    if (!fits)
      other_shape_ = path_of(node_) + ": " + shape_text(param.sizes()) + " is the shape of the parameter, " +
                     shape_text(shape) + " that of " + in_quotes(node.name()) + " in the checkpoint";
    if (!fits) return;
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
  bool skip_;
  std::string other_shape_;
};

// Options of Python's optimizers that LibTorch lacks. Those that change what a step does are refused.
void check_foreign_options(LoadPlan& plan, const Node& group, const std::string& class_name,
                           const std::vector<std::string>& known) {
  for (const Node& child : dict_at(group)) {
    const std::string key = child.name();
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    bool on = child.kind == CKPT_NODE_BOOL && child.bool_value != 0;
    if (key == "maximize" && on)
      fail(CKPT_UNSUPPORTED, in_quotes(path_of(child)) + " is set, and LibTorch's " + class_name + " cannot maximize");
    if (key == "decoupled_weight_decay" && on != (class_name == "AdamW"))
      mismatch(in_quotes(path_of(child)) + ": it was saved from " + (on ? "AdamW" : "Adam") + ", not " + class_name);
    bool idle = child.kind == CKPT_NODE_NULL || (child.kind == CKPT_NODE_BOOL && !on);
    if (!idle && key != "decoupled_weight_decay")
      plan.ignored().push_back(path_of(child) + ": LibTorch's " + class_name + " has no such option");
  }
}

class OptionNames : public OptionVisitor {
 public:
  std::vector<std::string> names{"params", "param_names"};
  void real(const char* name, double&) override { names.push_back(name); }
  void pair(const char* name, std::tuple<double, double>&) override { names.push_back(name); }
  void flag(const char* name, bool&) override { names.push_back(name); }
  void integer(const char* name, int64_t&) override { names.push_back(name); }
  void integer_or_none(const char* name, std::optional<int64_t>&) override { names.push_back(name); }
  void text_or_none(const char* name, std::optional<std::string>&) override { names.push_back(name); }
};

// A parameter of the optimizer, with its index or name in the checkpoint.
struct Saved {
  at::Tensor param;
  Node key;
  size_t group;
};

// A parameter as the checkpoint lists it. `name`: its key, or what Python's "param_names" says; "" if neither does.
struct Listed {
  Node key;
  std::string name;
  size_t group;
};

std::vector<Listed> list_params(const std::vector<Node>& groups) {
  std::vector<Listed> out;
  for (size_t g = 0; g < groups.size(); g++) {
    const auto keys = find(groups[g], "params"), names = find(groups[g], "param_names");
    if (!keys || !is_list(*keys)) mismatch(in_quotes(path_of(groups[g])) + " has no list 'params'");
    const std::vector<Node> all = children(*keys);
    std::vector<Node> told = names && is_list(*names) ? children(*names) : all;
    if (told.size() != all.size()) told = all;
    for (size_t i = 0; i < all.size(); i++) {
      if (all[i].kind != CKPT_NODE_TEXT && all[i].kind != CKPT_NODE_INT)
        mismatch(in_quotes(path_of(all[i])) + ": expected an integer or a name, found " + kind_name(all[i]));
      const Node& name = all[i].kind == CKPT_NODE_TEXT ? all[i] : told[i];
      out.push_back({all[i], name.kind == CKPT_NODE_TEXT ? text_of(name) : "", g});
    }
  }
  return out;
}

// Finds the parameters of an optimizer among those listed, by what their modules call them: all by their bare names, or
// all by names that begin with the last words of their modules' places, as Python's do that are of several modules.
class Finder {
 public:
  Finder(const std::vector<at::Tensor>& params, const ParameterNames& names, const std::vector<Listed>& all)
      : params_(params), names_(names), listed_(all) {
    for (size_t i = 0; i < all.size(); i++) places_.emplace(all[i].name, i);
    size_t deepest = 0;
    for (const auto& one : names) deepest = std::max(deepest, one.second.place.size());
    for (size_t words = 0; words <= deepest; words++) {
      Found found = with(words);
      if (words == 0 || found.sure > found_.sure) found_ = std::move(found);
    }
  }

  // How many were found, each by a name of its own.
  size_t count() const { return found_.sure; }

  // Their places in what is listed; MISMATCH unless there is one for each.
  std::vector<size_t> places(const Node& groups) const {
    std::vector<size_t> out;
    for (size_t i = 0; i < params_.size(); i++) {
      if (!found_.is_sure(i)) mismatch(in_quotes(path_of(groups)) + ": " + refusal(i));
      out.push_back(*found_.fits[i].begin());
    }
    return out;
  }

 private:
  struct Found {
    std::vector<std::set<size_t>> fits;  // of each parameter the places of those that are called so
    std::map<size_t, size_t> uses;       // of a place the number of parameters
    size_t sure = 0;
    bool is_sure(size_t i) const { return fits[i].size() == 1 && uses.at(*fits[i].begin()) == 1; }
  };

  Found with(size_t words) const {
    Found out;
    for (const at::Tensor& param : params_) {
      auto& fits = out.fits.emplace_back();
      const auto [first, last] = names_.equal_range(param.unsafeGetTensorImpl());
      for (auto own = first; own != last; ++own) {
        const auto [begin, end] = places_.equal_range(own->second.whole(words));
        for (auto place = begin; place != end; ++place) fits.insert(place->second);
      }
      for (const size_t place : fits) out.uses[place]++;
    }
    for (size_t i = 0; i < out.fits.size(); i++) out.sure += out.is_sure(i);
    return out;
  }

  std::string refusal(size_t i) const {
    const auto [first, last] = names_.equal_range(params_[i].unsafeGetTensorImpl());
    if (first == last)
      return "the checkpoint has parameters by name, and the optimizer's parameter " + std::to_string(i) +
             " of shape " + shape_text(params_[i].sizes()) + " is of none of the given models: give those of all";
    const std::string own = "parameter " + in_quotes(first->second.whole(first->second.place.size()));
    std::vector<std::string> fits, left;
    for (const size_t place : found_.fits[i]) fits.push_back(listed_[place].name);
    for (size_t place = 0; place < listed_.size(); place++)
      if (found_.uses.count(place) == 0) left.push_back(listed_[place].name);
    if (fits.size() == 1)
      return own + " and another one would both be " + in_quotes(fits[0]) +
             " of the checkpoint, which has no names of several models: give each optimizer with its own";
    return own + (fits.empty() ? " is none of " + listed(left) : " could be any of " + listed(fits)) +
           " of the checkpoint: give the models as they were saved, or rename what they call otherwise";
  }

  const std::vector<at::Tensor>& params_;
  const ParameterNames& names_;
  const std::vector<Listed>& listed_;
  std::multimap<std::string, size_t> places_;
  Found found_;
};

[[noreturn]] void other_model(const Node& node, const std::string& own, size_t saved) {
  mismatch(in_quotes(path_of(node)) + ": the " + own + ", the checkpoint " + std::to_string(saved) +
           ": it was saved from an optimizer of another model");
}

std::string counted(size_t n, const char* what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); }

// An optimizer's groups beside those of the checkpoint.
struct Groups {
  Node node;
  std::vector<Node> saved;
  std::vector<Listed> listed;
  const std::vector<torch::optim::OptimizerParamGroup>& own;

  // Of each of the optimizer's parameters the place in what is listed: by name if it has names, as only Python's
  // "param_names" may be those of another program; else as they come.
  std::vector<size_t> places(const std::vector<at::Tensor>& params, const ParameterNames& names) const {
    auto by_name = [](const Listed& one) { return one.key.kind == CKPT_NODE_TEXT; };
    const bool keys = std::any_of(listed.begin(), listed.end(), by_name);
    if (keys && !std::all_of(listed.begin(), listed.end(), by_name))
      mismatch(in_quotes(path_of(node)) + " has parameters by name and others by number");
    if (std::none_of(listed.begin(), listed.end(), [](const Listed& one) { return one.name.empty(); })) {
      const Finder finder(params, names, listed);
      if (keys && params.size() != listed.size())
        other_model(node, "optimizer has " + counted(params.size(), "parameter"), listed.size());
      if (keys || (finder.count() > 0 && params.size() == listed.size())) return finder.places(node);
    }
    if (saved.size() != own.size())
      other_model(node, "optimizer has " + counted(own.size(), "parameter group"), saved.size());
    for (size_t g = 0; g < own.size(); g++) {
      const auto count = std::count_if(listed.begin(), listed.end(), [&](const Listed& one) { return one.group == g; });
      if (static_cast<size_t>(count) != own[g].params().size())
        other_model(saved[g], "group has " + counted(own[g].params().size(), "parameter"), static_cast<size_t>(count));
    }
    std::vector<size_t> out(params.size());
    std::iota(out.begin(), out.end(), size_t{0});
    return out;
  }

  // The saved group whose settings one of the optimizer's gets: that of its parameters.
  const Node& home(size_t group, const std::vector<size_t>& places, const std::vector<Saved>& params) const {
    std::set<size_t> homes;
    for (size_t i = 0; i < params.size(); i++)
      if (params[i].group == group) homes.insert(listed[places[i]].group);
    if (homes.size() > 1)
      mismatch(in_quotes(path_of(node)) + ": group " + std::to_string(group) + " of the optimizer has parameters of " +
               std::to_string(homes.size()) +
               " groups of the checkpoint, whose settings may differ: give it those groups");
    if (homes.empty() && group >= saved.size())
      other_model(node, "optimizer has " + counted(own.size(), "parameter group"), saved.size());
    return saved[homes.empty() ? group : *homes.begin()];
  }
};

// The saved groups in the order of the optimizer's, and its parameters. `whole`: it has one state for all of them, in
// their order.
std::vector<Node> check_groups(const Node& node, const torch::optim::Optimizer& optimizer, const ParameterNames& names,
                               bool whole, std::vector<Saved>& params) {
  const auto saved = find(node, "param_groups");
  if (!saved || !is_list(*saved))
    mismatch(in_quotes(path_of(node)) + " has no list 'param_groups': it is not the state of an optimizer");
  const Groups groups{*saved, children(*saved), list_params(children(*saved)), optimizer.param_groups()};
  std::vector<at::Tensor> all;
  for (const auto& group : groups.own) all.insert(all.end(), group.params().begin(), group.params().end());
  const std::vector<size_t> places = groups.places(all, names);
  if (whole && !std::is_sorted(places.begin(), places.end()))
    mismatch(in_quotes(path_of(*saved)) + ": the optimizer has its parameters in another order than the checkpoint, " +
             "whose state is one vector of all of them: give it the same order");
  for (size_t g = 0; g < groups.own.size(); g++)
    for (const at::Tensor& param : groups.own[g].params()) {
      const Node& key = groups.listed[places[params.size()]].key;
      if (param.is_meta())
        fail(CKPT_INVALID, in_quotes(path_of(key)) + ": the optimizer's parameter is a meta tensor: it has no " +
                               "memory to be loaded into");
      params.push_back({param, key, g});
    }
  std::vector<Node> out;
  for (size_t g = 0; g < groups.own.size(); g++) out.push_back(groups.home(g, places, params));
  return out;
}

// Python's SGD without momentum keeps {"momentum_buffer": None}, which LibTorch would take for a buffer.
bool is_empty_momentum(const Node& entry) {
  const auto buffer = find(entry, "momentum_buffer");
  return buffer && buffer->kind == CKPT_NODE_NULL && dict_at(entry).child_count == 1;
}

template <class K>
void plan_known(LoadPlan& plan, const Node& node, torch::optim::Optimizer& optimizer, const ParameterNames& parameters,
                std::vector<std::string>* other_shape, K kind) {
  std::vector<Saved> params;
  constexpr bool whole = std::is_same_v<typename K::Optimizer, torch::optim::LBFGS>;
  auto groups = check_groups(node, optimizer, parameters, whole, params);
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
  const auto state = find(node, "state");
  if (!state) mismatch(in_quotes(path_of(node)) + " has no 'state'");
  int64_t flat_size = 0;
  for (const Saved& saved : params) flat_size += saved.param.numel();
  std::vector<std::pair<at::Tensor, std::shared_ptr<typename K::State>>> states, skipped;
  size_t matched = 0;
  for (const Saved& saved : params) {
    const bool named = saved.key.kind == CKPT_NODE_TEXT;
    const auto entry = named ? find(*state, text_of(saved.key)) : find(*state, saved.key.int_value);
    if (!entry) continue;  // it never had a gradient
    matched++;
    if (is_empty_momentum(*entry)) continue;
    auto own = std::make_shared<typename K::State>();
    LoadStateOf visitor(plan, *entry, kind.name, saved.param, flat_size, other_shape != nullptr);
    visit_state(*own, static_cast<typename K::Options&>(*options[saved.group]), visitor);
    if (!visitor.other_shape().empty()) other_shape->push_back(visitor.other_shape());
    (visitor.other_shape().empty() ? states : skipped).emplace_back(saved.param, own);
  }
  if (matched != dict_at(*state).child_count)
    mismatch(in_quotes(path_of(*state)) + " has state of parameters that no group lists");
  plan.apply([&optimizer, options, states, skipped] {
    for (size_t g = 0; g < options.size(); g++)
      static_cast<typename K::Options&>(optimizer.param_groups()[g].options()) =
          static_cast<const typename K::Options&>(*options[g]);
    auto& all = optimizer.state();
    auto before = std::exchange(all, {});
    using Key = typename std::decay_t<decltype(all)>::key_type;
    for (const auto& one : skipped)
      if (const auto found = before.find(state_key<Key>(one.first)); found != before.end())
        all[found->first] = std::move(found->second);
    for (const auto& [param, own] : states)
      all[state_key<Key>(param)] = std::make_unique<typename K::State>(std::move(*own));
  });
}

}  // namespace

void plan_optimizer(LoadPlan& plan, const Node& node, torch::optim::Optimizer& optimizer, const OptimizerHooks& hooks,
                    const std::string& saved_class, const ParameterNames& names,
                    std::vector<std::string>* other_shape) {
  const std::string where = path_of(node);
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
  with_kind(optimizer, [&](auto kind) { plan_known(plan, node, optimizer, names, other_shape, kind); });
}

}  // namespace internal
}  // namespace ckpt_torch
