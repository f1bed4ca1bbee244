#include "keeper/history.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

#include "base/strformat.h"
#include "base/text.h"
#include "format/names.h"

namespace ckpt::keeper {

static Result<Best> parse_best(std::string_view text) {
  std::vector<std::string_view> pieces = split(text, ':');
  Best out;
  const bool counted =
      pieces.size() > 2 && std::ranges::all_of(pieces.back(), [](char c) { return c >= '0' && c <= '9'; });
  if (counted && pieces.back().size() < 10) {
    out.count = 0;
    for (const char c : pieces.back()) out.count = out.count * 10 + (c - '0');
    pieces.pop_back();
  }
  const std::string_view mode = pieces.empty() ? "" : pieces.back();
  out.mode = mode;
  const size_t taken = pieces.empty() ? 0 : static_cast<size_t>(mode.data() - text.data());
  out.metric = text.substr(0, taken ? taken - 1 : 0);
  if ((out.mode != "min" && out.mode != "max") || out.metric.empty() || out.count < 1)
    return Status(CKPT_INVALID, strformat("keep_best: expected METRIC:min or METRIC:max, and :COUNT for more than one, "
                                          "found \"{}\"",
                                          text))
        .with("found", std::string(text));
  return out;
}

Result<Bests> Best::parse(std::string_view text) {
  Bests all;
  if (text.empty()) return all;
  for (std::string_view one : split(text, ',')) {
    while (one.starts_with(' ')) one.remove_prefix(1);
    CKPT_ASSIGN(Best parsed, parse_best(one));
    all.push_back(std::move(parsed));
  }
  return all;
}

Attributes attributes_of(const Moment& now, bool kept, const Bests& bests) {
  Attributes out;
  if (!now.metrics.empty()) out.emplace(kMetricsAttr, json_of(now.metrics));
  if (!now.counters.empty()) out.emplace(kCountersAttr, json_of(now.counters));
  if (kept) out.emplace(kKeptAttr, "1");
  if (!bests.empty()) out.emplace(kBestAttr, bests[0].mode + " " + bests[0].metric);
  return out;
}

// ---- what the store has ----

bool is_damage(ckpt_status code) { return code / 10 == CKPT_CORRUPT / 10 || code == CKPT_GONE; }

Result<std::vector<checkpoint::CheckpointEntry>> list_run(const checkpoint::Places& places, std::string_view run) {
  auto listed = checkpoint::list_places(places);
  if (!listed.ok() && listed.status().code() == CKPT_NOT_FOUND) return std::vector<checkpoint::CheckpointEntry>();
  CKPT_ASSIGN(auto entries, std::move(listed));
  std::erase_if(entries, [&](const auto& entry) { return !entry.counts() || entry.summary.run != run; });
  return entries;
}

Result<Attributes> read_attributes(const checkpoint::Checkpoint& checkpoint) {
  const format::Page* page = nullptr;
  CKPT_ASSIGN(const auto list, checkpoint.attrs_of("", &page));
  Attributes attributes;
  for (const auto& one : list) attributes.emplace(page->text(one.key()), page->text(one.value()));
  return attributes;
}

Numbers numbers_of(const Attributes& attributes, std::string_view key, std::string* problem) {
  const auto found = attributes.find(key);
  if (found == attributes.end()) return {};
  auto numbers = parse_numbers(found->second);
  if (numbers.ok()) return numbers.take();
  if (problem) *problem = strformat("attribute {} is left out: {}", key, numbers.status().message());
  return {};
}

Result<Entry> read_entry(const checkpoint::Places& places, const checkpoint::CheckpointEntry& listed) {
  CKPT_ASSIGN(const auto open, checkpoint::Checkpoint::open_quietly(places.of(listed), listed));
  CKPT_ASSIGN(const Attributes attributes, read_attributes(*open));
  Entry entry{listed.id, listed.summary.label, listed.summary.step, numbers_of(attributes, kMetricsAttr),
              attributes.contains(kKeptAttr)};
  if (const auto told = attributes.find(kBestAttr); told != attributes.end()) entry.told_best = told->second;
  entry.created_ms = static_cast<int64_t>(listed.summary.created_unix_ms);
  return entry;
}

Result<std::vector<Entry>> read_history(const checkpoint::Places& places, std::string_view run) {
  CKPT_ASSIGN(const auto listed, list_run(places, run));
  std::vector<Entry> entries;
  for (const auto& one : listed) {
    auto entry = read_entry(places, one);
    if (entry.ok()) {
      entries.push_back(entry.take());
      continue;
    }
    const ckpt_status code = entry.status().code();
    if (!is_damage(code) && code != CKPT_NOT_FOUND) return std::move(entry).status();
  }
  return entries;
}

// ---- what that means ----

void History::add(Entry entry) {
  std::erase_if(entries_, [&](const Entry& one) { return one.label == entry.label; });
  entries_.push_back(std::move(entry));
}

void History::go_back_to(int64_t step, const Tokens& own) {
  for (Entry& one : entries_) {
    if (one.step <= step) continue;
    const auto name = format::parse_checkpoint_dir(one.id);
    one.later = true;
    one.foreign = !name || !own.contains(name->token);
  }
}

std::vector<const Entry*> History::newest_first(const Entry* next) const {
  std::vector<const Entry*> all;
  if (next) all.push_back(next);
  for (size_t i = entries_.size(); i > 0; i--)
    if (!next || entries_[i - 1].label != next->label) all.push_back(&entries_[i - 1]);  // or it is replaced
  return all;
}

std::vector<Entry> History::best(const Best& policy, int64_t count, const Entry* next) const {
  std::vector<std::pair<double, const Entry*>> ranked;
  for (const Entry* entry : newest_first(next)) {
    const auto found = entry->metrics.find(policy.metric);
    if (entry->later || found == entry->metrics.end() || std::isnan(found->second)) continue;
    ranked.emplace_back(policy.mode == "min" ? found->second : -found->second, entry);
  }
  std::ranges::stable_sort(ranked, {}, &std::pair<double, const Entry*>::first);
  std::vector<Entry> out;
  for (size_t i = 0; i < ranked.size() && static_cast<int64_t>(i) < count; i++) out.push_back(*ranked[i].second);
  return out;
}

int64_t History::keep_last(int64_t count, const Entry& next) const {
  int64_t found = 0, own = 0;
  for (const Entry* entry : newest_first(&next)) {
    if (entry->foreign || !checkpoint::is_numbered(entry->label, entry->step) || own >= count) continue;
    found++;
    own += !entry->kept && !entry->later;
  }
  return std::max(found, count);
}

std::string History::protected_labels(const Bests& policies, const Entry& next, int64_t interval_ms) const {
  std::set<std::string> labels;
  const std::vector<const Entry*> all = newest_first(&next);
  for (const Entry* entry : all)
    if (entry->kept || (entry->later && !entry->foreign)) labels.insert(entry->label);
  for (const Best& policy : policies)
    for (const Entry& entry : best(policy, policy.count, &next)) labels.insert(entry.label);
  std::optional<int64_t> last;
  for (size_t i = all.size(); interval_ms > 0 && i-- > 0;) {
    // A clock may have been set back since.
    if (all[i]->later || (last && std::abs(all[i]->created_ms - *last) < interval_ms)) continue;
    last = all[i]->created_ms;
    labels.insert(all[i]->label);
  }
  std::string out;
  for (const std::string& label : labels) out += (out.empty() ? "" : ",") + label;
  return out;
}

std::vector<std::string> History::metrics() const {
  std::set<std::string> names;
  for (const Entry& entry : entries_)
    for (const auto& [name, value] : entry.metrics)
      if (!entry.later) names.insert(name);
  return {names.begin(), names.end()};
}

// ---- the best ----

// Which way a metric is better, by a word in its name; "": not told.
static std::string_view way_of(std::string_view metric) {
  static constexpr std::string_view kLeast[] = {"loss", "error", "err",  "perplexity", "ppl", "nll",
                                                "mse",  "mae",   "rmse", "wer",        "cer", "fid"};
  static constexpr std::string_view kMost[] = {"acc",    "accuracy", "f1",        "auc", "bleu", "rouge", "score",
                                               "reward", "recall",   "precision", "iou", "map",  "ndcg"};
  std::string word;
  for (const char letter : in_lower_case(metric) + " ") {
    if ((letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9')) {
      word += letter;
      continue;
    }
    if (std::ranges::find(kLeast, word) != std::end(kLeast)) return "min";
    if (std::ranges::find(kMost, word) != std::end(kMost)) return "max";
    word.clear();
  }
  return "";
}

bool is_best(std::string_view selector) { return selector == "best" || selector.starts_with("best:"); }

std::optional<Best> History::policy(std::string_view selector) const {
  std::string metric(selector.size() > 5 ? selector.substr(5) : ""), mode;
  if (metric.ends_with(":min") || metric.ends_with(":max")) {
    mode = metric.substr(metric.size() - 3);
    metric.resize(metric.size() - 4);
  }
  for (const Entry* entry : newest_first(nullptr)) {
    if (!metric.empty() || entry->told_best.size() < 5) continue;
    mode = entry->told_best.substr(0, 3);
    metric = entry->told_best.substr(4);
  }
  if (const auto names = metrics(); metric.empty() && names.size() == 1) metric = names[0];
  if (mode.empty()) mode = way_of(metric);
  if (metric.empty() || (mode != "min" && mode != "max")) return std::nullopt;
  return Best{metric, mode};
}

Result<std::string> find_best(const History& history, std::string_view run, std::string_view selector,
                              std::optional<Best> policy) {
  const auto names = history.metrics();
  if (!policy) policy = history.policy(selector);
  if (!policy && !names.empty())
    return Status(CKPT_INVALID, strformat("\"{}\" does not say by which metric, or which way; the checkpoints of run "
                                          "\"{}\" have {}: \"best:{}:min\" or \"best:{}:max\" says so",
                                          selector, run, list_some(names, 5), names.back(), names.back()));
  const auto found = policy ? history.best(*policy, 1) : std::vector<Entry>();
  if (!found.empty()) return found[0].id;
  const std::string what = policy ? strformat("the metric \"{}\"", policy->metric) : "metrics";
  const std::string they = names.empty() ? "" : "; they have " + list_some(names, 5);
  return Status(CKPT_NOT_FOUND,
                strformat("no checkpoint of run \"{}\" has {}, which \"{}\" needs{}", run, what, selector, they));
}

}  // namespace ckpt::keeper
