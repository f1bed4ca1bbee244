// ckpt_torch.h - checkpoints of LibTorch models and optimizers, saved by all ranks together, loaded on any number.
//
//   ckpt_torch::save("/data/run7", model, optimizer, {{"epoch", 3}}, {.step = 100});      // C++20; see README.md
//   auto loaded = ckpt_torch::load("/data/run7", model, optimizer);
//   int64_t epoch = loaded.others.at("epoch").toInt();
//
// The saved state has the shape of Python's {"model": model.state_dict(), "optimizer": optimizer.state_dict(),
// ...others}: Python's load_state_dict accepts a checkpoint that is exported as .pt, and what Python saved can be
// imported and loaded here. Parameters and optimizer tensors are the same on every rank, so each rank writes its share
// of them (large ones are split over all ranks); buffers and others are rank 0's.
//
// A training has a Checkpointer (ckpt_torch/checkpointer.h), which decides when to save, what to keep and what to start
// from. A trainer that decides this itself has a Session: it holds the staging memory and the ranks' group. Every
// failure throws a ckpt_torch::Error. Compiles as C++17 (LibTorch 1.13) and C++20 (2.x), without CUDA headers.
//
// Threads: use a Checkpointer, a Session and its handles from one thread at a time. All ranks make the calls marked
// COLLECTIVE, in the same order.
#ifndef CKPT_TORCH_H
#define CKPT_TORCH_H

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/optim/optimizer.h>
#include <ckpt.hpp>

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ckpt_torch/sparse_table.h"

namespace c10d {
class ProcessGroup;
}

namespace ckpt_torch {

// ---- errors ----

// status(), what(), and detail(key): the engine's facts ("tensor", "path", "ranks", …); "rank": in a group, the rank
// that failed; "undefined": tensors of this rank's module that a failed load left undefined, one name per line.
using Error = ckpt::Error;

// ---- settings ----

// Options of the engine by their keys (`ckpt help options`): {{"run", "gan"}, {"keep_last", 3}}.
class Setting {
 public:
  Setting(const char* text) : text_(text) {}
  Setting(std::string text) : text_(std::move(text)) {}
  Setting(int value) : text_(std::to_string(value)) {}
  Setting(int64_t value) : text_(std::to_string(value)) {}
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};
using Settings = std::map<std::string, Setting>;

// ---- ranks ----

// How the ranks of a run communicate. Derive from it for MPI and the like; c10d_group wraps a ProcessGroup.
class Group {
 public:
  virtual ~Group() = default;
  virtual uint32_t rank() const = 0;
  virtual uint32_t size() const = 0;
  // COLLECTIVE. Returns every rank's text, in the order of ranks.
  virtual std::vector<std::string> all_gather(const std::string& mine) = 0;
  // COLLECTIVE. Returns the largest of all ranks for each of the numbers. A Checkpointer that watches a clock or
  // signals calls it in each step; without an override it is one all_gather.
  virtual std::vector<int64_t> all_max(const std::vector<int64_t>& mine);
  // How long the two above may wait for other ranks from now on. c10d_group's does; by default nothing.
  virtual void wait_at_most(std::chrono::milliseconds) {}
};

// Give it a group of its own, which nothing else uses: then no rank that is late in a call of ckpt meets another's
// barrier. A rank that waits for ten seconds says on stderr for which; the wait ends after timeout_ms, or half an hour.
// Of ranks that read their states it ends after half an hour at least. `device`: where the group's backend expects
// tensors (NCCL: this rank's GPU).
std::shared_ptr<Group> c10d_group(const c10::intrusive_ptr<c10d::ProcessGroup>& group, at::Device device = at::kCPU);

// Which ranks take part. If one rank of a group fails, all throw its error, which names the rank; no rank waits in
// vain. Without a group the ranks meet through the store alone, and every rank must load by the same checkpoint id.
struct Ranks {
  uint32_t rank = 0, world_size = 1;
  std::string session;      // rank 0's string(), for ranks > 0 without a group
  bool rendezvous = false;  // without group and session string: meet through files in the store
  std::shared_ptr<Group> group;
  bool alone = false;  // it is known that there are no others; else a launcher's environment gives a warning

  static Ranks single();
  static Ranks of(std::shared_ptr<Group> group);
  static Ranks of(const c10::intrusive_ptr<c10d::ProcessGroup>& group, at::Device device = at::kCPU);
  static Ranks with_session(uint32_t rank, uint32_t world_size, std::string session);
  static Ranks by_rendezvous(uint32_t rank, uint32_t world_size);
};

// ---- what is saved ----

// One or many modules: a Module, a holder (torch::nn::Linear), a shared_ptr to a Module, or a list of those in {}. A
// Module or optimizer that is not given by a holder or shared_ptr must outlive its use. Saving or loading an empty
// holder or pointer is INVALID.
class Models {
 public:
  Models() = default;
  Models(torch::nn::Module& module) : modules_{&module} {}
  template <class M>
  Models(const torch::nn::ModuleHolder<M>& holder) : Models(holder.is_empty() ? nullptr : holder.ptr()) {}
  template <class M, class = std::enable_if_t<std::is_base_of_v<torch::nn::Module, M>>>
  Models(const std::shared_ptr<M>& module) : modules_{module.get()}, owners_{module} {}
  Models(std::initializer_list<Models> all);
  const std::vector<torch::nn::Module*>& modules() const { return modules_; }

 private:
  std::vector<torch::nn::Module*> modules_;
  std::vector<std::shared_ptr<const void>> owners_;
};

class Optimizers {
 public:
  Optimizers() = default;
  Optimizers(torch::optim::Optimizer& optimizer) : optimizers_{&optimizer} {}
  template <class O, class = std::enable_if_t<std::is_base_of_v<torch::optim::Optimizer, O>>>
  Optimizers(const std::shared_ptr<O>& optimizer) : optimizers_{optimizer.get()}, owners_{optimizer} {}
  template <class O, class = std::enable_if_t<std::is_base_of_v<torch::optim::Optimizer, O>>>
  Optimizers(const std::unique_ptr<O>& optimizer) : optimizers_{optimizer.get()} {}
  Optimizers(std::initializer_list<Optimizers> all);
  const std::vector<torch::optim::Optimizer*>& optimizers() const { return optimizers_; }

 private:
  std::vector<torch::optim::Optimizer*> optimizers_;
  std::vector<std::shared_ptr<const void>> owners_;
};

// Named values beside the model: None, bool, int, double, complex, str, tensors, and lists, tuples and dicts (keys: str
// or int) of those. The names "model" and "optimizer" are reserved.
class Others {
 public:
  using Item = std::pair<std::string, c10::IValue>;
  Others() = default;
  Others(std::initializer_list<Item> items) : items_(items) {}
  void set(const std::string& key, c10::IValue value);
  bool contains(const std::string& key) const;
  const c10::IValue& at(const std::string& key) const;  // throws Error NOT_FOUND
  const std::vector<Item>& items() const { return items_; }

 private:
  std::vector<Item> items_;
};

struct State {
  Models models;
  Optimizers optimizers;
  Others others;             // rank 0's are saved
  Others per_rank = {};      // each rank's own, such as its place in the data; for the number of ranks that saved it
  SparseTables tables = {};  // the rows that each rank has, by names that others lack, or paths; load_table loads them
};

// Saves and loads an optimizer that ckpt does not know. It knows SGD, Adam, AdamW, Adagrad, RMSprop, LBFGS and classes
// derived from them. An optimizer that is unknown and has no hook is refused.
class OptimizerHook {
 public:
  virtual ~OptimizerHook() = default;
  virtual std::string class_name() const = 0;  // saved, and compared by a load
  virtual bool handles(const torch::optim::Optimizer& optimizer) const = 0;
  // A dict like Python's state_dict(), with the same tensors on every rank.
  virtual c10::IValue state_dict(const torch::optim::Optimizer& optimizer) const = 0;
  // Called last, when everything is read and checked and the modules are changed: throwing here cannot undo that.
  virtual void load_state_dict(torch::optim::Optimizer& optimizer, const c10::IValue& state) const = 0;
};
using OptimizerHooks = std::vector<std::shared_ptr<const OptimizerHook>>;

// ---- save ----

struct SaveOptions {
  int64_t step = -1;
  std::string label;       // "": "step-<step>", or without a step "checkpoint", which each save replaces
  bool rng = true;         // save this rank's random generators: the CPU's, and CUDA's if there are any
  bool in_place = false;   // save_async copies nothing and returns at once: wait_staged() before you change the state
  ckpt::Attributes attrs;  // short texts, which `ckpt info` and Loaded::attrs show; rank 0's
  Settings settings;       // win over the Session's: keep_last, compression, on_existing, staging_bytes, …
  OptimizerHooks hooks;
};

// A save in the background. Dropping the handle does not stop the save: the Session waits for it before its next
// save and in its destructor.
class SaveHandle {
 public:
  void wait_staged();  // after it the state may change again, also where the save was made in_place
  // COLLECTIVE in a group. Returns when the checkpoint is committed (on rank 0: and durable), or throws. A rank that
  // died is named within seconds on a file system with locks; otherwise setting timeout_ms (ten minutes) ends the wait.
  void wait();
  bool staged() const;
  bool done() const;              // whether it has committed or failed; wait() says which
  void cancel();                  // returns at once; a save that is not yet committed will not be
  const std::string& id() const;  // of the checkpoint
  struct Impl;
  explicit SaveHandle(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<Impl> impl_;
};

// ---- load ----

enum class Rng {
  keep,  // leave the generators alone
  // Load the state that this rank saved. A rank that saved none (there are more ranks now) gets a stream of its own:
  // seeded by a hash of rank 0's state and the number of the rank, so the same each time.
  same_rank,
  or_rank0  // the same, but a rank that saved none loads rank 0's: such ranks draw the same numbers
};

struct LoadOptions {
  // Or "best" (by the metrics that a Checkpointer keeps; "best:val_loss:min"), "step:N", a label, an id; in a group
  // rank 0 resolves it for all.
  std::string selector = "latest";
  std::string model_key = "model", optimizer_key = "optimizer";  // paths in the tree; "": the whole tree
  bool strict = true;                  // false: list missing and unexpected keys in Loaded instead of refusing them
  bool convert = false;                // convert dtypes of parameters, buffers and optimizer tensors to the module's
  bool stage_first = false;            // read everything into temporaries; change the module only once all is checked
  bool all_values = false;             // put models and optimizers that were not asked for into others
  at::Device map_location = at::kCPU;  // of tensors in others
  Rng rng = Rng::same_rank;
  bool or_rank0 = false;  // State::per_rank of another number of ranks: each its own, or rank 0's, instead of MISMATCH
  Settings settings;      // run, threads, verify, staging_bytes
  OptimizerHooks hooks;
};

struct Loaded {
  Others others;                        // all of the tree except models and optimizers; of what is per rank this rank's
  std::vector<std::string> missing;     // keys of the module that the checkpoint lacks; their values are unchanged
  std::vector<std::string> unexpected;  // keys of the checkpoint that the module lacks
  std::vector<std::string> other_shape;  // of a restore that skips them: keys, with both shapes
  std::vector<std::string> ignored;      // entries that LibTorch cannot hold, or holds in another form, and why
  bool rng_restored = false;
  int64_t step = -1;
  std::string id, label;
  ckpt::Attributes attrs;
  uint32_t world_size = 0;  // ranks that saved it
};

// ---- session ----

class Session {
 public:
  // Opens only the store; the session of the engine starts with the first save, so that loading fences no one. Not
  // collective: if it throws on one rank, the others do not learn of it.
  explicit Session(const std::string& store, Ranks ranks = {}, Settings settings = {});
  // Waits for a running save; its error is lost unless you call wait() before. While an exception unwinds the trainer
  // it cancels the save instead, so that the other ranks learn of it at once.
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  // COLLECTIVE. Returns the id once the checkpoint is durable, complete and committed.
  std::string save(const State& state, const SaveOptions& options = {});
  // COLLECTIVE. Returns once the state is staged, so that training may go on.
  [[nodiscard]] SaveHandle save_async(const State& state, const SaveOptions& options = {});

  // COLLECTIVE. Loads into the modules and optimizers, in place. Structural errors (NOT_FOUND, MISMATCH, …) come before
  // anything changes on any rank of a group. After CORRUPT or IO the tensors in detail "undefined" are undefined and
  // everything else is unchanged; with stage_first these tensors are unchanged, too.
  Loaded load(const Models& models, const Optimizers& optimizers = {}, const LoadOptions& options = {});
  // COLLECTIVE. The same, but returns nothing if the selector finds no checkpoint, as on the first start of a run. All
  // other errors are thrown.
  std::optional<Loaded> load_if_any(const Models& models, const Optimizers& optimizers = {},
                                    const LoadOptions& options = {});

  // COLLECTIVE in a group. Starts the session now. Without a group, send rank 0's string to the other ranks.
  std::string string();

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

// ---- free functions ----

// COLLECTIVE. Each makes a Session for one call.
std::string save(const std::string& store, const Models& models, const Optimizers& optimizers = {},
                 const Others& others = {}, const SaveOptions& options = {}, const Ranks& ranks = {});
// `store` may also be files of another program, which are read where they lie: a .pt, a Hugging Face set, a directory
// of DCP or any other that ckpt import takes, on this machine or at s3:// or https://. model_key "" where the model is
// all that they hold; settings map, map_at, map_back, config, only, exclude and cast (docs/mappings.md) make the
// module's tensors of theirs on the fly.
Loaded load(const std::string& store, const Models& models, const Optimizers& optimizers = {},
            const LoadOptions& options = {}, const Ranks& ranks = {});
// Of a store only.
std::optional<Loaded> load_if_any(const std::string& store, const Models& models, const Optimizers& optimizers = {},
                                  const LoadOptions& options = {}, const Ranks& ranks = {});

}  // namespace ckpt_torch

#include "ckpt_torch/checkpointer.h"
#endif  // CKPT_TORCH_H
