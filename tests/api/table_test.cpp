// Sparse tables: any ranks save the rows that they have, and any number of ranks loads them by bucket, id or all.
#include <numeric>

#include "api/tables.h"
#include "ckpt_tree.h"

namespace ckpt_test {
namespace {

CKPT_ON_EVERY_STORE(Tables);

// Saves the tables of all ranks.
void commit_tables(World& world, const std::string& label, std::vector<TestTable>& tables,
                   const std::vector<Setting>& settings = {}) {
  world.commit(label, settings, [&](uint32_t rank, ckpt_save* save) { tables[rank].add(save); });
}

// The slice of `count` that a bucket is in: the first ones are one longer.
uint64_t slice_of(uint64_t bucket, uint64_t buckets, uint64_t count) {
  const uint64_t each = buckets / count, longer = buckets % count, first = longer * (each + 1);
  return bucket < first ? bucket / (each + 1) : longer + (bucket - first) / each;
}

TEST_P(Tables, OfAnyRanksLoadOnAnyOtherNumberOfRanks) {
  std::mt19937_64 random(16);
  const char* codecs[] = {"none", "lz4", "auto"};
  for (uint32_t world_size = 1; world_size <= 6; world_size++) {
    World world(place.uri() + "/" + std::to_string(world_size), world_size, {{"chunk_bytes", 4096}});
    for (uint64_t buckets : {uint64_t{1}, uint64_t{7}, uint64_t{CKPT_TABLE_BUCKETS}, uint64_t{UINT32_MAX}}) {
      const Ids ids = random_ids(random, random() % 3000);
      auto tables = deal(random, ids, world_size, buckets);
      const std::string label = "b" + std::to_string(buckets);
      commit_tables(world, label, tables, {{"compression", codecs[random() % 3]}});
      Reader reader = open_reader(world.store, label);
      ASSERT_EQ(sorted(load_all(reader, open_share(reader, share_desc(CKPT_SHARE_ALL)))), sorted(ids));
      const uint64_t count = random() % 7 + 1;
      Ids sliced, picked;
      for (uint64_t r = 0; r < count; r++) {
        const Ids slice = load_all(reader, open_share(reader, of_count(CKPT_SHARE_SLICE, r, count)));
        sliced.insert(sliced.end(), slice.begin(), slice.end());
        const Ids mod = load_all(reader, open_share(reader, of_count(CKPT_SHARE_MOD, r, count)));
        ASSERT_EQ(sorted(mod), those(ids, [&](uint64_t id) { return id % count == r; }));
      }
      ASSERT_EQ(sorted(sliced), sorted(ids));
      const uint64_t a = random() % buckets, b = a + random() % (buckets - a + 1);
      ASSERT_EQ(sorted(load_all(reader, open_share(reader, range_desc(a, b)))),
                those(ids, [&](uint64_t id) { return id % buckets >= a && id % buckets < b; }));
    }
  }
}

TEST_P(Tables, InSlabsAtPositionsSaveTheSameRows) {
  std::mt19937_64 random(3);
  World world(place.uri(), 2, {{"chunk_bytes", 4096}});
  const Ids ids = random_ids(random, 2000);
  for (const char* codec : {"none", "lz4"}) {
    auto tables = deal(random, ids, 2, 64);
    for (uint32_t rank = 0; rank < 2; rank++) {
      TestTable& table = tables[rank];
      table.rows_per_block = rank ? 100 : 0;
      table.positions.resize(table.ids.size() * 2);  // a hash table is never full
      std::iota(table.positions.begin(), table.positions.end(), uint64_t{0});
      std::ranges::shuffle(table.positions, random);
      table.positions.resize(table.ids.size());
    }
    commit_tables(world, codec, tables, {{"compression", codec}});
    Reader reader = open_reader(world.store, codec);
    EXPECT_EQ(sorted(load_all(reader, open_share(reader, share_desc(CKPT_SHARE_ALL)))), sorted(ids));
  }
}

TEST_P(Tables, InSlabsWithoutPositionsSaveTheSameRows) {
  std::mt19937_64 random(4);
  World world(place.uri(), 1);
  TestTable table{random_ids(random, 1000)};
  table.rows_per_block = 33;
  std::vector<TestTable> tables{table};
  commit_tables(world, "a", tables);
  Reader reader = open_reader(world.store);
  EXPECT_EQ(sorted(load_all(reader, open_share(reader, share_desc(CKPT_SHARE_ALL)))), sorted(table.ids));
}

TEST_P(Tables, InOrderAlreadyAreSavedFromWhereTheyLie) {
  World world(place.uri(), 1, {{"chunk_bytes", 4096}});
  TestTable table;
  table.buckets = 4;
  for (uint64_t bucket = 0; bucket < 4; bucket++)
    for (uint64_t i = 0; i < 5000; i++) table.ids.push_back(4 * i + bucket);
  std::vector<TestTable> tables{table};
  commit_tables(world, "a", tables);
  Reader reader = open_reader(world.store);
  EXPECT_EQ(load_all(reader, open_share(reader, share_desc(CKPT_SHARE_ALL))), table.ids);
}

TEST_P(Tables, WithoutRowsOnSomeOrAllRanksAreTables) {
  World world(place.uri(), 3);
  std::vector<TestTable> tables(3);
  commit_tables(world, "none", tables);
  Reader reader = open_reader(world.store, "none");
  for (int32_t kind : {CKPT_SHARE_ALL, CKPT_SHARE_IDS})
    EXPECT_EQ(load_all(reader, open_share(reader, share_desc(kind))), Ids());
  EXPECT_EQ(share_info(open_share(reader, share_desc(CKPT_SHARE_IDS), {5})).missing_count, 1u);
  EXPECT_EQ(load_all(reader, open_share(reader, share_desc(CKPT_SHARE_ALL, 5))), Ids());
  tables[2].ids = {7, 9};
  tables[2].memory.clear();
  world.commit("one", {}, [&](uint32_t rank, ckpt_save* save) {
    if (rank != 1) tables[rank].add(save);  // and one rank does not know the table
  });
  reader = open_reader(world.store, "one");
  EXPECT_EQ(load_all(reader, open_share(reader, share_desc(CKPT_SHARE_ALL))), Ids({7, 9}));
}

TEST_P(Tables, WithoutColumnsAreSetsOfIds) {
  World world(place.uri(), 1);
  TestTable table{{3, 1, 2}, {}};
  std::vector<TestTable> tables{table};
  commit_tables(world, "a", tables);
  Reader reader = open_reader(world.store);
  EXPECT_EQ(load_all(reader, open_share(reader, share_desc(CKPT_SHARE_ALL)), 0, {}), Ids({1, 2, 3}));
}

TEST_P(Tables, PassThroughInWindowsOfAnySize) {
  std::mt19937_64 random(11);
  World world(place.uri(), 3, {{"chunk_bytes", 4096}});
  for (uint64_t buckets : {uint64_t{1}, uint64_t{5}, uint64_t{1000}, uint64_t{UINT32_MAX}}) {
    const Ids ids = random_ids(random, 500);
    auto tables = deal(random, ids, 3, buckets);
    const std::string label = "b" + std::to_string(buckets);
    commit_tables(world, label, tables);
    Reader reader = open_reader(world.store, label);
    for (uint64_t rows : {1, 7, 100, 499, 500, 10000}) {
      if (rows == 1 && !place.in_memory()) continue;  // hundreds of loads
      Share all = open_share(reader, share_desc(CKPT_SHARE_ALL, rows));
      ASSERT_EQ(sorted(load_all(reader, all, rows)), sorted(ids)) << buckets << " buckets, windows of " << rows;
      ASSERT_LE(share_info(all).window_count, 4 * ids.size() / rows + 4);
      if (rows < 100) continue;
      ASSERT_EQ(sorted(load_all(reader, open_share(reader, of_count(CKPT_SHARE_MOD, 1, 3, rows)), rows)),
                those(ids, [](uint64_t id) { return id % 3 == 1; }));
    }
  }
}

TEST_P(Tables, GiveTheRowsOfListedIdsInTheirOrderAndListWhatIsMissing) {
  std::mt19937_64 random(8);
  World world(place.uri(), 3, {{"chunk_bytes", 4096}});
  for (uint64_t buckets : {uint64_t{1}, uint64_t{100}, uint64_t{CKPT_TABLE_BUCKETS}}) {
    const Ids ids = random_ids(random, 3000);
    auto tables = deal(random, ids, 3, buckets);
    const std::string label = "b" + std::to_string(buckets);
    commit_tables(world, label, tables);
    Reader reader = open_reader(world.store, label);
    Ids asked, found, missing;
    for (int i = 0; i < 500; i++) {
      const uint64_t id = random() % 4 == 0 ? random() : ids[random() % ids.size()];
      asked.push_back(id);
      (std::ranges::find(ids, id) == ids.end() ? missing : found).push_back(id);
    }
    for (uint64_t window : {0, 64, 100}) {
      Share share = open_share(reader, share_desc(CKPT_SHARE_IDS, window), asked);
      EXPECT_EQ(load_all(reader, share, window), found);
      ASSERT_EQ(share_info(share).missing_count, missing.size());
      for (size_t i = 0; i < missing.size(); i++) {
        uint64_t id = 0;
        ASSERT_EQ(ckpt_share_missing_at(share.get(), i, &id, nullptr), CKPT_OK);
        EXPECT_EQ(id, missing[i]);
      }
    }
  }
}

TEST_P(Tables, AreTensorsToWhoeverKnowsNoTables) {
  World world(place.uri(), 2);
  std::vector<TestTable> tables{{{65536, 3}}, {{1}}};
  commit_tables(world, "a", tables);
  Reader reader = open_reader(world.store);
  const Ids expected{65536, 3, 1};
  for (const char* name : {"t", "t/ids"}) {
    const Bytes bytes = load_one(reader, name, whole(CKPT_DTYPE_I64, {3}), 24);
    EXPECT_EQ(std::memcmp(bytes.data(), expected.data(), 24), 0) << name;
  }
  Bytes rows;
  for (uint64_t id : expected) {
    const Bytes row = row_of(id, "embedding", 16);
    rows.insert(rows.end(), row.begin(), row.end());
  }
  EXPECT_EQ(load_one(reader, "t/embedding", whole(CKPT_DTYPE_F32, {3, 4}), 48), rows);
}

// Bytes that a load reads, beside those that it wants.
TEST_P(Tables, OfWhichARankLoadsItsSliceReadLittleElse) {
  std::mt19937_64 random(9);
  const std::vector<TestColumn> columns{{"embedding", CKPT_DTYPE_F32, {16}}, {"m", CKPT_DTYPE_F32, {16}}};
  for (const auto& [savers, loaders] : {std::pair(2u, 3u), std::pair(8u, 5u), std::pair(1u, 16u)}) {
    World world(place.uri() + "/" + std::to_string(savers), savers, {{"chunk_bytes", 4096}});
    auto tables = deal(random, random_ids(random, 160000), savers, 512);
    for (TestTable& table : tables) table.columns = columns;
    commit_tables(world, "a", tables);
    Reader reader = open_reader(world.store);
    for (uint64_t r : {uint64_t{0}, uint64_t{loaders - 1}}) {
      Share share = open_share(reader, of_count(CKPT_SHARE_SLICE, r, loaders));
      Ids ids;
      ckpt_job_stats stats{};
      const Outcome loaded = load_window(reader, share, 0, &ids, columns, {}, &stats);
      ASSERT_EQ(loaded.status, CKPT_OK) << loaded.text;
      EXPECT_EQ(stats.bytes_requested, ids.size() * (8 + 64 + 64));
      EXPECT_LE(static_cast<double>(stats.bytes_read), 1.05 * static_cast<double>(stats.bytes_requested))
          << savers << " to " << loaders;
    }
  }
}

TEST_P(Tables, ReadAChunkForEachIdThatIsLookedUp) {
  std::mt19937_64 random(12);
  const std::vector<TestColumn> columns{{"embedding", CKPT_DTYPE_F32, {16}}};
  const Ids ids = random_ids(random, 40000);
  auto tables = deal(random, ids, 2, CKPT_TABLE_BUCKETS);
  for (TestTable& table : tables) table.columns = columns;
  for (const auto& [chunk_bytes, most] : {std::pair(4096, 2 * 4096), std::pair(1 << 20, 64 << 10)}) {
    World world(place.uri() + "/" + std::to_string(chunk_bytes), 2, {{"chunk_bytes", chunk_bytes}});
    commit_tables(world, "a", tables);
    Reader reader = open_reader(world.store);
    const Ids asked(ids.begin(), ids.begin() + 20);
    Share share = open_share(reader, share_desc(CKPT_SHARE_IDS), asked);
    Ids found;
    ckpt_job_stats stats{};
    ASSERT_EQ(load_window(reader, share, 0, &found, columns, {}, &stats).status, CKPT_OK);
    EXPECT_EQ(found, asked);
    EXPECT_LE(stats.bytes_read, 20u * static_cast<uint64_t>(most));
  }
}

// ---- what cannot be ----

TEST_P(Tables, WithAnIdOnTwoRanksAreRefusedByLoadLookupAndFilter) {
  std::mt19937_64 random(2);
  World world(place.uri(), 3);
  auto tables = deal(random, random_ids(random, 5000), 3, 100);
  for (uint32_t rank : {0, 2}) tables[rank].ids.push_back(uint64_t{1} << 60 | 17);
  commit_tables(world, "a", tables);
  Reader reader = open_reader(world.store);
  auto expect_named = [](const Outcome& outcome) {
    EXPECT_EQ(outcome.status, CKPT_MISMATCH) << outcome.text;
    EXPECT_EQ(outcome.ranks, "0, 2");
    EXPECT_NE(outcome.text.find(std::to_string(uint64_t{1} << 60 | 17)), std::string::npos) << outcome.text;
  };
  for (uint64_t window : {0, 300}) {
    Share share = open_share(reader, share_desc(CKPT_SHARE_ALL, window));
    Outcome loaded;
    Ids ids;
    for (uint64_t i = 0; i < share_info(share).window_count && loaded.status == CKPT_OK; i++)
      loaded = load_window(reader, share, i, &ids);
    expect_named(loaded);
  }
  for (const auto& desc : {share_desc(CKPT_SHARE_IDS), of_count(CKPT_SHARE_MOD, 0, 2)}) {
    const Ids asked{(uint64_t{1} << 60 | 17)};
    ckpt_share* share = nullptr;
    Error error;
    const ckpt_status status = ckpt_share_open(&share, reader.get(), "t", &desc, asked.data(),
                                               desc.kind == CKPT_SHARE_IDS ? 1 : 0, nullptr, error);
    expect_named(outcome_of(status, error));
  }
}

TEST_P(Tables, ThatRanksDescribeInTwoWaysAreMismatch) {
  World world(place.uri(), 2);
  auto save = [&](const char* label, std::function<void(TestTable&)> change) {
    std::vector<TestTable> tables{{{1, 2}}, {{3}}};
    change(tables[1]);
    const auto outcomes = world.save(label, {}, [&](uint32_t rank, ckpt_save* s) { tables[rank].add(s); });
    EXPECT_EQ(outcomes[0].status, CKPT_MISMATCH) << outcomes[0].text;
    EXPECT_EQ(outcomes[0].ranks, "0, 1") << outcomes[0].text;
    return outcomes[0].text;
  };
  EXPECT_NE(save("buckets", [](TestTable& t) { t.buckets = 99; }).find("mod 99"), std::string::npos);
  EXPECT_NE(save("dtype", [](TestTable& t) { t.columns[0].dtype = CKPT_DTYPE_I32; }).find("i32"), std::string::npos);
  EXPECT_NE(save("shape", [](TestTable& t) { t.columns[0].shape = {5}; }).find("5]"), std::string::npos);
  EXPECT_NE(save("columns", [](TestTable& t) { t.columns.pop_back(); }).find("embedding"), std::string::npos);
  EXPECT_NE(save("ids", [](TestTable& t) { t.id_dtype = CKPT_DTYPE_U64; }).find("u64"), std::string::npos);
  EXPECT_EQ(committed_count(world.store), 0u);
}

TEST_P(Tables, AndATensorOfOneNameAreRefused) {
  World world(place.uri(), 2);
  const float one = 1;
  Save save = new_save(world.sessions[0], "a");
  TestTable table{{1}};
  Error error;
  for (const char* name : {"t", "u/ids", "v/seen"}) add(save.get(), name, whole(CKPT_DTYPE_F32, {}), &one, sizeof one);
  EXPECT_EQ(table.try_add(save.get(), "t", error), CKPT_EXISTS) << error.text();
  table.add(save.get(), "w");
  EXPECT_EQ(table.try_add(save.get(), "w", error), CKPT_EXISTS) << error.text();
  auto desc = whole(CKPT_DTYPE_F32, {});
  for (const char* name : {"w", "w/ids", "w/embedding"})
    EXPECT_EQ(ckpt_save_add_tensor(save.get(), name, &desc, &one, sizeof one, CKPT_DEVICE_CPU, 0, error), CKPT_EXISTS);
  EXPECT_EQ(table.try_add(save.get(), "u", error), CKPT_EXISTS) << error.text();
  // Some of table u was added: nothing can be saved now.
  EXPECT_EQ(ckpt_save_run(save.get(), error), CKPT_EXISTS) << error.text();
  EXPECT_NE(error.text().find("u/ids"), std::string::npos) << error.text();
  // And on two ranks.
  const auto outcomes = world.save("b", {}, [&](uint32_t rank, ckpt_save* s) {
    if (rank == 0)
      table.add(s);
    else
      add(s, "t", box(CKPT_DTYPE_F32, {1}, {0}, {1}), &one, sizeof one);
  });
  EXPECT_EQ(outcomes[0].status, CKPT_MISMATCH) << outcomes[0].text;
  EXPECT_EQ(outcomes[0].ranks, "0, 1") << outcomes[0].text;
}

TEST_P(Tables, DescribedWronglyAreInvalid) {
  World world(place.uri(), 1);
  auto refused = [&](std::function<void(TestTable&)> change) {
    Save save = new_save(world.sessions[0], "a");
    TestTable table{{1, 2, 3}};
    table.fill();
    change(table);
    Error error;
    const ckpt_status added = table.try_add(save.get(), "t", error);
    if (added != CKPT_OK) return outcome_of(added, error);
    return outcome_of(ckpt_save_run(save.get(), error), error);
  };
  auto expect = [&](ckpt_status status, const char* text, std::function<void(TestTable&)> change) {
    const Outcome outcome = refused(change);
    EXPECT_EQ(outcome.status, status) << outcome.text;
    EXPECT_NE(outcome.text.find(text), std::string::npos) << outcome.text;
    EXPECT_NE(outcome.text.find("table"), std::string::npos) << outcome.text;
  };
  expect(CKPT_INVALID, "bucket_count", [](TestTable& t) { t.buckets = 0; });
  expect(CKPT_INVALID, "bucket_count", [](TestTable& t) { t.buckets = uint64_t{1} << 32; });
  expect(CKPT_INVALID, "id_dtype", [](TestTable& t) { t.id_dtype = CKPT_DTYPE_I32; });
  expect(CKPT_INVALID, "column \"seen\": memory for 2 rows", [](TestTable& t) { t.memory[2].pop_back(); });
  expect(CKPT_INVALID, "position 3", [](TestTable& t) { t.positions = {0, 3, 1}; });
  expect(CKPT_INVALID, "without elements", [](TestTable& t) { t.columns[1].shape = {0}; });
  expect(CKPT_UNSUPPORTED, "whole bytes", [](TestTable& t) { t.columns[1] = {"odd", CKPT_DTYPE_U4, {3}}; });
  expect(CKPT_EXISTS, "t/ids", [](TestTable& t) { t.columns[1].name = "ids"; });
  expect(CKPT_EXISTS, "t/seen", [](TestTable& t) { t.columns[1].name = "seen"; });
  expect(CKPT_INVALID, "column", [](TestTable& t) {
    t.columns[1].name = "a\nb";
    t.columns[2].name = "";
  });
  Save save = new_save(world.sessions[0], "a");
  Error error;
  TestTable shifted{{1, 2, 3}};
  shifted.positions_shift = 4;
  shifted.positions = {0, 1, 2, 0};
  EXPECT_EQ(shifted.try_add(save.get(), "shifted", error), CKPT_INVALID);
  EXPECT_NE(error.text().find("positions"), std::string::npos) << error.text();
  EXPECT_EQ(ckpt_save_set_attr(save.get(), "t", "ckpt.table", "mod 5", error), CKPT_INVALID);
}

TEST_P(Tables, AskedForWronglyAreInvalidOrNotFound) {
  World world(place.uri(), 1);
  std::vector<TestTable> tables{{{5, 7, 9}}};
  commit_tables(world, "a", tables);
  Reader reader = open_reader(world.store);
  auto opened = [&](const ckpt_share_desc& desc, const Ids& ids = {}) {
    ckpt_share* share = nullptr;
    return ckpt_share_open(&share, reader.get(), "t", &desc, ids.data(), ids.size(), nullptr, nullptr);
  };
  EXPECT_EQ(opened(range_desc(5, 4)), CKPT_INVALID);
  EXPECT_EQ(opened(share_desc(9)), CKPT_INVALID);
  EXPECT_EQ(opened(share_desc(CKPT_SHARE_ALL), {1}), CKPT_INVALID);
  Share share = open_share(reader, share_desc(CKPT_SHARE_ALL));
  Load load = new_load(reader);
  Bytes memory(48);
  void* data[] = {memory.data()};
  auto add = [&](uint64_t ids, const char* column, uint64_t size) {
    return ckpt_load_add_table(load.get(), share.get(), 0, memory.data(), ids, 1, &column, data, &size, CKPT_DEVICE_CPU,
                               0, 0, nullptr);
  };
  EXPECT_EQ(add(23, "seen", 9), CKPT_INVALID);
  EXPECT_EQ(add(24, "ids", 48), CKPT_NOT_FOUND) << "no column";
}

TEST_P(Tables, CountAsAskedForIfStrict) {
  World world(place.uri(), 1);
  std::vector<TestTable> tables{{{5, 7, 9}}};
  commit_tables(world, "a", tables);
  Reader reader = open_reader(world.store);
  Share share = open_share(reader, share_desc(CKPT_SHARE_ALL));
  Ids ids;
  EXPECT_EQ(load_window(reader, share, 0, &ids, kColumns, {{"strict", "exact"}}).status, CKPT_OK);
  const Outcome some = load_window(reader, share, 0, &ids, {kColumns[0]}, {{"strict", "exact"}});
  EXPECT_EQ(some.status, CKPT_MISMATCH);
  EXPECT_EQ(some.tensor, "t/adam/step");
}

TEST_P(Tables, OfADamagedChunkNameItsColumn) {
  if (place.in_memory()) return;
  World world(place.uri(), 1);
  std::mt19937_64 random(6);
  std::vector<TestTable> tables{{random_ids(random, 1000)}};
  commit_tables(world, "a", tables);
  Reader reader = open_reader(world.store);
  const auto segments = segments_of(reader, "t/embedding");
  const std::string path = place.uri() + "/a.1.1/PART_000";
  std::string bytes = read_file(path);
  bytes[segments[0].part_offset + 100] ^= 1;
  write_file(path, bytes);
  reader = open_reader(world.store);
  Ids ids;
  const Outcome loaded = load_window(reader, open_share(reader, share_desc(CKPT_SHARE_ALL)), 0, &ids);
  EXPECT_EQ(loaded.status, CKPT_CORRUPT);
  EXPECT_EQ(loaded.tensor, "t/embedding");
  EXPECT_EQ(load_all(reader, open_share(reader, share_desc(CKPT_SHARE_ALL)), 0, {kColumns[2]}).size(), 1000u);
}

TEST_P(Tables, WithAnIdOnTwoRanksAreFoundByVerification) {
  std::mt19937_64 random(13);
  World world(place.uri(), 3);
  auto tables = deal(random, random_ids(random, 2000), 3, 100);
  commit_tables(world, "sound", tables);
  for (uint32_t rank : {1, 2}) {
    tables[rank].ids.push_back(uint64_t{1} << 60 | 17);
    tables[rank].memory.clear();
  }
  commit_tables(world, "twice", tables);
  for (const char* label : {"sound", "twice"}) {
    Reader reader = open_reader(world.store, label);
    const auto found = verify(reader.get());
    ASSERT_EQ(found.size(), label == std::string("twice") ? 1u : 0u) << to_text(found);
    if (found.empty()) continue;
    EXPECT_EQ(found[0].kind, CKPT_FINDING_DAMAGED);
    EXPECT_EQ(found[0].status, CKPT_MISMATCH);
    EXPECT_EQ(found[0].name, "t");
    EXPECT_NE(found[0].text.find("ranks 1 and 2 both saved id 1152921504606846993"), std::string::npos);
  }
}

TEST_P(Tables, AreLeavesOfStateTrees) {
  World world(place.uri(), 2);
  std::vector<TestTable> tables{{{5, 7}}, {{9}}};
  const std::string text = R"({"emb":{"$":"record","class":"ckpt.Table","items":{"data":{"$":"tensor","name":"t"}}}})";
  world.commit("a", {}, [&](uint32_t rank, ckpt_save* save) {
    tables[rank].add(save);
    ckpt_tree* tree = nullptr;
    Error error;
    ASSERT_EQ(ckpt_tree_parse(&tree, text.data(), text.size(), error), CKPT_OK) << error.text();
    EXPECT_EQ(ckpt_save_add_tree(save, CKPT_TREE_OBJECT, tree, error), CKPT_OK) << error.text();
    ckpt_tree_free(tree);
  });
  Reader reader = open_reader(world.store);
  ckpt_tree* tree = nullptr;
  Error error;
  const char* json = nullptr;
  uint64_t size = 0;
  ASSERT_EQ(ckpt_reader_tree(reader.get(), nullptr, &tree, error), CKPT_OK) << error.text();
  ASSERT_EQ(ckpt_tree_json(tree, &json, &size, error), CKPT_OK) << error.text();
  EXPECT_EQ(std::string(json, size), text);
  ckpt_tree_free(tree);
  auto info = sized<ckpt_table_info>();
  EXPECT_EQ(ckpt_reader_table_find(reader.get(), "t", &info, nullptr), CKPT_OK);
}

// From 256 ranks on, leaders of groups merge what their ranks say. Ranks 7, 14, … have no rows.
// Their ids are read before all else, and checked beside it.
TEST(TablesOfManyRows, AreLoadedAndAnIdOnTwoRanksIsNamed) {
  const Scratch scratch;
  std::mt19937_64 random(7);
  const Ids ids = random_ids(random, 150000);
  auto tables = deal(random, ids, 2, 1000);
  const std::vector<TestColumn> columns{{"weight", CKPT_DTYPE_U8, {}}};
  for (TestTable& table : tables) table.columns = columns;
  World world(scratch / "store", 2);
  commit_tables(world, "a", tables);
  Reader reader = open_reader(world.store, "a");
  for (const auto& wanted : {columns, {}})
    EXPECT_EQ(sorted(load_all(reader, open_share(reader, share_desc(CKPT_SHARE_ALL)), 0, wanted)), sorted(ids));
  for (TestTable& table : tables) table.ids.push_back(uint64_t{1} << 60 | 17), table.fill();
  commit_tables(world, "b", tables);
  reader = open_reader(world.store, "b");
  Ids loaded;
  const Outcome outcome = load_window(reader, open_share(reader, share_desc(CKPT_SHARE_ALL)), 0, &loaded, columns);
  EXPECT_EQ(outcome.status, CKPT_MISMATCH) << outcome.text;
  EXPECT_EQ(outcome.ranks, "0, 1");
}

TEST(TablesOfManyRanks, SavedBy300LoadOn7AndByTheirIds) {
  const Scratch scratch;
  constexpr uint32_t kRanks = 300;
  std::mt19937_64 random(300);
  const Ids ids = random_ids(random, 5000);
  std::vector<TestTable> tables(kRanks);
  for (TestTable& table : tables) table.buckets = 1000;
  for (uint64_t id : ids) {
    const uint64_t rank = random() % kRanks;
    tables[rank % 7 ? rank : 1].ids.push_back(id);
  }
  World world(scratch / "store", kRanks);
  commit_tables(world, "a", tables, {{"staging_bytes", 8 << 20}, {"timeout_ms", 600000}});
  Reader reader = open_reader(world.store);
  Ids sliced;
  for (uint64_t r = 0; r < 7; r++) {
    const Ids slice = load_all(reader, open_share(reader, of_count(CKPT_SHARE_SLICE, r, 7, 300)), 300);
    EXPECT_EQ(sorted(slice), those(slice, [&](uint64_t id) { return slice_of(id % 1000, 1000, 7) == r; }));
    sliced.insert(sliced.end(), slice.begin(), slice.end());
  }
  EXPECT_EQ(sorted(sliced), sorted(ids));
  const Ids some(ids.begin(), ids.begin() + 100);
  EXPECT_EQ(load_all(reader, open_share(reader, share_desc(CKPT_SHARE_IDS), some)), some);
}

}  // namespace
}  // namespace ckpt_test
