#include <algorithm>

#include "loading.h"
#include "src/checkpointer.h"

namespace ckpt_torch {
namespace recis {

using namespace internal;

// ---- what is saved ----

static const std::set<std::string> kOwn{"model", "optimizer", "global_step", kSparseOptim};

void Parts::check(const std::string& name) const {
  if (extra.count(name) || io_states.count(name) || options.tables.count(name) || kOwn.count(name))
    fail(CKPT_INVALID, "the name " + in_quotes(name) + " is taken: parts of a checkpoint have one name each");
}

State Parts::state() const {
  State out{options.models, options.optimizers, {}};
  for (const auto& [name, part] : extra) out.others.set(name, part.dump());
  for (const auto& [name, part] : io_states) out.per_rank.set(name, part.dump());
  for (const auto& [name, table] : options.tables) out.tables[name] = table->export_rows();
  return out;
}

Names Parts::variables() const {
  Names out;
  const auto& modules = options.models.modules();
  for (size_t i = 0; i < modules.size(); i++) {
    const std::string prefix = modules.size() > 1 ? std::to_string(i) + "/" : "";
    for (const auto& one : modules[i]->named_parameters()) out[prefix + one.key()] = "dense";
    for (const auto& one : modules[i]->named_buffers()) out[prefix + one.key()] = "dense";
  }
  for (const auto& [name, table] : options.tables) {
    out[name + "@id"] = "sparse";
    for (const std::string& column : table->columns()) out[name + "@" + column] = class_of_column(column);
  }
  for (const auto& one : extra)
    out[one.first] = one.first == "train_epoch" ? "io_state" : one.first == kSparseOptim ? "sparse_opt" : "extra";
  for (const auto& one : io_states) out[one.first] = "io_state";
  if (!options.optimizers.optimizers().empty()) out["optimizer"] = "extra";
  return out;
}

// ---- the manager ----

struct CheckpointManager::Impl {
  Impl(const std::string& output_dir, ManagerOptions given, Ranks who)
      : parts{std::move(given), std::move(who)},
        bank(parts.options.model_bank),
        keeper(output_dir, keeper_options(), parts.ranks) {
    for (const auto& [name, table] : parts.options.tables) {
      if (kOwn.count(name)) fail(CKPT_INVALID, "the name " + in_quotes(name) + " of a table is taken");
      if (table == nullptr) fail(CKPT_INVALID, "table " + in_quotes(name) + ": expected a HashTable, found none");
    }
    parts.extra["global_step"] = {[this] { return c10::IValue(step); },
                                  [this](const c10::IValue& value) {
                                    step = value.isTensor() ? value.toTensor().item<int64_t>() : value.toInt();
                                  }};
  }

  CheckpointerOptions keeper_options() const {
    CheckpointerOptions out = parts.options.checkpointer;
    out.every = parts.options.save_interval;
    out.keep_last = parts.options.max_keep;
    if (out.label == CheckpointerOptions().label) out.label = "ckpt_{step}";
    return out;
  }

  Session::Impl& session() { return keeper.impl().session; }
  const Settings& settings() const { return parts.options.checkpointer.settings; }
  Group* group() const { return parts.ranks.group.get(); }

  // COLLECTIVE. Rank 0 finds the checkpoints of all entries, for all.
  std::vector<std::string> find_all() {
    std::vector<std::string> ids;
    auto error = caught([&] {
      if (group() != nullptr && parts.ranks.rank != 0) return;
      for (size_t place = 0; place < bank.size(); place++)
        named(told_of(bank[place], place), [&] {
          if (bank[place].path.empty()) fail(CKPT_INVALID, "path must be given");
          ids.push_back(bank[place].skip ? "" : find(located(bank[place]), settings()));
        });
    });
    return unpacked(agree(group(), error, packed(ids))[0]);
  }

  // COLLECTIVE. Loads what the bank has and is not claimed; of entries that `only` lets through.
  Names load_bank(const std::vector<std::string>& ids, const std::function<bool(size_t place)>& only) {
    std::deque<Opened> sources;
    auto error = caught([&] {
      std::vector<size_t> places;
      for (size_t place = 0; place < bank.size(); place++)
        if (!bank[place].skip) {
          const std::string told = told_of(bank[place], place);
          named(told,
                [&] { sources.emplace_back(located(bank[place]), told, ids[place], parts.ranks.rank, settings()); });
          places.push_back(place);
        }
      plan(sources, parts.variables(), claimed);
      std::set<size_t> again;
      for (size_t i = 0; i < places.size(); i++)
        if (only(places[i])) again.insert(i);
      leave(sources, again);
    });
    agree(group(), error);
    const Names out = load(parts, session(), sources, false);
    bank_ids = ids;
    return out;
  }

  Names load_bank() {
    const Names given = load_bank(find_all(), [](size_t) { return true; });
    std::vector<std::string> missing;
    for (const auto& one : parts.variables()) {
      const bool asked = std::any_of(bank.begin(), bank.end(), [&](const Source& source) {
        return !source.skip && wants(source, one.first, one.second);
      });
      if (asked && given.count(one.first) == 0 && claimed.count(one.first) == 0) missing.push_back(one.first);
    }
    if (!missing.empty())
      TORCH_WARN("ckpt: the model bank has nothing for ", listed(missing), ", which stay as they are");
    return given;
  }

  // COLLECTIVE. Of the run's own checkpoint.
  Loaded load_own(const Source& own, const std::string& id) {
    std::deque<Opened> sources;
    Loaded out;
    agree(group(), caught([&] {
            const Opened& from = sources.emplace_back(own, "the checkpoint", id, parts.ranks.rank, settings());
            plan(sources, parts.variables(), {});
            out.step = from.reader.info().step;
            out.id = id;
            out.attrs = from.reader.attrs();
          }));
    claimed.clear();
    for (const auto& one : load(parts, session(), sources, true)) claimed.insert(one.first);
    return out;
  }

  // The tables without rows, which a load that fails may leave so.
  std::set<std::string> empty_tables() const {
    std::set<std::string> out;
    agree(group(), caught([&] {
            for (const auto& [name, table] : parts.options.tables) {
              const at::Tensor ids = table->export_rows().ids;
              if (!ids.defined() || ids.numel() == 0) out.insert(name);
            }
          }));
    return out;
  }

  // The same, and a load that fails leaves tables without rows that had none, also where it has failed on another rank.
  Loaded load_own(const Source& own, const std::string& id, const std::set<std::string>& empty) {
    try {
      return load_own(own, id);
    } catch (const Error&) {
      for (const std::string& name : empty)
        if (parts.begun.erase(name + "@id") > 0) parts.options.tables.at(name)->clear();
      throw;
    }
  }

  // CORRUPT for what a checkpoint that was passed over has changed if it is still there: it is of another step.
  void check_begun() const {
    if (parts.begun.empty()) return;
    const std::vector<std::string> names(parts.begun.begin(), parts.begun.end());
    fail(CKPT_CORRUPT, "a damaged checkpoint, which was passed over, has changed " + listed(names) +
                           ", which neither the one before it nor the model bank replaces; restore a sound step into a "
                           "new model with new tables, or let model_bank give them (tables with hashtable_clear)");
  }

  int64_t restore(std::optional<int64_t> at, Source own) {
    own.path = keeper.impl().store;
    own.run = keeper.impl().run;
    own.strict = own.strict.value_or(true) && bank.empty();
    claimed.clear();
    parts.begun.clear();
    const std::string select = at ? "step:" + std::to_string(*at) : "latest";
    const auto empty = empty_tables();
    const auto found =
        keeper.impl().restore_with([&](const std::string& id) { return load_own(own, id, empty); }, select);
    if (found) keeper.impl().options.overwrite = true;  // of the run's later steps, which are made anew
    if (found && claimed.count("global_step") == 0 && wants(own, "global_step", "extra"))
      step = std::max<int64_t>(found->step, 0);
    if (!bank.empty()) load_bank();
    agree(group(), caught([&] { check_begun(); }));
    return step;
  }

  Parts parts;
  std::vector<Source> bank;
  std::vector<std::string> bank_ids = {};  // of its checkpoints, as they were loaded
  std::set<std::string> claimed = {};      // variables that the run's own checkpoint has given
  Checkpointer keeper;
  int64_t step = 0;
};

CheckpointManager::CheckpointManager(const std::string& output_dir, ManagerOptions options, Ranks ranks)
    : impl_(std::make_unique<Impl>(output_dir, std::move(options), std::move(ranks))) {}
CheckpointManager::~CheckpointManager() = default;

void CheckpointManager::register_for_checkpointing(const std::string& name, Dump dump, Put put) {
  impl_->parts.check(name);
  impl_->parts.extra[name] = {std::move(dump), std::move(put)};
}
void CheckpointManager::register_io_state(const std::string& name, Dump dump, Put put) {
  impl_->parts.check(name);
  impl_->parts.io_states[name] = {std::move(dump), std::move(put)};
}
void CheckpointManager::register_sparse_optim(Dump dump, Put put) {
  if (impl_->parts.extra.count(kSparseOptim)) fail(CKPT_INVALID, "a sparse optimizer is registered");
  impl_->parts.extra[kSparseOptim] = {std::move(dump), std::move(put)};
}
int64_t CheckpointManager::global_step() const { return impl_->step; }

std::optional<std::string> CheckpointManager::step(const ckpt_torch::Numbers& metrics,
                                                   const ckpt_torch::Numbers& counters) {
  impl_->step++;
  return impl_->keeper.step(impl_->step, LazyState([this] { return impl_->parts.state(); }), metrics, counters);
}
std::string CheckpointManager::save(const std::string& label, const ckpt_torch::Numbers& metrics,
                                    const ckpt_torch::Numbers& counters) {
  State state;
  guarded([&] { agree(impl_->group(), caught([&] { state = impl_->parts.state(); })); });
  return impl_->keeper.save(impl_->step, state, label, metrics, counters);
}

int64_t CheckpointManager::restore(std::optional<int64_t> global_step, const Source& what) {
  return guarded([&] { return impl_->restore(global_step, what); });
}

std::map<std::string, std::string> CheckpointManager::load_model_bank(const std::vector<Source>& bank) {
  return guarded([&] {
    impl_->bank = bank;
    impl_->bank_ids.clear();
    impl_->claimed.clear();
    return impl_->load_bank();
  });
}

std::map<std::string, std::string> CheckpointManager::reload_model_bank() {
  return guarded([&] {
    const std::vector<std::string> ids = impl_->find_all(), known = impl_->bank_ids;
    return impl_->load_bank(ids, [&](size_t place) {
      return impl_->bank[place].is_dynamic && (place >= known.size() || ids[place] != known[place]);
    });
  });
}

Checkpointer& CheckpointManager::checkpointer() { return impl_->keeper; }
void CheckpointManager::close() { impl_->keeper.close(); }

}  // namespace recis
}  // namespace ckpt_torch
