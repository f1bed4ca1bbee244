// What is known of the checkpoints of a run beside their contents: metrics, counters, and which are kept for ever. It
// lies in attributes of the checkpoints, as Python's ckpt.Checkpointer has them. One thread.
#ifndef CKPT_TORCH_HISTORY_H
#define CKPT_TORCH_HISTORY_H

#include <set>

#include "errors.h"

namespace ckpt_torch {
namespace internal {

constexpr const char* kMetricsAttr = "trainer.metrics";    // JSON: {"val_loss": 0.5}
constexpr const char* kCountersAttr = "trainer.counters";  // the same: {"epoch": 4}
constexpr const char* kKeptAttr = "trainer.kept";          // "1": it has a label of its own

constexpr const char* kBestAttr = "trainer.best";  // by which metric one is the best: "min val_loss"

// The attributes of a checkpoint of this moment, and the moment of a checkpoint with these attributes. FORMAT for
// numbers that are no JSON.
ckpt::Attributes attributes_of(const Moment& now, bool kept, const std::optional<KeepBest>& best);
Moment moment_of(int64_t step, const ckpt::Attributes& attributes);

// A committed checkpoint.
struct Entry {
  std::string id, label;
  int64_t step = -1;
  Numbers metrics;
  bool kept = false;
};

// Whether the bytes of a checkpoint are damaged or gone, so that an older one may do.
bool is_damage(ckpt_status status);

// The committed checkpoints of a run, oldest first; none if there is no store.
std::vector<ckpt::CheckpointInfo> committed_of(const ckpt::Store& store, const std::string& run);

class History {
 public:
  // Damaged checkpoints are neither the best nor protected.
  History(const ckpt::Store& store, const std::string& run);
  // One that is committed now, and has replaced another with its label.
  void add(Entry entry);
  // Those of later steps are no more of this training, which goes on from that step.
  void forget_after(int64_t step);
  // What "best", "best:METRIC" or "best:METRIC:min" means here; nothing if that is not told.
  std::optional<KeepBest> policy(const std::string& selector) const;
  std::set<std::string> metrics() const;  // their names
  // At most `count` of them, `more` included, best first; of equal ones the newest.
  std::vector<Entry> best(const KeepBest& policy, size_t count, const std::vector<Entry>& more = {}) const;
  // How many of the newest retention must keep, so that `count` of them have no label of their own.
  int64_t keep_last(int64_t count, const Entry& next) const;
  // The labels that retention must leave, as option `protect` has them.
  std::string protected_labels(const std::optional<KeepBest>& policy, const Entry& next) const;

 private:
  std::vector<Entry> with(const std::vector<Entry>& more) const;
  std::vector<Entry> entries_;
  std::string told_;  // by the newest, which are the best
};

// Whether a selector names the best.
bool is_best(const std::string& selector);
// The id of the best checkpoint of a run; NOT_FOUND or INVALID, with what is missing.
std::string find_best(const ckpt::Store& store, const std::string& run, const std::string& selector,
                      std::optional<KeepBest> policy = {});

}  // namespace internal
}  // namespace ckpt_torch
#endif
