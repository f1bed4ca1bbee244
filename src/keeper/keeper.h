// The policy of a run: when to save, under which label, what retention leaves, and which checkpoint comes next when one
// is damaged. It decides and remembers; who reads the store and makes saves is api/keeper.cpp. One thread, but for
// stop().
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/call_options.h"
#include "checkpoint/line.h"
#include "ckpt_keeper.h"
#include "keeper/history.h"
#include "keeper/label.h"
#include "keeper/signals.h"
#include "tree/json_text.h"

namespace ckpt::keeper {

// What became of a save: the engine sets it, on a thread of its own.
enum class Outcome { kRunning, kCommitted, kFailed };

class Keeper {
 public:
  static constexpr size_t kVotes = CKPT_KEEPER_VOTES;

  // INVALID for what of the policy is wrong.
  static Result<std::unique_ptr<Keeper>> make(KeeperOptions options, uint32_t rank, uint32_t world_size);
  // Of a run that begins anew: on_existing was said, and holds for the run's older checkpoints, too.
  void spare_old() { replaces_old_ = false; }

  // ---- when ----
  Status tell(int32_t kind, std::string_view name, double value);
  Status step(int64_t number, bool due, int64_t* votes);
  Status decide(const int64_t* votes, int32_t* what);
  bool needs_votes() const;
  void stop(int32_t why) { asked_to_stop_ = why; }
  Status catch_signal(int number);
  const char* stopping() const { return stopping_.empty() ? nullptr : stopping_.c_str(); }

  // ---- what is saved ----
  // How the step that was told last is saved, as text for the other ranks.
  Result<const std::string*> plan(const char* label);
  bool needs_history();
  void know(std::vector<Entry> entries);
  struct Plan {
    std::string label;
    int64_t step = -1;
    bool kept = false, saved_already = false;
    int64_t stop = 0;  // why this save is the last one, if a step without votes asked for it
    tree::StringMap options{};
    Attributes attributes{};
  };
  // FORMAT for a text that plan() has not made.
  static Result<Plan> read_plan(std::string_view text);
  // MISMATCH unless the plan is of the step that was told last.
  Status check_step(const Plan& plan) const;
  // MISMATCH unless the session is one of the same run and ranks.
  Status check_session(std::string_view run, uint32_t rank, uint32_t world_size) const;
  // A save by that plan begins; its outcome will be there.
  void begun(const Plan& plan, std::string id, std::shared_ptr<std::atomic<Outcome>> outcome);
  void stop_as(const Plan& plan);
  const std::string* saved();

  // ---- what is restored ----
  // What to try: the checkpoint before this one (its id), or by the selector if that is empty.
  struct Search {
    std::string selector, before;
    std::optional<Best> best;
    Status damage;  // the answer if there is none before
  };
  Search search(std::string_view selector);
  const std::string* found(std::string id, std::string warning);  // null for ""
  // What was found since the last call, and not restored.
  std::set<std::string> unrestored() { return std::exchange(tried_, {}); }
  Status pass_over(const Status& failure);
  // The training goes on from a checkpoint with these attributes. `later`: labels of the run's later steps.
  void restored(int64_t step, const Attributes& attributes, const std::vector<std::string>& later);
  bool plans() const { return rank_ == 0 || !options_.ranks_agree; }  // whether this rank makes plans
  const Numbers& numbers(int32_t kind) const { return kind == CKPT_KEEPER_METRIC ? then_.metrics : then_.counters; }

  const KeeperOptions& options() const { return options_; }
  const char* warning() const { return warning_.empty() ? nullptr : warning_.c_str(); }

 private:
  struct Flight {
    Entry entry;
    std::shared_ptr<std::atomic<Outcome>> outcome;
  };
  using Clock = std::chrono::steady_clock;

  Keeper(KeeperOptions options, uint32_t rank, uint32_t world_size, LabelTemplate labels)
      : options_(std::move(options)), rank_(rank), world_size_(world_size), labels_(std::move(labels)) {}
  Status check() const;
  Status read_policy();
  Status read_time_limit();
  Status may_save() const;
  bool one_may_stop() const { return schedule_.has_clock() || end_ || signals_.any(); }
  int64_t why_to_stop() const;
  void decide_to_stop(int64_t why);
  void look_for_metric(const Entry& next);
  std::optional<Best> best_of(std::string_view selector) const;
  Entry next_entry(std::string label, bool kept) const;
  struct Retention {
    int64_t keep_last;
    std::string protect;
  };
  Retention retention_for(const Entry& next) const;
  void look();  // at the saves in flight
  // From now on saves replace what has these labels. What rank 0 tells people of those that are new; "" for nothing.
  std::string replace(const std::vector<std::string>& labels, std::string_view does, std::string_view which);

  const KeeperOptions options_;
  const uint32_t rank_, world_size_;
  const LabelTemplate labels_;
  Schedule schedule_;
  Bests bests_;                           // the first one is what "best" means
  int64_t interval_ms_ = 0;               // of keep_interval
  std::optional<Clock::time_point> end_;  // when to save for the last time
  Signals signals_;
  std::atomic<int32_t> asked_to_stop_{0};
  static_assert(std::atomic<int32_t>::is_always_lock_free, "a signal handler calls stop()");

  Moment told_;                // of the next step
  std::optional<Moment> now_;  // the last step
  Due due_;
  bool voting_ = false, voted_ = false;
  int64_t own_votes_[kVotes] = {};
  Schedule::Multiples saved_;
  std::string stopping_, warning_, plan_;
  std::string lack_;     // what the next step warns of
  int64_t lacking_ = 0;  // plans so far without the metric of keep_best; -1: it is there
  Clock::time_point saved_at_ = Clock::now();

  std::optional<History> history_;
  uint64_t removals_ = checkpoint::removals();  // that it knows of
  bool stale_ = false;                          // others have removed something since it read the history
  std::vector<Flight> flights_;                 // saves that have begun, oldest first
  std::optional<Entry> newest_;                 // that this keeper has committed
  std::set<std::string> replaced_;  // labels of checkpoints that are damaged, of later steps, or of before a new start
  bool replaces_old_ = false;       // what the run has when it begins anew; until know()
  std::string plan_warns_;          // of what the next plan
  Tokens tokens_;                   // of the sessions of its saves
  std::optional<int64_t> from_;     // the step that this training goes on from; -1: it begins anew

  std::string selector_, found_;
  std::vector<std::string> passed_;  // ids
  std::set<std::string> tried_;      // ids that were found, and not restored since
  bool goes_on_ = false;             // the next search does, with the one before; any other begins anew
  Status damage_;
  Moment then_;  // of what was restored
};

}  // namespace ckpt::keeper
