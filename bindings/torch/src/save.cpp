#include <algorithm>

#include "nodes.h"
#include "optim.h"
#include "session.h"
#include "state.h"

namespace ckpt_torch {

using namespace internal;

// ---- the handle ----

std::optional<Error> SaveHandle::Impl::wait_local() {
  auto error = caught([&] { job.wait_committed(); });
  if (!error) tell_anew();
  return error;
}

// The engine tells rank 0 of a save that does not go on from what its run has. A warning fails no save.
void SaveHandle::Impl::tell_anew() {
  if (std::exchange(told, true)) return;
  (void)caught([&] {
    for (const ckpt::Finding& finding : save.report())
      if (finding.kind == CKPT_FINDING_ANEW)
        TORCH_WARN("ckpt: the save of ", in_quotes(id), ": ", finding.text,
                   std::string(finding.text).find(';') == std::string::npos
                       ? ""
                       : " (of a Checkpointer: restore(), or CheckpointerOptions::fresh)");
  });
}

void SaveHandle::Impl::wait() {
  if (!waited) {
    waited = true;
    auto own = wait_local();
    memory.clear();
    outcome = caught([&] { agree(group.get(), own); });
  }
  if (outcome) throw *outcome;
}

void SaveHandle::wait_staged() {
  guarded([&] {
    impl_->job.wait_staged();
    impl_->memory.clear();
  });
}
void SaveHandle::wait() {
  guarded([&] { impl_->wait(); });
}
bool SaveHandle::staged() const { return impl_->job.state() >= CKPT_JOB_STAGED; }
bool SaveHandle::done() const { return impl_->job.state() >= CKPT_JOB_COMMITTED; }
void SaveHandle::cancel() { impl_->job.cancel(); }
const std::string& SaveHandle::id() const { return impl_->id; }

// ---- what is saved ----

namespace {

constexpr const char* kReserved[] = {"model", "optimizer"};

// A single item is saved as itself, several as a list.
template <class Items, class SaveOne>
void one_or_list(Collector& out, const char* key, const Items& items, SaveOne&& save_one) {
  if (items.empty()) return;
  out.tree().key(key);
  if (items.size() > 1) out.tree().begin(CKPT_NODE_LIST);
  for (size_t i = 0; i < items.size(); i++)
    save_one(*items[i], items.size() > 1 ? std::string(key) + "/" + std::to_string(i) : std::string(key));
  if (items.size() > 1) out.tree().end();
}

void check_keys(const State& state) {
  for (const Others* others : {&state.others, &state.per_rank})
    for (const auto& [key, value] : others->items()) {
      for (const char* reserved : kReserved)
        if (key == reserved)
          fail(CKPT_INVALID, "others may not have the key " + in_quotes(key) + ": that is where the " + key + " is");
      if (others == &state.per_rank && state.others.contains(key))
        fail(CKPT_INVALID, in_quotes(key) + " is in others and in per_rank: a key is in one of them");
    }
  for (const auto& [name, table] : state.tables) {
    const std::string top = name.substr(0, name.find('/'));
    bool taken = state.others.contains(top) || state.per_rank.contains(top) ||
                 std::count(std::begin(kReserved), std::end(kReserved), top) != 0;
    for (size_t end = name.find('/'); end != name.npos; end = name.find('/', end + 1))
      taken = taken || state.tables.count(name.substr(0, end)) != 0;
    if (taken) fail(CKPT_INVALID, "sparse table " + in_quotes(name) + " has the name of another part of the state");
  }
}

// Tables whose names are paths lie in dicts, as those of Python do. Names that begin alike follow each other.
void collect_tables(Collector& out, const SparseTables& tables) {
  std::string inside;  // the dicts that are open, each with a slash after it
  for (const auto& named : tables) {
    const std::string& name = named.first;
    while (name.compare(0, inside.size(), inside) != 0) {
      out.tree().end();
      inside.pop_back();
      inside.erase(inside.find_last_of('/') + 1);
    }
    for (size_t end = name.find('/', inside.size()); end != name.npos; end = name.find('/', inside.size())) {
      out.tree().key(name.substr(inside.size(), end - inside.size()));
      out.tree().begin(CKPT_NODE_DICT);
      inside = name.substr(0, end + 1);
    }
    out.tree().key(name.substr(inside.size()));
    out.tree().begin_record(kTableClass);
    out.tree().key("data");
    out.tree().add_tensor(name);
    out.tree().end();
  }
  for (const char c : inside)
    if (c == '/') out.tree().end();
}

void collect_per_rank(Collector& out, const State& state) {
  for (const auto& [key, value] : state.per_rank.items()) {
    out.tree().key(key);
    out.tree().begin_per_rank(out.rank());
    out.value(value, Holder::kOwn, key);
    out.tree().end();
  }
}

}  // namespace

namespace internal {

void collect(Collector& out, const State& state, const OptimizerHooks& hooks) {
  check_given(state);
  check_keys(state);
  ParameterNames names;
  const auto& modules = state.models.modules();
  for (size_t i = 0; i < modules.size(); i++)
    for (const auto& named : modules[i]->named_parameters()) {
      ParameterName name{{"model"}, named.key()};
      if (modules.size() > 1) name.place.push_back(std::to_string(i));
      names.emplace(named.value().unsafeGetTensorImpl(), name);
    }
  out.tree().begin(CKPT_NODE_DICT);
  one_or_list(out, "model", modules,
              [&](const torch::nn::Module& module, const std::string&) { save_module(out, module); });
  one_or_list(out, "optimizer", state.optimizers.optimizers(),
              [&](const torch::optim::Optimizer& optimizer, const std::string& where) {
                save_optimizer(out, optimizer, hooks, where, names);
              });
  for (const auto& [key, value] : state.others.items()) {
    if (out.rank() != 0) break;
    out.tree().key(key);
    out.value(value, Holder::kRank0, key);
  }
  if (out.rank() == 0) collect_tables(out, state.tables);
  if (out.rank() == 0) collect_per_rank(out, state);
  out.tree().end();
}

void collect_own(Collector& out, const State& state) {
  out.tree().begin(CKPT_NODE_DICT);
  collect_per_rank(out, state);
  out.tree().end();
}

}  // namespace internal

namespace {

void set_attributes(ckpt::Save& save, const State& state, const SaveOptions& options) {
  for (const auto& [key, value] : options.attrs) save.set_attr(key, value);
  save.set_attr("torch.adapter", std::to_string(kAdapterVersion));
  const auto& optimizers = state.optimizers.optimizers();
  for (size_t i = 0; i < optimizers.size(); i++)
    save.set_attr("torch.optimizer." + std::to_string(i), optimizer_class(*optimizers[i], options.hooks, "optimizer"));
}

Settings only(const Settings& settings, const char* key) {
  auto found = settings.find(key);
  return found == settings.end() ? Settings() : Settings{*found};
}

}  // namespace

std::shared_ptr<SaveHandle::Impl> Session::Impl::prepare(const State& state, const SaveOptions& options,
                                                         const Begin& begin) {
  wait_pending();
  wait_at_most(options.settings);
  same_on_all(group(), {{"store", uri}, {"step", std::to_string(options.step)}, {"label", options.label}});
  open_session();
  auto handle = std::make_shared<SaveHandle::Impl>();
  handle->group = ranks.group;
  Settings over = options.settings;
  std::string label = options.label;
  if (label.empty() && options.step >= 0) label = "step-" + std::to_string(options.step);
  if (label.empty()) {
    label = "checkpoint";
    if (settings.count("on_existing") == 0) over.emplace("on_existing", "replace");
  }
  auto error = caught([&] {
    const ckpt::Options bag = options_of(settings, over);
    handle->save = begin ? begin(bag) : ckpt::Save::create(session, label, options.step, bag);
    handle->id = handle->save.id();
    Collector shared(ranks.rank), own(ranks.rank);
    collect(shared, state, options.hooks);
    shared.fill(handle->save, ranks.rank == 0);
    handle->memory = shared.memory();
    if (ranks.rank != 0 && !state.per_rank.items().empty()) {  // rank 0's is in its tree
      collect_own(own, state);
      own.fill(handle->save, true);
      for (const at::Tensor& tensor : own.memory()) handle->memory.push_back(tensor);
    }
    for (const auto& [name, table] : state.tables)
      for (const at::Tensor& tensor : add_table(handle->save, name, table)) handle->memory.push_back(tensor);
    set_attributes(handle->save, state, options);
    if (options.rng) save_rng(handle->save);
  });
  // To meet, the ranks count the saves of a label, so one that could not be made must count, too.
  if (error && ranks.world_size > 1 && !handle->save)
    (void)caught(
        [&] { handle->save = ckpt::Save::create(session, label, -1, options_of(only(settings, "timeout_ms"))); });
  if (error && handle->save) (void)caught([&] { handle->save.give_up(error->what()); });
  agree(group(), error);
  return handle;
}

// ---- the save ----

std::string Session::Impl::save(const State& state, const SaveOptions& options) {
  auto handle = prepare(state, options);
  auto error = caught([&] { handle->save.run(); });
  agree(group(), error);
  handle->tell_anew();
  return handle->id;
}

SaveHandle Session::Impl::save_async(const State& state, const SaveOptions& options, const Begin& begin) {
  auto handle = prepare(state, options, begin);
  // Not Save::start, which lets the engine's session tell of failures: the Session does.
  const auto start = options.in_place ? ckpt_save_start_in_place : ckpt_save_start;
  auto error = caught([&] { handle->job = ckpt::detail::make<ckpt::Job>(start, handle->save.get()); });
  agree(group(), error);
  pending = handle;
  // If it fails before it is staged, wait() throws that on all ranks.
  if (!options.in_place) wait_staged();
  return SaveHandle(handle);
}

void Session::Impl::wait_staged() {
  if (pending && !caught([&] { pending->job.wait_staged(); })) pending->memory.clear();
}

// An error that no wait() has thrown is not lost: the next save throws it.
void Session::Impl::wait_pending() {
  auto last = std::move(pending);
  pending.reset();
  if (!last || last->waited) return;
  try {
    last->wait();
  } catch (const Error& error) {
    throw Error(error.status(), "the save of " + in_quotes(last->id) + " in the background failed: " + error.what(),
                error.details());
  }
}

}  // namespace ckpt_torch
