#include "../ckpt_torch/recis.h"

#include <algorithm>
#include <set>

#include "checkpointer.h"
#include "nodes.h"
#include "tensors.h"

namespace ckpt_torch {
namespace recis {

using namespace internal;

namespace bank {

using Names = std::map<std::string, std::string>;  // variables of the model: their classes, or what a source calls them
const std::set<std::string> kClasses{"*", "sparse", "dense", "extra", "sparse_opt", "io_state"};
const std::set<std::string> kMayLack{"global_step",     "recis.dense.optim", "train_io",   "eval_io",
                                     "train_window_io", "eval_window_io",    "train_epoch"};

// What the stars of a pattern stand for, as short as can be from the left; nothing if it does not fit.
static std::optional<std::vector<std::string>> stars(const std::string& text, const std::string& pattern) {
  const size_t star = pattern.find('*');
  if (star == pattern.npos) return text == pattern ? std::make_optional<std::vector<std::string>>() : std::nullopt;
  if (text.compare(0, star, pattern, 0, star) != 0) return std::nullopt;
  const std::string rest = pattern.substr(star + 1);
  for (size_t end = star; end <= text.size(); end++)
    if (auto more = stars(text.substr(end), rest)) {
      more->insert(more->begin(), text.substr(star, end - star));
      return more;
    }
  return std::nullopt;
}

static std::string table_of(const std::string& variable) { return variable.substr(0, variable.rfind('@')); }
static std::string column_of(const std::string& variable) { return variable.substr(variable.rfind('@') + 1); }
static bool of_table(const std::string& kind) { return kind == "sparse" || kind == "sparse_opt"; }

// Whether a word of a load config means a variable: a class, a table with all it has, a name with stars.
static bool means(const std::string& word, const std::string& variable, const std::string& kind) {
  if (kClasses.count(word)) return word == "*" || word == kind;
  return stars(variable, word) || (of_table(kind) && table_of(variable) == word);
}

static bool wants(const Source& source, const std::string& variable, const std::string& kind) {
  auto any = [&](const std::vector<std::string>& words) {
    return std::any_of(words.begin(), words.end(), [&](const auto& word) { return means(word, variable, kind); });
  };
  return any(source.load) && !any(source.exclude);
}

static std::string told_of(const Source& source, size_t place) {
  return "model bank entry " + std::to_string(place) + " (" + source.path + ")";
}

static std::string name_in(const Source& source, const std::string& variable) {
  for (const auto& [ours, theirs] : source.oname)
    if (const auto found = stars(variable, ours)) {
      std::string out;
      size_t next = 0;
      for (const char c : theirs) out += c == '*' ? found->at(next++) : std::string(1, c);
      return out;
    }
  return variable;
}

// A source that is open.
struct Opened {
  Opened(const Source& from, const std::string& what, const std::string& checkpoint, uint32_t rank)
      : source(from),
        told(what),
        id(checkpoint),
        reader(ckpt::Reader::open(ckpt::Store::open(from.path), id, {{"run", from.run}})),
        tree(reader.tree_of_rank(rank)) {
    for (const auto& table : reader.tables()) {
      columns.insert(std::string(table.name) + "@id");
      for (const auto& column : reader.columns(table.name)) columns.insert(std::string(table.name) + "@" + column.name);
    }
    for (const Node& child : dict_at(tree.root())) keys.insert(child.name());
  }
  bool has(const std::string& name, const std::string& kind) const {
    if (kind == "dense") return reader.has_tensor("model/" + name);
    return of_table(kind) ? columns.count(name) > 0 : keys.count(name) > 0;
  }
  [[noreturn]] void refuse(ckpt_status status, const std::string& what) const {
    fail(status, told + ": " + what, {{"path", source.path}});
  }
  void complain(const std::string& what) const {
    if (!source.ignore_error && source.strict.value_or(true)) refuse(CKPT_NOT_FOUND, what);
    TORCH_WARN("ckpt: ", told, ": ", what);
  }

  const Source& source;
  std::string told, id;
  ckpt::Reader reader;
  ckpt::Tree tree;
  std::set<std::string> columns, keys;  // variables of its tables; what is at its top
  Names given;                          // what it gives to the model
};

// NOT_FOUND, or a warning, for a word that finds nothing in the model or in the source.
static void check_words(const Opened& from, const Names& variables) {
  auto found = [&](const std::string& word, bool in_source) {
    return std::any_of(variables.begin(), variables.end(), [&](const auto& one) {
      return means(word, one.first, one.second) && (!in_source || !wants(from.source, one.first, one.second) ||
                                                    from.has(name_in(from.source, one.first), one.second));
    });
  };
  for (const auto& [ours, theirs] : from.source.oname)
    if (std::count(ours.begin(), ours.end(), '*') != std::count(theirs.begin(), theirs.end(), '*'))
      from.refuse(CKPT_INVALID,
                  "oname: " + in_quotes(ours) + " and " + in_quotes(theirs) + " must have the same number of stars");
  for (const auto* words : {&from.source.load, &from.source.exclude})
    for (const std::string& word : *words) {
      if (kClasses.count(word) || kMayLack.count(word)) continue;
      if (!found(word, false))
        from.complain("the model has nothing that is called " + in_quotes(word));
      else if (words == &from.source.load && !found(word, true))
        from.complain("it lacks " + in_quotes(word));
    }
  for (const auto& [ours, theirs] : from.source.oname) {
    if (!found(ours, false))
      from.complain("oname: the model has nothing that is called " + in_quotes(ours));
    else if (!found(ours, true))
      from.complain("oname: it has nothing that is called " + in_quotes(theirs));
  }
}

static void check_strict(const Opened& from, const Names& variables) {
  if (!from.source.strict.value_or(false)) return;
  std::vector<std::string> missing, unexpected;
  std::set<std::string> known;
  for (const auto& [name, kind] : variables) {
    known.insert(name_in(from.source, name));
    if (wants(from.source, name, kind) && !from.has(name_in(from.source, name), kind)) missing.push_back(name);
  }
  for (const auto& tensor : from.reader.tensors()) {
    const std::string name = tensor.name;
    if (name.compare(0, 6, "model/") == 0 && !known.count(name.substr(6)) &&
        wants(from.source, name.substr(6), "dense"))
      unexpected.push_back(name.substr(6));
  }
  for (const std::string& name : from.columns)
    if (!known.count(name) &&
        wants(from.source, name, column_of(name) == "id" || column_of(name) == "embedding" ? "sparse" : "sparse_opt"))
      unexpected.push_back(name);
  if (missing.empty() && unexpected.empty()) return;
  from.refuse(CKPT_MISMATCH, "it lacks " + (missing.empty() ? "nothing" : listed(missing)) +
                                 " of the model, and the model " +
                                 (unexpected.empty() ? "nothing" : listed(unexpected)) +
                                 " of the checkpoint; strict = false loads the rest");
}

}  // namespace bank
using namespace bank;

struct CheckpointManager::Impl {
  struct Part {
    Dump dump;
    Put put;
  };

  Impl(const std::string& output_dir, ManagerOptions given, Ranks who)
      : options(std::move(given)), ranks(std::move(who)), store(output_dir), keeper(store, keeper_options(), ranks) {
    extra["global_step"] = {[this] { return c10::IValue(step); },
                            [this](const c10::IValue& value) {
                              step = value.isTensor() ? value.toTensor().item<int64_t>() : value.toInt();
                            }};
  }

  CheckpointerOptions keeper_options() const {
    CheckpointerOptions out = options.checkpointer;
    out.every = options.save_interval;
    out.keep_last = options.max_keep;
    if (out.label == CheckpointerOptions().label) out.label = "ckpt_{step}";
    return out;
  }

  void add(std::map<std::string, Part>& parts, const std::string& name, Part part) {
    if (extra.count(name) || io_states.count(name) || options.tables.count(name) || name == "model" ||
        name == "optimizer")
      fail(CKPT_INVALID, "the name " + in_quotes(name) + " is taken: parts of a checkpoint have one name each");
    parts.emplace(name, std::move(part));
  }

  State state() const {
    State out{options.models, options.optimizers, {}};
    for (const auto& [name, part] : extra) out.others.set(name, part.dump());
    for (const auto& [name, part] : io_states) out.per_rank.set(name, part.dump());
    for (const auto& [name, table] : options.tables) out.tables[name] = table->export_rows();
    return out;
  }

  // The variables of the model and the class of each.
  Names variables() const {
    Names out;
    const auto& modules = options.models.modules();
    for (size_t i = 0; i < modules.size(); i++) {
      const std::string prefix = modules.size() > 1 ? std::to_string(i) + "/" : "";
      for (const auto& one : modules[i]->named_parameters()) out[prefix + one.key()] = "dense";
      for (const auto& one : modules[i]->named_buffers()) out[prefix + one.key()] = "dense";
    }
    for (const auto& [name, table] : options.tables) {
      out[name + "@id"] = "sparse";
      for (const std::string& column : table->columns())
        out[name + "@" + column] = column == "embedding" ? "sparse" : "sparse_opt";
    }
    for (const auto& one : extra) out[one.first] = one.first == "train_epoch" ? "io_state" : "extra";
    for (const auto& one : io_states) out[one.first] = "io_state";
    if (!options.optimizers.optimizers().empty()) out["optimizer"] = "extra";
    return out;
  }

  // Rank 0 finds it for all.
  std::string find(const Source& source) {
    std::string id;
    auto error = caught([&] {
      if (ranks.group && ranks.rank != 0) return;
      id = ckpt::Reader::open(ckpt::Store::open(source.path), source.select, {{"run", source.run}}).info().id;
    });
    return agree(ranks.group.get(), error, id)[0];
  }

  // Which source gives what: the last that has it. Only rows that join others leave room for earlier sources.
  void plan(std::vector<Opened>& sources) {
    const Names all = variables();
    std::set<std::string> taken;
    for (auto from = sources.rbegin(); from != sources.rend(); ++from) {
      check_words(*from, all);
      check_strict(*from, all);
      std::vector<std::string> workers;
      for (const auto& [name, kind] : all) {
        const std::string theirs = name_in(from->source, name);
        if (taken.count(name) || !wants(from->source, name, kind) || !from->has(theirs, kind)) continue;
        from->given[name] = theirs;
        if (io_states.count(name)) workers.push_back(name);
        if (!of_table(kind) || from->source.hashtable_clear) taken.insert(name);
      }
      const uint32_t saved = from->reader.info().world_size;
      if (!workers.empty() && saved != ranks.world_size && !from->source.or_rank0)
        from->refuse(CKPT_MISMATCH, "the io states " + listed(workers) + " are those of " + std::to_string(saved) +
                                        " workers, and this run has " + std::to_string(ranks.world_size) +
                                        "; or_rank0 gives each worker its own or rank 0's");
      for (const auto& one : options.tables) source_table(*from, one.first);
    }
  }

  // What the source calls a table; "" if it gives nothing of it.
  std::string source_table(const Opened& from, const std::string& table) {
    std::set<std::string> found;
    for (const auto& [ours, theirs] : columns_of(from, table)) found.insert(table_of(theirs));
    if (found.size() > 1)
      from.refuse(CKPT_INVALID, "oname: table " + in_quotes(table) + " cannot come out of two, " +
                                    listed({found.begin(), found.end()}));
    return found.empty() ? "" : *found.begin();
  }
  Names columns_of(const Opened& from, const std::string& table) {
    Names out;
    for (const auto& [ours, theirs] : from.given)
      if (ours.compare(0, table.size() + 1, table + "@") == 0) out[ours.substr(table.size() + 1)] = theirs;
    return out;
  }

  // Loads all but tables, through a Checkpointer of the source.
  int64_t load_parts(const Opened& from, Checkpointer& source, const Names& kinds, Rng rng) {
    State part{{}, {}, {}};
    RestoreOptions chosen;
    Names renamed;
    for (const auto& [ours, theirs] : from.given) {
      const std::string& kind = kinds.at(ours);
      if (of_table(kind)) continue;
      const std::string prefix = kind == "dense" ? "model/" : "";
      if (kind == "dense")
        part.models = options.models;
      else if (ours == "optimizer")
        part.optimizers = options.optimizers;
      else
        (extra.count(ours) ? part.others : part.per_rank).set(ours, {});
      chosen.only.push_back(prefix + ours);
      if (!renamed.emplace(prefix + theirs, prefix + ours).second)
        from.refuse(CKPT_INVALID, "oname: " + in_quotes(theirs) + " would be two variables of the model");
    }
    if (chosen.only.empty()) return -1;
    chosen.strict = false;  // what is missing was said by the plan
    chosen.rng = rng;
    chosen.rename = [&](const std::string& path) {
      const auto found = renamed.find(path);
      if (found != renamed.end()) return found->second;
      const bool theirs = std::any_of(renamed.begin(), renamed.end(), [&](auto& one) { return one.second == path; });
      return theirs ? path + " (not loaded)" : path;
    };
    std::optional<Restored> done;
    auto error = caught([&] { done = source.restore(part, from.id, chosen); });
    if (error) throw Error(error->status(), from.told + ": " + error->what(), error->details());
    for (const auto& [name, value] : part.others.items()) extra.at(name).put(value);
    for (const auto& [name, value] : part.per_rank.items()) io_states.at(name).put(value);
    return done->step;
  }

  // A table: the rows of those sources that give ids, in their order; then columns of others for the rows that are
  // there.
  void load_table_of(const std::vector<Opened>& sources, const std::string& name, HashTable& table) {
    for (const bool with_ids : {true, false})
      for (const Opened& from : sources) {
        const Names given = columns_of(from, name);
        if (given.empty() || (given.count("id") > 0) != with_ids) continue;
        if (with_ids && from.source.hashtable_clear) table.clear();
        ckpt::Rowset rows = ckpt::Rowset::slice(ranks.rank, ranks.world_size);
        if (!with_ids) {
          const at::Tensor ids = table.export_rows().ids.contiguous();
          if (ids.numel() == 0) continue;
          const auto* first = reinterpret_cast<const uint64_t*>(ids.data_ptr<int64_t>());
          rows = ckpt::Rowset::ids({first, first + ids.numel()});
        }
        auto error = caught([&] { load_rows(from, given, source_table(from, name), std::move(rows), table); });
        if (error) throw Error(error->status(), from.told + ": " + error->what(), error->details());
      }
  }

  void load_rows(const Opened& from, const Names& given, const std::string& name, ckpt::Rowset rows, HashTable& table) {
    std::vector<std::string> wanted;
    for (const auto& [ours, theirs] : given)
      if (ours != "id") wanted.push_back(column_of(theirs));
    uint64_t bytes = sizeof(int64_t);
    for (const auto& column : from.reader.columns(name)) bytes += column.row_bytes;
    rows.window(std::max<uint64_t>(1, options.window_bytes / bytes));
    const auto share = from.reader.share(name, rows);
    for (uint64_t window = 0; window < share.info().window_count; window++) {
      SparseTable loaded = load_window(from.reader, name, share, window, wanted), out{loaded.ids, {}};
      for (const auto& [ours, theirs] : given)
        if (ours != "id") out.columns[ours] = loaded.columns.at(column_of(theirs));
      if (out.ids.numel() > 0) table.insert_rows(out);
    }
  }

  // COLLECTIVE.
  Names load(const std::vector<Source>& bank, const std::vector<std::string>& ids, bool own) {
    std::vector<Opened> sources;
    agree(ranks.group.get(), caught([&] {
            for (size_t place = 0; place < bank.size(); place++)
              if (!bank[place].skip)
                sources.emplace_back(bank[place], own ? "the checkpoint" : told_of(bank[place], place), ids[place],
                                     ranks.rank);
            plan(sources);
          }));
    const Names kinds = variables();
    Names out;
    for (const Opened& from : sources) {
      CheckpointerOptions other;
      other.signals.emplace();
      other.settings = {{"run", from.source.run}};
      other.hooks = options.checkpointer.hooks;
      Checkpointer bank_keeper(from.source.path, other, ranks);
      load_parts(from, own ? keeper : bank_keeper, kinds, own ? Rng::same_rank : Rng::keep);
      for (const auto& one : from.given) out[one.first] = from.id;
    }
    agree(ranks.group.get(), caught([&] {
            for (const auto& [name, table] : options.tables) load_table_of(sources, name, *table);
          }));
    return out;
  }

  ManagerOptions options;
  Ranks ranks;
  std::string store;
  Checkpointer keeper;
  int64_t step = 0;
  std::map<std::string, Part> extra, io_states;
};

CheckpointManager::CheckpointManager(const std::string& output_dir, ManagerOptions options, Ranks ranks)
    : impl_(std::make_unique<Impl>(output_dir, std::move(options), std::move(ranks))) {}
CheckpointManager::~CheckpointManager() = default;

void CheckpointManager::register_for_checkpointing(const std::string& name, Dump dump, Put put) {
  impl_->add(impl_->extra, name, {std::move(dump), std::move(put)});
}
void CheckpointManager::register_io_state(const std::string& name, Dump dump, Put put) {
  impl_->add(impl_->io_states, name, {std::move(dump), std::move(put)});
}
int64_t CheckpointManager::global_step() const { return impl_->step; }

std::optional<std::string> CheckpointManager::step(const ckpt_torch::Numbers& metrics,
                                                   const ckpt_torch::Numbers& counters) {
  impl_->step++;
  return impl_->keeper.step(impl_->step, LazyState([this] { return impl_->state(); }), metrics, counters);
}
std::string CheckpointManager::save(const std::string& label, const ckpt_torch::Numbers& metrics) {
  return impl_->keeper.save(impl_->step, impl_->state(), label, metrics);
}

int64_t CheckpointManager::restore(std::optional<int64_t> global_step, const Source& what) {
  return guarded([&] {
    impl_->keeper.wait();
    Source own = what;
    own.path = impl_->store;
    const auto run = impl_->options.checkpointer.settings.find("run");
    if (run != impl_->options.checkpointer.settings.end()) own.run = run->second.text();
    own.select = global_step ? "step:" + std::to_string(*global_step) : "latest";
    own.strict = what.strict.value_or(true);
    std::string id;
    try {
      id = impl_->find(own);
    } catch (const Error& error) {
      const auto all = committed_of(ckpt::Store::open(own.path), own.run);
      if (error.status() != CKPT_NOT_FOUND || global_step || !all.empty()) throw;
      return impl_->step;
    }
    const auto given = impl_->load({own}, {id}, true);
    if (!given.count("global_step") && wants(own, "global_step", "extra"))
      impl_->step = ckpt::Reader::open(ckpt::Store::open(own.path), id, {{"run", own.run}}).info().step;
    return impl_->step;
  });
}

std::map<std::string, std::string> CheckpointManager::load_model_bank(const std::vector<Source>& bank) {
  return guarded([&] {
    std::vector<std::string> ids;
    for (size_t place = 0; place < bank.size(); place++) {
      const Source& source = bank[place];
      const std::string told = told_of(source, place);
      if (source.path.empty()) fail(CKPT_INVALID, told + ": path must be given");
      auto error = caught([&] { ids.push_back(source.skip ? "" : impl_->find(source)); });
      if (error) throw Error(error->status(), told + ": " + error->what(), error->details());
    }
    const auto given = impl_->load(bank, ids, false);
    std::vector<std::string> missing;
    for (const auto& [name, kind] : impl_->variables()) {
      const bool asked = std::any_of(bank.begin(), bank.end(), [&, &n = name, &k = kind](const Source& source) {
        return !source.skip && wants(source, n, k);
      });
      if (asked && !given.count(name)) missing.push_back(name);
    }
    if (!missing.empty())
      TORCH_WARN("ckpt: the model bank has nothing for ", listed(missing), ", which stay as they are");
    return given;
  });
}

Checkpointer& CheckpointManager::checkpointer() { return impl_->keeper; }
void CheckpointManager::close() { impl_->keeper.close(); }

}  // namespace recis
}  // namespace ckpt_torch
