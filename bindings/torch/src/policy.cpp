#include "policy.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <regex>

namespace ckpt_torch {

using namespace internal;

std::optional<double> Moment::count(const std::string& name) const {
  if (name == "step") return static_cast<double>(step);
  const auto found = counters.find(name);
  if (found != counters.end()) return found->second;
  if (name == "batch") return static_cast<double>(step);
  return std::nullopt;
}

// ---- when ----

namespace {

const std::map<std::string, std::string> kCounters{
    {"step", "step"}, {"batch", "batch"},   {"batche", "batch"}, {"ba", "batch"},    {"epoch", "epoch"},
    {"ep", "epoch"},  {"sample", "sample"}, {"sp", "sample"},    {"token", "token"}, {"tok", "token"}};
const std::map<std::string, double> kSeconds{{"s", 1},    {"sec", 1},     {"second", 1}, {"min", 60},   {"minute", 60},
                                             {"h", 3600}, {"hour", 3600}, {"d", 86400},  {"day", 86400}};

}  // namespace

void Every::add(const std::string& counter, double number) {
  if (!(number > 0)) fail(CKPT_INVALID, "every: expected more than 0, found " + std::to_string(number));
  if (counter.empty())
    seconds.push_back(number);
  else
    counts.emplace_back(counter, number);
}

void Every::add(const std::string& text) {
  static const std::regex form("\\s*(\\d+(?:\\.\\d+)?)\\s*([a-z]+)\\s*");
  std::smatch found;
  if (std::regex_match(text, found, form)) {
    const double number = std::strtod(found[1].str().c_str(), nullptr);
    std::string unit = found[2];
    if (unit.size() > 1 && unit.back() == 's' && kSeconds.count(unit) == 0) unit.pop_back();
    if (const auto second = kSeconds.find(unit); second != kSeconds.end()) return add("", number * second->second);
    if (const auto counter = kCounters.find(unit); counter != kCounters.end()) return add(counter->second, number);
  }
  fail(CKPT_INVALID,
       "every: expected a number and a unit (steps, epochs, batches, samples, tokens, s, min, h, days), found " +
           in_quotes(text));
}

Every::Every(std::initializer_list<Every> all) {
  for (const Every& one : all) {
    counts.insert(counts.end(), one.counts.begin(), one.counts.end());
    seconds.insert(seconds.end(), one.seconds.begin(), one.seconds.end());
    predicates.insert(predicates.end(), one.predicates.begin(), one.predicates.end());
  }
}

TimeLimit::TimeLimit(const char* text) {
  if (std::string(text) != "slurm")
    fail(CKPT_INVALID, "time_limit: expected a duration, a time or \"slurm\", found " + in_quotes(text));
  const char* end = std::getenv("SLURM_JOB_END_TIME");
  if (end == nullptr)
    fail(CKPT_INVALID, "time_limit \"slurm\": SLURM_JOB_END_TIME is not set; give a duration or a time");
  *this = TimeLimit(std::chrono::system_clock::from_time_t(static_cast<time_t>(std::strtoll(end, nullptr, 10))));
}

namespace internal {

bool due_by_count(const Every& every, const Moment& now, const std::optional<Moment>& last) {
  bool due = false;
  for (const auto& [name, number] : every.counts) {
    const auto count = now.count(name);
    if (!count)
      fail(CKPT_INVALID, "every " + std::to_string(static_cast<int64_t>(number)) + " " + name +
                             "s: step() was not told the counter " + in_quotes(name));
    auto before = last ? last->count(name) : std::nullopt;
    if (!before) before = name == "step" ? static_cast<double>(now.step - 1) : 0;
    due |= std::floor(*count / number) > std::floor(*before / number);
  }
  return due;
}

bool due_by_time(const Every& every, const Moment& now, double seconds) {
  bool due = false;
  for (const double limit : every.seconds) due |= seconds >= limit;
  for (const auto& ask : every.predicates) due |= ask(now);  // each is asked
  return due;
}

// ---- labels ----

namespace {

// A checkpoint is one for all ranks.
constexpr const char* kOfRank0[] = {"rank", "local_rank", "node_rank"};
constexpr const char* kOfMoment[] = {"step",      "batch",           "epoch",    "batch_in_epoch",
                                     "sample",    "sample_in_epoch", "token",    "token_in_epoch",
                                     "total_wct", "epoch_wct",       "batch_wct"};

[[noreturn]] void wrong(const std::string& text, const std::string& why) {
  fail(CKPT_INVALID, "label " + in_quotes(text) + ": " + why);
}

}  // namespace

LabelTemplate::LabelTemplate(const std::string& text, std::map<std::string, std::string> fixed)
    : text_(text), fixed_(std::move(fixed)) {
  for (const char* name : kOfRank0) fixed_.emplace(name, "0");
  static const std::regex field("([a-z_]+)(?::(0?)(\\d*)d?)?");
  for (size_t at = 0; at < text.size(); at++) {
    const bool brace = text[at] == '{' || text[at] == '}';
    if (!brace || (at + 1 < text.size() && text[at + 1] == text[at])) {
      pieces_.push_back({std::string(1, text[at]), false, 0, ' '});
      at += brace;  // "{{" is a brace
      continue;
    }
    const size_t end = text.find('}', at);
    std::smatch found;
    const std::string inside = end == text.npos ? "" : text.substr(at + 1, end - at - 1);
    if (text[at] == '}' || !std::regex_match(inside, found, field))
      wrong(text, "expected variables such as {step} or {step:06d}");
    const std::string name = found[1];
    const bool of_moment = std::count(std::begin(kOfMoment), std::end(kOfMoment), name) > 0;
    if (!of_moment && fixed_.count(name) == 0) {
      std::vector<std::string> known(std::begin(kOfMoment), std::end(kOfMoment));
      for (const auto& [key, value] : fixed_) known.push_back(key);
      wrong(text, "no variable is called " + in_quotes(name) + "; there are " + listed(known, 30));
    }
    const std::string width = found[3];
    if (width.size() > 2) wrong(text, "a width of at most 99 is possible, found " + width);
    pieces_.push_back({name, true, width.empty() ? 0 : std::stoul(width), found[2].length() ? '0' : ' '});
    at = end;
  }
}

bool LabelTemplate::numbered() const {
  return std::any_of(pieces_.begin(), pieces_.end(), [](const Piece& piece) {
    return piece.variable && (piece.text == "step" || piece.text == "batch");
  });
}

std::string LabelTemplate::value(const Piece& piece, const Moment& now) const {
  const auto fixed = fixed_.find(piece.text);
  if (fixed != fixed_.end()) return fixed->second;
  const auto count = now.count(piece.text);
  if (!count) wrong(text_, "step() was not told the counter " + in_quotes(piece.text));
  if (*count == std::floor(*count)) return std::to_string(static_cast<int64_t>(*count));
  std::ostringstream text;
  text << *count;
  return text.str();
}

std::string LabelTemplate::label(const Moment& now) const {
  std::string out;
  for (const Piece& piece : pieces_) {
    const std::string text = piece.variable ? value(piece, now) : piece.text;
    if (text.size() < piece.width) out.append(piece.width - text.size(), piece.fill);
    out += text;
  }
  return out;
}

}  // namespace internal
}  // namespace ckpt_torch
