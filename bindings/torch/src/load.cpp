#include "checkpointer.h"
#include "optim.h"
#include "state.h"

namespace ckpt_torch {

using namespace internal;

namespace {

void check_version(const ckpt_reader* reader) {
  const char* version = ckpt_reader_attr(reader, nullptr, "torch.adapter");
  if (version != nullptr && std::strtoll(version, nullptr, 10) > kAdapterVersion)
    fail(CKPT_REVISION, std::string("the checkpoint was written by version ") + version +
                            " of the LibTorch adapter, this is version " + std::to_string(kAdapterVersion));
}

// The node at a key of the root, or at a path "model/state_dict"; CKPT_NODE_END where there is none.
uint64_t node_at(const TreeView& tree, const std::string& path) {
  if (path.empty()) return 0;
  uint64_t node = tree.find(0, path);
  if (node != CKPT_NODE_END) return node;
  size_t slash = path.find('/'), start = 0;
  if (slash == std::string::npos) return CKPT_NODE_END;
  node = 0;
  while (node != CKPT_NODE_END && start <= path.size()) {
    node = tree.find(node, path.substr(start, slash - start));
    if (slash == std::string::npos) break;
    start = slash + 1;
    slash = path.find('/', start);
  }
  return node;
}

// The nodes of `count` models or optimizers.
std::vector<uint64_t> nodes_of(const TreeView& tree, const std::string& key, const char* option, size_t count) {
  uint64_t node = node_at(tree, key);
  if (node == CKPT_NODE_END) {
    std::vector<std::string> keys;
    for (uint64_t child : tree.entries(0)) keys.push_back(tree.key(child));
    fail(CKPT_NOT_FOUND, "the checkpoint has no " + in_quotes(key) + "; at its top are " + listed(keys, 20) +
                             " (LoadOptions::" + option + " names another one)");
  }
  if (!TreeView::is_list(tree[node])) {
    if (count > 1)
      fail(CKPT_MISMATCH, in_quotes(key) + ": " + std::to_string(count) + " were given, the checkpoint has one");
    return {node};
  }
  auto nodes = tree.children(node);
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

// A load is two of the engine's, and each asks for some of the names only.
void check_settings(const Settings& settings, const Settings& over) {
  auto found = over.find("strict");
  if (found == over.end() && (found = settings.find("strict")) == settings.end()) return;
  if (found->second.text() == "exact")
    fail(CKPT_INVALID, "setting 'strict': 'exact' is not for modules, whose keys LoadOptions::strict compares");
}

// One load of one rank.
class Loading {
 public:
  Loading(const ckpt_store* store, const std::string& id, const Settings& settings, const LoadOptions& options,
          uint32_t rank)
      : options_(options), rank_(rank), settings_(options_of(settings, options.settings)) {
    check_settings(settings, options.settings);
    reader_ = make<ReaderHandle>([&](ckpt_reader** out, ckpt_error** err) {
      return ckpt_reader_open(out, store, id.c_str(), settings_.get(), err);
    });
    check_version(reader_.get());
    tree_ = make<TreeHandle>(
        [&](ckpt_tree** out, ckpt_error** err) { return ckpt_reader_tree(reader_.get(), nullptr, out, err); });
    plan_ = std::make_unique<LoadPlan>(reader_.get(), tree_.get(), options_, settings_.get());
  }

  void plan(const Models& models, const Optimizers& optimizers) {
    check_given({models, optimizers, {}});
    plan_models(models);
    plan_optimizers(optimizers);
    const TreeView& tree = plan_->tree();
    std::vector<uint64_t> without;
    auto leave_out = [&](const std::string& key, bool given) {
      uint64_t node = node_at(tree, key);
      if (node != CKPT_NODE_END && (given || !options_.all_values)) without.push_back(node);
    };
    if (!models.modules().empty() || !options_.model_key.empty())
      leave_out(options_.model_key, !models.modules().empty());
    if (!optimizers.optimizers().empty() || !options_.optimizer_key.empty())
      leave_out(options_.optimizer_key, !optimizers.optimizers().empty());
    others_ = without_root(without) ? plan_->value(0, without) : [] { return c10::IValue(); };
    result_.rng_restored = plan_rng(*plan_, reader_.get(), rank_, options_.rng);
    plan_->prepare();
  }

  // In this order, on all ranks; until read_in_place() nothing outside has changed.
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

  // Another rank's error, or this one's, with what reading did to this rank's modules.
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
    ckpt_checkpoint_info info{};
    info.struct_size = sizeof info;
    check([&](ckpt_error** err) { return ckpt_reader_info(reader_.get(), &info, err); });
    result_.step = info.step;
    result_.id = info.id;
    result_.label = info.label;
    result_.world_size = info.world_size;
  }

  static bool without_root(const std::vector<uint64_t>& nodes) {
    for (uint64_t node : nodes)
      if (node == 0) return false;
    return true;
  }

  void plan_models(const Models& models) {
    const auto& modules = models.modules();
    if (modules.empty()) return;
    auto nodes = nodes_of(plan_->tree(), options_.model_key, "model_key", modules.size());
    for (size_t i = 0; i < nodes.size(); i++)
      plan_module(*plan_, nodes[i], *modules[i], nodes.size() > 1 ? std::to_string(i) + "/" : "", result_);
    if (options_.strict) check_strict(result_);
  }

  void plan_optimizers(const Optimizers& optimizers) {
    const auto& all = optimizers.optimizers();
    if (all.empty()) return;
    auto nodes = nodes_of(plan_->tree(), options_.optimizer_key, "optimizer_key", all.size());
    for (size_t i = 0; i < nodes.size(); i++) {
      const char* saved = ckpt_reader_attr(reader_.get(), nullptr, ("torch.optimizer." + std::to_string(i)).c_str());
      plan_optimizer(*plan_, nodes[i], *all[i], options_.hooks, saved ? saved : "");
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
  OptionsHandle settings_;
  ReaderHandle reader_;
  TreeHandle tree_;
  std::unique_ptr<LoadPlan> plan_;
  std::function<c10::IValue()> others_;
  Loaded result_;
};

}  // namespace

// Rank 0's answer is the group's, so that a save that ends meanwhile does not part the ranks.
std::string Checkpointer::Impl::resolve(const LoadOptions& options) {
  std::string id;
  auto error = caught([&] {
    auto bag = options_of(settings, options.settings);
    if (ranks.group && ranks.rank != 0) return;
    ckpt_checkpoint_info info{};
    info.struct_size = sizeof info;
    check([&](ckpt_error** err) {
      return ckpt_store_find(store.get(), options.selector.c_str(), bag.get(), &info, err);
    });
    id = info.id;
  });
  return agree(group(), error, id)[0];
}

Loaded Checkpointer::Impl::load_from(const std::string& id, const Models& models, const Optimizers& optimizers,
                                     const LoadOptions& options) {
  std::unique_ptr<Loading> loading;
  agree(group(), caught([&] {
          loading = std::make_unique<Loading>(store.get(), id, settings, options, ranks.rank);
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
