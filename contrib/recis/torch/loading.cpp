#include "loading.h"

#include <algorithm>
#include <atomic>
#include <sstream>

#include "src/group.h"
#include "src/tensors.h"

namespace ckpt_torch {
namespace recis {

using namespace internal;

// ---- all but tables ----

// What is loaded of a source but its tables.
struct Chosen {
  State part{{}, {}, {}};
  Exactly exactly;
  std::string globs = {};         // of it, for an import
  ckpt::Store imported{nullptr};  // where that is
};

static std::string joined(const std::string& folder, const std::string& name) {
  return folder.empty() ? name : folder + "/" + name;
}

// A glob that fits a path. Option only has commas and stars of its own.
static std::string glob_of(std::string path) {
  for (char& c : path)
    if (c == ',' || c == '*') c = '?';
  return path;
}

// The same for the path of a value: a key may hold a "/", which is then written otherwise, and an import of RecIS has
// io_state/rank0/train_io.
static std::string value_glob_of(std::string path) {
  path = glob_of(std::move(path));
  std::replace(path.begin(), path.end(), '/', '*');
  return path;
}

static void choose_tensor(Chosen& out, const Parts& parts, const Opened& from, const std::string& ours,
                          const std::string& theirs) {
  out.part.models = parts.options.models;
  out.exactly.paths.insert("model/" + ours);
  out.exactly.places["model"] = from.model;
  const bool several = parts.options.models.modules().size() > 1;  // of which each has a dict of its own
  const std::string path = joined(from.model, from.prefix + theirs);
  if (!out.exactly.names.emplace(path, several ? ours.substr(ours.find('/') + 1) : ours).second)
    from.refuse(CKPT_INVALID, "oname: " + in_quotes(theirs) + " would be two variables of the model");
  out.globs += glob_of(path) + ",";
}

// The model, by which an optimizer's parameters have names, whoever gives its tensors.
static void name_parameters(Chosen& out, const Parts& parts, const Opened& from, const Names& kinds) {
  out.part.models = parts.options.models;
  out.exactly.places["model"] = from.model;
  const bool several = parts.options.models.modules().size() > 1;
  for (const auto& [ours, kind] : kinds) {
    if (kind != "dense") continue;
    const std::string theirs = from.name(ours);
    out.exactly.called["model/" + ours] = several ? theirs.substr(theirs.find('/') + 1) : theirs;
  }
}

static Chosen choose(const Parts& parts, const Opened& from, const Names& kinds) {
  Chosen out;
  for (const auto& [ours, theirs] : from.given) {
    const std::string& kind = kinds.at(ours);
    if (of_table(ours, kind)) continue;
    if (kind == "dense") {
      choose_tensor(out, parts, from, ours, theirs);
      continue;
    }
    if (ours == "optimizer") {
      out.part.optimizers = parts.options.optimizers;
      name_parameters(out, parts, from, kinds);
    } else {
      (parts.extra.count(ours) ? out.part.others : out.part.per_rank).set(ours, {});
    }
    out.exactly.paths.insert(ours);
    out.exactly.places[ours] = from.places.at(theirs);
    out.globs += value_glob_of(from.places.at(theirs)) + ",";
  }
  return out;
}

static void check_workers(const Parts& parts, const Opened& from) {
  std::vector<std::string> names;
  for (const auto& one : from.given)
    if (parts.io_states.count(one.first)) names.push_back(one.first);
  if (names.empty() || from.workers == 0 || from.workers == parts.ranks.world_size || from.source.or_rank0) return;
  from.refuse(CKPT_MISMATCH, "the io states " + listed(names) + " are those of " + std::to_string(from.workers) +
                                 " workers, and this run has " + std::to_string(parts.ranks.world_size) +
                                 "; or_rank0 gives each worker its own or rank 0's, exclude 'io_state' none");
}

// How it is loaded. A file of another program is first imported into memory, but for its tables.
static Session::Impl::From loading_of(const Parts& parts, const Opened& from, Chosen& chosen, bool own) {
  Session::Impl::From out{
      &from.store, from.id, {}, Session::Impl::planning(chosen.part, Choice(chosen.exactly)), own ? "" : from.told};
  out.options.convert = from.source.convert;
  out.options.or_rank0 = from.source.or_rank0;
  out.options.stage_first = parts.options.stage_first;
  out.options.rng = own ? Rng::same_rank : Rng::keep;
  out.options.hooks = parts.options.checkpointer.hooks;
  out.options.settings = {{"run", from.file ? "main" : from.source.run}};
  if (!from.file) return out;
  static std::atomic<uint64_t> count{0};
  chosen.imported = ckpt::Store::open("mem:recis-bank-" + std::to_string(count++));
  out.store = &chosen.imported;
  const ckpt::Options what{{"only", chosen.globs}, {"strict", "none"}, {"run", "main"}};
  out.id = chosen.imported.import(from.where, "bank", -1, what).id;
  return out;
}

// ---- tables ----

// A table must be able to take what a source has.
static void check_table(const Opened& from, const std::string& name, const HashTable& table) {
  const Names given = from.given_of(name);
  if (given.empty()) return;
  const std::string theirs = from.table(given);
  if (!from.file && from.reader.table(theirs).id_dtype != CKPT_DTYPE_I64)
    from.refuse(CKPT_UNSUPPORTED, "table " + in_quotes(theirs) + " has ids of u64, LibTorch's are int64");
  const SparseTable empty = table.no_rows();
  for (const ckpt::ColumnInfo& info : from.columns_of(theirs))
    for (const auto& [column, variable] : given) {
      const auto ours = empty.columns.find(column);
      if (ours == empty.columns.end() || column == "id" || column_of(variable) != info.name) continue;
      auto told = [](const at::Tensor& rows) {
        return type_name(rows.scalar_type()) + " " + shape_text(rows.sizes().slice(1));
      };
      const at::Tensor found = empty_column(info, 0, at::kCPU);
      if (told(found) != told(ours->second))
        from.refuse(CKPT_MISMATCH, "table " + in_quotes(name) + ", column " + in_quotes(column) +
                                       ": expected rows of " + told(ours->second) + ", found " + told(found) + " (" +
                                       variable + ")");
    }
}

// The rows of a share, window by window. The table is emptied once it is known that there are such rows.
static void load_rows(Parts& parts, const Opened& from, const std::string& name, ckpt::Rowset rows, HashTable& table) {
  const Names given = from.given_of(name);
  const std::string theirs = from.table(given);
  const std::vector<ckpt::ColumnInfo> all = from.columns_of(theirs);
  std::vector<std::string> wanted;
  for (const auto& [column, variable] : given)
    if (column != "id") wanted.push_back(column_of(variable));
  if (wanted.empty() && !all.empty()) wanted.push_back(all[0].name);  // an empty list would be all
  uint64_t bytes = sizeof(int64_t);
  for (const ckpt::ColumnInfo& info : all)
    if (std::count(wanted.begin(), wanted.end(), info.name)) bytes += info.row_bytes;
  rows.window(std::max<uint64_t>(1, parts.options.window_bytes / bytes));
  auto put = [&](const auto& share, const auto& read) {
    if (from.empties(name + "@id")) {
      parts.begun.insert(name + "@id");
      table.clear();
    }
    for (uint64_t window = 0; window < share.info().window_count; window++) {
      const SparseTable loaded = read(window);
      SparseTable out{loaded.ids, {}};
      for (const auto& [column, variable] : given)
        if (column != "id") out.columns[column] = loaded.columns.at(column_of(variable));
      if (out.ids.numel() == 0) continue;
      parts.begun.insert(name + "@id");
      table.insert_rows(out);
    }
  };
  if (from.file) {
    const ckpt::FileTable& found = from.file_table(theirs);
    const auto share = found.share(rows);
    return put(share, [&](uint64_t window) { return load_window(found, share, window, wanted); });
  }
  const auto share = from.reader.share(theirs, rows);
  put(share, [&](uint64_t window) { return load_window(from.reader, theirs, share, window, wanted); });
}

// The rows of those sources that give ids, in their order; then columns of others for the rows that are there.
static void load_table_of(Parts& parts, const std::deque<Opened>& sources, const std::string& name, HashTable& table) {
  for (const bool with_ids : {true, false})
    for (const Opened& from : sources) {
      const Names given = from.given_of(name);
      if (given.empty() || (given.count("id") > 0) != with_ids) continue;
      ckpt::Rowset rows = parts.options.rowset(parts.ranks.rank, parts.ranks.world_size);
      if (!with_ids) {
        const at::Tensor ids = table.export_rows().ids.to(at::kCPU, at::kLong).contiguous();
        if (ids.numel() == 0) continue;
        const auto* first = reinterpret_cast<const uint64_t*>(ids.data_ptr<int64_t>());
        rows = ckpt::Rowset::ids({first, first + ids.numel()});
      }
      named(from.told, [&] { load_rows(parts, from, name, std::move(rows), table); });
    }
}

// ---- all of it ----

Names load(Parts& parts, Session::Impl& session, const std::deque<Opened>& sources, bool own) {
  const Names kinds = parts.variables();
  Group* group = parts.ranks.group.get();
  std::deque<Chosen> chosen;
  std::vector<Session::Impl::From> loads;
  agree(group, caught([&] {
          for (const Opened& from : sources) {
            check_workers(parts, from);
            for (const auto& [name, table] : parts.options.tables) check_table(from, name, *table);
            chosen.push_back(choose(parts, from, kinds));
          }
          for (size_t i = 0; i < sources.size(); i++)
            if (!chosen[i].exactly.paths.empty())
              named(sources[i].told, [&] { loads.push_back(loading_of(parts, sources[i], chosen[i], own)); });
        }));
  std::set<std::string> left = parts.begun;
  try {
    session.load_from(loads);
  } catch (const Error& error) {
    std::istringstream names(error.detail("undefined"));
    for (std::string name; std::getline(names, name);) parts.begun.insert(name.substr(name.find('/') + 1));
    throw;
  }
  for (const Opened& from : sources)
    for (const auto& one : from.given)
      if (kinds.at(one.first) == "dense" || one.first == "optimizer") parts.begun.insert(one.first);
  agree(group, caught([&] {
          for (const auto& [name, table] : parts.options.tables) load_table_of(parts, sources, name, *table);
        }));
  Names out;
  agree(group, caught([&] {  // nothing is read any more, so that no damage leaves some of these changed
          for (Chosen& one : chosen) {
            for (const auto& [name, value] : one.part.others.items()) parts.extra.at(name).put(value);
            for (const auto& [name, value] : one.part.per_rank.items()) parts.io_states.at(name).put(value);
          }
          for (const Opened& from : sources)
            for (const auto& [name, theirs] : from.given) {
              out[name] = from.where;
              if (!of_table(name, kinds.at(name)) || from.empties(name)) left.erase(name);
            }
        }));
  parts.begun = left;
  return out;
}

}  // namespace recis
}  // namespace ckpt_torch
