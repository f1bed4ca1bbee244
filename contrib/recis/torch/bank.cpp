#include "bank.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace ckpt_torch {
namespace recis {

using namespace internal;
namespace fs = std::filesystem;

static const std::set<std::string> kClasses{"*", "sparse", "dense", "extra", "sparse_opt", "io_state"};
// What RecIS calls the manager's optimizers.
static const std::string kOptimizer = "optimizer", kDenseOptim = "recis.dense.optim";
// What a load config may name although the model has no such thing.
static const std::set<std::string> kMayLack{"global_step",     kDenseOptim,      "train_io",   "eval_io",
                                            "train_window_io", "eval_window_io", "train_epoch"};

// ---- words ----

// What the stars of a pattern stand for, as long as can be from the left; nothing if it does not fit.
static std::optional<std::vector<std::string>> stars(const std::string& text, const std::string& pattern) {
  const size_t star = pattern.find('*');
  if (text.compare(0, std::min(star, text.size()), pattern, 0, star) != 0) return std::nullopt;
  if (star == pattern.npos) return std::make_optional<std::vector<std::string>>();
  const std::string rest = pattern.substr(star + 1);
  for (size_t end = text.size() + 1; end-- > star;)
    if (auto more = stars(text.substr(end), rest)) {
      more->insert(more->begin(), text.substr(star, end - star));
      return more;
    }
  return std::nullopt;
}

static std::string table_of(const std::string& variable) { return variable.substr(0, variable.rfind('@')); }
std::string column_of(const std::string& variable) { return variable.substr(variable.rfind('@') + 1); }
std::string class_of_column(const std::string& column) {
  return column == "id" || column == "embedding" ? "sparse" : "sparse_opt";
}

bool of_table(const std::string& variable, const std::string& kind) {
  return (kind == "sparse" || kind == "sparse_opt") && variable.find('@') != variable.npos;
}

// Whether a word of a load config means a variable: a class, a table with all it has, a name with stars.
static bool means(const std::string& word, const std::string& variable, const std::string& kind) {
  if (kClasses.count(word)) return word == "*" || word == kind;
  if (word == kDenseOptim && variable == kOptimizer) return true;
  return stars(variable, word) || (of_table(variable, kind) && table_of(variable) == word);
}

bool wants(const Source& source, const std::string& variable, const std::string& kind) {
  auto any = [&](const std::vector<std::string>& words) {
    return std::any_of(words.begin(), words.end(), [&](const auto& word) { return means(word, variable, kind); });
  };
  return any(source.load) && !any(source.exclude);
}

std::string told_of(const Source& source, size_t place) {
  return "model bank entry " + std::to_string(place) + " (" + source.path + ")";
}

// ---- where it is ----

// The directory of the newest checkpoint in that of a RecIS run; "" if it is none.
static std::string newest_of_recis(const std::string& path) {
  std::ifstream file(path + "/checkpoint");
  std::string newest;
  for (std::string word; file >> word;) newest = word;
  if (newest.empty() || newest[0] == '.' || newest.find('/') != newest.npos) return "";  // it would lie elsewhere
  std::error_code none;
  return fs::is_directory(path + "/" + newest, none) ? newest : "";
}

Source located(const Source& source) {
  Source out = source;
  if (source.path.find("://") != std::string::npos || source.path.rfind("mem:", 0) == 0) return out;
  std::error_code none;
  fs::path path(source.path);
  if (!path.has_filename()) path = path.parent_path();
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (source.select != "latest" || is_foreign(source.path) || fs::exists(path / ".ckpt", none) ||
      !fs::is_directory(folder / ".ckpt", none))
    return out;
  out.path = folder.string();
  const std::string name = path.filename().string();
  out.select = fs::exists(path, none) ? name : "label:" + name;
  for (const auto& info : ckpt::Store::open(out.path).list())
    if (info.id == name) out.run = info.run;
  return out;
}

std::string find(const Source& source, const Settings& settings) {
  if (!is_foreign(source.path)) {
    const auto store = ckpt::Store::open(source.path, options_of(settings));
    return ckpt::Reader::open(store, source.select, options_of(settings, {{"run", source.run}})).info().id;
  }
  if (source.select != "latest")
    fail(CKPT_INVALID, "it is no store, so there is nothing to select: found " + in_quotes(source.select));
  return newest_of_recis(source.path);
}

// ---- what it has ----

Opened::Opened(const Source& from, const std::string& what, const std::string& found, uint32_t rank,
               const Settings& settings)
    : source(from), told(what), id(found), where(from.path + (found.empty() ? "" : "/" + found)) {
  if (is_foreign(from.path)) {
    file.emplace(ckpt::File::open(where, {{"tensor_data", 0}}));
    file_tables = file->tables();
    look_at(file->tree().root());
    for (const auto& one : file_tables) look_at_table(one.info().name, one.columns());
    return;
  }
  store = ckpt::Store::open(from.path, options_of(settings));
  reader = ckpt::Reader::open(store, id, options_of(settings, {{"run", from.run}}));
  workers = reader.info().world_size;
  const ckpt::Tree tree = reader.tree_of_rank(rank);
  look_at(tree.root());
  if (of_recis) look_at_recis(reader.tree().root());  // of all workers
  for (const auto& one : reader.tables()) look_at_table(one.name, reader.columns(one.name));
}

void Opened::look_at(const Node& root) {
  std::set<std::string> keys;
  for (const Node& child : dict_at(root)) keys.insert(child.name());
  static const std::set<std::string> kParts{"extra", "io_state", "model", kSparseOptim, "tables"};
  of_recis = (keys.count("tables") || keys.count("extra") || keys.count("io_state")) &&
             std::includes(kParts.begin(), kParts.end(), keys.begin(), keys.end());
  look_at_model(root, keys);
  for (const std::string& key : keys)
    if (of_recis ? key == kSparseOptim : key != model) places[key] = key;
  if (of_recis) look_at_recis(root);
}

// The tensors that are entries of its dict, or of several dicts in a list.
void Opened::look_at_model(const Node& root, const std::set<std::string>& keys) {
  model = source.at.value_or(of_recis || keys.count("model") || keys.count("global_step") ? "model" : "");
  auto node = node_at(root, model);
  if (!node && !model.empty()) {  // a file without dicts: "model/0.weight" is a key
    prefix = model + "/";
    model.clear();
    node = root;
  }
  auto put = [&](const Node& dict, const std::string& folder) {
    for (const Node& child : dict_at(dict)) {
      const std::string key = child.name();
      if (key.compare(0, prefix.size(), prefix) == 0 && tensor_at(child))
        dense.insert(folder + key.substr(prefix.size()));
    }
  };
  if (!is_list(*node)) return put(*node, "");
  const std::vector<Node> dicts = children(*node);
  for (size_t i = 0; i < dicts.size(); i++) put(dicts[i], std::to_string(i) + "/");
}

void Opened::look_at_recis(const Node& root) {
  for (const char* part : {"extra", "io_state"}) {
    auto node = ckpt_torch::internal::find(root, part);
    if (!node) continue;
    if (node->kind == CKPT_NODE_RECORD && text_of(*node) == CKPT_PER_RANK_CLASS && node->child_count > 0) {
      workers = node->child_count;
      node = children(*node).front();
    }
    for (const Node& child : dict_at(*node)) places[child.name()] = std::string(part) + "/" + child.name();
  }
}

void Opened::look_at_table(const std::string& name, const std::vector<ckpt::ColumnInfo>& all) {
  const std::string ours = of_recis && name.rfind("tables/", 0) == 0 ? name.substr(7) : name;
  tables[ours] = name;
  columns.insert(ours + "@id");
  for (const auto& column : all) columns.insert(ours + "@" + column.name);
}

bool Opened::has(const std::string& name, const std::string& kind) const {
  if (kind == "dense") return dense.count(name) > 0;
  return of_table(name, kind) ? columns.count(name) > 0 : places.count(name) > 0;
}

std::string Opened::name(const std::string& variable) const {
  for (const auto& [ours, theirs] : source.oname)
    if (const auto found = stars(variable, ours)) {
      std::string out;
      size_t next = 0;
      for (const char c : theirs) out += c == '*' ? found->at(next++) : std::string(1, c);
      return out;
    }
  const bool is_optimizer = variable == kOptimizer && places.count(kOptimizer) == 0;
  return is_optimizer && places.count(kDenseOptim) ? kDenseOptim : variable;
}

Names Opened::given_of(const std::string& ours) const {
  Names out;
  for (const auto& [variable, theirs] : given)
    if (variable.find('@') != variable.npos && table_of(variable) == ours && columns.count(theirs))
      out[column_of(variable)] = theirs;
  return out;
}

bool Opened::empties(const std::string& variable) const {
  if (variable.find('@') == variable.npos || column_of(variable) != "id") return false;
  return source.hashtable_clear && given_of(table_of(variable)).count("id") > 0;
}

const std::string& Opened::table(const Names& given_columns) const {
  return tables.at(table_of(given_columns.begin()->second));
}

const ckpt::FileTable& Opened::file_table(const std::string& table) const {
  return *std::find_if(file_tables.begin(), file_tables.end(),
                       [&](const auto& one) { return one.info().name == table; });
}

std::vector<ckpt::ColumnInfo> Opened::columns_of(const std::string& table) const {
  return file ? file_table(table).columns() : reader.columns(table);
}

void Opened::refuse(ckpt_status status, const std::string& what) const {
  fail(status, told + ": " + what, {{"path", source.path}});
}

void Opened::complain(const std::string& what) const {
  if (!source.ignore_error && source.strict.value_or(true)) refuse(CKPT_NOT_FOUND, what);
  TORCH_WARN("ckpt: ", told, ": ", what);
}

// ---- which gives what ----

static void check_oname(const Opened& from) {
  for (const auto& [ours, theirs] : from.source.oname)
    if (std::count(ours.begin(), ours.end(), '*') != std::count(theirs.begin(), theirs.end(), '*'))
      from.refuse(CKPT_INVALID,
                  "oname: " + in_quotes(ours) + " and " + in_quotes(theirs) + " must have the same number of stars");
}

// NOT_FOUND, or a warning, for a word that finds nothing in the model or in the source.
static void check_words(const Opened& from, const Names& variables) {
  using Test = std::function<bool(const std::string& name, const std::string& kind)>;
  auto any = [&](const Test& test) {
    return std::any_of(variables.begin(), variables.end(), [&](auto& one) { return test(one.first, one.second); });
  };
  auto has = [&](const std::string& name, const std::string& kind) { return from.has(from.name(name), kind); };
  for (const auto* words : {&from.source.load, &from.source.exclude})
    for (const std::string& word : *words) {
      if (kClasses.count(word) || kMayLack.count(word)) continue;
      auto wanted = [&, &word = word](auto& name, auto& kind) {
        return means(word, name, kind) && wants(from.source, name, kind);
      };
      if (!any([&](auto& name, auto& kind) { return means(word, name, kind); }))
        from.complain("the model has nothing that is called " + in_quotes(word));
      else if (words == &from.source.load && any(wanted) &&
               !any([&](auto& name, auto& kind) { return means(word, name, kind) && has(name, kind); }))
        from.complain("it lacks " + in_quotes(word));
    }
  for (const auto& one : from.source.oname) {
    const std::string& ours = one.first;
    if (!any([&](auto& name, auto&) { return stars(name, ours).has_value(); }))
      from.complain("oname: the model has nothing that is called " + in_quotes(ours));
    else if (!any([&](auto& name, auto& kind) { return stars(name, ours) && has(name, kind); }))
      from.complain("oname: it has nothing that is called " + in_quotes(one.second));
  }
}

static void check_strict(const Opened& from, const Names& variables) {
  if (!from.source.strict.value_or(false)) return;
  std::vector<std::string> missing, unexpected;
  std::set<std::string> known;
  for (const auto& [name, kind] : variables) {
    known.insert(from.name(name));
    if (wants(from.source, name, kind) && !from.has(from.name(name), kind)) missing.push_back(name);
  }
  for (const std::string& name : from.dense)
    if (!known.count(name) && wants(from.source, name, "dense")) unexpected.push_back(name);
  for (const std::string& name : from.columns)
    if (!known.count(name) && wants(from.source, name, class_of_column(column_of(name)))) unexpected.push_back(name);
  if (missing.empty() && unexpected.empty()) return;
  auto told = [](const std::vector<std::string>& names) { return names.empty() ? "nothing" : listed(names); };
  from.refuse(CKPT_MISMATCH, "it lacks " + told(missing) + " of the model, and the model " + told(unexpected) +
                                 " of the checkpoint; strict = false loads the rest");
}

// INVALID if a table would come out of two.
static void check_tables(const Opened& from, const Names& variables) {
  std::map<std::string, std::string> found;
  for (const auto& [ours, theirs] : from.given) {
    if (!of_table(ours, variables.at(ours))) continue;
    const std::string other = found.emplace(table_of(ours), table_of(theirs)).first->second;
    if (other != table_of(theirs))
      from.refuse(CKPT_INVALID, "oname: table " + in_quotes(table_of(ours)) + " cannot come out of two, " +
                                    listed({other, table_of(theirs)}));
  }
}

void plan(std::deque<Opened>& sources, const Names& variables, std::set<std::string> claimed) {
  for (auto from = sources.rbegin(); from != sources.rend(); ++from) {
    check_oname(*from);
    check_words(*from, variables);
    check_strict(*from, variables);
    for (const auto& [name, kind] : variables) {
      const std::string theirs = from->name(name);
      if (claimed.count(name) || !wants(from->source, name, kind) || !from->has(theirs, kind)) continue;
      from->given[name] = theirs;
      if (!of_table(name, kind) || from->source.hashtable_clear) claimed.insert(name);
    }
    check_tables(*from, variables);
  }
}

void leave(std::deque<Opened>& sources, const std::set<size_t>& again) {
  std::set<std::string> emptied;
  for (const size_t place : again)
    for (const auto& one : sources[place].given)
      if (sources[place].empties(one.first)) emptied.insert(table_of(one.first));
  for (size_t i = 0; i < sources.size(); i++) {
    if (again.count(i)) continue;
    Names left;
    for (const std::string& table : emptied)
      for (const auto& [column, theirs] : sources[i].given_of(table)) left[table + "@" + column] = theirs;
    sources[i].given = left;
  }
}

}  // namespace recis
}  // namespace ckpt_torch
