#include "save/table_changes.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/parallel.h"
#include "codec/checksum.h"
#include "save/id_set.h"
#include "save/table_sort.h"

namespace ckpt::save {

namespace {

using session::SavedRows;

constexpr uint64_t kSlice = 1 << 16;  // rows

// XXH3 of each column's bytes, mixed: with a probability of 2^-64 a row that changed has the same one.
uint64_t digest_of(const SaveTable& table, uint64_t row) {
  uint64_t all = 0;
  for (const RowSource& column : table.column_sources)
    all = std::rotl(all, 29) * 0x9e3779b97f4a7c15 + codec::xxh3_64({column.row(row), column.row_bytes});
  return all;
}

// Fills `now` with the ids, and digests if these are wanted.
Status describe(const SaveTable& table, unsigned threads, const Job& job, SavedRows* now) {
  const uint64_t rows = table.row_count;
  now->ids.resize(rows);
  if (rows != 0) std::memcpy(now->ids.data(), table.ids, rows * sizeof(uint64_t));
  if (!table.by_digest) return Ok();
  now->digests.resize(rows);
  return for_each_parallel(threads, (rows + kSlice - 1) / kSlice, [&](size_t slice) -> Status {
    CKPT_TRY(job.check());
    for (uint64_t row = slice * kSlice; row < std::min(rows, (slice + 1) * kSlice); row++) {
      CKPT_TRY(check_position(table, row));
      now->digests[row] = digest_of(table, row);
    }
    return Ok();
  });
}

// Most rows keep their numbers, so only the others are looked for by their ids.
class Comparison {
 public:
  Comparison(const SavedRows& before, const SavedRows& now, SaveTable* table)
      : before_(before), now_(now), table_(*table) {}

  Status run() {
    look_at_kept();
    look_at_moved();
    return check_ids();
  }

 private:
  struct Entry {
    uint64_t id, row;
    bool operator<(const Entry& other) const { return id < other.id; }
  };

  void look_at_kept();
  void look_at_moved();
  Status check_ids();
  bool differ(uint64_t old, uint64_t row) const {
    return table_.by_digest && before_.digests[old] != now_.digests[row];
  }

  const SavedRows& before_;
  const SavedRows& now_;
  SaveTable& table_;
  std::vector<Entry> old_, rows_;  // those that did not keep their numbers
  Ids fresh_;                      // ids that were not there before
};

void Comparison::look_at_kept() {
  const uint64_t old = before_.ids.size(), rows = now_.ids.size();
  for (uint64_t row = 0; row < std::max(old, rows); row++) {
    if (row < old && row < rows && before_.ids[row] == now_.ids[row]) {
      if (differ(row, row)) table_.changed.push_back(row);
      continue;
    }
    if (row < old) old_.push_back({before_.ids[row], row});
    if (row < rows) rows_.push_back({now_.ids[row], row});
  }
}

void Comparison::look_at_moved() {
  std::sort(old_.begin(), old_.end());
  std::sort(rows_.begin(), rows_.end());
  for (const Entry& one : rows_) {
    const auto was = std::lower_bound(old_.begin(), old_.end(), one);
    const bool is_new = was == old_.end() || was->id != one.id;
    if (is_new) fresh_.push_back(one.id);
    if (is_new || differ(was->row, one.row)) table_.changed.push_back(one.row);
  }
}

// Before, no id was there twice. So an id that is there twice now has two rows that did not keep their numbers, or one
// and one that did; then it is not among the old ones, and counts as new.
Status Comparison::check_ids() {
  Ids said;  // to be removed
  said.swap(table_.removed);
  sort_unique(&said);
  for (const Entry& one : old_)
    if (!std::binary_search(rows_.begin(), rows_.end(), one)) table_.removed.push_back(one.id);
  Ids asked = fresh_;
  asked.insert(asked.end(), said.begin(), said.end());
  const auto same_id = [](const Entry& a, const Entry& b) { return a.id == b.id; };
  if (std::ranges::adjacent_find(rows_, same_id) != rows_.end()) table_.since.clear();
  if (asked.empty()) return Ok();
  const IdSet set(std::move(asked));
  uint64_t found = 0;
  for (uint64_t row = 0; row < now_.ids.size(); row++) {
    const uint64_t id = now_.ids[row];
    if (!set.contains(id)) continue;
    if (std::ranges::binary_search(said, id))
      return error_about(CKPT_MISMATCH, table_.name,
                         strformat("table {}: id {} is in row {}, and among those that were removed",
                                   in_quotes(table_.name), id, row))
          .with("found", id);
    found++;
  }
  if (found != fresh_.size()) table_.since.clear();
  return Ok();
}

}  // namespace

Status find_changes(session::Session& session, const std::string& directory, unsigned threads, Job& job,
                    SaveTable* table) {
  const auto now = std::make_shared<SavedRows>();
  now->directory = directory;
  CKPT_TRY(describe(*table, threads, job, now.get()));
  const auto before = session.exchange_rows(table->name, now);
  const bool known = before && before->directory == table->since &&
                     (!table->by_digest || before->digests.size() == before->ids.size());
  if (known) return Comparison(*before, *now, table).run();
  if (!table->since.empty())
    job.report.add(CKPT_FINDING_REUSED, CKPT_NOT_FOUND, table->name,
                   "table " + in_quotes(table->name) +
                       ": all its rows are written: the session does not remember those of " + table->since +
                       ", its last save, of which nobody said what changed, or which did not come to them");
  table->since.clear();
  return Ok();
}

}  // namespace ckpt::save
