// A share of listed ids, and whether ids lie where T/buckets says.
#include <algorithm>
#include <numeric>

#include "format/table.h"
#include "load/share.h"

namespace ckpt::load {

// Looks the ids request_.ids[wanted[…]], which ascend by key, up in all parts.
Status Share::find_some(std::span<const uint32_t> wanted, std::span<Found> found) const {
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
  CKPT_ASSIGN(const auto ids, read_ids(runs));
  const auto pieces = ids_of(runs, ids);
  for (size_t i = 0; i < pieces.size(); i++)
    CKPT_TRY(check_sorted(table_, {&pieces[i], 1}, ranges[i].first, ranges[i].second, 1));
  std::vector<size_t> decided(wanted.size(), kNowhere);  // of each part, the newest layer with the id
  for (size_t i = 0, next = 0; i < runs.size(); i++) {
    const TablePart& part = parts_[runs[i].part];
    if (i == 0 || runs[i].part != runs[i - 1].part) next = 0;
    for (uint64_t at = 0; at < runs[i].count && next < wanted.size();) {
      const RowKey have = pieces[i].key(at, table_.bucket_count), want = key_of(wanted[next]);
      if (have < want) {
        at++;
        continue;
      }
      const TablePart* newer = decided[next] == kNowhere ? nullptr : &parts_[decided[next]];
      if (have == want && newer && newer->part == part.part) {
        if (Table::removes(newer->layer) && newer->layer == part.layer + 1) return kept_and_removed(part.part, have.id);
      } else if (have == want) {
        decided[next] = runs[i].part;
        Found& at_last = found[wanted[next]];
        if (!Table::removes(part.layer) && at_last.part != kNowhere)
          return saved_twice(table_, have.id, parts_[at_last.part].part, part.part);
        if (!Table::removes(part.layer)) at_last = {runs[i].part, runs[i].first + at};
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
  std::vector<Found> found(count, {kNowhere, 0});
  if (count != 0 && !parts_.empty())
    CKPT_TRY(read_entries(format::bucket_of(request_.ids[order.front()], table_.bucket_count),
                          format::bucket_of(request_.ids[order.back()], table_.bucket_count) + 1));
  job.counters.bytes_total += count * sizeof(uint64_t);
  for (size_t at = 0; at < count; at += kAtOnce) {
    const size_t some = std::min(kAtOnce, count - at);
    if (!parts_.empty()) CKPT_TRY(find_some(std::span(order).subspan(at, some), found));
    job.counters.bytes_done += some * sizeof(uint64_t);
  }
  for (size_t i = 0; i < count; i++) {
    if (found[i].part == kNowhere) {
      missing_.push_back(request_.ids[i]);
      continue;
    }
    found_ids_.push_back(request_.ids[i]);
    found_.push_back(found[i]);
  }
  const uint64_t step = step_ids(), steps = request_.window_rows == 0 ? UINT64_MAX : request_.window_rows / step;
  const uint64_t all = (found_.size() + step - 1) / step;
  for (uint64_t first = 0, end = 0; first == 0 || first < all; first = end) {
    end = first + std::min(steps, all - first);
    windows_.push_back({first, end, std::min<uint64_t>(end * step, found_.size()) - first * step});
    if (all == 0) break;
  }
  return Ok();
}

Status Share::check_starts(std::span<const RowRun> runs, std::span<const PartIds> pieces) const {
  for (size_t i = 0; request_.verify && i < runs.size(); i++) {
    const TablePart& part = parts_[runs[i].part];
    const auto& starts = entries_[runs[i].part].starts;
    const uint64_t first = runs[i].first - part.first, end = first + runs[i].count;
    auto bucket_at = [&](uint64_t row) { return pieces[i].key(row - first, table_.bucket_count).bucket; };
    for (auto at = std::ranges::lower_bound(starts, first); at != starts.end() && *at <= end; ++at) {
      const uint64_t bucket = static_cast<uint64_t>(at - starts.begin()) * part.entry_buckets;
      if ((*at > first && bucket_at(*at - 1) >= bucket) || (*at < end && bucket_at(*at) < bucket))
        return bad_table(table_.name, strformat("in part {} bucket {} does not begin at row {}, as its buckets say",
                                                part.part, bucket, *at));
    }
  }
  return Ok();
}

}  // namespace ckpt::load
