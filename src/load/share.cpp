#include "load/share.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/parallel.h"
#include "format/table.h"
#include "load/load.h"

namespace ckpt::load {

static constexpr uint64_t kFilterRows = 1 << 20;  // of a step of a filter: their ids are in memory at once
static constexpr uint64_t kChangedRows = 1 << 18, kChangedBytes = 32 << 20;  // of a step of changes: of a column
static constexpr uint64_t kStepIds = 64 << 10;  // of a step of IDS, each of which may be a read of its own

uint64_t Share::step_ids() const { return std::min(request_.window_rows - 1, kStepIds - 1) + 1; }

// Of a filter.
uint64_t Share::most_of_step() const {
  uint64_t most = kFilterRows;
  if (request_.since) {
    uint64_t widest = 1;
    for (const Table::Column& column : table_.columns) widest = std::max(widest, column.row_bytes);
    most = std::clamp<uint64_t>(kChangedBytes / widest, 1, kChangedRows);
  }
  return std::min(request_.window_rows - 1, most - 1) + 1;
}

Result<std::shared_ptr<const Share>> Share::open(std::shared_ptr<checkpoint::Checkpoint> checkpoint,
                                                 std::string_view table, ShareRequest request, Job& job) {
  CKPT_TRY(job.check());
  std::shared_ptr<Share> share(new Share(std::move(checkpoint), std::move(request)));
  CKPT_TRY(share->find(table, job));
  share->is_open_ = true;
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
    return Status(CKPT_INVALID, "share of table " + in_quotes(table_.name) + ": " + std::move(what));
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
  if (request_.since) CKPT_TRY(add_earlier(name));
  // Before memory is made for what an index claims.
  for (size_t i = 0; i < parts_.size(); i++)
    CKPT_TRY(checkpoint_of(i)->check_part(parts_[i].part, table_.ids.tensor.name()));
  if (parts_.size() > earlier_first_) CKPT_TRY(find_twins());
  if (of_ids()) return find_ids(job);
  CKPT_TRY(read_entries(request_.first, request_.end));
  CKPT_TRY(cut(request_.first, request_.end, filters() ? most_of_step() : request_.window_rows));
  if (keeps_steps()) CKPT_TRY(overlay_all());
  CKPT_TRY(add_windows(job));
  const bool counted = request_.kind == CKPT_SHARE_ALL && !table_.later.empty() && !request_.since;
  request_.since.reset();
  twins_ = {};
  return counted ? check_count() : Ok();
}

// ---- what is counted ----

using ColumnOf = std::function<const Table::Column&(const RowRun&)>;

static uint64_t count_of(std::span<const RowRun> runs) {
  return std::transform_reduce(runs.begin(), runs.end(), uint64_t{0}, std::plus<>(),
                               [](const RowRun& run) { return run.count; });
}

// The rows that are chosen, each at the place that it has among all.
static Status read_rows(const std::shared_ptr<checkpoint::Checkpoint>& checkpoint, std::span<const RowRun> runs,
                        const ColumnOf& column_of, int64_t threads, std::byte* to,
                        const std::function<bool(const RowRun&)>& is_chosen) {
  CKPT_TRY(CallContext::current().check());  // the reading has a job of its own
  CKPT_ASSIGN(auto load, Load::make(checkpoint, {.threads = threads}));
  for (const RowRun& run : runs) {
    const Table::Column& column = column_of(run);
    if (is_chosen(run)) load->add_rows(column, run.first, run.count, to);
    to += run.count * column.row_bytes;
  }
  CKPT_TRY(load->begin());
  Job job;
  return job.run(CKPT_JOB_DONE, [&](Job& running) { return load->work(running); });
}

static Result<LargeVector<uint64_t>> read_rows(const std::shared_ptr<checkpoint::Checkpoint>& checkpoint,
                                               std::span<const RowRun> runs, const ColumnOf& column_of,
                                               int64_t threads) {
  LargeVector<uint64_t> values(count_of(runs));
  auto* const to = reinterpret_cast<std::byte*>(values.data());
  CKPT_TRY(read_rows(checkpoint, runs, column_of, threads, to, [](const RowRun&) { return true; }));
  return values;
}

// Of two checkpoints, each reads its own.
Status Share::read_rows(std::span<const RowRun> runs, const ColumnOf& column_of, std::byte* to) const {
  const auto earlier = [this](const RowRun& run) { return is_earlier(run.part); };
  CKPT_TRY(load::read_rows(checkpoint_, runs, column_of, request_.threads, to, std::not_fn(earlier)));
  if (std::ranges::none_of(runs, earlier)) return Ok();
  return load::read_rows(request_.since, runs, column_of, request_.threads, to, earlier);
}

static Status wrong_count(const Table& table, uint32_t part, uint64_t found, uint64_t expected) {
  return error_about(CKPT_MISMATCH, table.name,
                     strformat("table {}: the runs of part {} have {} rows, its rank had {}: a list of changes lacked "
                               "something",
                               in_quotes(table.name), part, found, expected))
      .with("rank", uint64_t{part})
      .with("expected", expected)
      .with("found", found);
}

// How many ids have a row, as each part says.
static Result<std::map<uint32_t, uint64_t>> rows_by_part(const std::shared_ptr<checkpoint::Checkpoint>& checkpoint,
                                                         const Table& table) {
  CKPT_ASSIGN(const auto counted, live_of(*checkpoint, table));
  CKPT_ASSIGN(const auto parts, parts_of(*checkpoint, table));
  std::vector<RowRun> runs;
  for (const TablePart& part : counted) runs.push_back({0, part.first, 1});
  CKPT_ASSIGN(const auto numbers,
              read_rows(checkpoint, runs, [&](const RowRun&) -> const Table::Column& { return table.live; }, 0));
  std::map<uint32_t, uint64_t> rows;
  for (size_t i = 0; i < counted.size(); i++) {
    if (numbers[i] > table.stored_rows()) return wrong_count(table, counted[i].part, table.stored_rows(), numbers[i]);
    rows[counted[i].part] = numbers[i];
  }
  for (const TablePart& part : parts)
    if (rows.try_emplace(part.part, part.rows).second && part.layer != 0)
      return bad_table(table.name, strformat("part {} has runs and does not count its rows", part.part));
  return rows;
}

// Whether there are as many rows as each rank had. Nobody else finds what a writer left out.
Status Share::check_count() const {
  std::vector<uint64_t> found(parts_.size());
  for (const Step& step : overlaid_) {
    uint64_t end = 0;
    auto place = step.places.begin();
    for (const RowRun& run : step.runs) {  // but for those that others replace
      end += run.count;
      const auto next = std::lower_bound(place, step.places.end(), end);
      found[run.part] += run.count - static_cast<uint64_t>(next - place);
      place = next;
    }
    for (const RowRun& run : step.extra) found[run.part] += run.count;
  }
  CKPT_ASSIGN(auto expected, rows_by_part(checkpoint_, table_));
  std::map<uint32_t, uint64_t> by_part;
  for (size_t i = 0; i < parts_.size(); i++) by_part[parts_[i].part] += found[i];
  for (const auto& [part, rows] : expected)
    if (by_part[part] != rows) return wrong_count(table_, part, by_part[part], rows);
  return Ok();
}

Result<uint64_t> count_rows(const std::shared_ptr<checkpoint::Checkpoint>& checkpoint, const Table& table) {
  if (table.later.empty()) return table.rows();
  CKPT_ASSIGN(const auto by_part, rows_by_part(checkpoint, table));
  uint64_t all = 0;
  for (const auto& [part, rows] : by_part)
    if (add_overflows(all, rows, &all)) return bad_table(table.name, "its parts count more rows than 2^64");
  return all;
}

uint64_t Share::rows_before(const Edge& edge) const {
  return std::accumulate(edge.at.begin(), edge.at.end(), uint64_t{0});
}

// A step of a filter gives fewer rows than it looks at: several may be one window.
Status Share::add_windows(Job& job) {
  windows_.push_back({0, 0, 0});
  if (filters()) job.counters.bytes_total += (rows_before(edges_.back()) - rows_before(edges_[0])) * sizeof(uint64_t);
  for (size_t i = 0; i + 1 < edges_.size(); i++) {
    uint64_t rows = rows_before(edges_[i + 1]) - rows_before(edges_[i]);
    if (rows == 0) continue;
    if (filters()) {
      CKPT_ASSIGN(const Step filtered, step(i));
      job.counters.bytes_done += rows * sizeof(uint64_t);
      rows = filtered.rows;
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

Result<LargeVector<uint64_t>> Share::read_ids(std::span<const RowRun> runs) const {
  LargeVector<uint64_t> ids(count_of(runs));
  const auto column = [this](const RowRun& run) -> const Table::Column& { return layer_of(run).ids; };
  CKPT_TRY(read_rows(runs, column, reinterpret_cast<std::byte*>(ids.data())));
  return ids;
}

Result<LargeVector<uint64_t>> Share::read_buckets(std::span<const RowRun> runs) const {
  LargeVector<uint64_t> buckets(count_of(runs));
  const auto column = [this](const RowRun& run) -> const Table::Column& { return layer_of(run).buckets; };
  CKPT_TRY(read_rows(runs, column, reinterpret_cast<std::byte*>(buckets.data())));
  return buckets;
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
  CKPT_ASSIGN(const auto starts, read_buckets(runs));
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

// The furthest bucket so that no more than `rows` rows lie before it. Where even one entry has more, its end. Parts
// that have few rows have wide entries, which do not matter.
uint64_t Share::next_cut(uint64_t from, uint64_t end, uint64_t rows) const {
  uint64_t widest = 1;
  for (const TablePart& part : parts_)
    if (part.rows > rows / (2 * parts_.size())) widest = std::max(widest, part.entry_buckets);
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
  CKPT_ASSIGN(const auto ids, read_ids(runs));
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
  CKPT_ASSIGN(const auto ids, read_ids(runs));
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

void add_row(std::vector<RowRun>& runs, size_t part, uint64_t row) {
  if (!runs.empty() && runs.back().part == part && runs.back().first + runs.back().count == row)
    runs.back().count++;
  else
    runs.push_back({part, row, 1});
}

// Takes the hidden rows out of a piece, whose other ids move together.
static void take_out(PartIds& piece, std::span<const uint64_t> hidden) {
  auto* const ids = const_cast<std::byte*>(piece.ids);
  uint64_t shown = 0;
  for_shown(piece.count, hidden, [&](uint64_t first, uint64_t count) {
    std::memmove(ids + shown * sizeof(uint64_t), ids + first * sizeof(uint64_t), count * sizeof(uint64_t));
    shown += count;
  });
  piece.count = shown;
}

// Keeps the rows of which the ids are ours.
void Share::keep_ours(std::span<const RowRun> runs, std::span<const PartIds> pieces,
                      std::span<const std::vector<uint64_t>> hidden, Step* step) const {
  for (size_t i = 0; i < runs.size(); i++) {
    if (removes(runs[i])) continue;
    for_shown(runs[i].count, hidden[i], [&](uint64_t first, uint64_t count) {
      for (uint64_t at = first; at < first + count; at++) {
        const uint64_t id = pieces[i][at];
        if (!is_ours(id)) continue;
        step->ids.push_back(id);
        add_row(step->runs, runs[i].part, runs[i].first + at);
      }
    });
  }
  step->rows = step->ids.size();
}

// Finds the rows that are not hidden and, of a filter, of which the ids are ours.
Status Share::filter(size_t number, Step* step) const {
  const std::vector<RowRun> all = runs_of(number);
  CKPT_ASSIGN(const auto ids, read_ids(all));
  auto pieces = ids_of(all, ids);
  CKPT_TRY(check_sorted(table_, pieces, step->from, step->to, 1));
  CKPT_TRY(check_starts(all, pieces));
  CKPT_ASSIGN(const auto hidden, hidden_rows(all, pieces));
  step->checked = true;
  if (request_.since)
    CKPT_TRY(keep_changed(all, pieces, hidden, step));
  else if (request_.kind == CKPT_SHARE_MOD)
    keep_ours(all, pieces, hidden, step);
  else
    overlay(all, hidden, step);
  if (is_open_ || std::ranges::all_of(all, [&](const RowRun& run) { return same_part(run, all[0]); })) return Ok();
  for (size_t i = 0; i < all.size(); i++) {
    take_out(pieces[i], hidden[i]);
    if (removes(all[i])) pieces[i].count = 0;
  }
  const auto now = std::ranges::count_if(all, [&](const RowRun& run) { return !is_earlier(run.part); });
  CKPT_TRY(check_distinct(table_, std::span(pieces).first(static_cast<size_t>(now)), 1));
  return check_distinct(table_, std::span(pieces).subspan(static_cast<size_t>(now)), 1);
}

Result<Share::Step> Share::step(size_t number) const {
  if (!overlaid_.empty()) return overlaid_[number];
  Step step{};
  if (of_ids()) {
    const size_t first = number * step_ids(), end = std::min<size_t>(first + step_ids(), found_.size());
    step.checked = true;
    step.ids.assign(found_ids_.begin() + static_cast<ptrdiff_t>(first),
                    found_ids_.begin() + static_cast<ptrdiff_t>(end));
    for (size_t i = first; i < end; i++) add_row(step.runs, found_[i].part, found_[i].row);
    step.rows = step.ids.size();
    return step;
  }
  step.from = edges_[number].key;
  step.to = edges_[number + 1].key;
  if (filters()) {
    CKPT_TRY(filter(number, &step));
    return step;
  }
  step.runs = runs_of(number);
  for (const RowRun& run : step.runs) step.rows += run.count;
  return step;
}

// What a table in runs gives, and what changed, is found once, step by step, and kept.
Status Share::overlay_all() {
  std::vector<Step> steps(edges_.size() - 1);
  const auto threads = static_cast<unsigned>(std::min<size_t>(resolve_threads(request_.threads), steps.size()));
  CKPT_TRY(for_each_parallel(std::max(threads, 1u), steps.size(), [&](size_t i) -> Status {
    CKPT_ASSIGN(steps[i], step(i));
    return Ok();
  }));
  overlaid_ = std::move(steps);
  for (Step& step : overlaid_) {
    missing_.insert(missing_.end(), step.gone.begin(), step.gone.end());
    step.gone = {};
  }
  return Ok();
}

std::vector<RowRun> Share::in_order(const Step& step) const {
  if (step.places.empty()) return step.runs;
  std::vector<RowRun> rows;
  auto run = step.runs.begin();
  auto extra = step.extra.begin();
  uint64_t at = 0, of_run = 0, of_extra = 0;  // of the step, of *run and of *extra
  auto take_until = [&](uint64_t end) {
    while (at < end) {
      const uint64_t count = std::min(run->count - of_run, end - at);
      rows.push_back({run->part, run->first + of_run, count});
      at += count;
      if ((of_run += count) == run->count) run++, of_run = 0;
    }
  };
  for (const uint64_t place : step.places) {
    take_until(place);
    add_row(rows, extra->part, extra->first + of_extra);
    if (++of_extra == extra->count) extra++, of_extra = 0;
    at++;
    if (run != step.runs.end() && ++of_run == run->count) run++, of_run = 0;  // the row that is hidden
  }
  take_until(step.rows);
  return rows;
}

}  // namespace ckpt::load
