#include "load/share.h"

#include <algorithm>
#include <numeric>

#include "base/parallel.h"
#include "format/table.h"
#include "load/load.h"

namespace ckpt::load {

static constexpr uint64_t kFilterRows = 1 << 20;  // of a step of a filter: their ids are in memory at once
static constexpr uint64_t kStepIds = 64 << 10;    // of a step of IDS, each of which may be a read of its own

uint64_t Share::step_ids() const { return std::min(request_.window_rows - 1, kStepIds - 1) + 1; }

Result<std::shared_ptr<const Share>> Share::open(std::shared_ptr<checkpoint::Checkpoint> checkpoint,
                                                 std::string_view table, ShareRequest request, Job& job) {
  CKPT_TRY(job.check());
  std::shared_ptr<Share> share(new Share(std::move(checkpoint), std::move(request)));
  CKPT_TRY(share->find(table, job));
  return std::shared_ptr<const Share>(std::move(share));
}

uint64_t Share::rows() const {
  uint64_t rows = 0;
  for (const Window& window : windows_) rows += window.rows;
  return rows;
}

// ---- what is asked for ----

// Turns a slice into its range of buckets.
Status Share::check_request() {
  const uint64_t buckets = table_.bucket_count;
  auto invalid = [&](std::string what) {
    return Status(CKPT_INVALID, "share of table " + quoted(table_.name) + ": " + std::move(what));
  };
  switch (request_.kind) {
    case CKPT_SHARE_BUCKETS:
      if (request_.first <= request_.end && request_.end <= buckets) return Ok();
      return invalid(strformat("buckets {} to {} of {}", request_.first, request_.end, buckets));
    case CKPT_SHARE_SLICE:
    case CKPT_SHARE_MOD:
      if (request_.index >= request_.count)
        return invalid(strformat("number {} of {}", request_.index, request_.count));
      if (request_.kind == CKPT_SHARE_MOD) break;
      request_.first = buckets / request_.count * request_.index + std::min(request_.index, buckets % request_.count);
      request_.end = request_.first + buckets / request_.count + (request_.index < buckets % request_.count);
      return Ok();
    case CKPT_SHARE_ALL:
    case CKPT_SHARE_IDS:
      break;
    default:
      return invalid(strformat("kind {}", request_.kind));
  }
  request_.first = 0;
  request_.end = buckets;
  return Ok();
}

Status Share::find(std::string_view name, Job& job) {
  CKPT_ASSIGN(table_, find_table(*checkpoint_, name));
  CKPT_TRY(check_request());
  CKPT_ASSIGN(parts_, parts_of(*checkpoint_, table_));
  // Before memory is made for what an index claims.
  for (const TablePart& part : parts_) CKPT_TRY(checkpoint_->check_part(part.part, table_.ids.tensor.name()));
  if (of_ids()) return find_ids(job);
  const uint64_t most =
      request_.kind == CKPT_SHARE_MOD ? std::min(request_.window_rows - 1, kFilterRows - 1) + 1 : request_.window_rows;
  CKPT_TRY(read_entries(request_.first, request_.end));
  CKPT_TRY(cut(request_.first, request_.end, most));
  return add_windows(job);
}

uint64_t Share::rows_before(const Edge& edge) const {
  return std::accumulate(edge.at.begin(), edge.at.end(), uint64_t{0});
}

// A step of a filter gives fewer rows than it looks at: several may be one window.
Status Share::add_windows(Job& job) {
  windows_.push_back({0, 0, 0});
  const bool filters = request_.kind == CKPT_SHARE_MOD;
  if (filters) job.counters.bytes_total += (rows_before(edges_.back()) - rows_before(edges_[0])) * sizeof(uint64_t);
  for (size_t i = 0; i + 1 < edges_.size(); i++) {
    uint64_t rows = rows_before(edges_[i + 1]) - rows_before(edges_[i]);
    if (rows == 0) continue;
    if (filters) {
      CKPT_ASSIGN(const Step filtered, step(i));
      job.counters.bytes_done += rows * sizeof(uint64_t);
      rows = filtered.ids.size();
    }
    const bool another = request_.window_rows != 0 && windows_.back().rows + rows > request_.window_rows;
    if (another && windows_.back().rows != 0) windows_.push_back({i, i, 0});
    if (windows_.back().rows == 0) windows_.back().step_first = i;
    windows_.back().step_end = i + 1;
    windows_.back().rows += rows;
  }
  return Ok();
}

// ---- where buckets begin ----

Result<LargeVector<uint64_t>> Share::read(const Table::Column& column, std::span<const RowRun> runs) const {
  LargeVector<uint64_t> values(std::transform_reduce(runs.begin(), runs.end(), uint64_t{0}, std::plus<>(),
                                                     [](const RowRun& run) { return run.count; }));
  CKPT_TRY(CallContext::current().check());  // the reading has a job of its own
  CKPT_ASSIGN(auto load, Load::make(checkpoint_, {.threads = request_.threads}));
  auto* to = reinterpret_cast<std::byte*>(values.data());
  for (const RowRun& run : runs) {
    load->add_rows(column, run.first, run.count, to);
    to += run.count * sizeof(uint64_t);
  }
  CKPT_TRY(load->begin());
  Job job;
  CKPT_TRY(job.run(CKPT_JOB_DONE, [&](Job& running) { return load->work(running); }));
  return values;
}

Status Share::check_entries(const TablePart& part, const Entries& entries) const {
  uint64_t before = 0;
  for (uint64_t start : entries.starts) {
    if (start < before || start > part.rows || (entries.first == 0 && entries.starts[0] != 0))
      return bad_table(table_.name, strformat("part {} has buckets that begin at row {} after row {}, of {} rows",
                                              part.part, start, before, part.rows));
    before = start;
  }
  return Ok();
}

// Those that tell where buckets [begin, end) lie.
Status Share::read_entries(uint64_t begin, uint64_t end) {
  std::vector<RowRun> runs;
  for (size_t i = 0; i < parts_.size(); i++) {
    const TablePart& part = parts_[i];
    const uint64_t first = begin / part.entry_buckets, last = (end + part.entry_buckets - 1) / part.entry_buckets;
    runs.push_back({i, part.entry_first + first, std::min(last + 1, part.entries) - std::min(first, part.entries)});
    entries_.push_back({first, {}});
  }
  CKPT_ASSIGN(const auto starts, read(table_.buckets, runs));
  auto at = starts.begin();
  for (size_t i = 0; i < parts_.size(); i++) {
    const auto count = static_cast<ptrdiff_t>(runs[i].count);
    entries_[i].starts.assign(at, at + count);
    at += count;
    if (entries_[i].first + runs[i].count == parts_[i].entries) entries_[i].starts.push_back(parts_[i].rows);
    CKPT_TRY(check_entries(parts_[i], entries_[i]));
  }
  return Ok();
}

// The rows of a part before a bucket: exactly, or between two numbers.
Share::Bounds Share::bounds(size_t part, uint64_t bucket) const {
  const uint64_t buckets = parts_[part].entry_buckets;
  if (bucket == table_.bucket_count) return {parts_[part].rows, parts_[part].rows};
  const Entries& entries = entries_[part];
  const uint64_t entry = bucket / buckets - entries.first;
  return {entries.starts[entry], entries.starts[entry + (bucket % buckets != 0)]};
}

uint64_t Share::most_rows(uint64_t from, uint64_t to) const {
  uint64_t rows = 0;
  for (size_t i = 0; i < parts_.size(); i++) rows += bounds(i, to).high - bounds(i, from).low;
  return rows;
}

// The furthest bucket so that no more than `rows` rows lie before it. Where even one entry has more, its end.
uint64_t Share::next_cut(uint64_t from, uint64_t end, uint64_t rows) const {
  uint64_t widest = 1;
  for (const TablePart& part : parts_) widest = std::max(widest, part.entry_buckets);
  uint64_t low = std::min(end, (from / widest + 1) * widest), high = end;
  while (low < high) {
    const uint64_t middle = high - (high - low) / 2;
    if (most_rows(from, middle) <= rows)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

// Cuts a range of buckets into steps of at most `rows` rows (0: one step).
Status Share::cut(uint64_t begin, uint64_t end, uint64_t rows) {
  edges_.push_back({{begin, 0}, {}});
  for (uint64_t at = begin; at < end;) {
    at = rows == 0 ? end : next_cut(at, end, rows);
    edges_.push_back({{at, 0}, {}});
  }
  CKPT_TRY(locate(edges_));
  return rows == 0 ? Ok() : split(rows);
}

// Where T/buckets is not exact, ids tell.
Status Share::locate(std::span<Edge> edges) const {
  std::vector<RowRun> runs;
  for (Edge& edge : edges)
    for (size_t i = 0; i < parts_.size(); i++) {
      const Bounds at = bounds(i, edge.key.bucket);
      edge.at.push_back(at.low);
      if (at.low != at.high) runs.push_back({i, parts_[i].first + at.low, at.high - at.low});
    }
  if (runs.empty()) return Ok();
  CKPT_ASSIGN(const auto ids, read(table_.ids, runs));
  const auto pieces = ids_of(runs, ids);
  auto piece = pieces.begin();
  for (Edge& edge : edges)
    for (size_t i = 0; i < parts_.size(); i++) {
      const Bounds at = bounds(i, edge.key.bucket);
      if (at.low != at.high) edge.at[i] += (piece++)->lower_bound(edge.key, table_.bucket_count);
    }
  return Ok();
}

// Few buckets may have more rows than a step may: it is cut between two ids.
Status Share::split(uint64_t rows) {
  std::vector<Edge> edges;
  for (size_t i = 0; i < edges_.size(); i++) {
    if (i > 0) {
      CKPT_ASSIGN(auto between, split_between(edges_[i - 1], edges_[i], rows));
      std::ranges::move(between, std::back_inserter(edges));
    }
    edges.push_back(edges_[i]);
  }
  edges_ = std::move(edges);
  return Ok();
}

Result<std::vector<Share::Edge>> Share::split_between(const Edge& from, const Edge& to, uint64_t rows) const {
  std::vector<Edge> edges;
  std::vector<RowRun> runs;
  uint64_t total = 0;
  for (size_t i = 0; i < parts_.size(); i++) {
    runs.push_back({i, parts_[i].first + from.at[i], to.at[i] - from.at[i]});
    total += runs.back().count;
  }
  if (total <= rows) return edges;
  CKPT_ASSIGN(const auto ids, read(table_.ids, runs));
  const auto pieces = ids_of(runs, ids);
  CKPT_TRY(check_sorted(table_, pieces, from.key, to.key, 1));
  LargeVector<uint64_t> sorted = ids;
  auto key_of = [&](uint64_t id) { return RowKey{format::bucket_of(id, table_.bucket_count), id}; };
  std::ranges::sort(sorted, {}, key_of);
  for (uint64_t at = rows; at < total; at += rows) {
    Edge edge{key_of(sorted[at]), {}};
    for (size_t i = 0; i < parts_.size(); i++)
      edge.at.push_back(from.at[i] + pieces[i].lower_bound(edge.key, table_.bucket_count));
    edges.push_back(std::move(edge));
  }
  return edges;
}

// ---- steps ----

std::vector<PartIds> Share::ids_of(std::span<const RowRun> runs, const LargeVector<uint64_t>& ids) const {
  std::vector<PartIds> pieces;
  const auto* at = reinterpret_cast<const std::byte*>(ids.data());
  for (const RowRun& run : runs) {
    pieces.push_back({parts_[run.part].part, at, run.count});
    at += run.count * sizeof(uint64_t);
  }
  return pieces;
}

std::vector<RowRun> Share::runs_of(size_t step) const {
  std::vector<RowRun> runs;
  for (size_t i = 0; i < parts_.size(); i++)
    if (const uint64_t first = edges_[step].at[i], end = edges_[step + 1].at[i]; first < end)
      runs.push_back({i, parts_[i].first + first, end - first});
  return runs;
}

static void add_row(std::vector<RowRun>& runs, size_t part, uint64_t row) {
  if (!runs.empty() && runs.back().part == part && runs.back().first + runs.back().count == row)
    runs.back().count++;
  else
    runs.push_back({part, row, 1});
}

// Keeps the rows of which the ids are ours.
Status Share::filter(size_t number, Step* step) const {
  const std::vector<RowRun> all = runs_of(number);
  CKPT_ASSIGN(const auto ids, read(table_.ids, all));
  const auto pieces = ids_of(all, ids);
  CKPT_TRY(check_sorted(table_, pieces, step->from, step->to, 1));
  CKPT_TRY(check_distinct(table_, pieces, 1));
  step->checked = true;
  size_t at = 0;
  for (const RowRun& run : all)
    for (uint64_t row = run.first; row < run.first + run.count; row++) {
      const uint64_t id = ids[at++];
      if (id % request_.count != request_.index) continue;
      step->ids.push_back(id);
      add_row(step->runs, run.part, row);
    }
  return Ok();
}

Result<Share::Step> Share::step(size_t number) const {
  Step step{};
  if (of_ids()) {
    const size_t first = number * step_ids(), end = std::min<size_t>(first + step_ids(), found_rows_.size());
    step.checked = true;
    step.ids.assign(found_ids_.begin() + static_cast<ptrdiff_t>(first),
                    found_ids_.begin() + static_cast<ptrdiff_t>(end));
    for (size_t i = first; i < end; i++) add_row(step.runs, 0, found_rows_[i]);
    return step;
  }
  step.from = edges_[number].key;
  step.to = edges_[number + 1].key;
  if (request_.kind == CKPT_SHARE_MOD) {
    CKPT_TRY(filter(number, &step));
    return step;
  }
  step.runs = runs_of(number);
  return step;
}

// ---- a list of ids ----

static constexpr uint64_t kNotFound = UINT64_MAX;

// The part that has a row.
uint32_t Share::part_of(uint64_t row) const {
  return std::prev(std::ranges::upper_bound(parts_, row, {}, &TablePart::first))->part;
}

// Looks the ids request_.ids[wanted[…]], which ascend by key, up in all parts.
Status Share::find_some(std::span<const uint32_t> wanted, std::span<uint64_t> rows) const {
  auto key_of = [&](uint32_t at) {
    return RowKey{format::bucket_of(request_.ids[at], table_.bucket_count), request_.ids[at]};
  };
  std::vector<RowRun> runs;
  std::vector<std::pair<RowKey, RowKey>> ranges;  // of the runs
  for (size_t i = 0; i < parts_.size(); i++)
    for (uint32_t at : wanted) {
      const uint64_t buckets = parts_[i].entry_buckets, entry = key_of(at).bucket / buckets;
      const auto start = entries_[i].starts.begin() + static_cast<ptrdiff_t>(entry - entries_[i].first);
      const uint64_t first = parts_[i].first + start[0], end = parts_[i].first + start[1];
      const RowKey to{(entry + 1) * buckets, 0};
      const bool follows = !runs.empty() && runs.back().part == i && first <= runs.back().first + runs.back().count;
      if (follows) {
        runs.back().count = std::max(runs.back().count, end - runs.back().first);
        ranges.back().second = to;
      } else if (first < end) {
        runs.push_back({i, first, end - first});
        ranges.emplace_back(RowKey{entry * buckets, 0}, to);
      }
    }
  CKPT_ASSIGN(const auto ids, read(table_.ids, runs));
  const auto pieces = ids_of(runs, ids);
  for (size_t i = 0; i < pieces.size(); i++)
    CKPT_TRY(check_sorted(table_, {&pieces[i], 1}, ranges[i].first, ranges[i].second, 1));
  for (size_t i = 0, next = 0; i < runs.size(); i++) {
    if (i == 0 || runs[i].part != runs[i - 1].part) next = 0;
    for (uint64_t at = 0; at < runs[i].count && next < wanted.size();) {
      const RowKey have = pieces[i].key(at, table_.bucket_count), want = key_of(wanted[next]);
      if (have < want) {
        at++;
        continue;
      }
      if (have == want) {
        uint64_t& row = rows[wanted[next]];
        if (row != kNotFound) return saved_twice(table_, have.id, part_of(row), pieces[i].part);
        row = runs[i].first + at;
      }
      next++;
    }
  }
  return Ok();
}

Status Share::find_ids(Job& job) {
  static constexpr size_t kAtOnce = 16 << 10;
  const size_t count = request_.ids.size();
  if (count > UINT32_MAX) return Status(CKPT_INVALID, strformat("a list of {} ids, at most 2^32-1", count));
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order, {}, [&](uint32_t at) {
    return RowKey{format::bucket_of(request_.ids[at], table_.bucket_count), request_.ids[at]};
  });
  std::vector<uint64_t> rows(count, kNotFound);
  if (count != 0 && !parts_.empty())
    CKPT_TRY(read_entries(format::bucket_of(request_.ids[order.front()], table_.bucket_count),
                          format::bucket_of(request_.ids[order.back()], table_.bucket_count) + 1));
  job.counters.bytes_total += count * sizeof(uint64_t);
  for (size_t at = 0; at < count; at += kAtOnce) {
    const size_t some = std::min(kAtOnce, count - at);
    if (!parts_.empty()) CKPT_TRY(find_some(std::span(order).subspan(at, some), rows));
    job.counters.bytes_done += some * sizeof(uint64_t);
  }
  for (size_t i = 0; i < count; i++) {
    if (rows[i] == kNotFound) {
      missing_.push_back(request_.ids[i]);
      continue;
    }
    found_ids_.push_back(request_.ids[i]);
    found_rows_.push_back(rows[i]);
  }
  const uint64_t step = step_ids(), steps = request_.window_rows == 0 ? UINT64_MAX : request_.window_rows / step;
  const uint64_t all = (found_rows_.size() + step - 1) / step;
  for (uint64_t first = 0, end = 0; first == 0 || first < all; first = end) {
    end = first + std::min(steps, all - first);
    windows_.push_back({first, end, std::min<uint64_t>(end * step, found_rows_.size()) - first * step});
    if (all == 0) break;
  }
  return Ok();
}

}  // namespace ckpt::load
