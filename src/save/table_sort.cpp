// Each row becomes one number: the highest bits of (bucket, id), then the row's number. One pass counts how many of
// them begin alike. For each wave another pass puts its rows into these parts, and then each part is sorted in the
// processor's cache. Ids are read again only where those bits do not tell which of two rows comes first.
#include "save/table_sort.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <memory>
#include <numeric>

#include "base/parallel.h"
#include "format/table.h"

namespace ckpt::save {

namespace {

constexpr uint64_t kPartRows = 16 << 10;    // about so many rows of a part,
constexpr unsigned kMostPartBits = 12;      // unless that takes more parts than memory can be written to at once
constexpr size_t kMostSlices = 16;          // each takes a counter for each part
constexpr unsigned kSpareBits = 8;          // beyond those that tell as many rows apart: so few rows are alike
constexpr uint64_t kFewRows = 1 << 10;      // that are sorted by comparing
constexpr uint64_t kRadixRows = 128 << 10;  // at most, by way of a copy
constexpr uint64_t kAlikeRows = 32 << 10;   // at most, in memory of their own
constexpr uint64_t kWaveRows = 32 << 10;    // of a table that is sorted in waves, at least
// The share of a table's rows that each wave reaches. The disk writes what a wave gave while the next one is sorted, so
// each may be a few times as large as the one before.
constexpr uint64_t kWaveShares[] = {16, 4, 1};

// A row as it is compared.
struct Key {
  uint64_t bucket, id, row;
  auto operator<=>(const Key&) const = default;
};

}  // namespace

// The highest bits of (bucket, id): they ascend with both. Loops keep a copy, which no write of theirs can change.
struct RowBits {
  const std::byte* ids = nullptr;
  uint64_t bucket_count = 1;
  unsigned id_bits = 0, id_shift = 0, bucket_shift = 0;

  uint64_t operator()(uint64_t row) const {
    const uint64_t id = id_at(ids, row);
    return (format::bucket_of(id, bucket_count) << id_bits | (id_bits == 0 ? 0 : id >> id_shift)) >> bucket_shift;
  }
};

class TableSort {
 public:
  TableSort(SaveTable& table, unsigned threads, const Job& job)
      : table_(table), threads_(threads), job_(job), slices_(std::min<size_t>(threads, kMostSlices)) {}
  // Counts the rows. Those that are in order need no sorting.
  Status begin();
  // Each wave once, one after another.
  Status sort(size_t wave);
  size_t waves() const { return wave_ends_.size(); }

 private:
  uint64_t id(uint64_t row) const { return id_at(table_.ids, row); }
  uint64_t bucket_of(uint64_t id) const { return format::bucket_of(id, table_.bucket_count); }
  Key key(uint64_t row) const { return {bucket_of(id(row)), id(row), row}; }
  bool ascends(uint64_t row) const {
    const Key before = key(row - 1), here = key(row);
    return std::pair(before.bucket, before.id) < std::pair(here.bucket, here.id);
  }
  uint64_t row_of(uint64_t number) const { return number & ((uint64_t{1} << row_bits_) - 1); }
  std::span<uint64_t> counts(size_t slice) { return std::span(counts_).subspan(slice << part_bits_, parts()); }
  size_t parts() const { return size_t{1} << part_bits_; }
  uint64_t first_of(size_t slice) const { return std::min(slice * (table_.row_count / slices_ + 1), table_.row_count); }
  // Calls visit(row) for the rows of a slice.
  template <typename Visit>
  void for_slice(size_t slice, Visit&& visit) const {
    for (uint64_t row = first_of(slice), end = first_of(slice + 1); row < end; row++) visit(row);
  }
  Status for_slices(const std::function<Status(size_t)>& body) const {
    return for_each_parallel(threads_, slices_, [&](size_t slice) {
      CKPT_TRY(job_.check());
      return body(slice);
    });
  }

  Status check_positions() const;
  Status choose_bits();
  Status count_parts();
  void choose_waves();
  Status count_in_order();
  void use_order();
  Status scatter(size_t first, size_t end);
  Status sort_part(size_t part);
  void sort_numbers(std::span<uint64_t> numbers) const;
  Status sort_alike(std::span<uint64_t> rows, std::vector<Key>& keys) const;
  Status twice(const Key& a, const Key& b) const;
  template <typename Bucket>
  void count_entries(uint64_t first, uint64_t end, Bucket&& bucket);
  void sum_entries() {
    std::exclusive_scan(table_.buckets.begin(), table_.buckets.end(), table_.buckets.begin(), uint64_t{0});
  }

  SaveTable& table_;
  const unsigned threads_;
  const Job& job_;
  const size_t slices_;
  uint64_t entry_buckets_ = 1;
  unsigned row_bits_ = 0, key_bits_ = 0, part_bits_ = 0;
  RowBits bits_;
  std::atomic<bool> in_order_ = true;
  std::vector<uint64_t> counts_;   // of slices, by part; then where the rows of each go
  std::vector<uint64_t> ends_;     // of parts
  std::vector<size_t> wave_ends_;  // in parts
};

Status TableSort::choose_bits() {
  std::atomic<uint64_t> all = 0;
  CKPT_TRY(for_slices([&](size_t slice) {
    uint64_t seen = 0;
    for_slice(slice, [&](uint64_t row) { seen |= id(row); });
    all |= seen;
    return Ok();
  }));
  auto width = [](uint64_t value) { return static_cast<unsigned>(std::bit_width(value)); };
  const unsigned used = width(all), buckets = width(table_.bucket_count - 1), rows = width(table_.row_count);
  row_bits_ = width(table_.row_count - 1);
  key_bits_ = std::min(64 - row_bits_, std::max(buckets, rows + kSpareBits));
  const unsigned bucket_shift = buckets > key_bits_ ? buckets - key_bits_ : 0;
  const unsigned id_bits = bucket_shift == 0 ? std::min(used, key_bits_ - buckets) : 0;
  bits_ = {table_.ids, table_.bucket_count, id_bits, used - id_bits, bucket_shift};
  key_bits_ = buckets + id_bits - bucket_shift;
  part_bits_ = std::min({key_bits_, kMostPartBits, width(table_.row_count / kPartRows)});
  return Ok();
}

Status TableSort::check_positions() const {
  if (!table_.positions) return Ok();
  return for_slices([&](size_t slice) {
    Status status;
    for_slice(slice, [&](uint64_t row) {
      if (status.ok()) status = check_position(table_, row);
    });
    return status;
  });
}

Status TableSort::count_parts() {
  counts_.resize(slices_ << part_bits_);
  CKPT_TRY(for_slices([&](size_t slice) {
    const auto count = counts(slice);
    const RowBits bits_of = bits_;
    const unsigned shift = key_bits_ - part_bits_;
    uint64_t before = UINT64_MAX;
    bool ordered = true;
    for_slice(slice, [&](uint64_t row) {
      const uint64_t bits = bits_of(row);
      count[bits >> shift]++;
      if (bits <= before && ordered && row != 0) ordered = ascends(row);
      before = bits;
    });
    if (!ordered) in_order_ = false;
    return Ok();
  }));
  ends_.resize(parts());
  uint64_t at = 0;
  for (size_t part = 0; part < parts(); part++) {
    for (size_t slice = 0; slice < slices_; slice++) at += std::exchange(counts(slice)[part], at);
    ends_[part] = at;
  }
  return Ok();
}

void TableSort::choose_waves() {
  if (table_.row_count >= kWaveRows)
    for (const uint64_t share : kWaveShares) {
      const auto last = std::ranges::lower_bound(ends_, table_.row_count / share);
      const size_t end = static_cast<size_t>(last - ends_.begin()) + 1;
      if (wave_ends_.empty() || end > wave_ends_.back()) wave_ends_.push_back(end);
    }
  if (wave_ends_.size() < 2) wave_ends_ = {parts()};
  wave_ends_.back() = parts();
  if (wave_ends_.size() == 1) return;
  for (const size_t end : wave_ends_) table_.waves.push_back(ends_[end - 1]);
}

// Of parts [first, end). Stable: the rows of a part keep their order.
Status TableSort::scatter(size_t first, size_t end) {
  return for_slices([&](size_t slice) {
    const auto next = counts(slice);
    const RowBits bits_of = bits_;
    const unsigned shift = key_bits_ - part_bits_, row_bits = row_bits_;
    uint64_t* const order = table_.order.data();
    for_slice(slice, [&](uint64_t row) {
      const uint64_t bits = bits_of(row), part = bits >> shift;
      if (part - first < end - first) order[next[part]++] = bits << row_bits | row;
    });
    return Ok();
  });
}

Status TableSort::twice(const Key& a, const Key& b) const {
  return error_about(CKPT_MISMATCH, table_.name,
                     strformat("table {}: id {} is in rows {} and {} of this rank", in_quotes(table_.name), a.id,
                               std::min(a.row, b.row), std::max(a.row, b.row)))
      .with("found", a.id);
}

// Several threads count at the same time, and may be in one entry. bucket(i): of what comes i-th, in any order where
// only its first bits are sorted. There is one division for each run of rows.
template <typename Bucket>
void TableSort::count_entries(uint64_t first, uint64_t end, Bucket&& bucket) {
  for (uint64_t i = first; i < end;) {
    const uint64_t entry = bucket(i) / entry_buckets_, least = entry * entry_buckets_, begin = i;
    while (i < end && bucket(i) - least < entry_buckets_) i++;
    __atomic_fetch_add(&table_.buckets[entry], i - begin, __ATOMIC_RELAXED);  // libc++ has atomic_ref from 19 on
  }
}

Status TableSort::count_in_order() {
  CKPT_TRY(for_slices([&](size_t slice) {
    count_entries(first_of(slice), first_of(slice + 1), [this](uint64_t row) { return bucket_of(id(row)); });
    return Ok();
  }));
  sum_entries();
  return Ok();
}

// Stable, by `bits` bits above the lowest `shift` ones.
static void sort_digits(std::span<const uint64_t> numbers, uint64_t* to, unsigned shift, unsigned bits) {
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  std::vector<uint32_t> at(mask + 1);
  for (uint64_t number : numbers) at[number >> shift & mask]++;
  std::exclusive_scan(at.begin(), at.end(), at.begin(), uint32_t{0});
  for (uint64_t number : numbers) to[at[number >> shift & mask]++] = number;
}

// Those of a part, whose highest bits are equal.
void TableSort::sort_numbers(std::span<uint64_t> numbers) const {
  if (numbers.size() < kFewRows || numbers.size() > kRadixRows) {
    std::ranges::sort(numbers);
    return;
  }
  const auto copy = std::make_unique_for_overwrite<uint64_t[]>(numbers.size());
  std::span<uint64_t> from = numbers, to(copy.get(), numbers.size());
  const unsigned left = key_bits_ - part_bits_, passes = (left + 11) / 12;
  for (unsigned pass = 0, done = 0; pass < passes; pass++) {
    const unsigned bits = (left - done) / (passes - pass);
    sort_digits(from, to.data(), row_bits_ + done, bits);
    done += bits;
    std::swap(from, to);
  }
  if (from.data() != numbers.data()) std::ranges::copy(from, numbers.begin());
}

// Rows of which the bits are equal.
Status TableSort::sort_alike(std::span<uint64_t> rows, std::vector<Key>& keys) const {
  if (rows.size() > kAlikeRows) {
    std::ranges::sort(rows, {}, [this](uint64_t row) { return key(row); });
  } else {
    keys.clear();
    for (uint64_t row : rows) keys.push_back(key(row));
    std::ranges::sort(keys);
    for (size_t i = 0; i < rows.size(); i++) rows[i] = keys[i].row;
  }
  for (size_t i = 1; i < rows.size(); i++)
    if (id(rows[i - 1]) == id(rows[i])) return twice(key(rows[i - 1]), key(rows[i]));
  return Ok();
}

Status TableSort::sort_part(size_t part) {
  CKPT_TRY(job_.check());
  const uint64_t first = part == 0 ? 0 : ends_[part - 1];
  const auto numbers = std::span(table_.order).subspan(first, ends_[part] - first);
  std::vector<Key> keys;
  sort_numbers(numbers);
  const bool tells_bucket = bits_.bucket_shift == 0;
  count_entries(0, numbers.size(), [&, row_bits = row_bits_, id_bits = bits_.id_bits](uint64_t i) {
    return tells_bucket ? numbers[i] >> row_bits >> id_bits : bucket_of(id(row_of(numbers[i])));
  });
  for (size_t i = 0; i < numbers.size();) {
    const uint64_t bits = numbers[i] >> row_bits_;
    const size_t begin = i;
    for (; i < numbers.size() && numbers[i] >> row_bits_ == bits; i++) numbers[i] = row_of(numbers[i]);
    if (i - begin > 1) CKPT_TRY(sort_alike(numbers.subspan(begin, i - begin), keys));
  }
  return Ok();
}

// Rows that are in order need no numbers, and in one block they are a tensor like any other.
void TableSort::use_order() {
  if (!in_order_) table_.order = UntouchedVector<uint64_t>(table_.row_count);
  auto use = [&](RowSource& source, SaveTensor* tensor) {
    source.order = in_order_ ? nullptr : table_.order.data();
    source.waves = table_.waves;
    if (!in_order_ || source.positions || source.rows_per_block < table_.row_count) return;
    tensor->data = const_cast<std::byte*>(source.blocks[0]);
    tensor->arrangement = Arrangement::kRow;
  };
  use(table_.id_source, table_.tensors[0]);
  for (size_t i = 0; i < table_.column_sources.size(); i++) use(table_.column_sources[i], table_.tensors[1 + i]);
}

Status TableSort::begin() {
  table_.order = {};
  table_.waves.clear();
  if (table_.row_count == 0) return Ok();
  CKPT_TRY(check_positions());
  CKPT_TRY(choose_bits());
  CKPT_TRY(count_parts());
  std::ranges::fill(table_.buckets, 0);
  entry_buckets_ = format::buckets_per_entry(table_.bucket_count, table_.buckets.size());
  if (!in_order_) choose_waves();
  use_order();
  return in_order_ ? count_in_order() : Ok();
}

Status TableSort::sort(size_t wave) {
  const size_t first = wave == 0 ? 0 : wave_ends_[wave - 1], end = wave_ends_[wave];
  CKPT_TRY(scatter(first, end));
  CKPT_TRY(for_each_parallel(threads_, end - first, [&](size_t i) { return sort_part(first + i); }));
  if (end == parts()) sum_entries();
  return Ok();
}

// ---- all tables ----

TableOrder::TableOrder(SaveContent& content, unsigned threads, const Job& job)
    : content_(content), threads_(threads), job_(job) {}

TableOrder::~TableOrder() = default;

Status TableOrder::begin() {
  for (SaveTable& table : content_.tables) {
    auto sort = std::make_unique<TableSort>(table, threads_, job_);
    CKPT_TRY(sort->begin());
    if (sort->waves() == 1) CKPT_TRY(sort->sort(0));
    if (sort->waves() < 2) continue;
    waves_ = std::max(waves_, sort->waves() + 1);
    large_.push_back(std::move(sort));
  }
  return Ok();
}

Status TableOrder::sort(size_t wave) {
  std::unique_lock lock(mutex_);
  while (error_.ok() && sorted_ <= wave) {
    if (sorting_) {
      changed_.wait(lock);  // for one who asks the job as he goes
      continue;
    }
    sorting_ = true;
    lock.unlock();
    Status status = call_guarded([&]() -> Status {
      for (const auto& table : large_)
        if (sorted_ <= table->waves()) CKPT_TRY(table->sort(sorted_ - 1));
      return Ok();
    });
    lock.lock();
    sorting_ = false;
    if (status.ok()) sorted_++;
    error_ = std::move(status);
    changed_.notify_all();
  }
  return error_;
}

Status check_position(const SaveTable& table, uint64_t row) {
  if (!table.positions || table.positions[row] < table.capacity) return Ok();
  return error_about(CKPT_INVALID, table.name,
                     strformat("table {}: row {} (id {}) is at position {} of blocks of {} rows", in_quotes(table.name),
                               row, id_at(table.ids, row), table.positions[row], table.capacity));
}

}  // namespace ckpt::save
