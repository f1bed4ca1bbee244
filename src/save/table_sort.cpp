// Each row becomes one number: the highest bits of (bucket, id), then the row's number. One pass counts how many of
// them begin alike, a second one puts them into these parts, and then each part is sorted in the processor's cache. Ids
// are read again only where those bits do not tell which of two rows comes first.
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
  uint64_t id(uint64_t row) const { return id_at(table_.ids, row); }
  uint64_t bucket_of(uint64_t id) const { return format::bucket_of(id, table_.bucket_count); }
  Key key(uint64_t row) const { return {bucket_of(id(row)), id(row), row}; }
  // The highest key_bits_ bits of (bucket, id): they ascend with both.
  uint64_t bits_of(uint64_t id) const {
    return (bucket_of(id) << id_bits_ | (id_bits_ == 0 ? 0 : id >> id_shift_)) >> bucket_shift_;
  }
  uint64_t part_of(uint64_t bits) const { return bits >> (key_bits_ - part_bits_); }
  uint64_t row_of(uint64_t number) const { return number & ((uint64_t{1} << row_bits_) - 1); }
  std::span<uint64_t> counts(size_t slice) { return std::span(counts_).subspan(slice << part_bits_, parts()); }
  size_t parts() const { return size_t{1} << part_bits_; }
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

  Status choose_bits();
  Status check_positions() const;
  Status scatter();
  Status sort_part(size_t part);
  void sort_numbers(std::span<uint64_t> numbers) const;
  Status sort_alike(std::span<uint64_t> rows, std::vector<Key>& keys) const;
  Status twice(const Key& a, const Key& b) const;
  void count_entries(std::span<const uint64_t> numbers);
  void use_order();

  SaveTable& table_;
  const unsigned threads_;
  const Job& job_;
  const size_t slices_;
  uint64_t entry_buckets_ = 1;
  unsigned row_bits_ = 0, key_bits_ = 0, part_bits_ = 0;
  unsigned id_bits_ = 0, id_shift_ = 0, bucket_shift_ = 0;
  std::vector<uint64_t> counts_;  // of slices, by part; then where the rows of each go
  std::vector<uint64_t> ends_;    // of parts
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
  bucket_shift_ = buckets > key_bits_ ? buckets - key_bits_ : 0;
  id_bits_ = bucket_shift_ == 0 ? std::min(used, key_bits_ - buckets) : 0;
  id_shift_ = used - id_bits_;
  key_bits_ = buckets + id_bits_ - bucket_shift_;
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

// Stable: the rows of a part keep their order.
Status TableSort::scatter() {
  counts_.resize(slices_ << part_bits_);
  CKPT_TRY(for_slices([&](size_t slice) {
    const auto count = counts(slice);
    for_slice(slice, [&](uint64_t row) { count[part_of(bits_of(id(row)))]++; });
    return Ok();
  }));
  ends_.resize(parts());
  uint64_t at = 0;
  for (size_t part = 0; part < parts(); part++) {
    for (size_t slice = 0; slice < slices_; slice++) at += std::exchange(counts(slice)[part], at);
    ends_[part] = at;
  }
  table_.order = UntouchedVector<uint64_t>(table_.row_count);
  return for_slices([&](size_t slice) {
    const auto next = counts(slice);
    for_slice(slice, [&](uint64_t row) {
      const uint64_t bits = bits_of(id(row));
      table_.order[next[part_of(bits)]++] = bits << row_bits_ | row;
    });
    return Ok();
  });
}

Status TableSort::twice(const Key& a, const Key& b) const {
  return error_about(CKPT_MISMATCH, table_.name,
                     strformat("table {}: id {} is in rows {} and {} of this rank", quoted(table_.name), a.id,
                               std::min(a.row, b.row), std::max(a.row, b.row)))
      .with("found", a.id);
}

// Parts are counted at the same time, and several may be in one entry. Of rows whose bits are equal the buckets need
// not ascend. There is one division for each run of rows.
void TableSort::count_entries(std::span<const uint64_t> numbers) {
  auto bucket = [this](uint64_t number) {
    return bucket_shift_ == 0 ? number >> row_bits_ >> id_bits_ : bucket_of(id(row_of(number)));
  };
  for (size_t i = 0; i < numbers.size();) {
    const uint64_t entry = bucket(numbers[i]) / entry_buckets_, least = entry * entry_buckets_;
    const size_t first = i;
    while (i < numbers.size() && bucket(numbers[i]) - least < entry_buckets_) i++;
    std::atomic_ref<uint64_t>(table_.buckets[entry]).fetch_add(i - first, std::memory_order_relaxed);
  }
}

// Stable, by `bits` bits above the lowest `shift` ones.
void sort_digits(std::span<const uint64_t> numbers, uint64_t* to, unsigned shift, unsigned bits) {
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
  count_entries(numbers);
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
  uint64_t at = 0;
  while (at < table_.row_count && table_.order[at] == at) at++;
  const bool in_order = at == table_.row_count;
  if (in_order) table_.order = {};
  auto use = [&](RowSource& source, SaveTensor* tensor) {
    source.order = in_order ? nullptr : table_.order.data();
    if (!in_order || source.positions || source.rows_per_block < table_.row_count) return;
    tensor->data = const_cast<std::byte*>(source.blocks[0]);
    tensor->arrangement = Arrangement::kRow;
  };
  use(table_.id_source, table_.tensors[0]);
  for (size_t i = 0; i < table_.column_sources.size(); i++) use(table_.column_sources[i], table_.tensors[1 + i]);
}

Status TableSort::run() {
  if (table_.row_count == 0) return Ok();
  CKPT_TRY(check_positions());
  CKPT_TRY(choose_bits());
  CKPT_TRY(scatter());
  std::ranges::fill(table_.buckets, 0);
  entry_buckets_ = format::buckets_per_entry(table_.bucket_count, table_.buckets.size());
  CKPT_TRY(for_each_parallel(threads_, parts(), [this](size_t part) { return sort_part(part); }));
  std::exclusive_scan(table_.buckets.begin(), table_.buckets.end(), table_.buckets.begin(), uint64_t{0});
  use_order();
  return Ok();
}

}  // namespace

Status check_position(const SaveTable& table, uint64_t row) {
  if (!table.positions || table.positions[row] < table.capacity) return Ok();
  return error_about(CKPT_INVALID, table.name,
                     strformat("table {}: row {} (id {}) is at position {} of blocks of {} rows", quoted(table.name),
                               row, id_at(table.ids, row), table.positions[row], table.capacity));
}

Status sort_tables(SaveContent& content, unsigned threads, const Job& job) {
  for (SaveTable& table : content.tables) CKPT_TRY(TableSort(table, threads, job).run());
  return Ok();
}

}  // namespace ckpt::save
