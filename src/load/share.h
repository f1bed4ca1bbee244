// Which rows of a table a rank loads: found from T/buckets and as few ids as that takes, counted, and cut into windows.
// Immutable once it is open; concurrent use is fine.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/job.h"
#include "base/large_memory.h"
#include "load/table.h"
#include "load/table_check.h"

namespace ckpt::load {

struct ShareRequest {
  int32_t kind = CKPT_SHARE_ALL;
  uint64_t first = 0, end = 0;     // BUCKETS
  uint64_t index = 0, count = 0;   // SLICE, MOD
  uint64_t window_rows = 0;        // 0: one window
  std::vector<uint64_t> ids = {};  // IDS
  int64_t threads = 0;             // option threads
  // Not of IDS: only rows that this checkpoint lacks or has with other bytes; what it alone has is missing.
  std::shared_ptr<checkpoint::Checkpoint> since = nullptr;
  bool verify = false;  // whether buckets begin exactly where T/buckets says, too
};

// Neighbouring rows [first, first + count) of a layer of the table, all of parts[part].
struct RowRun {
  size_t part;
  uint64_t first, count;
};

class Share {
 public:
  // Works for `job`, which counts what filters and lists look at. INVALID, NOT_FOUND, FORMAT, MISMATCH, and what a load
  // may say.
  static Result<std::shared_ptr<const Share>> open(std::shared_ptr<checkpoint::Checkpoint> checkpoint,
                                                   std::string_view table, ShareRequest request, Job& job);

  const std::shared_ptr<checkpoint::Checkpoint>& checkpoint() const { return checkpoint_; }
  const Table& table() const { return table_; }
  const std::vector<TablePart>& parts() const { return parts_; }
  const Layer& layer_of(const RowRun& run) const {
    return (is_earlier(run.part) ? earlier_ : table_).layer(parts_[run.part].layer);
  }
  bool of_ids() const { return request_.kind == CKPT_SHARE_IDS; }
  uint64_t rows() const;
  std::span<const uint64_t> missing() const { return missing_; }

  // A window is loaded step by step, since a step may have as many runs as rows.
  struct Window {
    size_t step_first, step_end;
    uint64_t rows;
  };
  const std::vector<Window>& windows() const { return windows_; }
  struct Step {
    std::vector<RowRun> runs;
    // Of a table in several runs these rows are not all: those of `extra` go to `places` among the rows of the step,
    // which ascend, in place of rows that do not count, or behind.
    std::vector<RowRun> extra;
    LargeVector<uint64_t> places;
    uint64_t rows = 0;
    LargeVector<uint64_t> ids;  // of the runs, if they had to be read to find them, and were checked
    bool checked = false;
    RowKey from, to;
    std::vector<uint64_t> gone;  // of changes: ids that the earlier checkpoint alone has
  };
  // Reads ids where the share is a filter.
  Result<Step> step(size_t number) const;
  // The runs of rows that a step is, without `extra`.
  std::vector<RowRun> in_order(const Step& step) const;
  // FORMAT unless T/buckets tells of these rows where buckets begin. A request that does not verify is not checked.
  Status check_starts(std::span<const RowRun> runs, std::span<const PartIds> pieces) const;

 private:
  // Where a range of keys begins: the rows of each part before it.
  struct Edge {
    RowKey key;
    std::vector<uint64_t> at;
  };
  // The entries of T/buckets of a part, from entry `first` on.
  struct Entries {
    uint64_t first = 0;
    std::vector<uint64_t> starts;
  };
  struct Bounds {
    uint64_t low, high;
  };

  Share(std::shared_ptr<checkpoint::Checkpoint> checkpoint, ShareRequest request)
      : checkpoint_(std::move(checkpoint)), request_(std::move(request)) {}
  Status find(std::string_view name, Job& job);
  Status check_request();
  Status read_entries(uint64_t begin, uint64_t end);
  Status check_entries(const TablePart& part, const Entries& entries) const;
  Bounds bounds(size_t part, uint64_t bucket) const;
  uint64_t most_rows(uint64_t from, uint64_t to) const;
  Status cut(uint64_t begin, uint64_t end, uint64_t rows);
  uint64_t next_cut(uint64_t from, uint64_t end, uint64_t rows) const;
  Status locate(std::span<Edge> edges) const;
  Status split(uint64_t rows);
  Result<std::vector<Edge>> split_between(const Edge& from, const Edge& to, uint64_t rows) const;
  // Whether ids tell which of the rows that are looked at are wanted.
  bool filters() const { return request_.kind == CKPT_SHARE_MOD || !table_.later.empty() || request_.since; }
  bool keeps_steps() const { return filters() && (request_.kind != CKPT_SHARE_MOD || request_.since); }
  bool is_ours(uint64_t id) const { return request_.kind != CKPT_SHARE_MOD || id % request_.count == request_.index; }
  uint64_t most_of_step() const;
  const std::shared_ptr<checkpoint::Checkpoint>& checkpoint_of(size_t part) const {
    return is_earlier(part) ? request_.since : checkpoint_;
  }
  Status read_rows(std::span<const RowRun> runs, const std::function<const Table::Column&(const RowRun&)>& column_of,
                   std::byte* to) const;
  Result<LargeVector<uint64_t>> read_ids(std::span<const RowRun> runs) const;
  Result<LargeVector<uint64_t>> read_buckets(std::span<const RowRun> runs) const;
  std::vector<RowRun> runs_of(size_t step) const;
  std::vector<PartIds> ids_of(std::span<const RowRun> runs, const LargeVector<uint64_t>& ids) const;
  Status filter(size_t number, Step* step) const;
  Result<std::vector<std::vector<uint64_t>>> hidden_rows(std::span<const RowRun> runs,
                                                         std::span<const PartIds> pieces) const;
  Status hide(std::span<const RowRun> runs, std::span<const PartIds> pieces, size_t first, size_t end,
              std::span<std::vector<uint64_t>> hidden) const;
  Status kept_and_removed(uint32_t part, uint64_t id) const;
  bool removes(const RowRun& run) const { return Table::removes(parts_[run.part].layer); }
  bool same_part(const RowRun& a, const RowRun& b) const {
    return parts_[a.part].part == parts_[b.part].part && is_earlier(a.part) == is_earlier(b.part);
  }
  void overlay(std::span<const RowRun> runs, std::span<const std::vector<uint64_t>> hidden, Step* step) const;
  void keep_ours(std::span<const RowRun> runs, std::span<const PartIds> pieces,
                 std::span<const std::vector<uint64_t>> hidden, Step* step) const;
  Status overlay_all();
  Status check_count() const;

  // ---- changes.cpp ----
  // A shown row of a step: runs[run].first + at.
  struct ShownRow {
    RowKey key;
    size_t run;
    uint64_t at;
  };
  // A row of ours: with one of `before` of the same id, or new, which is changed.
  struct Candidate {
    size_t run;
    uint64_t at, before;
    bool changed;
  };
  bool is_earlier(size_t part) const { return part >= earlier_first_; }
  Status add_earlier(std::string_view name);
  Status check_alike() const;
  Status find_twins();
  bool is_same(const RowRun& run, uint64_t at, const RowRun& earlier, uint64_t earlier_at) const;
  std::vector<Candidate> candidates(std::span<const RowRun> runs, std::span<const PartIds> pieces,
                                    std::span<const std::vector<uint64_t>> hidden, std::span<const ShownRow> before,
                                    Step* step) const;
  Status compare(std::span<const RowRun> runs, std::span<const ShownRow> before, std::span<Candidate> candidates) const;
  Status keep_changed(std::span<const RowRun> runs, std::span<const PartIds> pieces,
                      std::span<const std::vector<uint64_t>> hidden, Step* step) const;
  uint64_t step_ids() const;
  static constexpr size_t kNowhere = SIZE_MAX;
  // Where a row was found.
  struct Found {
    size_t part;  // in parts_; kNowhere
    uint64_t row;
  };
  Status find_ids(Job& job);
  Status find_some(std::span<const uint32_t> wanted, std::span<Found> found) const;
  uint64_t rows_before(const Edge& edge) const;
  Status add_windows(Job& job);

  std::shared_ptr<checkpoint::Checkpoint> checkpoint_;
  ShareRequest request_;
  bool is_open_ = false;  // what is read again has been checked
  Table table_;
  std::vector<TablePart> parts_;
  // Of changes: the earlier checkpoint's table, whose parts stand behind those of this one.
  Table earlier_;
  size_t earlier_first_ = SIZE_MAX;
  // The layer of the earlier checkpoint that has the same ids at the same places, and which rows may differ.
  struct Twin {
    size_t part = SIZE_MAX;
    std::vector<bool> differs;
  };
  std::vector<Twin> twins_;       // of the parts before earlier_first_
  std::vector<Entries> entries_;  // of parts_
  std::vector<Edge> edges_;       // of steps; not of IDS
  std::vector<Step> overlaid_;    // of a table in several runs, and of changes
  std::vector<Window> windows_;
  std::vector<Found> found_;                   // of IDS
  std::vector<uint64_t> found_ids_, missing_;  // of IDS
};

// Calls visit(first, count) for the rows between the hidden ones.
template <typename Visit>
void for_shown(uint64_t count, std::span<const uint64_t> hidden, Visit&& visit) {
  for (uint64_t at = 0, next = 0; at < count; at++, next++) {
    const uint64_t end = next < hidden.size() ? std::min(hidden[next], count) : count;
    if (at < end) visit(at, end - at);
    at = end;
  }
}
// Adds a row, which may follow the last one.
void add_row(std::vector<RowRun>& runs, size_t part, uint64_t row);

// How many ids have a row. Of a table in several runs the parts are asked.
Result<uint64_t> count_rows(const std::shared_ptr<checkpoint::Checkpoint>& checkpoint, const Table& table);

}  // namespace ckpt::load
