// What changed in a sparse table since another checkpoint of it: the rows and the ids that a comparison of all of both
// gives, whatever ranks, runs and codecs they have.
#include "api/tables.h"

using namespace ckpt_test;

namespace {
namespace since {  // api/table_runs_test.cpp has other tables

constexpr uint64_t kBuckets = 64;
constexpr size_t kValue = 100;  // bytes, so that chunks of 4 KiB begin within rows

using Rows = std::map<uint64_t, int32_t>;  // what each id's row was changed to last

Bytes value_of(uint64_t id, int32_t version) {
  return pattern(kValue, id * 31 + static_cast<uint64_t>(version) * 9973);
}

// A rank's rows, and what happened to them since its last save.
struct RankTable {
  Rows rows;
  std::set<uint64_t> changed, removed;

  void put(uint64_t id, int32_t version) {
    rows[id] = version;
    changed.insert(id);
    removed.erase(id);
  }
  void remove(uint64_t id) {
    rows.erase(id);
    changed.erase(id);
    removed.insert(id);
  }
};

struct Memory {
  Ids ids, changed, removed;
  Bytes values;
  std::vector<int32_t> versions;
};

void add(ckpt_save* save, const RankTable& table, Memory& memory, uint64_t buckets) {
  for (const auto& [id, version] : table.rows) {
    if (table.changed.contains(id)) memory.changed.push_back(memory.ids.size());
    memory.ids.push_back(id);
    const Bytes value = value_of(id, version);
    memory.values.insert(memory.values.end(), value.begin(), value.end());
    memory.versions.push_back(version);
  }
  memory.removed.assign(table.removed.begin(), table.removed.end());
  const char* names[] = {"value", "version"};
  ckpt_column_desc columns[] = {TestColumn{"", CKPT_DTYPE_U8, {kValue}}.desc(),
                                TestColumn{"", CKPT_DTYPE_I32, {}}.desc()};
  const void* data[] = {memory.values.data(), memory.versions.data()};
  const uint64_t sizes[] = {memory.values.size(), memory.versions.size() * 4};
  auto desc = sized<ckpt_table_desc>();
  desc.id_dtype = CKPT_DTYPE_U64;
  desc.row_count = memory.ids.size();
  desc.bucket_count = buckets;
  desc.column_count = 2;
  desc.flags = CKPT_TABLE_CHANGES;
  desc.changed = memory.changed.data();
  desc.changed_count = memory.changed.size();
  desc.removed = memory.removed.data();
  desc.removed_count = memory.removed.size();
  Error error;
  EXPECT_EQ(ckpt_save_add_table(save, "t", &desc, memory.ids.data(), memory.ids.size() * 8, names, columns, data, sizes,
                                nullptr, CKPT_DEVICE_CPU, 0, 0, error),
            CKPT_OK)
      << error.text();
}

void commit(World& world, const std::string& label, std::vector<RankTable>& ranks, std::vector<Setting> settings = {},
            uint64_t buckets = kBuckets) {
  std::vector<Memory> memory(ranks.size());
  settings.emplace_back("incremental", "on");
  world.commit(label, settings, [&](uint32_t rank, ckpt_save* save) { add(save, ranks[rank], memory[rank], buckets); });
  for (RankTable& rank : ranks) {
    rank.changed.clear();
    rank.removed.clear();
  }
}

Outcome try_since(const Reader& reader, const Reader& since, ckpt_share_desc desc, Share* out) {
  ckpt_share* share = nullptr;
  Error error;
  desc.since = since.get();
  const ckpt_status status = ckpt_share_open(&share, reader.get(), "t", &desc, nullptr, 0, nullptr, error);
  *out = Share(share);
  return status == CKPT_OK ? Outcome() : outcome_of(status, error);
}

// What a share gives; `gone`: its missing ids. No id comes twice, and each with the value of its version.
Rows load(const Reader& reader, const Share& share, std::set<uint64_t>* gone) {
  Rows all;
  const ckpt_share_info info = share_info(share);
  for (uint64_t window = 0; window < info.window_count; window++) {
    uint64_t rows = 0;
    EXPECT_EQ(ckpt_share_window_rows(share.get(), window, &rows, nullptr), CKPT_OK);
    Ids ids(rows);
    Bytes values(rows * kValue);
    std::vector<int32_t> versions(rows);
    const char* names[] = {"version", "value"};
    void* data[] = {versions.data(), values.data()};
    const uint64_t sizes[] = {rows * 4, rows * kValue};
    const Load load = new_load(reader);
    Error error;
    EXPECT_EQ(ckpt_load_add_table(load.get(), share.get(), window, ids.data(), rows * 8, 2, names, data, sizes,
                                  CKPT_DEVICE_CPU, 0, 0, error),
              CKPT_OK);
    run(load);
    for (size_t i = 0; i < rows; i++) {
      const auto at = values.begin() + static_cast<ptrdiff_t>(i * kValue);
      EXPECT_EQ(value_of(ids[i], versions[i]), Bytes(at, at + kValue)) << "id " << ids[i];
      EXPECT_TRUE(all.emplace(ids[i], versions[i]).second) << "id " << ids[i] << " twice";
    }
  }
  for (uint64_t i = 0; i < info.missing_count; i++) {
    uint64_t id = 0;
    EXPECT_EQ(ckpt_share_missing_at(share.get(), i, &id, nullptr), CKPT_OK);
    EXPECT_TRUE(gone->insert(id).second) << "id " << id << " twice";
  }
  return all;
}

void expect_changes(const Reader& reader, const Rows& now, const Reader& since, const Rows& before) {
  const auto check = [&](const ckpt_share_desc& desc, const std::function<bool(uint64_t id)>& is_ours) {
    Rows changed;
    std::set<uint64_t> gone, found_gone;
    for (const auto& [id, version] : now)
      if (const auto at = before.find(id); is_ours(id) && (at == before.end() || at->second != version))
        changed.emplace(id, version);
    for (const auto& [id, version] : before)
      if (is_ours(id) && !now.contains(id)) gone.insert(id);
    Share share;
    const Outcome opened = try_since(reader, since, desc, &share);
    ASSERT_EQ(opened.status, CKPT_OK) << opened.text;
    EXPECT_EQ(load(reader, share, &found_gone), changed);
    EXPECT_EQ(found_gone, gone);
  };
  check(share_desc(CKPT_SHARE_ALL), [](uint64_t) { return true; });
  check(share_desc(CKPT_SHARE_ALL, 50), [](uint64_t) { return true; });
  check(range_desc(5, 40), [](uint64_t id) { return id % kBuckets >= 5 && id % kBuckets < 40; });
  check(of_count(CKPT_SHARE_MOD, 1, 3, 70), [](uint64_t id) { return id % 3 == 1; });
}

Rows all_of(const std::vector<RankTable>& ranks) {
  Rows all;
  for (const RankTable& rank : ranks) all.insert(rank.rows.begin(), rank.rows.end());
  return all;
}

void change_some(std::vector<RankTable>& ranks, std::mt19937_64& random, int32_t step) {
  for (int i = 0; i < 20; i++) {
    const uint64_t id = random() % 800;
    const auto holder = std::ranges::find_if(ranks, [&](const RankTable& at) { return at.rows.contains(id); });
    if (holder == ranks.end() || random() % 3 == 0) {  // new, or moved to another rank, the same or not
      const int32_t version = holder == ranks.end() || random() % 2 ? step : holder->rows[id];
      if (holder != ranks.end()) holder->remove(id);
      ranks[random() % ranks.size()].put(id, version);
    } else if (random() % 2) {
      holder->put(id, random() % 2 ? step : holder->rows[id]);
    } else {
      holder->remove(id);
    }
  }
}

CKPT_ON_EVERY_STORE(TableChanges);

TEST_P(TableChanges, BetweenAnyTwoCheckpointsAreWhatAComparisonGives) {
  std::mt19937_64 random(1);
  const World first(place.uri(), 1);  // keeps a store in memory
  std::vector<Rows> saved;
  Rows rows;
  for (uint64_t id = 0; id < 150; id++) rows[id * 2] = 0;
  for (uint32_t size : {2, 1, 3}) {  // each world writes all rows first, as other ranks; then runs
    World world(place.uri(), size, {{"chunk_bytes", 4096}});
    std::vector<RankTable> ranks(size);
    for (const auto& [id, version] : rows) ranks[random() % size].put(id, version);
    for (int step = 0; step < 3; step++) {
      const auto number = static_cast<int32_t>(saved.size());
      if (number > 0) change_some(ranks, random, number);
      const char* codec = step == 0 && size == 1 ? "lz4" : "none";
      commit(world, "s" + std::to_string(number), ranks, {{"compression", codec}, {"most_runs", 2}});
      saved.push_back(all_of(ranks));
    }
    rows = all_of(ranks);
  }
  for (size_t now = 0; now < saved.size(); now++)
    for (size_t since = 0; since < saved.size(); since++) {
      SCOPED_TRACE(std::to_string(now) + " since " + std::to_string(since));
      expect_changes(open_reader(first.store, "s" + std::to_string(now)), saved[now],
                     open_reader(first.store, "s" + std::to_string(since)), saved[since]);
    }
}

// Both checkpoints have the chunk with the damage; the rows that changed are found without it.
TEST(TableChangesOfFiles, AreFoundWithoutReadingWhatBothShare) {
  const StorePlace place("dir");
  World world(place.uri(), 1, {{"chunk_bytes", 4096}});
  std::vector<RankTable> ranks(1);
  for (uint64_t id = 0; id < 1000; id++) ranks[0].put(id, 0);
  commit(world, "s1", ranks);
  const Rows before = all_of(ranks);
  ranks[0].put(63, 1);  // of the last bucket
  commit(world, "s2", ranks);
  const Reader first = open_reader(world.store, "s1"), second = open_reader(world.store, "s2");
  const std::string path = place.uri() + "/" + info_of(first).id + "/PART_000";
  std::string bytes = read_file(path);
  bytes[segments_of(first, "t/value")[0].part_offset] ^= 1;
  write_file(path, bytes);
  expect_changes(second, all_of(ranks), first, before);
}

// All rows are written again, with the same ids at the same places: some chunks tell that rows may differ.
TEST_P(TableChanges, OfValuesAloneAreFoundInTheChunksThatDiffer) {
  World first(place.uri(), 1, {{"chunk_bytes", 4096}});
  std::vector<RankTable> ranks(1);
  for (uint64_t id = 0; id < 1000; id++) ranks[0].put(id, 0);
  commit(first, "s1", ranks);
  const Rows before = all_of(ranks);
  for (const uint64_t id : {0, 500, 999}) ranks[0].put(id, 1);
  World second(place.uri(), 1, {{"chunk_bytes", 4096}});
  commit(second, "s2", ranks);
  const Reader old = open_reader(second.store, "s1"), reader = open_reader(second.store, "s2");
  expect_changes(reader, all_of(ranks), old, before);
  expect_changes(old, before, reader, all_of(ranks));
}

TEST_P(TableChanges, OfOtherTablesAreRefusedAndOfANewOneAreAll) {
  World world(place.uri(), 1);
  std::vector<RankTable> ranks(1);
  for (uint64_t id = 0; id < 50; id++) ranks[0].put(id, 0);
  world.commit("s0", {}, [&](uint32_t, ckpt_save* save) {
    static const uint8_t byte = 1;
    const ckpt_tensor_desc desc = whole(CKPT_DTYPE_U8, {1});
    ckpt_test::add(save, "w", desc, &byte, 1);
  });
  commit(world, "s1", ranks);
  commit(world, "s2", ranks, {}, 32);
  const Reader without = open_reader(world.store, "s0"), first = open_reader(world.store, "s1"),
               other = open_reader(world.store, "s2");
  expect_changes(first, all_of(ranks), without, {});
  Share share;
  const Outcome refused = try_since(other, first, share_desc(CKPT_SHARE_ALL), &share);
  EXPECT_EQ(refused.status, CKPT_MISMATCH);
  EXPECT_EQ(refused.text, "MISMATCH: table \"t\": buckets are 32, in the earlier checkpoint 64: all of it changed");
  EXPECT_EQ(try_since(first, first, share_desc(CKPT_SHARE_IDS), &share).status, CKPT_INVALID);
  EXPECT_EQ(try_since(without, first, share_desc(CKPT_SHARE_ALL), &share).status, CKPT_NOT_FOUND);
}

}  // namespace since
}  // namespace
