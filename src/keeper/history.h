// What is known of a run's checkpoints beside their contents: metrics, counters, which is the best, and which are kept
// for ever. It lies in attributes of the checkpoints, so that a trainer that starts again knows it. One thread.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/line.h"
#include "keeper/schedule.h"

namespace ckpt::keeper {

inline constexpr std::string_view kMetricsAttr = "trainer.metrics";    // JSON: {"val_loss": 0.5}
inline constexpr std::string_view kCountersAttr = "trainer.counters";  // the same: {"epoch": 4}
using checkpoint::kKeptAttr;
inline constexpr std::string_view kBestAttr = "trainer.best";  // by which metric one is the best: "min val_loss"

// Which checkpoints are the best: `count` of those with the least or the greatest metric.
struct Best {
  std::string metric, mode;  // "min" or "max"
  int64_t count = 1;
  // "val_loss:min:3", or "val_loss:min" of one; several with commas. INVALID
  static Result<std::vector<Best>> parse(std::string_view text);
};
using Bests = std::vector<Best>;

using Attributes = std::map<std::string, std::string, std::less<>>;
// Those of an open checkpoint.
Result<Attributes> read_attributes(const checkpoint::Checkpoint& checkpoint);
// The numbers of an attribute. What is there and is none of a keeper's is left out, and `problem` says so.
Numbers numbers_of(const Attributes& attributes, std::string_view key, std::string* problem = nullptr);
Attributes attributes_of(const Moment& now, bool kept, const Bests& bests);

// A committed checkpoint.
struct Entry {
  std::string id, label;
  int64_t step = -1;
  Numbers metrics{};
  bool kept = false;
  std::string told_best{};  // the attribute
  bool later = false;       // than the step that the training went on from: not of this training any more
  bool foreign = false;     // not of this keeper's sessions, whose retention leaves it alone
  int64_t created_ms = 0;   // since 1970
};

// Tokens of sessions.
using Tokens = std::set<uint64_t>;

// Whether the bytes of a checkpoint are damaged or gone, so that an older one may do.
bool is_damage(ckpt_status code);

// The committed checkpoints of a run, oldest first; none if there is no store.
Result<std::vector<checkpoint::CheckpointEntry>> list_run(const checkpoint::Places& places, std::string_view run);
// One of them with what its attributes say.
Result<Entry> read_entry(const checkpoint::Places& places, const checkpoint::CheckpointEntry& listed);
// The same with what their attributes say. Damaged ones are left out: they are neither the best nor protected.
Result<std::vector<Entry>> read_history(const checkpoint::Places& places, std::string_view run);

class History {
 public:
  explicit History(std::vector<Entry> entries = {}) : entries_(std::move(entries)) {}
  // One that is committed now, and has replaced another with its label.
  void add(Entry entry);
  // Those of later steps are no more of this training, which goes on from that step: retention leaves them, also those
  // that the sessions `own` have saved.
  void go_back_to(int64_t step, const Tokens& own);
  // What "best", "best:METRIC" or "best:METRIC:min" means here; nothing if that is not told.
  std::optional<Best> policy(std::string_view selector) const;
  std::vector<std::string> metrics() const;  // their names
  // At most `count` of them, `next` included, best first; of equal ones the newest.
  std::vector<Entry> best(const Best& policy, int64_t count, const Entry* next = nullptr) const;
  // How many of the newest retention must keep, so that `count` of them have no label of their own.
  int64_t keep_last(int64_t count, const Entry& next) const;
  // The labels that retention must leave, as option `protect` has them. `interval_ms`: of those that are so far apart
  // one, from the oldest on; 0: none for that.
  std::string protected_labels(const Bests& policies, const Entry& next, int64_t interval_ms = 0) const;

 private:
  std::vector<const Entry*> newest_first(const Entry* next) const;
  std::vector<Entry> entries_;
};

// Whether a selector names the best.
bool is_best(std::string_view selector);
// The id of the best checkpoint of a run. NOT_FOUND or INVALID, with what is missing.
Result<std::string> find_best(const History& history, std::string_view run, std::string_view selector,
                              std::optional<Best> policy);

}  // namespace ckpt::keeper
