#include <deque>
#include <sstream>

#include "optim.h"
#include "session.h"
#include "state.h"

namespace ckpt_torch {

namespace internal {
namespace {

[[noreturn]] void not_found(const Node& root, const std::string& key, const std::string& hint) {
  std::vector<std::string> keys;
  for (const Node& child : dict_at(root)) keys.push_back(child.name());
  fail(CKPT_NOT_FOUND, "the checkpoint has no " + in_quotes(key) + "; at its top are " + listed(keys, 20) + hint);
}

// The nodes of `count` models or optimizers.
std::vector<Node> nodes_of(const Node& root, const std::optional<Node>& node, const std::string& key,
                           const char* option, size_t count) {
  if (!node) not_found(root, key, std::string(" (LoadOptions::") + option + " names another one)");
  if (!is_list(*node)) {
    if (count > 1)
      fail(CKPT_MISMATCH, in_quotes(key) + ": " + std::to_string(count) + " were given, the checkpoint has one");
    return {*node};
  }
  auto nodes = children(*node);
  if (nodes.size() != count)
    fail(CKPT_MISMATCH, in_quotes(key) + ": " + std::to_string(count) + (count == 1 ? " was" : " were") +
                            " given, the checkpoint has " + std::to_string(nodes.size()));
  return nodes;
}

void check_strict(const Loaded& loaded) {
  if (loaded.missing.empty() && loaded.unexpected.empty()) return;
  std::string text = "the module and the checkpoint have other keys";
  std::map<std::string, std::string> details;
  auto add = [&](const char* what, const std::vector<std::string>& names) {
    if (names.empty()) return;
    text += std::string("; ") + what + ": " + listed(names);
    for (const std::string& name : names) details[what] += name + "\n";
  };
  add("missing in the checkpoint", loaded.missing);
  add("unknown to the module", loaded.unexpected);
  fail(CKPT_MISMATCH, text, details);
}

// One load here is two loads of the engine, which each ask for only some of the names; so 'exact' would always fail.
void check_settings(const Settings& settings, const Settings& over) {
  auto found = over.find("strict");
  if (found == over.end() && (found = settings.find("strict")) == settings.end()) return;
  if (found->second.text() == "exact")
    fail(CKPT_INVALID, "setting 'strict': 'exact' is not for modules, whose keys LoadOptions::strict compares");
}

}  // namespace

// One load of one rank.
class Loading {
 public:
  Loading(const Session::Impl::From& from, const Settings& settings, const Ranks& ranks)
      : options_(from.options), rank_(ranks.rank) {
    const ckpt::Options bag = options_of(settings, options_.settings);
    check_settings(settings, options_.settings);
    if (from.store)
      content_.emplace(*from.store, from.id, rank_, bag);
    else
      content_.emplace(from.id, bag);
    plan_ = std::make_unique<LoadPlan>(*content_, options_, bag, ranks.world_size);
  }

  void plan(const Models& models, const Optimizers& optimizers) {
    check_given({models, optimizers, {}, {}});
    const Node root = content_->root();
    plan_models(models, node_at(root, options_.model_key), options_.model_key, "");
    name_parameters(models, node_at(root, options_.model_key), options_.model_key);
    plan_optimizers(optimizers, node_at(root, options_.optimizer_key));
    std::vector<Node> without;
    auto leave_out = [&](const std::string& key, bool given) {
      const auto node = node_at(root, key);
      if (node && (given || !options_.all_values)) without.push_back(*node);
    };
    if (!models.modules().empty() || !options_.model_key.empty())
      leave_out(options_.model_key, !models.modules().empty());
    if (!optimizers.optimizers().empty() || !options_.optimizer_key.empty())
      leave_out(options_.optimizer_key, !optimizers.optimizers().empty());
    others_ = without_root(without) ? plan_->value(root, without) : [] { return c10::IValue(); };
    plan_rest();
  }

  // The parts that the state has.
  void plan(State& state, const Choice& choice) {
    check_given(state);
    choice_ = &choice;
    std::map<std::string, Node> parts;
    for (const Node& child : dict_at(content_->root())) parts.emplace(choice.name("", child.name()), child);
    auto part = [&](const std::string& key) -> std::optional<Node> {
      const auto found = parts.find(key);
      const auto place = choice.place(key);
      auto node = found == parts.end() ? std::nullopt : std::optional<Node>(found->second);
      if (place) node = node_at(content_->root(), *place);
      if (!node && !options_.strict) result_.missing.push_back(key);
      if (!node && options_.strict) not_found(content_->root(), place.value_or(key), "");
      return node;
    };
    const auto model = parts.find("model");
    const std::string place = choice.place("model").value_or(model == parts.end() ? "model" : model->second.name());
    if (!state.models.modules().empty() && choice.wants_below("model"))
      if (const auto node = part("model")) plan_models(state.models, node, place, "model/");
    for (size_t i = 0, count = state.optimizers.optimizers().size(); i < count && count > 1; i++)
      choice.check_whole("optimizer/" + std::to_string(i));
    if (state.optimizers.optimizers().size() == 1) choice.check_whole("optimizer");
    name_parameters(state.models, node_at(content_->root(), place), place);
    if (!state.optimizers.optimizers().empty() && choice.wants_below("optimizer"))
      if (const auto node = part("optimizer")) plan_optimizers(state.optimizers, node);
    for (Others* others : {&state.others, &state.per_rank})
      for (const auto& [key, value] : others->items()) {
        choice.check_whole(key);
        if (!choice.wants(key)) continue;
        if (const auto node = part(key)) values_.push_back({others, key, plan_->value(*node), {}});
      }
    plan_rest();
  }

  // To be called in this order on all ranks. Before read_in_place() nothing outside changes.
  void read_beside() {
    plan_->read_beside();
    if (others_) set_others(others_());
    for (Value& value : values_) value.loaded = value.load();
    result_.ignored = plan_->ignored();
    content_->describe(result_);
  }
  void read_in_place() { plan_->read_in_place(); }
  Loaded finish() {
    plan_->finish();
    for (Value& value : values_) value.others->set(value.key, std::move(value.loaded));
    return std::move(result_);
  }

  // The tensors of this rank's modules that are undefined after a failure.
  std::vector<std::string> touched() const { return plan_->touched(); }

 private:
  void plan_rest() {
    result_.rng_restored = plan_rng(*plan_, *content_, rank_, options_.rng);
    plan_->prepare();
  }

  static bool without_root(const std::vector<Node>& nodes) {
    for (const Node& node : nodes)
      if (node.number() == 0) return false;
    return true;
  }

  // `saved_path`: of the node in the checkpoint; `prefix`: of names in the result and in messages.
  void plan_models(const Models& models, const std::optional<Node>& node, const std::string& saved_path,
                   const std::string& prefix) {
    const auto& modules = models.modules();
    if (modules.empty()) return;
    auto nodes = nodes_of(content_->root(), node, options_.model_key, "model_key", modules.size());
    for (size_t i = 0; i < nodes.size(); i++) {
      const std::string place = nodes.size() > 1 ? std::to_string(i) : "";
      const std::string saved = saved_path + (place.empty() || saved_path.empty() ? "" : "/") + place;
      plan_module(*plan_, nodes[i], *modules[i], {*choice_, saved, place.empty() ? prefix : prefix + place + "/"},
                  result_);
    }
    if (options_.strict) check_strict(result_);
  }

  // What optimizers in the checkpoint may call the parameters of these models, which it has at `saved_path`.
  void name_parameters(const Models& models, const std::optional<Node>& node, const std::string& saved_path) {
    const auto& modules = models.modules();
    const auto nodes = !node ? std::vector<Node>() : is_list(*node) ? children(*node) : std::vector<Node>{*node};
    for (size_t i = 0; i < modules.size(); i++) {
      const std::string at = modules.size() > 1 ? "/" + std::to_string(i) : "", path = saved_path + at;
      std::map<std::string, std::string> called;
      if (i < nodes.size())
        for (const Node& child : dict_at(nodes[i])) called.emplace(choice_->name(path, child.name()), child.name());
      ParameterName name;
      std::istringstream words(path);
      for (std::string word; std::getline(words, word, '/');)
        if (!word.empty()) name.place.push_back(word);
      for (const auto& named : modules[i]->named_parameters()) {
        const auto saved = called.find(named.key());
        name.name = saved == called.end() ? named.key() : saved->second;
        name.name = choice_->called("model" + at + "/" + named.key()).value_or(name.name);
        names_.emplace(named.value().unsafeGetTensorImpl(), name);
      }
    }
  }

  void plan_optimizers(const Optimizers& optimizers, const std::optional<Node>& node) {
    const auto& all = optimizers.optimizers();
    if (all.empty()) return;
    auto nodes = nodes_of(content_->root(), node, options_.optimizer_key, "optimizer_key", all.size());
    for (size_t i = 0; i < nodes.size(); i++) {
      if (!choice_->wants(nodes.size() > 1 ? "optimizer/" + std::to_string(i) : "optimizer")) continue;
      const auto saved = content_->attr("torch.optimizer." + std::to_string(i));
      plan_optimizer(*plan_, nodes[i], *all[i], options_.hooks, saved.value_or(""), names_,
                     choice_->skip_shapes() ? &result_.other_shape : nullptr);
    }
  }

  void set_others(const c10::IValue& values) {
    if (values.isNone()) return;
    if (!values.isGenericDict()) return result_.others.set("", values);
    for (const auto& entry : values.toGenericDict())
      result_.others.set(entry.key().isString() ? entry.key().toStringRef() : std::to_string(entry.key().toInt()),
                         entry.value());
  }

  const LoadOptions& options_;
  uint32_t rank_;
  std::optional<Content> content_;
  std::unique_ptr<LoadPlan> plan_;
  ParameterNames names_;
  std::function<c10::IValue()> others_;
  struct Value {
    Others* others;
    std::string key;
    std::function<c10::IValue()> load;
    c10::IValue loaded;
  };
  std::vector<Value> values_;
  const Choice everything_;
  const Choice* choice_ = &everything_;
  Loaded result_;
};

}  // namespace internal

using namespace internal;

std::string Session::Impl::find(const std::string& selector, const Settings& over) const {
  const ckpt::Options bag = options_of(settings, over);
  if (selector == "best" || selector.rfind("best:", 0) == 0) {
    const auto run = over.count("run") ? over.find("run") : settings.find("run");
    const bool given = over.count("run") || run != settings.end();
    const Settings policy{{"run", given ? run->second.text() : "main"}};
    return ckpt::Keeper::create(store, options_of(policy)).find(selector).value();
  }
  const auto reader = ckpt::Reader::open(store, selector, bag);
  for (const ckpt::Finding& finding : reader.report()) TORCH_WARN("ckpt: ", finding.text);
  return reader.info().id;
}

// Rank 0 resolves it for the group, so that all ranks load the same even if a save commits meanwhile.
std::string Session::Impl::resolve(const LoadOptions& options) {
  std::string id;
  wait_at_most(options.settings);
  auto error = caught([&] {
    if (ranks.group && ranks.rank != 0)
      options_of(settings, options.settings);  // it must be right everywhere
    else
      id = find(options.selector, options.settings);
  });
  return agree(group(), error, id)[0];
}

// The error of this or another rank, with the tensors of this rank's modules that are now undefined.
static Error with_undefined(const Error& error, const std::deque<Loading>& loadings) {
  std::vector<std::string> names;
  for (const Loading& loading : loadings)
    for (std::string& name : loading.touched()) names.push_back(std::move(name));
  if (names.empty()) return error;
  auto details = error.details();
  for (const std::string& name : names) details["undefined"] += name + "\n";
  return Error(error.status(), error.what() + (kUndefinedNow + listed(names)), details);
}

std::vector<Loaded> Session::Impl::load_from(const std::vector<From>& all) {
  wait_at_most({}, std::chrono::minutes(30));  // for one that still reads
  std::deque<Loading> loadings;
  std::vector<Loaded> loaded;
  auto each = [&](const std::function<void(Loading&)>& step) {
    agree(group(), caught([&] {
            for (size_t i = 0; i < all.size(); i++) named(all[i].told, [&] { step(loadings[i]); });
          }));
  };
  agree(group(), caught([&] {
          for (const From& from : all)
            named(from.told, [&] { from.plan(loadings.emplace_back(from, settings, ranks)); });
        }));
  each([](Loading& loading) { loading.read_beside(); });
  try {
    each([](Loading& loading) { loading.read_in_place(); });
  } catch (const Error& error) {
    throw with_undefined(error, loadings);
  }
  each([&](Loading& loading) { loaded.push_back(loading.finish()); });
  return loaded;
}

Session::Impl::Planning Session::Impl::planning(State& state, const Choice& choice) {
  return [&state, choice](Loading& loading) { loading.plan(state, choice); };
}

Loaded Session::Impl::load(const std::string& id, const Models& models, const Optimizers& optimizers,
                           const LoadOptions& options) {
  auto plan = [&](Loading& loading) { loading.plan(models, optimizers); };
  return std::move(load_from({{store ? &store : nullptr, id, options, plan}})[0]);
}

Loaded Session::Impl::load_state(const std::string& id, State& state, const LoadOptions& options,
                                 const Choice& choice) {
  return std::move(load_from({{&store, id, options, planning(state, choice)}})[0]);
}

std::optional<Loaded> Session::Impl::load_if_any(const Models& models, const Optimizers& optimizers,
                                                 const LoadOptions& options) {
  std::string id;
  try {
    id = resolve(options);
  } catch (const Error& error) {
    if (error.status() == CKPT_NOT_FOUND) return std::nullopt;
    throw;
  }
  return load(id, models, optimizers, options);
}

}  // namespace ckpt_torch
