// The order of a table's rows, against a plain sort.
#include "save/table_sort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <set>

#include "format/table.h"

namespace ckpt::save {
namespace {

// A table of ids alone, as Save::add_table makes it.
struct Sorted {
  explicit Sorted(std::vector<uint64_t> made, uint64_t buckets, uint64_t entries)
      : ids(std::move(made)), starts(entries) {
    SaveTable& table = content.tables.emplace_back();
    table.name = "t";
    table.row_count = ids.size();
    table.bucket_count = buckets;
    table.capacity = UINT64_MAX;
    table.ids = reinterpret_cast<const std::byte*>(ids.data());
    table.buckets = starts;
    block = table.ids;
    table.id_source = {.blocks = &block, .row_bytes = 8};
    tensor.gathered = true;
    table.tensors.push_back(&tensor);
  }
  // The ids as they are saved.
  std::vector<uint64_t> saved() const {
    if (tensor.contiguous && !tensor.gathered) return ids;
    std::vector<uint64_t> out(ids.size());
    content.tables[0].id_source.copy(0, std::as_writable_bytes(std::span(out)));
    return out;
  }

  std::vector<uint64_t> ids, starts;
  const std::byte* block = nullptr;
  SaveTensor tensor;
  SaveContent content;
};

void expect_sorted(std::vector<uint64_t> ids, uint64_t buckets, unsigned threads) {
  auto entries = std::min<uint64_t>(buckets, (ids.size() + kRowsPerEntry - 1) / kRowsPerEntry);
  while (format::buckets_per_entry(buckets, entries) == 0) entries--;
  const uint64_t width = format::buckets_per_entry(buckets, entries);
  Sorted sorted(ids, buckets, entries);
  Job job;
  const Status status = sort_tables(sorted.content, threads, job);
  ASSERT_TRUE(status.ok()) << status.message();
  std::ranges::sort(ids, {}, [&](uint64_t id) { return std::pair(id % buckets, id); });
  ASSERT_EQ(sorted.saved(), ids) << ids.size() << " ids in " << buckets << " buckets";
  auto bucket = [&](uint64_t id) { return id % buckets; };
  for (uint64_t entry = 0; entry < entries; entry++)
    ASSERT_EQ(sorted.starts[entry], std::ranges::lower_bound(ids, entry * width, {}, bucket) - ids.begin());
}

TEST(TableSort, OrdersAnyIdsByBucketThenId) {
  std::mt19937_64 random(1);
  for (uint64_t buckets : {1, 2, 7, 40000, 65536, 65537, 1000003}) {
    std::set<uint64_t> ids;
    const size_t count = random() % 800 + 1;
    while (ids.size() < count) ids.insert(random() % 3 ? random() : random() % 1000);
    std::vector<uint64_t> shuffled(ids.begin(), ids.end());
    std::ranges::shuffle(shuffled, random);
    for (unsigned threads : {1, 3}) expect_sorted(shuffled, buckets, threads);
    expect_sorted(shuffled, UINT32_MAX, 2);
  }
}

// More rows and fewer than are fetched ahead; sizes of which the compiler knows and does not; a piece may begin and end
// within a row, as chunks of large rows do.
TEST(RowSource, CopiesRowsOfAnySizeFromAnyByteOn) {
  std::mt19937_64 random(3);
  for (uint64_t row_bytes : {1, 4, 8, 31, 32, 64, 100, 4096}) {
    const uint64_t rows = 200, in_block = 23;
    std::vector<std::vector<uint8_t>> memory;
    std::vector<const std::byte*> blocks;
    for (uint64_t block = 0; block * in_block < 2 * rows; block++) {
      std::vector<uint8_t>& bytes = memory.emplace_back(in_block * row_bytes);
      std::ranges::generate(bytes, [&] { return static_cast<uint8_t>(random()); });
      blocks.push_back(reinterpret_cast<const std::byte*>(bytes.data()));
    }
    std::vector<uint64_t> positions(2 * rows), order(rows);
    std::iota(positions.begin(), positions.end(), uint64_t{0});
    std::iota(order.begin(), order.end(), uint64_t{0});
    std::ranges::shuffle(positions, random);
    std::ranges::shuffle(order, random);
    const RowSource source{.blocks = blocks.data(),
                           .rows_per_block = in_block,
                           .row_bytes = row_bytes,
                           .positions = positions.data(),
                           .order = order.data()};
    std::vector<uint8_t> all;
    for (uint64_t number : order) {
      const uint64_t at = positions[number];
      const auto row = memory[at / in_block].begin() + static_cast<ptrdiff_t>(at % in_block * row_bytes);
      all.insert(all.end(), row, row + static_cast<ptrdiff_t>(row_bytes));
    }
    for (int i = 0; i < 50; i++) {
      const uint64_t first = random() % (all.size() + 1), size = random() % (all.size() - first + 1);
      std::vector<uint8_t> copied(size);
      source.copy(first, std::as_writable_bytes(std::span(copied)));
      ASSERT_TRUE(std::ranges::equal(copied, std::span(all).subspan(first, size)))
          << size << " bytes of rows of " << row_bytes << " from byte " << first << " on";
    }
  }
}

// So many rows that there are parts, sorted by digits; ids of which the first bits tell all, some or nothing.
TEST(TableSort, OrdersManyRowsWhateverTheirIdsHaveInCommon) {
  std::mt19937_64 random(2);
  constexpr size_t kRows = 50'000;
  const std::function<uint64_t(size_t)> made[] = {
      [&](size_t) { return random(); },
      [](size_t i) { return i * 7919 % kRows; },
      [](size_t i) { return i == 5 ? UINT64_MAX : i * 7919 % kRows; },
      [&](size_t i) { return (random() % 8) << 61 | i; },
      [](size_t i) { return uint64_t{i} << 40; },
      [](size_t i) { return (kRows - i) * 65536; },
  };
  for (const auto& id_of : made) {
    std::vector<uint64_t> ids(kRows);
    for (size_t i = 0; i < kRows; i++) ids[i] = id_of(i);
    for (uint64_t buckets : {uint64_t{1}, uint64_t{3}, uint64_t{65536}, uint64_t{1000003}, uint64_t{UINT32_MAX}})
      expect_sorted(ids, buckets, 2);
    ids[kRows - 1] = ids[77];
    Sorted sorted(ids, 65536, 1);
    Job job;
    const Status twice = sort_tables(sorted.content, 2, job);
    EXPECT_NE(twice.message().find("rows 77 and 49999"), std::string::npos) << twice.message();
  }
}

TEST(TableSort, OrdersIdsOfOneBucketInPlace) {
  std::vector<uint64_t> ids(40000);
  for (size_t i = 0; i < ids.size(); i++) ids[i] = (i * 7919 % ids.size()) << 20;
  Sorted sorted(ids, 65536, 1);
  Job job;
  ASSERT_TRUE(sort_tables(sorted.content, 2, job).ok());
  std::ranges::sort(ids);
  EXPECT_EQ(sorted.saved(), ids);
  sorted.ids[39999] = sorted.ids[5];
  const Status twice = sort_tables(sorted.content, 2, job);
  EXPECT_EQ(twice.code(), CKPT_MISMATCH) << twice.message();
  EXPECT_NE(twice.message().find("rows 5 and 39999"), std::string::npos) << twice.message();
}

TEST(TableSort, LeavesRowsThatAreInOrderWhereTheyLie) {
  Sorted sorted({4, 8, 1, 2}, 4, 1);
  Job job;
  ASSERT_TRUE(sort_tables(sorted.content, 1, job).ok());
  EXPECT_TRUE(sorted.tensor.contiguous);
  EXPECT_TRUE(sorted.content.tables[0].order.empty());
}

// The numbers of a table that no test can hold: 10^8 rows on a rank, 10^9 in all.
TEST(TableSort, ItsIndexTakesLittleOfLargeTables) {
  for (uint64_t rows : {uint64_t{100'000'000}, uint64_t{1'000'000'000}}) {
    const uint64_t entries = std::min<uint64_t>(65536, (rows + kRowsPerEntry - 1) / kRowsPerEntry);
    EXPECT_EQ(format::buckets_per_entry(65536, entries), 1u);
    EXPECT_LT(entries * 8, rows * 8 / 1000);
  }
  EXPECT_EQ(format::buckets_per_entry(10, 4), 3u);
  EXPECT_EQ(format::buckets_per_entry(10, 6), 0u);
  EXPECT_EQ(format::buckets_per_entry(10, 11), 0u);
  EXPECT_EQ(format::buckets_per_entry(10, 0), 0u);
}

}  // namespace
}  // namespace ckpt::save
