#include "keeper/keeper.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/strformat.h"
#include "base/text.h"
#include "format/names.h"

namespace ckpt::keeper {

static Status invalid(std::string text) { return Status(CKPT_INVALID, std::move(text)); }

// ---- the policy ----

static std::map<std::string, std::string, std::less<>> fixed_variables(const std::string& run, uint32_t world_size) {
  const std::string size = std::to_string(world_size);
  const char* const local = std::getenv("LOCAL_WORLD_SIZE");
  // A checkpoint is one for all ranks.
  return {{"run_name", run}, {"world_size", size}, {"local_world_size", local ? local : size},
          {"rank", "0"},     {"local_rank", "0"},  {"node_rank", "0"}};
}

Result<std::unique_ptr<Keeper>> Keeper::make(KeeperOptions options, uint32_t rank, uint32_t world_size) {
  if (rank >= world_size) return invalid(strformat("rank {} of {}", rank, world_size));
  CKPT_ASSIGN(auto labels, LabelTemplate::parse(options.label, fixed_variables(options.run, world_size)));
  std::unique_ptr<Keeper> keeper(new Keeper(std::move(options), rank, world_size, std::move(labels)));
  CKPT_TRY(keeper->read_policy());
  CKPT_TRY(keeper->check());
  return keeper;
}

Status Keeper::read_policy() {
  CKPT_ASSIGN(schedule_, Schedule::parse(options_.every));
  CKPT_ASSIGN(bests_, Best::parse(options_.keep_best));
  if (!options_.keep_interval.empty()) {
    CKPT_ASSIGN(const double seconds, parse_seconds("keep_interval", options_.keep_interval));
    interval_ms_ = static_cast<int64_t>(std::clamp(seconds * 1000, 1.0, 1e15));
  }
  if (options_.continue_from == "none") from_ = -1, replaces_old_ = true;
  return options_.time_limit.empty() ? Ok() : read_time_limit();
}

Status Keeper::read_time_limit() {
  double seconds = 0;
  if (options_.time_limit == "slurm") {
    const char* const text = std::getenv("SLURM_JOB_END_TIME");
    int64_t end = 0;
    const std::string_view digits = text ? text : "";
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), end);
    if (read.ec != std::errc() || read.ptr != digits.data() + digits.size())
      return invalid(
          strformat("time_limit slurm: SLURM_JOB_END_TIME is {}, not a time in seconds; give a time from now, "
                    "such as \"90 min\"",
                    text ? "\"" + std::string(digits) + "\"" : "not set"));
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    seconds = static_cast<double>(end) - std::chrono::duration<double>(now).count();
  } else {
    CKPT_ASSIGN(seconds, parse_seconds("time_limit", options_.time_limit));
  }
  constexpr double kLongest = 1e9;  // a clock counts nanoseconds
  const std::chrono::duration<double> limit(std::clamp(seconds, -kLongest, kLongest) -
                                            static_cast<double>(options_.time_margin_ms) / 1000);
  end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(limit);
  return Ok();
}

Status Keeper::check() const {
  if (const Status status = format::check_label(labels_.example()); !status.ok())
    return invalid(strformat("option label, \"{}\": {}", labels_.text(), status.message()))
        .with("found", labels_.text());
  if (options_.keep_last == 0 && (options_.keep_every != 0 || interval_ms_ != 0))
    return invalid(
        strformat("{} has no effect without keep_last, which says how many of the newest checkpoints stay: "
                  "without it all are kept",
                  interval_ms_ ? "keep_interval" : "keep_every"));
  if (options_.keep_last > 0 && !labels_.numbered())
    return invalid(
        strformat("keep_last removes only checkpoints whose label has their step in it: expected {{step}} or "
                  "{{batch}} in label, found \"{}\"",
                  labels_.text()));
  if (world_size_ > 1 && !options_.ranks_agree && one_may_stop())
    return invalid(
        "ranks that do not agree (ranks_agree=0) cannot save by a clock or a time limit: each would save "
        "another step");
  return Ok();
}

// ---- when ----

Status Keeper::tell(int32_t kind, std::string_view name, double value) {
  if (kind != CKPT_KEEPER_COUNTER && kind != CKPT_KEEPER_METRIC) return invalid(strformat("kind {}", kind));
  if (name.empty()) return invalid("a number without a name");
  CKPT_TRY(format::check_text(name));
  if (kind == CKPT_KEEPER_COUNTER && !std::isfinite(value))
    return invalid(strformat("counter \"{}\": expected a finite number, found {}", name, value));
  (kind == CKPT_KEEPER_METRIC ? told_.metrics : told_.counters).insert_or_assign(std::string(name), value);
  return Ok();
}

bool Keeper::needs_votes() const {
  return one_may_stop() || (world_size_ > 1 && options_.ranks_agree && schedule_.counts_more_than_steps());
}

int64_t Keeper::why_to_stop() const {
  if (const int32_t asked = asked_to_stop_) return asked;
  if (const int number = signals_.received()) return number;
  return end_ && Clock::now() >= *end_ ? CKPT_KEEPER_TIME_LIMIT : 0;
}

void Keeper::decide_to_stop(int64_t why) {
  if (why && stopping_.empty())
    stopping_ = why == CKPT_KEEPER_TIME_LIMIT ? "time limit" : signal_name(static_cast<int>(why));
}

// Votes for a save: by the caller's rule or the clock, or by the counter at a place (2, 3, …).
static constexpr int64_t kVoteOfRule = 1, kVoteOfCount = 2;

Status Keeper::may_save() const {
  if (!options_.read_only) return Ok();
  return invalid("the keeper is read-only (read_only=1): it finds checkpoints, and saves none");
}

Status Keeper::step(int64_t number, bool due, int64_t* votes) {
  CKPT_TRY(may_save());
  look();
  warning_ = std::exchange(lack_, {});
  voting_ = voted_ = false;
  Moment now = std::exchange(told_, {});
  if (number < 0)
    return invalid(strformat("a keeper counts steps: expected a number from 0 on, found {}", number))
        .with("expected", "0 or more")
        .with("found", std::to_string(number));
  now.step = number;
  if (votes) {
    CKPT_ASSIGN(due_, schedule_.due_by_counters(now, now_, saved_));
    int64_t asks = 0;
    const int64_t why = why_to_stop();
    if ((due || why) && world_size_ > 1 && !options_.ranks_agree)
      return invalid(
          "ranks that do not agree (ranks_agree=0) save by counters only: a rule or a signal of one rank "
          "would make it save another step than the others");
    const std::chrono::duration<double> since = Clock::now() - saved_at_;
    const bool saving = rank_ != 0 || !flights_.empty();  // rank 0 ends last, so it says whether a save runs
    if (due || schedule_.due_by_clock(since.count(), saving)) asks = kVoteOfRule;
    if (due_.by_count && world_size_ > 1 && options_.ranks_agree)
      asks = kVoteOfCount + static_cast<int64_t>(std::exchange(due_.by_count, 0)) - 1;
    const int64_t own[kVotes] = {asks, why, number, -number, rank_};
    std::ranges::copy(own, votes);
    std::ranges::copy(own, own_votes_);
    voting_ = voted_ = true;
    if (now_ && number < now_->step && rank_ == 0)
      warning_ += (warning_.empty() ? "" : "; ") +
                  strformat(
                      "step {} comes after step {}, and nothing was restored in between: `every` counts steps "
                      "upwards, and does not save it",
                      number, now_->step);
  }
  now_ = std::move(now);
  return Ok();
}

Status Keeper::decide(const int64_t* votes, int32_t* what) {
  if (!voting_) return invalid("there is nothing to decide: ckpt_keeper_step with votes comes before");
  const bool several = world_size_ > 1 && options_.ranks_agree;
  if (!votes && several && (needs_votes() || own_votes_[0] || own_votes_[1]))
    return invalid("the votes are missing: one rank alone may want a save, so all ranks combine theirs in each step");
  if (votes && several && votes[4] != world_size_ - 1)
    return invalid(
        strformat("the votes are not those of all ranks, each by its maximum: expected {} as the last one, "
                  "found {}",
                  world_size_ - 1, votes[4]));
  if (!votes) votes = own_votes_;
  if (votes[2] != -votes[3])
    return Status(CKPT_MISMATCH, strformat("the ranks are at different steps, from {} to {}", -votes[3], votes[2]))
        .with("expected", std::to_string(-votes[3]))
        .with("found", std::to_string(votes[2]));
  voting_ = false;
  *what = due_ || votes[0] ? CKPT_KEEPER_SAVE : CKPT_KEEPER_GO_ON;
  if (votes[0] >= kVoteOfCount && votes[0] != own_votes_[0])
    schedule_.count_as_saved(static_cast<size_t>(votes[0] - kVoteOfCount), *now_, &saved_);
  if (!votes[1] || !stopping_.empty()) return Ok();
  *what = CKPT_KEEPER_SAVE_AND_STOP;
  decide_to_stop(votes[1]);
  return Ok();
}

Status Keeper::catch_signal(int number) {
  if (world_size_ > 1 && !options_.ranks_agree)
    return invalid("ranks that do not agree (ranks_agree=0) cannot save on a signal: each would save another step");
  return signals_.add(number);
}

// ---- what is saved ----

void Keeper::look() {
  for (auto flight = flights_.begin(); flight != flights_.end();) {
    const Outcome outcome = *flight->outcome;  // once: it may change meanwhile
    if (outcome == Outcome::kFailed) {
      history_.reset();  // it may have been committed all the same: the store knows
    } else if (outcome != Outcome::kRunning) {
      newest_ = flight->entry;  // where there is no memory for that, the next look takes it
      if (history_) history_->add(flight->entry);
      replaced_.erase(flight->entry.label);
    }
    flight = outcome == Outcome::kRunning ? flight + 1 : flights_.erase(flight);
  }
}

const std::string* Keeper::saved() {
  look();
  return newest_ ? &newest_->id : nullptr;
}

bool Keeper::needs_history() {
  look();
  const uint64_t removals = checkpoint::removals();
  stale_ |= removals != removals_;
  removals_ = removals;
  const bool just_saved = newest_ && now_ && newest_->step == now_->step;  // if that is still there
  return (options_.keep_last > 0 && (stale_ || !history_)) || (stale_ && just_saved) || replaces_old_;
}

void Keeper::know(std::vector<Entry> entries) {
  if (std::exchange(stale_, false) && newest_ && std::ranges::find(entries, newest_->id, &Entry::id) == entries.end())
    newest_.reset();
  if (std::exchange(replaces_old_, false)) {
    std::vector<std::string> labels;
    for (const Entry& entry : entries) labels.push_back(entry.label);
    plan_warns_ = replace(labels, "begins anew on purpose", "");
  }
  history_ = History(std::move(entries));
  if (from_) history_->go_back_to(*from_, tokens_);
}

static int64_t now_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

Entry Keeper::next_entry(std::string label, bool kept) const {
  return {"", std::move(label), now_->step, now_->metrics, kept, "", false, false, now_ms()};
}

// Keys of a plan; attributes and options have theirs behind a point.
static constexpr std::string_view kLabel = "label", kStep = "step", kKept = "kept", kSaved = "saved", kStop = "stop",
                                  kOption = "option.", kAttribute = "attribute.";

// What retention must leave whether the saves in flight are committed or not.
Keeper::Retention Keeper::retention_for(const Entry& next) const {
  Retention out{history_->keep_last(options_.keep_last, next), history_->protected_labels(bests_, next, interval_ms_)};
  if (flights_.empty()) return out;
  History with_all = *history_;
  for (const Flight& flight : flights_) {
    with_all.add(flight.entry);
    out.protect += "," + flight.entry.label;
  }
  out.protect += "," + with_all.protected_labels(bests_, next, interval_ms_);
  out.keep_last = std::max(out.keep_last, with_all.keep_last(options_.keep_last, next));
  return out;
}

Result<const std::string*> Keeper::plan(const char* label) {
  if (!plans()) return invalid(strformat("rank 0 makes the plan and sends it to the others; this is rank {}", rank_));
  CKPT_TRY(may_save());
  if (!now_) return invalid("there is nothing to save: ckpt_keeper_step comes before");
  look();
  warning_ = std::exchange(plan_warns_, {});
  // What was told since the step is of its checkpoint, too: who validates only what is saved knows it only now.
  for (const auto& [key, value] : told_.metrics) now_->metrics.insert_or_assign(key, value);
  for (const auto& [key, value] : told_.counters) now_->counters.insert_or_assign(key, value);
  told_ = {};
  std::string name = label ? label : "";
  if (!label) {
    CKPT_ASSIGN(name, labels_.label(*now_));
  }
  const Entry next = next_entry(name, label != nullptr);
  tree::StringMap plan{{std::string(kLabel), name}, {std::string(kStep), std::to_string(next.step)}};
  if (next.kept) plan.emplace_back(kKept, "1");
  if (newest_ && newest_->label == name && newest_->step == next.step) plan.emplace_back(kSaved, newest_->id);
  const bool alone = world_size_ > 1 && !options_.ranks_agree;  // the others would not stop
  if (const int64_t why = voted_ || alone ? 0 : why_to_stop()) plan.emplace_back(kStop, std::to_string(why));
  look_for_metric(next);
  const auto add = [&](std::string_view kind, std::string_view key, std::string value) {
    plan.emplace_back(std::string(kind).append(key), std::move(value));
  };
  if (options_.on_existing == "replace" || replaced_.contains(name)) add(kOption, "on_existing", "replace");
  if (options_.keep_last > 0 && history_) {
    const Retention retention = retention_for(next);
    add(kOption, "keep_last", std::to_string(retention.keep_last));
    add(kOption, "keep_every", std::to_string(options_.keep_every));
    add(kOption, "protect", retention.protect);
  }
  for (auto& [key, value] : attributes_of(*now_, next.kept, bests_)) add(kAttribute, key, value);
  plan_ = tree::json_of(plan);
  return &plan_;
}

Result<Keeper::Plan> Keeper::read_plan(std::string_view text) {
  CKPT_ASSIGN(const auto pairs, tree::parse_string_map(text));
  Plan plan;
  for (const auto& [key, value] : pairs) {
    if (key == kLabel) plan.label = value;
    if (key == kKept) plan.kept = true;
    if (key == kSaved) plan.saved_already = true;
    if (key == kStep) std::from_chars(value.data(), value.data() + value.size(), plan.step);
    if (key == kStop) std::from_chars(value.data(), value.data() + value.size(), plan.stop);
    if (key.starts_with(kOption)) plan.options.emplace_back(key.substr(kOption.size()), value);
    if (key.starts_with(kAttribute)) plan.attributes.emplace(key.substr(kAttribute.size()), value);
  }
  if (plan.label.empty() || plan.step < 0)
    return Status(CKPT_FORMAT, strformat("{}: expected a plan of ckpt_keeper_plan", shown(text)));
  return plan;
}

// keep_best by a metric that nobody tells keeps nothing, which is noticed once what it should keep is gone.
void Keeper::look_for_metric(const Entry& next) {
  if (lacking_ < 0) return;
  auto names = history_ ? history_->metrics() : std::vector<std::string>();
  for (const auto& [name, value] : next.metrics)
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  const auto absent = std::ranges::find_if(
      bests_, [&](const Best& one) { return std::ranges::find(names, one.metric) == names.end(); });
  lacking_ = absent == bests_.end() ? -1 : lacking_ + 1;
  constexpr int64_t kPatience = 3;  // not every step is validated
  if (lacking_ == (options_.keep_last > 0 ? options_.keep_last : kPatience))
    lack_ = strformat("keep_best keeps nothing: no checkpoint has the metric \"{}\"{}", absent->metric,
                      names.empty() ? "" : "; they have " + list_some(names, 5));
}

void Keeper::stop_as(const Plan& plan) { decide_to_stop(plan.stop); }

Status Keeper::check_step(const Plan& plan) const {
  CKPT_TRY(may_save());
  if (now_ && now_->step == plan.step) return Ok();
  const std::string here = now_ ? strformat("step {}", now_->step) : "no step";
  return Status(CKPT_MISMATCH, strformat("the plan is of step {}, this rank is at {}", plan.step, here))
      .with("expected", std::to_string(plan.step))
      .with("found", now_ ? std::to_string(now_->step) : "");
}

Status Keeper::check_session(std::string_view run, uint32_t rank, uint32_t world_size) const {
  if (run == options_.run && rank == rank_ && world_size == world_size_) return Ok();
  const auto shown = [](std::string_view of, uint32_t one, uint32_t all) {
    return strformat("run \"{}\", rank {} of {}", of, one, all);
  };
  const std::string expected = shown(options_.run, rank_, world_size_), found = shown(run, rank, world_size);
  return Status(CKPT_MISMATCH, strformat("the keeper is of {}, the session of {}", expected, found))
      .with("expected", expected)
      .with("found", found);
}

void Keeper::begun(const Plan& plan, std::string id, std::shared_ptr<std::atomic<Outcome>> outcome) {
  Entry entry{std::move(id), plan.label, plan.step, numbers_of(plan.attributes, kMetricsAttr), plan.kept, "",
              false,         false,      now_ms()};
  if (const auto name = format::parse_checkpoint_dir(entry.id); name) tokens_.insert(name->token);
  flights_.push_back({std::move(entry), std::move(outcome)});
  saved_at_ = Clock::now();
}

// ---- what is restored ----

std::optional<Best> Keeper::best_of(std::string_view selector) const {
  for (const Best& one : bests_)
    if (selector == "best" || selector == "best:" + one.metric) return one;
  return std::nullopt;
}

Keeper::Search Keeper::search(std::string_view selector) {
  look();
  warning_.clear();
  if (!std::exchange(goes_on_, false) || selector != selector_) passed_.clear();
  selector_ = selector;
  Search out{selector_, "", best_of(selector_), Ok()};
  if (passed_.empty()) return out;
  out.before = passed_.back();
  out.damage = damage_;
  return out;
}

const std::string* Keeper::found(std::string id, std::string warning) {
  found_ = std::move(id);
  warning_ = std::move(warning);
  if (found_.empty()) return nullptr;
  tried_.insert(found_);
  return &found_;
}

Status Keeper::pass_over(const Status& failure) {
  if (!plans()) return is_damage(failure.code()) ? Ok() : failure;  // rank 0 looks for the next one
  if (found_.empty()) return invalid("there is nothing to pass over: ckpt_keeper_find comes before");
  if (selector_ != "latest" || options_.on_damaged == "error" || !is_damage(failure.code())) return failure;
  if (const auto name = format::parse_checkpoint_dir(found_); name) replaced_.insert(name->label);
  passed_.push_back(std::exchange(found_, {}));
  goes_on_ = true;
  damage_ = failure;
  return Ok();
}

void Keeper::restored(int64_t step, const Attributes& attributes, const std::vector<std::string>& later) {
  look();
  warning_.clear();
  selector_.clear();
  passed_.clear();
  tried_.erase(found_);
  saved_.clear();
  voting_ = false;
  then_ = {step, numbers_of(attributes, kCountersAttr, &warning_), numbers_of(attributes, kMetricsAttr, &warning_)};
  now_ = step >= 0 ? std::optional(then_) : std::nullopt;
  if (step < 0) return;
  from_ = step;
  replaces_old_ = false;
  history_.reset();
  if (newest_ && newest_->step > step) newest_.reset();
  std::string told = replace(later, strformat("goes on from step {}", step), " of later steps");
  if (!told.empty()) warning_ = std::move(told);
}

std::string Keeper::replace(const std::vector<std::string>& labels, std::string_view does, std::string_view which) {
  std::vector<std::string> added;
  for (const std::string& label : labels)
    if (replaced_.insert(label).second) added.push_back(label);
  if (added.empty() || rank_ != 0) return {};
  return strformat("the run {}, and has {}{}: saves with these labels replace them, and retention leaves them", does,
                   list_some(added, 5), which);
}

}  // namespace ckpt::keeper
