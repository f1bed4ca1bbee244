#include "checkpoint/line.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <string>

#include "format/names.h"

namespace ckpt::checkpoint {

namespace {

struct Loaded {
  int64_t step;
  std::string id;
};
struct Known {
  Line line;
  std::optional<int64_t> saved;   // the step of the last save
  std::map<When, Loaded> loaded;  // since then
};

struct Table {
  std::mutex mutex;
  std::map<std::pair<Id, std::string>, Known> runs;
};

// Never destroyed: threads of jobs may outlive what ends with the process.
Table& table() {
  static Table& known = *new Table;
  return known;
}

std::atomic<uint64_t> removed{0};

template <typename Act>
auto with(const Id& store, std::string_view run, Act&& act) {
  Table& known = table();
  const std::lock_guard lock(known.mutex);
  return act(known.runs[{store, std::string(run)}]);
}

}  // namespace

Line line_of(const Id& store, std::string_view run) {
  return with(store, run, [](const Known& known) { return known.line; });
}

void note_loaded(const format::Summary& summary, int64_t step) {
  with(summary.store_id, summary.run, [&](Known& known) {
    known.loaded[summary.when()] = {step, format::checkpoint_dir(summary.label, summary.token, summary.attempt)};
  });
}

void note_unused(const Id& store, std::string_view run, std::string_view id) {
  with(store, run,
       [&](Known& known) { std::erase_if(known.loaded, [&](const auto& one) { return one.second.id == id; }); });
}

Taken note_saved(const Id& store, std::string_view run, uint64_t token, int64_t step) {
  return with(store, run, [&](Known& known) {
    std::optional<When> from;
    for (const auto& [when, its] : known.loaded)
      if (its.step <= step) from = when;
    const bool forward = known.saved && step >= *known.saved;
    const bool first = !known.line.sessions.contains(token);
    if (!forward && (from || first)) known.line = {};
    if (from) known.line.loaded = std::max(known.line.loaded.value_or(*from), *from);
    known.line.sessions.insert(token);
    known.saved = step;
    known.loaded.clear();
    const Step taken = forward || from ? Step::kGoesOn : first ? Step::kBeginsAnew : Step::kGoesBack;
    return Taken{taken, forward ? std::nullopt : from};
  });
}

void forget_line(const Id& store, std::string_view run) {
  with(store, run, [](Known& known) { known = {}; });
}

uint64_t removals() { return removed; }
void note_removal() { removed++; }

bool is_numbered(std::string_view label, int64_t step) {
  if (step < 0) return false;
  const std::string text = std::to_string(step);
  constexpr std::string_view kDigits = "0123456789";
  for (size_t at = label.find_first_of(kDigits); at != label.npos;) {
    const size_t end = std::min(label.find_first_not_of(kDigits, at), label.size());
    std::string_view number = label.substr(at, end - at);
    while (number.size() > 1 && number[0] == '0') number.remove_prefix(1);
    if (number == text) return true;
    at = label.find_first_of(kDigits, end);
  }
  return false;
}

}  // namespace ckpt::checkpoint
