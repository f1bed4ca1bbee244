// ckpt_torch/checkpointer.h - when a training saves, what is kept, and what it starts from. Include <ckpt_torch.h>.
//
//   ckpt_torch::State state{model, optimizer, {{"epoch", 0}}};
//   ckpt_torch::CheckpointerOptions options;
//   options.every = 500;
//   options.keep_last = 3;
//   options.keep_best = {"val_loss", "min", 2};
//   ckpt_torch::Checkpointer keeper("/data/run7", options, ckpt_torch::Ranks::of(process_group));
//   auto start = keeper.restore(state);                         // the newest sound one, in place; else nothing
//   for (int64_t n = start ? start->step + 1 : 1; n <= steps && !keeper.stopping(); n++) {
//     …
//     keeper.step(n, state, {{"val_loss", loss}});
//   }
//   keeper.close();
//
// The words, and what lies in the checkpoints, are those of Python's ckpt.Checkpointer: either goes on with what the
// other saved.
#ifndef CKPT_TORCH_CHECKPOINTER_H
#define CKPT_TORCH_CHECKPOINTER_H

#include <ckpt_torch.h>

#include <algorithm>
#include <chrono>
#include <functional>

namespace ckpt_torch {

using Numbers = std::map<std::string, double>;

// Where a training is: what step() was told.
struct Moment {
  int64_t step = -1;
  Numbers counters, metrics;
};

namespace internal {
std::string seconds_text(std::chrono::duration<double> time);  // "0.5 s"
}

// ---- when ----

// When a save is due: 500 (steps), std::chrono::minutes(10), "1 epoch", "10 min", "1000000 tokens", a function of a
// Moment, or a list of these. Without one only save() saves. What it means is checked by the Checkpointer.
class Every {
 public:
  Every() = default;
  template <class I, class = std::enable_if_t<std::is_integral_v<I> && !std::is_same_v<I, bool>>>
  Every(I steps) : text(std::to_string(steps) + " steps") {}
  Every(double) = delete;  // of what?
  Every(std::string option) : text(std::move(option)) {}
  Every(const char* option) : text(option) {}
  template <class Rep, class Period>
  Every(std::chrono::duration<Rep, Period> time) : text(internal::seconds_text(time)) {}
  template <class F, class = std::enable_if_t<std::is_invocable_r_v<bool, const F&, const Moment&>>, class = void>
  Every(F ask) : predicates{std::move(ask)} {}
  Every(std::initializer_list<Every> all);

  std::string text;  // option every of ckpt_keeper.h
  std::vector<std::function<bool(const Moment&)>> predicates;
};

// When the job ends: after a time from now, at a time, or when SLURM says ("slurm").
class TimeLimit {
 public:
  TimeLimit() = default;
  template <class Rep, class Period>
  TimeLimit(std::chrono::duration<Rep, Period> from_now)  // one that is over is reached in the first step
      : text(internal::seconds_text(std::max<std::chrono::duration<double>>(from_now, std::chrono::nanoseconds(1)))) {}
  TimeLimit(std::chrono::system_clock::time_point at) : TimeLimit(at - std::chrono::system_clock::now()) {}
  TimeLimit(const char* option) : text(option) {}

  std::string text;  // option time_limit of ckpt_keeper.h
};

// ---- what is kept ----

struct KeepBest {
  std::string metric;
  std::string mode = "min";  // or "max"
  int count = 1;
};

enum class CommitRanks { first, all };

struct CheckpointerOptions {
  Every every;
  int64_t keep_last = 0;   // how many of the newest stay; 0: all
  int64_t keep_every = 0;  // those whose step this divides stay, too
  std::optional<KeepBest> keep_best;
  // Names the checkpoints, with the variables of Composer: "ep{epoch}-ba{batch:06d}". What save() gives a label of its
  // own stays for ever.
  std::string label = "step-{step}";
  bool fresh = false;      // begin anew beside what earlier starts of the run have saved, which stays
  bool overwrite = false;  // replace a checkpoint of the same label; otherwise that is EXISTS
  // Which signals make step() save and set stopping(). Unset: SIGTERM and SIGINT, in a job of SLURM also SIGUSR1. The
  // handlers that were there before are called too; the default of SIGINT, which ends the process, by a second one.
  std::optional<std::vector<int>> signals;
  TimeLimit time_limit;  // step() does the same time_margin before it
  std::chrono::duration<double> time_margin = std::chrono::seconds(120);
  // Called by the first call of the Checkpointer after a commit. If it throws, a warning says so, and the training goes
  // on.
  std::function<void(const ckpt::CheckpointInfo&)> on_commit;
  CommitRanks on_commit_ranks = CommitRanks::first;
  bool in_place = false;  // saves copy nothing: call updating() before anything changes the state
  bool rng = true;        // save this rank's random generators
  Settings settings;      // run, compression, replicas, timeout_ms, …
  OptimizerHooks hooks;
};

// ---- what is restored ----

// "latest", "best" (by keep_best, or as the checkpoints' metrics tell; "best:val_loss:min" says it), a step, a label or
// an id.
class Select {
 public:
  Select(const char* text) : text_(text) {}
  Select(std::string text) : text_(std::move(text)) {}
  template <class I, class = std::enable_if_t<std::is_integral_v<I> && !std::is_same_v<I, bool>>>
  Select(I step) : text_("step:" + std::to_string(step)) {}
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Names in the checkpoint and in the state, of which the first that fits counts; or a function of the former. A name
// stays in its dict: {"model/encoder", "model/backbone"} and {"net", "model"} are possible.
class Rename {
 public:
  using Function = std::function<std::string(const std::string&)>;
  Rename() = default;
  Rename(std::initializer_list<std::pair<std::string, std::string>> names);
  template <class F, class = std::enable_if_t<std::is_invocable_r_v<std::string, const F&, const std::string&>>>
  Rename(F name) : name_(std::move(name)) {}
  explicit operator bool() const { return static_cast<bool>(name_); }
  std::string operator()(const std::string& path) const { return name_ ? name_(path) : path; }

 private:
  Function name_;
};

enum class ShapeMismatch { error, skip };

struct RestoreOptions {
  // Patterns of paths in the state: "model", "model/*.bias", "optimizer", "epoch". Optimizers and others are restored
  // whole or not at all.
  std::vector<std::string> only, without;
  Rename rename;
  bool strict = true;  // the same names in the checkpoint and the modules, and no part of the state missing
  ShapeMismatch on_shape_mismatch = ShapeMismatch::error;  // skip: leave such tensors, and optimizers' state of them
  bool convert = false, stage_first = false;               // as in LoadOptions
  bool or_rank0 = false;                                   // as in LoadOptions
  at::Device map_location = at::kCPU;
  Rng rng = Rng::same_rank;
};

// What a trainer starts from. `others` is empty: they are in the state. `missing` and `unexpected` are paths,
// "model/a.weight" or "optimizer".
struct Restored : Loaded {
  Numbers metrics, counters;  // that step() was told
};

// A state that is made only where a save is due, as exporting a hash table takes time.
struct LazyState {
  explicit LazyState(std::function<State()> how) : make(std::move(how)) {}
  std::function<State()> make;
};

// What a save of a state would do; nothing was written.
struct Check {
  std::map<std::string, uint64_t> names;  // tensors of this rank, and their bytes
  std::vector<uint64_t> bytes_by_rank;    // memory that each rank holds of the state; of ranks that could be asked
  uint64_t bytes = 0;                     // of a checkpoint, at most
  std::optional<uint64_t> free;           // bytes that are free where the store is; nothing if that is not known
  std::vector<std::string> refused;       // what would be an error, on any rank
  bool ok() const { return refused.empty() && (!free || bytes <= *free); }
  std::string text() const;  // for people
};

// ---- the manager ----

class Checkpointer {
 public:
  // Opens only the store, so that restoring takes the run from nobody. Every rank makes one and calls the same methods.
  // What one rank decides (its clock, a signal, a predicate), all do in the same step: one all_max of five numbers in
  // each step. Ranks without a group cannot agree: they save by counters only, and find the newest each by itself.
  explicit Checkpointer(const std::string& store, CheckpointerOptions options = {}, Ranks ranks = {});
  // Does what close() does, and prints a failure; in unwinding (an exception) it cancels the save in flight instead, so
  // that the other ranks do not wait.
  ~Checkpointer();
  Checkpointer(Checkpointer&&) noexcept;
  Checkpointer& operator=(Checkpointer&&) noexcept;

  // COLLECTIVE. Says that step `n` is done. Saves the state if that is due, in the background, and returns the id then.
  // After a signal, or at the time limit, it saves and returns once that is committed, and stopping() says why.
  // `metrics` are kept with the checkpoint. `counters`: {"epoch", epochs that are done}, "batch", "sample", "token", …,
  // for `every` and for labels.
  std::optional<std::string> step(int64_t n, const State& state, const Numbers& metrics = {},
                                  const Numbers& counters = {});
  std::optional<std::string> step(int64_t n, const LazyState& state, const Numbers& metrics = {},
                                  const Numbers& counters = {});
  // COLLECTIVE. Saves the state now, in the background, and returns the id. A checkpoint with a `label` of its own
  // stays for ever. A step that was just saved is not saved again.
  std::string save(int64_t n, const State& state, const std::string& label = {}, const Numbers& metrics = {},
                   const Numbers& counters = {});
  // COLLECTIVE. Waits until the save in flight is committed, or throws its failure, as do the next save and close().
  void wait();
  // Call it before anything changes the state: keeper.updating(); optimizer.step(). With in_place it waits until the
  // save in flight has written it; otherwise it was copied, and nothing waits.
  void updating();
  // Why the training should stop, once that was decided and the checkpoint is committed: "SIGTERM", …, "time limit".
  const std::optional<std::string>& stopping() const;

  // COLLECTIVE. Restores a checkpoint into the state, in place, the same one on all ranks; nothing if there is none
  // yet. Only the parts that the state has are read: its models, its optimizers, and the keys of its others. "latest"
  // is the newest that is sound: it warns (TORCH_WARN) of damaged ones, also where only the load finds the damage, goes
  // on to the one before, and their steps can be saved again. Anything else that does not exist is NOT_FOUND.
  std::optional<Restored> restore(State& state, const Select& select = "latest", const RestoreOptions& options = {});

  // COLLECTIVE. What saving the state would do: names, bytes, free space, and what would be refused. Writes nothing.
  Check check(const State& state);

  // COLLECTIVE. Waits for the save in flight, throws its failure, and gives the signals back.
  void close();

  struct Impl;
  Impl& impl() { return *impl_; }  // for the adapter's own sources

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace ckpt_torch
#endif  // CKPT_TORCH_CHECKPOINTER_H
