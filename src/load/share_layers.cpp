// Of a table in several runs: which rows a newer run of the same part hides, and where the others go.
#include <algorithm>

#include "load/share.h"

namespace ckpt::load {

// The first place from `at` on whose key is not less, which is mostly near.
static uint64_t seek(const PartIds& ids, uint64_t at, const RowKey& key, uint64_t bucket_count) {
  uint64_t step = 1;
  while (at + step < ids.count && ids.key(at + step, bucket_count) < key) at += std::exchange(step, 2 * step);
  const PartIds near{ids.part, ids.ids + at * sizeof(uint64_t), std::min(step + 1, ids.count - at)};
  return at + near.lower_bound(key, bucket_count);
}

Status Share::kept_and_removed(uint32_t part, uint64_t id) const {
  return bad_table(table_.name, strformat("in part {} one run has id {} and removes it", part, id)).with("found", id);
}

// Of each run of rows those that a newer one of the same part hides, as places in it. The ids of all runs of a part but
// the longest are sorted together, and each is looked for in that one once.
Result<std::vector<std::vector<uint64_t>>> Share::hidden_rows(std::span<const RowRun> runs,
                                                              std::span<const PartIds> pieces) const {
  std::vector<std::vector<uint64_t>> hidden(runs.size());
  for (size_t first = 0, end = 0; first < runs.size(); first = end) {
    while (end < runs.size() && same_part(runs[end], runs[first])) end++;
    CKPT_TRY(hide(runs, pieces, first, end, hidden));
  }
  return hidden;
}

// Of the runs of one part, the newest first.
Status Share::hide(std::span<const RowRun> runs, std::span<const PartIds> pieces, size_t first, size_t end,
                   std::span<std::vector<uint64_t>> hidden) const {
  struct Row {
    RowKey key;
    size_t run;
    uint64_t at;
    auto operator<=>(const Row&) const = default;
  };
  size_t longest = first;
  for (size_t run = first; run < end; run++)
    if (pieces[run].count > pieces[longest].count) longest = run;
  std::vector<Row> rows;
  for (size_t run = first; run < end; run++)
    for (uint64_t at = 0; run != longest && at < pieces[run].count; at++)
      rows.push_back({pieces[run].key(at, table_.bucket_count), run, at});
  std::ranges::sort(rows);
  const PartIds& in = pieces[longest];
  std::vector<Row> same;  // of one id
  for (size_t i = 0, at = 0; i < rows.size();) {
    const RowKey key = rows[i].key;
    same.clear();
    at = seek(in, at, key, table_.bucket_count);
    if (at < in.count && in[at] == key.id) same.push_back({key, longest, at});
    for (; i < rows.size() && rows[i].key == key; i++) same.push_back(rows[i]);
    std::ranges::sort(same);
    for (size_t older = 1; older < same.size(); older++) {
      const RowRun &run = runs[same[older].run], &newer = runs[same[older - 1].run];
      if (removes(run)) continue;
      if (removes(newer) && parts_[run.part].layer + 1 == parts_[newer.part].layer)
        return kept_and_removed(in.part, key.id);
      hidden[same[older].run].push_back(same[older].at);
    }
  }
  return Ok();
}

// The run of each part that has most rows is read as it lies, and other rows take the places of those that are hidden
// there: rows in the hundreds of thousands would else be found one by one.
void Share::overlay(std::span<const RowRun> runs, std::span<const std::vector<uint64_t>> hidden, Step* step) const {
  std::vector<size_t> most;
  step->rows = 0;
  for (size_t i = 0; i < runs.size(); i++) {
    if (removes(runs[i])) continue;
    step->rows += runs[i].count - hidden[i].size();
    if (!most.empty() && same_part(runs[most.back()], runs[i])) {
      if (runs[most.back()].count < runs[i].count) most.back() = i;
    } else {
      most.push_back(i);
    }
  }
  std::vector<uint64_t> taken(runs.size());  // rows of each run that are read as they lie
  uint64_t end = 0;
  for (const size_t i : most) {
    taken[i] = std::min(runs[i].count, step->rows - end);
    if (taken[i] != 0) step->runs.push_back({runs[i].part, runs[i].first, taken[i]});
    for (const uint64_t at : hidden[i])
      if (at < taken[i]) step->places.push_back(end + at);
    end += taken[i];
  }
  for (; end < step->rows; end++) step->places.push_back(end);
  for (size_t i = 0; i < runs.size(); i++) {
    if (removes(runs[i])) continue;
    for_shown(runs[i].count, hidden[i], [&](uint64_t first, uint64_t count) {
      const uint64_t begin = std::max(first, taken[i]);
      if (begin < first + count) step->extra.push_back({runs[i].part, runs[i].first + begin, first + count - begin});
    });
  }
}

}  // namespace ckpt::load
