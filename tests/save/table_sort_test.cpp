// The order of a table's rows, against a plain sort.
#include "save/table_sort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include "format/table.h"
#include "save/source.h"

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
    tensor.arrangement = Arrangement::kTable;
    tensor.rows = &table.id_source;
    table.tensors.push_back(&tensor);
  }
  // The ids as they are saved.
  std::vector<uint64_t> saved() const {
    std::vector<uint64_t> out(ids.size());
    EXPECT_TRUE(Source::of(tensor).read(0, std::as_writable_bytes(std::span(out)), nullptr).ok());
    return out;
  }

  std::vector<uint64_t> ids, starts;
  const std::byte* block = nullptr;
  SaveTensor tensor;
  SaveContent content;
};

Status sort_all(SaveContent& content, unsigned threads, const Job& job) {
  TableOrder order(content, threads, job);
  CKPT_TRY(order.begin());
  return order.sort(order.waves() - 1);
}

void expect_sorted(std::vector<uint64_t> ids, uint64_t buckets, unsigned threads) {
  auto entries = std::min<uint64_t>(buckets, (ids.size() + kRowsPerEntry - 1) / kRowsPerEntry);
  while (format::buckets_per_entry(buckets, entries) == 0) entries--;
  const uint64_t width = format::buckets_per_entry(buckets, entries);
  Sorted sorted(ids, buckets, entries);
  Job job;
  const Status status = sort_all(sorted.content, threads, job);
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
    const Status twice = sort_all(sorted.content, 2, job);
    EXPECT_NE(twice.message().find("rows 77 and 49999"), std::string::npos) << twice.message();
  }
}

// As threads ask that stage a save: each for what its block needs.
TEST(TableSort, WhoeverAsksForAWaveGetsItsRowsInOrderOrTheIdThatIsThereTwice) {
  std::mt19937_64 random(3);
  std::vector<uint64_t> ids(200'000);
  for (uint64_t& id : ids) id = random();
  const std::vector<uint64_t> as_given = ids;
  std::ranges::sort(ids, {}, [](uint64_t id) { return std::pair(id % 65536, id); });
  for (const bool twice : {false, true}) {
    Sorted sorted(as_given, 65536, 1);
    if (twice) sorted.ids[7] = sorted.ids[100'000];
    Job job;
    TableOrder order(sorted.content, 2, job);
    ASSERT_TRUE(order.begin().ok());
    const std::vector<uint64_t>& ends = sorted.content.tables[0].waves;
    ASSERT_EQ(ends.size(), 3u);
    ASSERT_EQ(order.waves(), 4u);
    ASSERT_EQ(ends.back(), ids.size());
    ASSERT_LT(ends[0], ids.size() / 6);
    std::vector<std::jthread> threads;
    for (size_t wave : {3, 1, 2, 1, 3, 2})
      threads.emplace_back([&, wave] {
        const Status status = order.sort(wave);
        if (twice) {
          EXPECT_TRUE(wave != 3 || status.message().find("rows 7 and 100000") != std::string::npos) << status.message();
          return;
        }
        ASSERT_TRUE(status.ok()) << status.message();
        std::vector<uint64_t> first(ends[wave - 1]);
        ASSERT_TRUE(Source::of(sorted.tensor).read(0, std::as_writable_bytes(std::span(first)), nullptr).ok());
        EXPECT_TRUE(std::ranges::equal(first, std::span(ids).first(first.size())));
      });
  }
}

TEST(TableSort, OrdersIdsOfOneBucketInPlace) {
  std::vector<uint64_t> ids(40000);
  for (size_t i = 0; i < ids.size(); i++) ids[i] = (i * 7919 % ids.size()) << 20;
  Sorted sorted(ids, 65536, 1);
  Job job;
  ASSERT_TRUE(sort_all(sorted.content, 2, job).ok());
  std::ranges::sort(ids);
  EXPECT_EQ(sorted.saved(), ids);
  sorted.ids[39999] = sorted.ids[5];
  const Status twice = sort_all(sorted.content, 2, job);
  EXPECT_EQ(twice.code(), CKPT_MISMATCH) << twice.message();
  EXPECT_NE(twice.message().find("rows 5 and 39999"), std::string::npos) << twice.message();
}

TEST(TableSort, LeavesRowsThatAreInOrderWhereTheyLie) {
  Sorted sorted({4, 8, 1, 2}, 4, 1);
  Job job;
  ASSERT_TRUE(sort_all(sorted.content, 1, job).ok());
  EXPECT_EQ(sorted.tensor.arrangement, Arrangement::kRow);
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
