#include "history.h"

#include <algorithm>
#include <cctype>
#include <cmath>

namespace ckpt_torch {
namespace internal {

// ---- numbers as JSON: as a state tree, but for what Python's json calls NaN and Infinity ----

namespace {

struct NotFinite {
  const char *python, *tree;
};
const NotFinite kNotFinite[] = {{"-Infinity", R"({"$":"float","value":"-inf"})"},
                                {"Infinity", R"({"$":"float","value":"inf"})"},
                                {"NaN", R"({"$":"float","value":"nan"})"}};

// Whole numbers are written as such, so that a label with them has no point.
std::string json_of(const Numbers& numbers) {
  if (numbers.empty()) return "";
  ckpt::Tree tree = ckpt::Tree::create();
  tree.begin_dict();
  for (const auto& [name, value] : numbers) {
    tree.key(name);
    if (value == std::floor(value) && std::abs(value) < 9e15)
      tree.add_int(static_cast<int64_t>(value));
    else
      tree.add_float(value);
  }
  tree.end();
  std::string text(tree.json());
  for (const NotFinite& one : kNotFinite)  // no key can hold this text: its quotes would have backslashes
    for (size_t at = 0; (at = text.find(one.tree, at)) != text.npos;)
      text.replace(at, std::string(one.tree).size(), one.python);
  return text;
}

Numbers numbers_of(const ckpt::Attributes& attributes, const char* key) {
  const auto found = attributes.find(key);
  if (found == attributes.end()) return {};
  const std::string& given = found->second;
  std::string text;
  bool in_string = false;
  for (size_t at = 0; at < given.size(); at++) {
    const NotFinite* named = nullptr;
    for (const NotFinite& one : kNotFinite)
      if (!in_string && !named && given.compare(at, std::string(one.python).size(), one.python) == 0) named = &one;
    if (given[at] == '"') in_string = !in_string;
    if (in_string && given[at] == '\\') text += given[at++];
    text += named ? named->tree : given.substr(at, 1);
    if (named) at += std::string(named->python).size() - 1;
  }
  Numbers numbers;
  const ckpt::Tree tree = ckpt::Tree::parse(text);
  for (const ckpt::Node& node : tree.root()) numbers[node.name()] = node.as_float();
  return numbers;
}

}  // namespace

ckpt::Attributes attributes_of(const Moment& now, bool kept, const std::optional<KeepBest>& best) {
  ckpt::Attributes out{{kMetricsAttr, json_of(now.metrics)}, {kCountersAttr, json_of(now.counters)}};
  out[kKeptAttr] = kept ? "1" : "";
  out[kBestAttr] = best ? best->mode + " " + best->metric : "";
  for (auto one = out.begin(); one != out.end();) one = one->second.empty() ? out.erase(one) : std::next(one);
  return out;
}

Moment moment_of(int64_t step, const ckpt::Attributes& attributes) {
  return {step, numbers_of(attributes, kCountersAttr), numbers_of(attributes, kMetricsAttr)};
}

// ---- checkpoints ----

bool is_damage(ckpt_status status) {
  return status == CKPT_CORRUPT || status == CKPT_FORMAT || status == CKPT_REVISION || status == CKPT_INCOMPLETE ||
         status == CKPT_GONE;
}

std::vector<ckpt::CheckpointInfo> committed_of(const ckpt::Store& store, const std::string& run) {
  std::vector<ckpt::CheckpointInfo> all;
  try {
    all = store.list();
  } catch (const Error& error) {
    if (error.status() != CKPT_NOT_FOUND) throw;
  }
  all.erase(std::remove_if(all.begin(), all.end(),
                           [&](const ckpt::CheckpointInfo& info) {
                             return info.state != CKPT_CHECKPOINT_COMMITTED || info.run != run;
                           }),
            all.end());
  return all;
}

History::History(const ckpt::Store& store, const std::string& run) {
  for (const ckpt::CheckpointInfo& info : committed_of(store, run)) {
    try {
      const ckpt::Attributes attributes = ckpt::Reader::open(store, info.id).attrs();
      add({info.id, info.label, info.step, moment_of(info.step, attributes).metrics, attributes.count(kKeptAttr) > 0});
      if (const auto told = attributes.find(kBestAttr); told != attributes.end()) told_ = told->second;
    } catch (const Error& error) {
      if (!is_damage(error.status()) && error.status() != CKPT_NOT_FOUND) throw;
    }
  }
}

void History::add(Entry entry) {
  auto same = [&](const Entry& one) { return one.label == entry.label; };
  entries_.erase(std::remove_if(entries_.begin(), entries_.end(), same), entries_.end());
  entries_.push_back(std::move(entry));
}

void History::forget_after(int64_t step) {
  auto later = [&](const Entry& one) { return one.step > step; };
  entries_.erase(std::remove_if(entries_.begin(), entries_.end(), later), entries_.end());
}

std::vector<Entry> History::with(const std::vector<Entry>& more) const {
  std::vector<Entry> all(entries_);
  all.insert(all.end(), more.begin(), more.end());
  std::reverse(all.begin(), all.end());
  return all;
}

std::vector<Entry> History::best(const KeepBest& policy, size_t count, const std::vector<Entry>& more) const {
  std::vector<std::pair<double, Entry>> ranked;
  for (Entry& entry : with(more)) {
    const auto found = entry.metrics.find(policy.metric);
    if (found == entry.metrics.end() || std::isnan(found->second)) continue;
    ranked.emplace_back(policy.mode == "min" ? found->second : -found->second, std::move(entry));
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Entry> out;
  for (size_t i = 0; i < ranked.size() && i < count; i++) out.push_back(ranked[i].second);
  return out;
}

// Whether retention counts it: a run of digits in its label is its step.
static bool is_numbered(const Entry& entry) {
  const std::string digits = "0123456789", step = std::to_string(entry.step);
  for (size_t at = entry.label.find_first_of(digits); at != std::string::npos;) {
    const size_t end = std::min(entry.label.find_first_not_of(digits, at), entry.label.size());
    const size_t first = std::min(entry.label.find_first_not_of('0', at), end - 1);
    if (entry.label.compare(first, end - first, step) == 0) return true;
    at = entry.label.find_first_of(digits, end);
  }
  return false;
}

int64_t History::keep_last(int64_t count, const Entry& next) const {
  int64_t found = 0, own = 0;
  for (const Entry& entry : with({next})) {
    if (!is_numbered(entry) || own >= count) continue;
    found++;
    own += !entry.kept;
  }
  return std::max(found, count);
}

std::string History::protected_labels(const std::optional<KeepBest>& policy, const Entry& next) const {
  std::set<std::string> labels;
  for (const Entry& entry : with({next}))
    if (entry.kept) labels.insert(entry.label);
  if (policy)
    for (const Entry& entry : best(*policy, static_cast<size_t>(policy->count), {next})) labels.insert(entry.label);
  std::string out;
  for (const std::string& label : labels) out += (out.empty() ? "" : ",") + label;
  return out;
}

// ---- the best ----

// Which way a metric is better, by a word in its name; "": not told.
static std::string way_of(const std::string& metric) {
  static const std::set<std::string> least{"loss", "error", "err",  "perplexity", "ppl", "nll",
                                           "mse",  "mae",   "rmse", "wer",        "cer", "fid"};
  static const std::set<std::string> most{"acc",    "accuracy", "f1",        "auc", "bleu", "rouge", "score",
                                          "reward", "recall",   "precision", "iou", "map",  "ndcg"};
  std::string word;
  for (size_t at = 0; at <= metric.size(); at++) {
    const int c = at < metric.size() ? std::tolower(static_cast<unsigned char>(metric[at])) : 0;
    if (std::isalnum(c)) {
      word += static_cast<char>(c);
      continue;
    }
    if (least.count(word)) return "min";
    if (most.count(word)) return "max";
    word.clear();
  }
  return "";
}

bool is_best(const std::string& selector) { return selector == "best" || selector.rfind("best:", 0) == 0; }

std::set<std::string> History::metrics() const {
  std::set<std::string> names;
  for (const Entry& entry : entries_)
    for (const auto& one : entry.metrics) names.insert(one.first);
  return names;
}

std::optional<KeepBest> History::policy(const std::string& selector) const {
  KeepBest out{selector.size() > 5 ? selector.substr(5) : "", "", 1};
  const size_t colon = out.metric.rfind(':');
  if (colon != out.metric.npos && (out.metric.substr(colon) == ":min" || out.metric.substr(colon) == ":max")) {
    out.mode = out.metric.substr(colon + 1);
    out.metric.resize(colon);
  }
  if (out.metric.empty() && !told_.empty())
    out = {told_.substr(std::min<size_t>(4, told_.size())), told_.substr(0, 3), 1};
  if (const auto names = metrics(); out.metric.empty() && names.size() == 1) out.metric = *names.begin();
  if (out.mode.empty()) out.mode = way_of(out.metric);
  if (out.metric.empty() || out.mode.empty()) return std::nullopt;
  return out;
}

std::string find_best(const ckpt::Store& store, const std::string& run, const std::string& selector,
                      std::optional<KeepBest> policy) {
  const History history(store, run);
  const auto set = history.metrics();
  const std::vector<std::string> names(set.begin(), set.end());
  if (!policy) policy = history.policy(selector);
  if (!policy && !names.empty())
    fail(CKPT_INVALID, in_quotes(selector) + " does not say by which metric, or which way; the checkpoints of run " +
                           in_quotes(run) + " have " + listed(names) + ": \"best:" + names.back() +
                           ":min\" or \"best:" + names.back() + ":max\" says so");
  const auto found = policy ? history.best(*policy, 1) : std::vector<Entry>();
  if (found.empty())
    fail(CKPT_NOT_FOUND, "no checkpoint of run " + in_quotes(run) + " has " +
                             (policy ? "the metric " + in_quotes(policy->metric) : std::string("metrics")) +
                             ", which " + in_quotes(selector) + " needs" +
                             (names.empty() ? "" : "; they have " + listed(names)));
  return found[0].id;
}

}  // namespace internal
}  // namespace ckpt_torch
