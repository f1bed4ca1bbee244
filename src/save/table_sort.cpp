// One pass counts the rows of each group of buckets, a second one puts their numbers in order of groups, and then each
// group is sorted by itself.
#include "save/table_sort.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <numeric>

#include "base/parallel.h"
#include "format/table.h"

namespace ckpt::save {

namespace {

constexpr uint64_t kMostGroups = 65536;
constexpr size_t kMostSlices = 16;          // each takes a counter for each group
constexpr uint64_t kSmallGroup = 32 << 10;  // rows that are sorted in memory of their own
constexpr size_t kGroupsAtOnce = 64;

// A row as it is compared.
struct Key {
  uint64_t bucket, id, row;
  auto operator<=>(const Key&) const = default;
};

class TableSort {
 public:
  TableSort(SaveTable& table, unsigned threads, const Job& job)
      : table_(table), threads_(threads), job_(job), slices_(std::min<size_t>(threads, kMostSlices)) {}
  Status run();

 private:
  uint64_t id(uint64_t row) const {
    uint64_t id;
    std::memcpy(&id, table_.ids + row * sizeof id, sizeof id);
    return id;
  }
  Key key(uint64_t row) const { return {format::bucket_of(id(row), table_.bucket_count), id(row), row}; }
  // Groups ascend with (bucket, id).
  uint64_t group_of(uint64_t id) const {
    const uint64_t bucket = format::bucket_of(id, table_.bucket_count);
    return id_bits_ == 0 ? bucket / group_buckets_ : bucket << id_bits_ | id >> id_shift_;
  }
  std::span<uint64_t> counts(size_t slice) { return std::span(counts_).subspan(slice * groups_, groups_); }
  // Calls visit(row) for the rows of a slice.
  template <typename Visit>
  void for_slice(size_t slice, Visit&& visit) const {
    const uint64_t size = table_.row_count / slices_ + 1, first = slice * size;
    for (uint64_t row = first, end = std::min(first + size, table_.row_count); row < end; row++) visit(row);
  }
  Status for_slices(const std::function<Status(size_t)>& body) const {
    return for_each_parallel(threads_, slices_, [&](size_t slice) {
      CKPT_TRY(job_.check());
      return body(slice);
    });
  }

  void choose_groups();
  Status check_positions() const;
  Status scatter();
  Status sort_groups(size_t task);
  Status sort_group(uint64_t first, uint64_t end, std::vector<Key>& keys);
  Status sort_large(uint64_t first, uint64_t end);
  Status twice(const Key& a, const Key& b) const;
  void count_entries(uint64_t bucket, uint64_t rows);
  void use_order();

  SaveTable& table_;
  const unsigned threads_;
  const Job& job_;
  const size_t slices_;
  uint64_t groups_ = 1, group_buckets_ = 1, entry_buckets_ = 1;
  unsigned id_bits_ = 0, id_shift_ = 0;  // of few buckets: the highest bits of the id, too
  std::vector<uint64_t> counts_;         // of slices, by group; then where the rows of each go
  std::vector<uint64_t> ends_;           // of groups
};

void TableSort::choose_groups() {
  const uint64_t buckets = table_.bucket_count;
  group_buckets_ = (buckets + kMostGroups - 1) / kMostGroups;
  groups_ = (buckets + group_buckets_ - 1) / group_buckets_;
  if (2 * buckets > kMostGroups) return;
  uint64_t all = 0;
  for (uint64_t row = 0; row < table_.row_count; row++) all |= id(row);
  const auto used = static_cast<unsigned>(std::bit_width(all));
  id_bits_ = std::min(static_cast<unsigned>(std::bit_width(kMostGroups / buckets)) - 1, used);
  id_shift_ = used - id_bits_;
  groups_ = buckets << id_bits_;
}

Status TableSort::check_positions() const {
  if (!table_.positions) return Ok();
  return for_slices([&](size_t slice) {
    Status status;
    for_slice(slice, [&](uint64_t row) {
      if (table_.positions[row] >= table_.capacity && status.ok())
        status =
            Status(CKPT_INVALID, strformat("table {}: row {} (id {}) is at position {} of blocks of {} rows",
                                           quoted(table_.name), row, id(row), table_.positions[row], table_.capacity))
                .with("tensor", table_.name);
    });
    return status;
  });
}

// Stable: the rows of a group keep their order.
Status TableSort::scatter() {
  counts_.resize(slices_ * groups_);
  auto count_slice = [&](size_t slice) {
    const auto count = counts(slice);
    for_slice(slice, [&](uint64_t row) { count[group_of(id(row))]++; });
    return Ok();
  };
  CKPT_TRY(for_slices(count_slice));
  ends_.resize(groups_);
  uint64_t at = 0;
  for (uint64_t group = 0; group < groups_; group++) {
    for (size_t slice = 0; slice < slices_; slice++) at += std::exchange(counts(slice)[group], at);
    ends_[group] = at;
  }
  table_.order.resize(table_.row_count);
  return for_slices([&](size_t slice) {
    const auto next = counts(slice);
    for_slice(slice, [&](uint64_t row) { table_.order[next[group_of(id(row))]++] = row; });
    return Ok();
  });
}

Status TableSort::twice(const Key& a, const Key& b) const {
  return Status(CKPT_MISMATCH, strformat("table {}: id {} is in rows {} and {} of this rank", quoted(table_.name), a.id,
                                         std::min(a.row, b.row), std::max(a.row, b.row)))
      .with("tensor", table_.name)
      .with("found", a.id);
}

// Groups are sorted at the same time, and several may be in one entry.
void TableSort::count_entries(uint64_t bucket, uint64_t rows) {
  std::atomic_ref<uint64_t>(table_.buckets[bucket / entry_buckets_]).fetch_add(rows, std::memory_order_relaxed);
}

Status TableSort::sort_large(uint64_t first, uint64_t end) {
  const auto rows = std::span(table_.order).subspan(first, end - first);
  std::ranges::sort(rows, {}, [this](uint64_t row) { return key(row); });
  Key before{};
  for (size_t i = 0; i < rows.size(); i++) {
    const Key at = key(rows[i]);
    if (i > 0 && before.id == at.id) return twice(before, at);
    count_entries(at.bucket, 1);
    before = at;
  }
  return Ok();
}

Status TableSort::sort_group(uint64_t first, uint64_t end, std::vector<Key>& keys) {
  if (end - first > kSmallGroup) return sort_large(first, end);
  keys.clear();
  for (uint64_t at = first; at < end; at++) keys.push_back(key(table_.order[at]));
  std::ranges::sort(keys);
  for (size_t i = 0, same = 0; i < keys.size(); i++) {
    if (i > 0 && keys[i - 1].id == keys[i].id) return twice(keys[i - 1], keys[i]);
    table_.order[first + i] = keys[i].row;
    if (i + 1 == keys.size() || keys[i + 1].bucket != keys[i].bucket)
      count_entries(keys[i].bucket, i + 1 - std::exchange(same, i + 1));
  }
  return Ok();
}

Status TableSort::sort_groups(size_t task) {
  std::vector<Key> keys;
  CKPT_TRY(job_.check());
  for (size_t group = task * kGroupsAtOnce; group < std::min(groups_, (task + 1) * kGroupsAtOnce); group++)
    CKPT_TRY(sort_group(group == 0 ? 0 : ends_[group - 1], ends_[group], keys));
  return Ok();
}

// Rows that are in order need no numbers, and in one block they are a tensor like any other.
void TableSort::use_order() {
  uint64_t at = 0;
  while (at < table_.row_count && table_.order[at] == at) at++;
  const bool in_order = at == table_.row_count;
  if (in_order) table_.order = {};
  auto use = [&](RowSource& source, SaveTensor* tensor) {
    source.order = in_order ? nullptr : table_.order.data();
    if (!in_order || source.positions || source.rows_per_block < table_.row_count) return;
    tensor->data = const_cast<std::byte*>(source.blocks[0]);
    tensor->contiguous = true;
    tensor->gathered = false;
  };
  use(table_.id_source, table_.tensors[0]);
  for (size_t i = 0; i < table_.column_sources.size(); i++) use(table_.column_sources[i], table_.tensors[1 + i]);
}

Status TableSort::run() {
  if (table_.row_count == 0) return Ok();
  CKPT_TRY(check_positions());
  choose_groups();
  CKPT_TRY(scatter());
  std::ranges::fill(table_.buckets, 0);
  entry_buckets_ = format::buckets_per_entry(table_.bucket_count, table_.buckets.size());
  const size_t tasks = (groups_ + kGroupsAtOnce - 1) / kGroupsAtOnce;
  CKPT_TRY(for_each_parallel(threads_, tasks, [this](size_t task) { return sort_groups(task); }));
  std::exclusive_scan(table_.buckets.begin(), table_.buckets.end(), table_.buckets.begin(), uint64_t{0});
  use_order();
  return Ok();
}

}  // namespace

Status sort_tables(SaveContent& content, unsigned threads, const Job& job) {
  for (SaveTable& table : content.tables) CKPT_TRY(TableSort(table, threads, job).run());
  return Ok();
}

}  // namespace ckpt::save
