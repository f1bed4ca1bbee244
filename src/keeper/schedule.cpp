#include "keeper/schedule.h"

#include <algorithm>
#include <cmath>

#include "base/strformat.h"
#include "base/text.h"

namespace ckpt::keeper {

namespace {

struct Unit {
  std::string_view name;
  std::string_view counter;  // "": it is a time
  double seconds;
};
// A unit may have an s at its end.
constexpr Unit kUnits[] = {
    {"step", "step", 0}, {"batch", "batch", 0},   {"batche", "batch", 0}, {"ba", "batch", 0},    {"epoch", "epoch", 0},
    {"ep", "epoch", 0},  {"sample", "sample", 0}, {"sp", "sample", 0},    {"token", "token", 0}, {"tok", "token", 0},
    {"s", "", 1},        {"sec", "", 1},          {"second", "", 1},      {"min", "", 60},       {"minute", "", 60},
    {"h", "", 3600},     {"hour", "", 3600},      {"d", "", 86400},       {"day", "", 86400}};

const Unit* find_unit(std::string_view name) {
  const auto find = [](std::string_view wanted) { return std::ranges::find(kUnits, wanted, &Unit::name); };
  const Unit* unit = find(name);
  if (unit == std::end(kUnits) && name.ends_with('s')) unit = find(name.substr(0, name.size() - 1));
  return unit == std::end(kUnits) ? nullptr : unit;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// A number and what follows it. Nothing unless it is finite and more than 0.
std::optional<std::pair<double, std::string_view>> parse_number(std::string_view text) {
  const size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::optional<double> number = to_double(text.substr(0, end));
  if (!number || !std::isfinite(*number) || *number <= 0) return std::nullopt;
  return std::pair(*number, trimmed(text.substr(end)));
}

}  // namespace

std::optional<double> Moment::count(std::string_view name) const {
  if (name == "step") return static_cast<double>(step);
  if (const auto found = counters.find(name); found != counters.end()) return found->second;
  if (name == "batch") return static_cast<double>(step);
  return std::nullopt;
}

Result<Schedule> Schedule::parse(std::string_view text) {
  Schedule schedule;
  if (trimmed(text).empty()) return schedule;
  for (const std::string_view one : split(text, ',')) {
    const bool idle = trimmed(one).starts_with("idle");
    const std::string_view rest = trimmed(trimmed(one).substr(idle ? 4 : 0));
    if (idle && rest.empty()) {
      schedule.idle_ = 0;
      continue;
    }
    const auto number = parse_number(rest);
    const Unit* unit = number ? find_unit(number->second.empty() ? "step" : number->second) : nullptr;
    if (!unit || (idle && !unit->counter.empty()))
      return Status(CKPT_INVALID, strformat("every: expected a number above 0 and a unit (steps, epochs, batches, "
                                            "samples, tokens, s, min, h, days), or idle and a time, found \"{}\"",
                                            trimmed(one)))
          .with("found", std::string(trimmed(one)));
    if (idle)
      schedule.idle_ = number->first * unit->seconds;
    else if (unit->counter.empty())
      schedule.seconds_.push_back(number->first * unit->seconds);
    else
      schedule.counts_.emplace_back(unit->counter, number->first);
  }
  return schedule;
}

bool Schedule::counts_more_than_steps() const {
  return std::ranges::any_of(counts_, [](const auto& one) { return one.first != "step"; });
}

Result<Due> Schedule::due_by_counters(const Moment& now, const std::optional<Moment>& last,
                                      const Multiples& saved) const {
  Due due;
  for (size_t place = 0; place < counts_.size(); place++) {
    const auto& [name, number] = counts_[place];
    const auto count = now.count(name);
    if (!count)
      return Status(CKPT_INVALID,
                    strformat("every {} {}s: this step was not told the counter \"{}\"", number, name, name))
          .with("expected", std::string(name));
    auto before = last ? last->count(name) : std::nullopt;
    if (!before) before = name == "step" ? static_cast<double>(now.step - 1) : 0;
    if (name == "step" && number == std::floor(number) && number < 9e15) {  // steps may have more digits than a double
      const auto each = static_cast<int64_t>(number);
      due.by_step |= now.step / each > (last ? last->step : now.step - 1) / each;
      continue;
    }
    const double passed = std::floor(*count / number);
    const auto already = saved.find(place);
    if (passed <= std::floor(*before / number) || (already != saved.end() && passed <= already->second)) continue;
    if (name == "step")
      due.by_step = true;
    else
      due.by_count = place + 1;
  }
  return due;
}

void Schedule::count_as_saved(size_t place, const Moment& now, Multiples* saved) const {
  if (place >= counts_.size()) return;
  const auto& [name, number] = counts_[place];
  double& multiple = (*saved)[place];
  multiple = std::max(multiple, std::floor(now.count(name).value_or(0) / number)) + 1;
}

bool Schedule::due_by_clock(double seconds, bool saving) const {
  return (idle_ && !saving && seconds >= *idle_) ||
         std::ranges::any_of(seconds_, [&](double limit) { return seconds >= limit; });
}

Result<double> parse_seconds(std::string_view option, std::string_view text) {
  const auto number = parse_number(trimmed(text));
  const Unit* unit = number ? find_unit(number->second.empty() ? "s" : number->second) : nullptr;
  if (!unit || !unit->counter.empty())
    return Status(CKPT_INVALID, strformat("{}: expected a time such as \"3600\" (seconds), \"90 min\" or \"2 h\"{}, "
                                          "found \"{}\"",
                                          option, option == "time_limit" ? ", or \"slurm\"" : "", text))
        .with("found", std::string(text));
  return number->first * unit->seconds;
}

}  // namespace ckpt::keeper
