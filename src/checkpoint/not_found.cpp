#include "checkpoint/not_found.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>

#include "base/text.h"
#include "checkpoint/catalog.h"
#include "checkpoint/given_names.h"
#include "format/names.h"

namespace ckpt::checkpoint {

namespace {

constexpr size_t kNamed = 3;  // names in one message; the others are counted

std::vector<std::string> quote_all(std::vector<std::string> names) {
  for (std::string& name : names) name = in_quotes(name);
  return names;
}

// How many characters must be put in, taken out or changed; upper and lower case are one.
size_t edit_distance(std::string_view a, std::string_view b) {
  auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); i++) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); j++) {
      const size_t changed = diagonal + (lower(a[i]) == lower(b[j]) ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

// Those of `names` that `wanted` may be a slip of: the nearest.
std::vector<std::string> near_names(std::string_view wanted, const std::vector<std::string>& names) {
  std::vector<std::pair<size_t, std::string>> near;
  for (const std::string& name : names)
    if (size_t distance = edit_distance(wanted, name); distance <= 1 + std::max(wanted.size(), name.size()) / 4)
      near.emplace_back(distance, name);
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> found;
  for (auto& [distance, name] : near)
    if (distance == near.front().first && found.size() < kNamed) found.push_back(std::move(name));
  return found;
}

bool is_newer(const CheckpointEntry& a, const CheckpointEntry& b) {
  auto age = [](const CheckpointEntry& entry) { return std::pair(entry.summary.when(), entry.summary.attempt); };
  return age(a) > age(b);
}

// One question that found nothing.
class NotFound {
 public:
  NotFound(const store::Store& store, std::string_view selector, std::string_view run, const Selector& wanted)
      : store_(store), selector_(selector), run_(run), wanted_(wanted) {}

  Status explain() {
    if (!wanted_.name.empty() && !store_.traits().lists) return say(nobody_named());
    auto files = store_.list("");
    if (!files.ok()) return no_place(files.status());
    CKPT_TRY(list_entries());
    for (const CheckpointEntry& entry : entries_)
      if (entry.counts() && entry.summary.run == run_) ours_.push_back(&entry);
    if (entries_.empty()) return nothing_there(*files);
    if (ours_.empty()) return no_run();
    if (wanted_.latest) return say("no checkpoint could be chosen: the store changed meanwhile; try again");
    if (!wanted_.name.empty()) {
      note_names(store_, entries_);
      return no_name();
    }
    if (wanted_.step) return no_step();
    const auto id = can_be_id(selector_) ? format::parse_checkpoint_dir(selector_) : std::nullopt;
    return id ? no_id(id->label) : no_label();
  }

  // Nothing has this id, of whatever run.
  Status explain_id() {
    CKPT_TRY(list_entries());
    const auto parsed = format::parse_checkpoint_dir(selector_);
    std::vector<std::string> ids = ids_of(parsed ? std::string_view(parsed->label) : selector_);
    const std::string none = "no checkpoint has the id " + in_quotes(selector_);
    if (!ids.empty()) return say(none + "; of its label there is " + list_some(ids, kNamed), ids[0]);
    for (const CheckpointEntry& entry : entries_) ids.push_back(entry.id);
    return ids.empty() ? say(none + "; the store is empty") : say(none + "; newest: " + list_some(ids, kNamed), ids[0]);
  }

 private:
  Status list_entries() {
    CKPT_ASSIGN(entries_, list_checkpoints(store_));
    std::stable_sort(entries_.begin(), entries_.end(), is_newer);
    return Ok();
  }

  std::vector<std::string> ids_of(std::string_view label) const {
    std::vector<std::string> ids;
    for (const CheckpointEntry& entry : entries_)
      if (entry.summary.label == label) ids.push_back(entry.id);
    return ids;
  }

  Status say(const std::string& text, std::string found = "") const {
    Status status = Status(CKPT_NOT_FOUND, store_.uri() + ": " + text).with("path", store_.uri());
    status = std::move(status).with("expected", std::string(selector_));
    return found.empty() ? status : std::move(status).with("found", std::move(found));
  }

  // Who cannot reach a store must not learn that it is empty.
  Status no_place(const Status& why) const { return why.code() == CKPT_NOT_FOUND ? say("no such directory") : why; }

  Status nothing_there(const std::vector<store::Entry>& files) const {
    auto has = [&](auto&& fits) { return std::any_of(files.begin(), files.end(), fits); };
    const bool own = has([](const auto& file) { return !file.directory && format::parse_part_name(file.name); });
    if (own) return say("a checkpoint's own directory; its store is the directory that holds it", "a checkpoint");
    const bool store = files.empty() || has([](const auto& file) { return file.name == format::kControlDir; });
    const std::string found = store && !files.empty() ? "" : "no store";
    if (!store) return say("no store: this directory holds neither .ckpt nor a checkpoint", found);
    return say("the store is empty: no checkpoint was saved here yet", found);
  }

  Status no_run() const {
    std::vector<std::string> runs;
    const CheckpointEntry* newest = nullptr;
    for (const CheckpointEntry& entry : entries_) {
      if (!entry.counts()) continue;
      if (!newest) newest = &entry;
      if (std::find(runs.begin(), runs.end(), entry.summary.run) == runs.end()) runs.push_back(entry.summary.run);
    }
    if (!newest) return nothing_committed();
    const std::string text = "run " + in_quotes(run_) + " has no checkpoint; ";
    if (runs.size() == 1)
      return say(text + "the only run is " + in_quotes(runs[0]) + ", its newest label " +
                     in_quotes(newest->summary.label) + " (option run chooses it)",
                 runs[0]);
    return say(text + "runs, newest first: " + list_some(quote_all(runs), kNamed) + " (option run chooses one)",
               runs[0]);
  }

  Status nothing_committed() const {
    const CheckpointEntry& newest = entries_.front();
    return say(
        strformat("the store has no checkpoint that can be loaded: of {} directories that are attempts, damaged or "
                  "of other stores the newest is {}",
                  entries_.size(), newest.id),
        newest.id);
  }

  std::vector<std::string> labels() const {
    std::vector<std::string> names;
    for (const CheckpointEntry* entry : ours_) names.push_back(entry->summary.label);
    return names;
  }

  // What has the label and cannot be meant: an attempt, a checkpoint of another run or of another store.
  std::string elsewhere(std::string_view label) const {
    for (const CheckpointEntry& entry : entries_) {
      if (entry.summary.label != label) continue;
      if (entry.counts()) return "; run " + in_quotes(entry.summary.run) + " has it (option run chooses it)";
      if (entry.state == CKPT_CHECKPOINT_COMMITTED)
        return "; " + entry.id + " has it, of another store or as a copy: only its id opens it";
      if (entry.state == CKPT_CHECKPOINT_OPEN) return "; " + entry.id + " is an attempt at it, not committed";
      if (entry.state == CKPT_CHECKPOINT_ABORTED) return "; " + entry.id + " was an attempt at it, and was given up";
    }
    return "";
  }

  Status no_label() const {
    std::string text = "run " + in_quotes(run_) + " has no checkpoint " + in_quotes(wanted_.label);
    text += elsewhere(wanted_.label);
    std::vector<std::string> names = labels();
    // Whoever forgets a prefix writes "100" for step:100, or "latets".
    const bool bare = !selector_.starts_with("label:");
    for (const CheckpointEntry* entry : ours_)
      if (bare && entry->summary.step >= 0 && std::to_string(entry->summary.step) == wanted_.label)
        return say(text + strformat("; step:{} is {}", entry->summary.step, in_quotes(entry->summary.label)),
                   entry->summary.label);
    if (const auto named = named_id(store_, run_, wanted_.label); bare && named.ok() && !named->empty())
      text += "; name:" + std::string(wanted_.label) + " is " + *named;
    const std::string newest = list_some(quote_all(names), kNamed);
    if (bare) names.push_back("latest");
    const std::vector<std::string> near = near_names(wanted_.label, names);
    if (!near.empty()) text += "; near: " + list_some(quote_all(near), kNamed);
    return say(text + "; newest: " + newest, near.empty() ? names.front() : near.front());
  }

  std::string nobody_named() const {
    return "run " + in_quotes(run_) + " has no checkpoint named " + in_quotes(wanted_.name);
  }

  Status no_name() const {
    const std::string text = nobody_named();
    std::vector<std::string> names;
    for (const CheckpointEntry* entry : ours_)
      for (const std::string_view name : split(entry->names, ' ')) names.emplace_back(name);
    std::erase(names, "");
    if (names.empty()) return say(text + "; none has a name (ckpt label gives one)");
    const std::vector<std::string> near = near_names(wanted_.name, names);
    if (near.empty()) return say(text + "; names: " + list_some(quote_all(names), kNamed), names.front());
    return say(text + "; near: " + list_some(quote_all(near), kNamed), near.front());
  }

  Status no_id(std::string_view label) const {
    const std::vector<std::string> ids = ids_of(label);
    if (ids.empty()) return no_label();
    return say("no checkpoint has the id " + in_quotes(selector_) + "; of its label there is " + list_some(ids, kNamed),
               ids[0]);
  }

  Status no_step() const {
    std::vector<int64_t> steps;
    for (const CheckpointEntry* entry : ours_)
      if (entry->summary.step >= 0) steps.push_back(entry->summary.step);
    const std::string text =
        strformat("run {} has no checkpoint of step {}", in_quotes(run_), static_cast<uint64_t>(*wanted_.step));
    if (steps.empty()) return say(text + "; none has a step; newest: " + list_some(quote_all(labels()), kNamed));
    const int64_t newest = steps.front();
    std::sort(steps.begin(), steps.end());
    const auto above = std::lower_bound(steps.begin(), steps.end(), *wanted_.step);
    std::vector<std::string> nearest;
    if (above != steps.begin()) nearest.push_back(std::to_string(above[-1]));
    if (above != steps.end()) nearest.push_back(std::to_string(*above));
    return say(text + "; nearest: " + list_some(nearest, kNamed) + "; newest: " + std::to_string(newest),
               nearest.front());
  }

  const store::Store& store_;
  std::string_view selector_, run_;
  Selector wanted_;
  std::vector<CheckpointEntry> entries_;      // the newest first
  std::vector<const CheckpointEntry*> ours_;  // of these, what a selector may pick
};

}  // namespace

Status no_manifest(const store::Store& store, std::string_view id) {
  const std::string path = store.path(format::slot_key(id));
  return Status(CKPT_NOT_FOUND, path +
                                    " is not there; a web server does not tell what it holds, so a checkpoint is "
                                    "named by its directory, such as step-100.7.1, not by its label")
      .with("path", path);
}

Status explain_not_found(const store::Store& store, std::string_view selector, std::string_view run) {
  auto wanted = parse_selector(selector);
  if (!wanted.ok()) return std::move(wanted).status();
  return NotFound(store, selector, run, *wanted).explain();
}

Status explain_no_id(const store::Store& store, std::string_view id) {
  return NotFound(store, id, "", {}).explain_id();
}

Result<CheckpointEntry> committed_entry(const store::Store& store, std::string_view id) {
  if (!can_be_id(id)) return explain_no_id(store, id);
  auto entry = read_entry(store, id);
  if (entry.status().code() == CKPT_NOT_FOUND && store.traits().lists) return explain_no_id(store, id);
  if (!entry.ok() || entry->state == CKPT_CHECKPOINT_COMMITTED) return entry;
  return Status(CKPT_NOT_FOUND, store.path(id) + " is no committed checkpoint").with("path", store.path(id));
}

}  // namespace ckpt::checkpoint
