// The state behind Checkpointer.
#ifndef CKPT_TORCH_MANAGER_H
#define CKPT_TORCH_MANAGER_H

#include "history.h"
#include "policy.h"
#include "preemption.h"
#include "session.h"

namespace ckpt_torch {

struct Checkpointer::Impl {
  Impl(const std::string& uri, CheckpointerOptions given, Ranks ranks);
  ~Impl();

  using Make = std::function<const State&()>;
  std::optional<std::string> step(const Moment& now, const Make& make);
  std::string save(const Moment& now, const State& state, const std::string& label);
  void settle(bool wait);
  void close();
  std::optional<Restored> restore(State& state, const std::string& select, const RestoreOptions& options);
  // COLLECTIVE. The same, where `load` loads the checkpoint of an id, or throws the same on all ranks.
  using LoadById = std::function<Loaded(const std::string& id)>;
  std::optional<Restored> restore_with(const LoadById& load, const std::string& select);
  Check check(const State& state);

  CheckpointerOptions options;
  std::string store, run;
  internal::LabelTemplate labels;
  Session::Impl session;
  std::optional<std::string> stopping;
  std::optional<Moment> last;
  bool closed = false;

 private:
  // A save that has begun and is not settled.
  struct Flight {
    SaveHandle handle;
    internal::Entry entry;
    bool told = false;  // it has ended, and this rank has noted it
  };
  // How all ranks save one checkpoint.
  struct Plan {
    std::string label;
    ckpt::Attributes attributes;
    Settings settings;
  };
  void check_options() const;
  void check_open() const {
    if (closed) internal::fail(CKPT_INVALID, "the Checkpointer is closed; make a new one");
  }
  void check_can_save(const Moment& now) const;
  bool ranks_agree() const { return session.ranks.world_size == 1 || session.group() != nullptr; }
  std::vector<int64_t> most(const std::vector<int64_t>& numbers);
  // Whether a save is due, and if it is the last one, why; the same on all ranks.
  std::pair<bool, std::string> decide(const Moment& now);
  std::string save_for_the_last_time(const Moment& now, const State& state, const std::string& why);
  // Rank 0's part of a save: the label, and what retention must leave.
  Plan plan(const Moment& now, const std::string& label);
  // COLLECTIVE. What rank 0 makes, or throws, on all ranks.
  std::vector<std::string> first(const std::function<std::vector<std::string>()>& make);
  void committed(const internal::Entry& entry);
  // The id of the checkpoint to try, after those that were `passed`; "" if there is none.
  std::string candidate(const std::string& select, const std::vector<std::string>& passed);
  std::string newest();
  // COLLECTIVE. After a restore of that step.
  void go_on_from(int64_t step);

  std::unique_ptr<internal::History> history;  // what rank 0 knows, for retention
  std::optional<Flight> flight;
  std::optional<internal::Entry> latest;  // the newest that this object has committed
  std::vector<std::string> replaced;      // labels of checkpoints that turned out to be damaged, or are of later steps
  std::optional<int64_t> from;            // the step that this training goes on from; -1: it begins anew
  TimeLimit::Clock::time_point saved_at = TimeLimit::Clock::now();
  std::unique_ptr<internal::Signals> signals;
};

}  // namespace ckpt_torch
#endif
