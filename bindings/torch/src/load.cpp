#include "checkpointer.h"
#include "optim.h"
#include "state.h"

namespace ckpt_torch {

using namespace internal;

namespace {

void check_version(const ckpt::Reader& reader) {
  const auto version = reader.attr("torch.adapter");
  if (version && std::strtoll(version->c_str(), nullptr, 10) > kAdapterVersion)
    fail(CKPT_REVISION, "the checkpoint was written by version " + *version +
                            " of the LibTorch adapter, this is version " + std::to_string(kAdapterVersion));
}

// The node at a key of the root, or at a path "model/state_dict".
std::optional<Node> node_at(const Node& root, const std::string& path) {
  if (path.empty()) return root;
  auto node = find(root, path);
  size_t slash = path.find('/'), start = 0;
  if (node || slash == std::string::npos) return node;
  node = root;
  while (node && start <= path.size()) {
    node = find(*node, path.substr(start, slash - start));
    if (slash == std::string::npos) break;
    start = slash + 1;
    slash = path.find('/', start);
  }
  return node;
}

// The nodes of `count` models or optimizers.
std::vector<Node> nodes_of(const Node& root, const std::string& key, const char* option, size_t count) {
  const auto node = node_at(root, key);
  if (!node) {
    std::vector<std::string> keys;
    for (const Node& child : dict_at(root)) keys.push_back(child.name());
    fail(CKPT_NOT_FOUND, "the checkpoint has no " + in_quotes(key) + "; at its top are " + listed(keys, 20) +
                             " (LoadOptions::" + option + " names another one)");
  }
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

// One load of one rank.
class Loading {
 public:
  Loading(const ckpt::Store& store, const std::string& id, const Settings& settings, const LoadOptions& options,
          uint32_t rank)
      : options_(options), rank_(rank) {
    const ckpt::Options bag = options_of(settings, options.settings);
    check_settings(settings, options.settings);
    reader_ = ckpt::Reader::open(store, id, bag);
    check_version(reader_);
    tree_ = reader_.tree();
    plan_ = std::make_unique<LoadPlan>(reader_, options_, bag);
  }

  void plan(const Models& models, const Optimizers& optimizers) {
    check_given({models, optimizers, {}});
    plan_models(models);
    plan_optimizers(optimizers);
    const Node root = tree_.root();
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
    result_.rng_restored = plan_rng(*plan_, reader_, rank_, options_.rng);
    plan_->prepare();
  }

  // To be called in this order on all ranks. Before read_in_place() nothing outside changes.
  void read_beside() {
    plan_->read_beside();
    set_others(others_());
    result_.ignored = plan_->ignored();
    describe();
  }
  void read_in_place() { plan_->read_in_place(); }
  Loaded finish() {
    plan_->finish();
    return std::move(result_);
  }

  // The error of this or another rank, with the tensors of this rank's modules that are now undefined.
  Error with_undefined(const Error& error) const {
    auto names = plan_->touched();
    if (names.empty()) return error;
    auto details = error.details();
    for (const std::string& name : names) details["undefined"] += name + "\n";
    return Error(error.status(),
                 std::string(error.what()) + "; these tensors of the module are undefined now: " + listed(names),
                 details);
  }

 private:
  void describe() {
    const ckpt::CheckpointInfo info = reader_.info();
    result_.step = info.step;
    result_.id = info.id;
    result_.label = info.label;
    result_.world_size = info.world_size;
  }

  static bool without_root(const std::vector<Node>& nodes) {
    for (const Node& node : nodes)
      if (node.number() == 0) return false;
    return true;
  }

  void plan_models(const Models& models) {
    const auto& modules = models.modules();
    if (modules.empty()) return;
    auto nodes = nodes_of(tree_.root(), options_.model_key, "model_key", modules.size());
    for (size_t i = 0; i < nodes.size(); i++)
      plan_module(*plan_, nodes[i], *modules[i], nodes.size() > 1 ? std::to_string(i) + "/" : "", result_);
    if (options_.strict) check_strict(result_);
  }

  void plan_optimizers(const Optimizers& optimizers) {
    const auto& all = optimizers.optimizers();
    if (all.empty()) return;
    auto nodes = nodes_of(tree_.root(), options_.optimizer_key, "optimizer_key", all.size());
    for (size_t i = 0; i < nodes.size(); i++) {
      const auto saved = reader_.attr("torch.optimizer." + std::to_string(i));
      plan_optimizer(*plan_, nodes[i], *all[i], options_.hooks, saved.value_or(""));
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
  ckpt::Reader reader_{nullptr};
  ckpt::Tree tree_{nullptr};
  std::unique_ptr<LoadPlan> plan_;
  std::function<c10::IValue()> others_;
  Loaded result_;
};

}  // namespace

// Rank 0 resolves it for the group, so that all ranks load the same even if a save commits meanwhile.
std::string Checkpointer::Impl::resolve(const LoadOptions& options) {
  std::string id;
  auto error = caught([&] {
    auto bag = options_of(settings, options.settings);
    if (ranks.group && ranks.rank != 0) return;
    const auto reader = ckpt::Reader::open(store, options.selector, bag);
    for (const ckpt::Finding& finding : reader.report()) TORCH_WARN("ckpt: ", finding.text);
    id = reader.info().id;
  });
  return agree(group(), error, id)[0];
}

Loaded Checkpointer::Impl::load_from(const std::string& id, const Models& models, const Optimizers& optimizers,
                                     const LoadOptions& options) {
  std::unique_ptr<Loading> loading;
  agree(group(), caught([&] {
          loading = std::make_unique<Loading>(store, id, settings, options, ranks.rank);
          loading->plan(models, optimizers);
        }));
  agree(group(), caught([&] { loading->read_beside(); }));
  Loaded loaded;
  try {
    agree(group(), caught([&] { loading->read_in_place(); }));
  } catch (const Error& error) {
    throw loading->with_undefined(error);
  }
  agree(group(), caught([&] { loaded = loading->finish(); }));
  return loaded;
}

Loaded Checkpointer::Impl::load(const Models& models, const Optimizers& optimizers, const LoadOptions& options) {
  return load_from(resolve(options), models, optimizers, options);
}

std::optional<Loaded> Checkpointer::Impl::load_if_any(const Models& models, const Optimizers& optimizers,
                                                      const LoadOptions& options) {
  std::string id;
  try {
    id = resolve(options);
  } catch (const Error& error) {
    if (error.status() == CKPT_NOT_FOUND) return std::nullopt;
    throw;
  }
  return load_from(id, models, optimizers, options);
}

}  // namespace ckpt_torch
