// ckpt_torch/recis.h - a manager with the words of RecIS' CheckpointManager, over a Checkpointer. Include
// <ckpt_torch/recis.h>.
//
//   namespace recis = ckpt_torch::recis;
//   recis::ManagerOptions options;
//   options.models = model;
//   options.tables["items"] = &table;                     // a trainer's own: a recis::HashTable
//   options.save_interval = 1000;
//   options.max_keep = 5;
//   recis::CheckpointManager manager("/data/run7", options, ckpt_torch::Ranks::of(process_group));
//   manager.register_io_state("train_io", dump, put);     // functions of c10::IValue
//   manager.restore();
//   manager.load_model_bank({old, newer});                // a recis::Source each; the last that has a variable wins
//   while (train()) manager.step();
//
// The words and rules are those of Python's ckpt.recis (managers.md), and the state that is saved has the same form.
#ifndef CKPT_TORCH_RECIS_H
#define CKPT_TORCH_RECIS_H

#include <ckpt_torch.h>

#include <functional>

namespace ckpt_torch {
namespace recis {

// A trainer's table of rows by 64-bit id. The manager saves what rows a rank has, and gives it its share of the buckets
// (Rowset::slice) when it loads.
class HashTable {
 public:
  virtual ~HashTable() = default;
  // Names of what belongs to an id. "embedding" is `sparse`, as the ids are; all others are `sparse_opt`.
  virtual std::vector<std::string> columns() const = 0;
  // All rows of this rank, with all columns.
  virtual SparseTable export_rows() const = 0;
  // Adds these rows, tensors of the CPU, or puts them over those of the same ids. Of a column that `rows` lacks a new
  // row has what the table gives any new row, and a row that was there keeps its values.
  virtual void insert_rows(const SparseTable& rows) = 0;
  virtual void clear() = 0;
  // Its columns without rows, so that a load can refuse rows of another dtype or shape before anything changes. By
  // default this is not told, and insert_rows must throw.
  virtual SparseTable no_rows() const { return {}; }
};

// One source of a model bank; or without a path what restore() is to load.
struct Source {
  // Of a store, or of a checkpoint in it; of a file of PyTorch or safetensors; of what RecIS itself has saved,
  // ckpt_{step} or the directory of its run.
  std::string path;
  // Classes (sparse, dense, extra, sparse_opt, io_state), variables ("0.weight", "items@embedding"), tables, and names
  // with stars.
  std::vector<std::string> load{"*"}, exclude;
  std::vector<std::pair<std::string, std::string>> oname;  // names in the model and in the source, with stars
  bool hashtable_clear = true;  // empty a table before its rows come; otherwise they join those of earlier sources
  bool ignore_error = false;    // warn of names that are not there
  bool skip = false;
  bool is_dynamic = false;        // reload_model_bank() loads it again when there is a newer checkpoint
  bool or_rank0 = false;          // io states of another number of workers: its own, or rank 0's
  std::optional<bool> strict;     // true: it has all that is asked for; of restore() true unless it says otherwise
  std::string select = "latest";  // a label, "step:N" or an id
  std::string run = "main";
  std::optional<std::string> at;  // where it has the model's tensors: "model", "" (at its root), "net/state_dict"
  bool convert = false;           // convert dtypes of the model's tensors
};

struct ManagerOptions {
  Models models;
  Optimizers optimizers;  // variable "optimizer", of class extra
  std::map<std::string, HashTable*> tables;
  Every save_interval;
  int64_t max_keep = 1;              // 0: all
  uint64_t window_bytes = 64 << 20;  // rows are loaded in windows of about this size
  // Which rows a rank loads, by its rank and the number of ranks.
  std::function<ckpt::Rowset(uint32_t, uint32_t)> rowset = ckpt::Rowset::slice;
  std::vector<Source> model_bank;    // gives what the run's own checkpoint lacks to restore()
  bool stage_first = false;          // read the model's tensors into temporaries, so that damage leaves it unchanged
  CheckpointerOptions checkpointer;  // all else: signals, settings, …
};

class CheckpointManager {
 public:
  using Dump = std::function<c10::IValue()>;
  using Put = std::function<void(const c10::IValue&)>;

  explicit CheckpointManager(const std::string& output_dir, ManagerOptions options = {}, Ranks ranks = {});
  ~CheckpointManager();

  // Saves and restores what `dump` returns, rank 0's. INVALID for a name that is taken.
  void register_for_checkpointing(const std::string& name, Dump dump, Put put);
  // The sparse optimizer's state beside its slots: "sparse_optim", of class sparse_opt.
  void register_sparse_optim(Dump dump, Put put);
  // The same of each worker: where it is in its data.
  void register_io_state(const std::string& name, Dump dump, Put put);

  int64_t global_step() const;
  // COLLECTIVE. Says that a step is done; saves if that is due.
  std::optional<std::string> step(const ckpt_torch::Numbers& metrics = {}, const ckpt_torch::Numbers& counters = {});
  // COLLECTIVE. Saves now, in the background, and returns the id.
  std::string save(const std::string& label = {}, const ckpt_torch::Numbers& metrics = {},
                   const ckpt_torch::Numbers& counters = {});
  // COLLECTIVE. Restores the run's newest checkpoint that is sound, or that of a step, and of the model bank what it
  // lacks; returns the step. Nothing changes if there is no checkpoint and no bank. MISMATCH for io states of another
  // number of workers, unless or_rank0, and under strict, unless there is a bank, for what is missing or too much.
  // CORRUPT if a damaged one that was passed over has changed what neither the one before it nor the bank gives anew;
  // tables that had no rows have none again. After it the steps that the run has already are saved anew, in place of
  // the old ones.
  int64_t restore(std::optional<int64_t> global_step = {}, const Source& what = {});
  // COLLECTIVE. Loads of each variable what the last source has that has it. Returns the variables that were loaded,
  // and from where: STORE/ID, or a file. Errors name the entry. Names, shapes, dtypes and numbers of workers are
  // checked before anything changes. After CORRUPT or IO the tensors in detail "undefined" are undefined (see
  // stage_first), and a table that was being read has some of its rows.
  std::map<std::string, std::string> load_model_bank(const std::vector<Source>& bank);
  // COLLECTIVE. Loads those sources of that bank again that are is_dynamic and have a newer checkpoint than before, and
  // of the others what they give to a table that these empty.
  std::map<std::string, std::string> reload_model_bank();
  Checkpointer& checkpointer();
  void close();

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace recis
}  // namespace ckpt_torch
#endif  // CKPT_TORCH_RECIS_H
