// Sparse tables of which a save writes only what changed: what comes back is what each rank had, whatever was changed,
// removed, moved to another rank or merged, and however it is loaded.
#include <span>

#include "api/tables.h"

using namespace ckpt_test;

namespace {

const Setting kOn{"incremental", "on"};
constexpr uint64_t kBuckets = 64;

using Rows = std::map<uint64_t, uint64_t>;  // what each id's row was changed to last

Bytes value_of(uint64_t id, uint64_t version, size_t bytes) { return pattern(bytes, id * 31 + version * 1000003); }

// The rows of a rank, and what has happened to them since its last save.
struct RankTable {
  size_t value_bytes = 12;  // of each row
  Rows rows;
  std::set<uint64_t> changed, removed;

  void put(uint64_t id, uint64_t version) {
    rows[id] = version;
    changed.insert(id);
    removed.erase(id);
  }
  void remove(uint64_t id) {
    rows.erase(id);
    changed.erase(id);
    removed.insert(id);
  }
  void was_saved() {
    changed.clear();
    removed.clear();
  }
};

// As the save wants it; its memory must live until the save has run.
struct Given {
  Ids ids, changed, removed;
  Bytes values;
  std::vector<int32_t> versions;
  size_t value_bytes;

  explicit Given(const RankTable& table, uint64_t seed = 1)
      : removed(table.removed.begin(), table.removed.end()), value_bytes(table.value_bytes) {
    for (const auto& [id, version] : table.rows) ids.push_back(id);
    std::mt19937_64 random(seed);
    std::ranges::shuffle(ids, random);
    for (size_t row = 0; row < ids.size(); row++) {
      const uint64_t version = table.rows.at(ids[row]);
      const Bytes value = value_of(ids[row], version, value_bytes);
      values.insert(values.end(), value.begin(), value.end());
      versions.push_back(static_cast<int32_t>(version));
      if (table.changed.contains(ids[row])) changed.push_back(row);
    }
  }

  ckpt_status add(ckpt_save* save, Error& error, uint32_t flags = CKPT_TABLE_CHANGES, const char* name = "t") const {
    const char* names[] = {"value", "version"};
    ckpt_column_desc columns[] = {TestColumn{"", CKPT_DTYPE_U8, {static_cast<int64_t>(value_bytes)}}.desc(),
                                  TestColumn{"", CKPT_DTYPE_I32, {}}.desc()};
    const void* data[] = {values.data(), versions.data()};
    const uint64_t sizes[] = {values.size(), versions.size() * 4};
    auto desc = sized<ckpt_table_desc>();
    desc.id_dtype = CKPT_DTYPE_U64;
    desc.row_count = ids.size();
    desc.bucket_count = kBuckets;
    desc.column_count = 2;
    desc.flags = flags;
    const bool lists = flags == CKPT_TABLE_CHANGES;
    desc.changed = lists ? changed.data() : nullptr;
    desc.changed_count = lists ? changed.size() : 0;
    desc.removed = lists ? removed.data() : nullptr;
    desc.removed_count = lists ? removed.size() : 0;
    return ckpt_save_add_table(save, name, &desc, ids.data(), ids.size() * 8, names, columns, data, sizes, nullptr,
                               CKPT_DEVICE_CPU, 0, 0, error);
  }
};

// Saves the tables of all ranks, and says that they were saved.
std::vector<Outcome> save(World& world, const std::string& label, std::vector<RankTable>& ranks,
                          std::vector<Setting> settings = {kOn}) {
  std::vector<Given> given;
  for (const RankTable& rank : ranks) given.emplace_back(rank, given.size());
  auto outcomes = world.save(label, settings, [&](uint32_t rank, ckpt_save* to) {
    Error error;
    EXPECT_EQ(given[rank].add(to, error), CKPT_OK) << error.text();
  });
  for (RankTable& rank : ranks) rank.was_saved();
  return outcomes;
}

void commit(World& world, const std::string& label, std::vector<RankTable>& ranks,
            std::vector<Setting> settings = {kOn}) {
  for (const Outcome& outcome : save(world, label, ranks, std::move(settings)))
    ASSERT_EQ(outcome.status, CKPT_OK) << label << ": " << outcome.text;
}

ckpt_table_info table_info(const Reader& reader) {
  auto info = sized<ckpt_table_info>();
  Error error;
  EXPECT_EQ(ckpt_reader_table_find(reader.get(), "t", &info, error), CKPT_OK) << error.text();
  return info;
}

// All rows of a share. An id twice, or a value that is not that of its id and version, is a failure.
Rows load(const Reader& reader, const Share& share, size_t value_bytes = 12) {
  Rows all;
  for (uint64_t window = 0; window < share_info(share).window_count; window++) {
    uint64_t rows = 0;
    EXPECT_EQ(ckpt_share_window_rows(share.get(), window, &rows, nullptr), CKPT_OK);
    Ids ids(rows);
    Bytes values(rows * value_bytes);
    std::vector<int32_t> versions(rows);
    const char* names[] = {"version", "value"};
    void* data[] = {versions.data(), values.data()};
    const uint64_t sizes[] = {rows * 4, values.size()};
    const Load load = new_load(reader);
    Error error;
    EXPECT_EQ(ckpt_load_add_table(load.get(), share.get(), window, ids.data(), rows * 8, 2, names, data, sizes,
                                  CKPT_DEVICE_CPU, 0, 0, error),
              CKPT_OK);
    run(load);
    for (size_t i = 0; i < rows; i++) {
      const Bytes value = value_of(ids[i], static_cast<uint64_t>(versions[i]), value_bytes);
      EXPECT_TRUE(std::ranges::equal(value, std::span(values).subspan(i * value_bytes, value_bytes)))
          << "id " << ids[i];
      EXPECT_TRUE(all.emplace(ids[i], versions[i]).second) << "id " << ids[i] << " twice";
    }
  }
  EXPECT_EQ(all.size(), share_info(share).row_count);
  return all;
}

template <typename Keep>
Rows some(const Rows& rows, Keep&& keep) {
  Rows kept;
  for (const auto& row : rows)
    if (keep(row.first)) kept.insert(row);
  return kept;
}

Rows all_of(const std::vector<RankTable>& ranks) {
  Rows all;
  for (const RankTable& rank : ranks) all.insert(rank.rows.begin(), rank.rows.end());
  return all;
}

// Looked at from all sides.
void expect_table(const Reader& reader, const Rows& expected, std::mt19937_64& random) {
  for (const uint64_t window : {0, 60})
    EXPECT_EQ(load(reader, open_share(reader, share_desc(CKPT_SHARE_ALL, window))), expected) << "window " << window;
  for (uint64_t slice = 0; slice < 3; slice++) {
    const Rows rows = load(reader, open_share(reader, of_count(CKPT_SHARE_SLICE, slice, 3, 50)));
    const uint64_t begin = kBuckets / 3 * slice + std::min(slice, kBuckets % 3),
                   end = begin + kBuckets / 3 + (slice < kBuckets % 3);
    EXPECT_EQ(rows, some(expected, [&](uint64_t id) { return id % kBuckets >= begin && id % kBuckets < end; }));
    EXPECT_EQ(load(reader, open_share(reader, of_count(CKPT_SHARE_MOD, slice, 3, 40))),
              some(expected, [&](uint64_t id) { return id % 3 == slice; }));
  }
  Ids asked;
  for (const auto& [id, version] : expected)
    if (random() % 2) asked.push_back(id);
  const size_t there = asked.size();
  for (int i = 0; i < 20; i++)
    if (const uint64_t id = random() % 600; !expected.contains(id)) asked.push_back(id);
  std::ranges::shuffle(asked, random);
  const Share listed = open_share(reader, share_desc(CKPT_SHARE_IDS, 30), asked);
  EXPECT_EQ(share_info(listed).row_count, there);
  EXPECT_EQ(share_info(listed).missing_count, asked.size() - there);
  EXPECT_EQ(load(reader, listed),
            some(expected, [&](uint64_t id) { return std::ranges::find(asked, id) != asked.end(); }));
}

// A save of one rank, in the background: how it ended, what it wrote and what it says of it.
struct Alone {
  Outcome outcome;
  uint64_t bytes_written = 0;
  std::vector<Found> findings;
};
Alone save_alone(const World& world, const std::string& label, RankTable& table, std::vector<Setting> settings = {kOn},
                 const std::function<void(ckpt_save*)>& also = {}) {
  const Given given(table);
  const Save made = new_save(world.sessions[0], label, settings);
  Error error;
  EXPECT_EQ(given.add(made.get(), error), CKPT_OK) << error.text();
  if (also) also(made.get());
  const Job job = start(made);
  Alone alone;
  if (const ckpt_status status = ckpt_job_wait(job.get(), CKPT_JOB_COMMITTED, -1, error); status != CKPT_OK)
    alone.outcome = outcome_of(status, error);
  alone.bytes_written = stats_of(job).bytes_written;
  ckpt_report* report = nullptr;
  EXPECT_EQ(ckpt_save_report(made.get(), &report, error), CKPT_OK) << error.text();
  alone.findings = findings_of(Report(report).get());
  table.was_saved();
  return alone;
}

RankTable table_of(uint64_t rows) {
  RankTable table;
  for (uint64_t id = 0; id < rows; id++) table.put(id * 7, 0);
  return table;
}

bool says(const std::vector<Found>& findings, const std::string& text) {
  return std::ranges::any_of(findings, [&](const Found& one) { return one.text.find(text) != std::string::npos; });
}

class TableRuns : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Stores, TableRuns, testing::Values("mem", "dir"));
INSTANTIATE_TEST_SUITE_P(S3, TableRuns,
                         testing::ValuesIn(std::vector<std::string>(std::getenv("CKPT_TEST_S3") ? 1 : 0, "s3")));

TEST_P(TableRuns, GiveBackWhatEachRankHadAfterAnySequenceOfChanges) {
  for (uint64_t seed = 1; seed <= 3; seed++) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const StorePlace place(GetParam());
    const uint64_t most_runs = 2 + random() % 4, world_size = 1 + random() % 3;
    World world(place.uri(), static_cast<uint32_t>(world_size));
    std::vector<RankTable> ranks(world_size);
    for (uint64_t id = 0; id < 300; id++) ranks[random() % world_size].put(id * 2, 0);
    for (uint64_t step = 1; step <= 8; step++) {
      const std::string label = "s" + std::to_string(step);
      commit(world, label, ranks, {kOn, {"most_runs", static_cast<int64_t>(most_runs)}});
      const Reader reader = open_reader(world.store, label);
      EXPECT_LE(table_info(reader).run_count, most_runs);
      EXPECT_EQ(table_info(reader).run_count == 1, step == 1 || most_runs == 1);
      expect_table(reader, all_of(ranks), random);
      EXPECT_TRUE(verify(reader.get()).empty());
      for (int i = 0; i < 15; i++) {
        RankTable& rank = ranks[random() % world_size];
        const uint64_t id = random() % 600;
        const auto holder = std::ranges::find_if(ranks, [&](const RankTable& at) { return at.rows.contains(id); });
        switch (random() % 3) {
          case 0:  // new, or moved to another rank
            if (holder != ranks.end()) holder->remove(id);
            rank.put(id, step);
            break;
          case 1:
            if (holder != ranks.end()) holder->put(id, step);
            break;
          case 2:
            if (holder != ranks.end()) holder->remove(id);
            break;
        }
      }
    }
  }
}

TEST_P(TableRuns, OfFewChangesAreFewBytes) {
  const StorePlace place(GetParam());
  World world(place.uri(), 1);
  RankTable table = table_of(100000);
  const uint64_t all = save_alone(world, "s1", table).bytes_written;
  for (uint64_t id = 0; id < 1000; id++) table.put(id * 700, 1);
  const Alone second = save_alone(world, "s2", table);
  EXPECT_EQ(second.outcome.status, CKPT_OK) << second.outcome.text;
  EXPECT_LT(second.bytes_written, all / 20);
  const uint64_t none = save_alone(world, "s3", table).bytes_written;
  EXPECT_LT(none, second.bytes_written);
  EXPECT_LE(none, 32768u);
  const Reader reader = open_reader(world.store);
  EXPECT_EQ(load(reader, open_share(reader, share_desc(CKPT_SHARE_ALL))), table.rows);
}

TEST_P(TableRuns, OfRowsThatAreLargerThanAChunkComeBack) {
  const StorePlace place(GetParam());
  World world(place.uri(), 1);
  RankTable table = table_of(50);
  table.value_bytes = 100'000;
  ASSERT_EQ(save_alone(world, "s1", table).outcome.status, CKPT_OK);
  for (uint64_t id = 0; id < 50; id += 10) table.put(id * 7, 1);
  ASSERT_EQ(save_alone(world, "s2", table).outcome.status, CKPT_OK);
  const Reader reader = open_reader(world.store);
  ASSERT_EQ(table_info(reader).run_count, 2u);
  EXPECT_EQ(load(reader, open_share(reader, share_desc(CKPT_SHARE_ALL)), table.value_bytes), table.rows);
}

TEST_P(TableRuns, NeedNoEarlierCheckpoint) {
  const StorePlace place(GetParam());
  World world(place.uri(), 1);
  RankTable table = table_of(500);
  for (uint64_t step = 1; step <= 5; step++) {
    table.put(step * 7, step);
    table.remove(step * 70);
    EXPECT_EQ(save_alone(world, "s" + std::to_string(step), table, {kOn, {"keep_last", 1}}).outcome.status, CKPT_OK);
  }
  EXPECT_EQ(committed_count(world.store), 1u);
  std::mt19937_64 random(1);
  const Reader reader = open_reader(world.store);
  EXPECT_EQ(table_info(reader).run_count, 5u);
  expect_table(reader, table.rows, random);
  EXPECT_TRUE(verify(reader.get()).empty());
}

TEST_P(TableRuns, AreNotMadeWithoutTheOptionOrOfAnotherSession) {
  const StorePlace place(GetParam());
  RankTable table = table_of(500);
  {
    World world(place.uri(), 1);
    save_alone(world, "s1", table);
    table.put(7, 1);
    save_alone(world, "s2", table, {});
    EXPECT_EQ(table_info(open_reader(world.store)).run_count, 1u);
    table.put(14, 1);
    EXPECT_EQ(save_alone(world, "s3", table, {kOn, {"most_runs", 1}}).outcome.status, CKPT_OK);
    EXPECT_EQ(table_info(open_reader(world.store)).run_count, 1u);
  }
  World another(place.uri(), 1);
  table.put(21, 1);
  EXPECT_EQ(save_alone(another, "s4", table).outcome.status, CKPT_OK);
  const Reader reader = open_reader(another.store);
  EXPECT_EQ(table_info(reader).run_count, 1u);
  EXPECT_EQ(load(reader, open_share(reader, share_desc(CKPT_SHARE_ALL))), table.rows);
}

// The lists tell what changed since the save before, which nobody has.
TEST_P(TableRuns, AreNotMadeOfASaveThatWasNotCommittedOrIsGone) {
  const StorePlace place(GetParam());
  World world(place.uri(), 1);
  RankTable table = table_of(500);
  save_alone(world, "s1", table);
  table.put(7, 1);
  EXPECT_NE(save_alone(world, "s1", table).outcome.status, CKPT_OK);  // the label is taken
  table.put(14, 1);
  const Alone third = save_alone(world, "s3", table);
  EXPECT_EQ(third.outcome.status, CKPT_OK) << third.outcome.text;
  EXPECT_TRUE(says(third.findings, "table \"t\": all its rows are written: ")) << third.findings.size();
  Error error;
  EXPECT_EQ(ckpt_store_remove(world.store.get(), find(world.store, "s3").id, error), CKPT_OK) << error.text();
  table.put(21, 1);
  EXPECT_TRUE(says(save_alone(world, "s4", table).findings, "all its rows are written"));
  const Reader reader = open_reader(world.store);
  EXPECT_EQ(table_info(reader).run_count, 1u);
  EXPECT_EQ(load(reader, open_share(reader, share_desc(CKPT_SHARE_ALL))), table.rows);
}

TEST_P(TableRuns, AreWrittenWholeIfMostRowsChanged) {
  const StorePlace place(GetParam());
  World world(place.uri(), 1);
  RankTable table = table_of(500);
  save_alone(world, "s1", table);
  for (uint64_t id = 0; id < 300; id++) table.put(id * 7, 1);
  EXPECT_EQ(save_alone(world, "s2", table).outcome.status, CKPT_OK);
  const Reader reader = open_reader(world.store);
  EXPECT_EQ(table_info(reader).run_count, 1u);
  EXPECT_EQ(load(reader, open_share(reader, share_desc(CKPT_SHARE_ALL))), table.rows);
}

// Of two parts one has no runs.
TEST(RepairOfTableRuns, GivesBackTheSameManifest) {
  const Scratch scratch;
  std::vector<RankTable> ranks(2);
  for (uint64_t id = 0; id < 100; id++) ranks[id % 2].put(id, 0);
  {
    World world(scratch / "store", 2);
    commit(world, "s1", ranks);
    ranks[0].put(8, 1);
    ranks[0].remove(6);
    commit(world, "s2", ranks);
  }
  const std::string manifest = scratch / "store/s2.1.1/MANIFEST", before = read_file(manifest);
  write_file(manifest, "damaged");
  const Store store = open_store(scratch / "store");
  const Options writes = options({{"dry_run", 0}, {"force", 1}});
  Error error;
  EXPECT_EQ(ckpt_store_repair(store.get(), "s2.1.1", writes.get(), nullptr, error), CKPT_OK) << error.text();
  EXPECT_EQ(read_file(manifest), before);
  std::mt19937_64 random(1);
  expect_table(open_reader(store, "s2"), all_of(ranks), random);
}

TEST_P(TableRuns, NewAndGoneIdsNeedNoList) {
  const StorePlace place(GetParam());
  World world(place.uri(), 1);
  RankTable table = table_of(500);
  save_alone(world, "s1", table);
  table.put(1, 1);
  table.put(7, 1);
  table.remove(14);
  table.changed.erase(1);
  table.removed.clear();
  EXPECT_EQ(save_alone(world, "s2", table).outcome.status, CKPT_OK);
  const Reader reader = open_reader(world.store);
  EXPECT_TRUE(verify(reader.get()).empty());
  EXPECT_EQ(table_info(reader).run_count, 2u);
  EXPECT_EQ(load(reader, open_share(reader, share_desc(CKPT_SHARE_ALL))), table.rows);
}

// Its other row only moved, so nothing else says that it is there twice.
TEST_P(TableRuns, AnIdThatTakesTheRowsOfOthersIsRefused) {
  const StorePlace place(GetParam());
  World world(place.uri(), 1);
  RankTable table;
  for (uint64_t id = 1; id <= 40; id++) table.put(id, 0);
  Given given(table);
  const auto save_it = [&](const std::string& label) {
    return world.save(label, {kOn}, [&](uint32_t, ckpt_save* to) {
      Error error;
      EXPECT_EQ(given.add(to, error), CKPT_OK) << error.text();
    })[0];
  };
  given.changed.clear();
  EXPECT_EQ(save_it("s1").status, CKPT_OK);
  const Ids before = given.ids;
  given.ids = {before.begin(), before.end()};
  std::swap(given.ids[0], given.ids[1]);
  given.ids[2] = before[0];
  const Outcome twice = save_it("s2");
  EXPECT_EQ(twice.status, CKPT_MISMATCH) << twice.text;
}

// Rows that move, and ids that come and go, among those that change.
TEST_P(TableRuns, ByDigestsNoListIsNeeded) {
  const StorePlace place(GetParam());
  World world(place.uri(), 1);
  RankTable table = table_of(500);
  for (uint64_t step = 1; step <= 4; step++) {
    const Given given(table, step / 3);
    world.commit("s" + std::to_string(step), {kOn}, [&](uint32_t, ckpt_save* to) {
      Error error;
      EXPECT_EQ(given.add(to, error, CKPT_TABLE_DIGESTS), CKPT_OK) << error.text();
    });
    const Reader reader = open_reader(world.store);
    EXPECT_EQ(table_info(reader).run_count, step);
    EXPECT_EQ(load(reader, open_share(reader, share_desc(CKPT_SHARE_ALL))), table.rows) << step;
    for (uint64_t id = step; id < 3000; id += 500) table.put(id, step);
    table.remove(7 * step);
  }
}

TEST_P(TableRuns, WithAnIdOnTwoRanksAreRefused) {
  const StorePlace place(GetParam());
  World world(place.uri(), 2);
  std::vector<RankTable> ranks(2);
  for (uint64_t id = 0; id < 100; id++) ranks[id % 2].put(id, 0);
  commit(world, "s1", ranks);
  ranks[1].put(8, 1);  // rank 0 has it still
  commit(world, "s2", ranks);
  const Reader reader = open_reader(world.store);
  for (const auto& [desc, ids] : {std::pair(share_desc(CKPT_SHARE_ALL), Ids()), {share_desc(CKPT_SHARE_IDS), Ids{8}}}) {
    ckpt_share* share = nullptr;
    Error error;
    EXPECT_EQ(ckpt_share_open(&share, reader.get(), "t", &desc, ids.data(), ids.size(), nullptr, error), CKPT_MISMATCH);
    EXPECT_EQ(error.detail("found"), "8");
  }
}

TEST_P(TableRuns, DescribedWronglyAreRefused) {
  const StorePlace place(GetParam());
  World world(place.uri(), 1);
  RankTable table = table_of(20);
  table.remove(14);
  auto refused = [&](const std::function<void(Given&)>& spoil, uint32_t flags = CKPT_TABLE_CHANGES) {
    Given given(table);
    spoil(given);
    const Save made = new_save(world.sessions[0], "refused", {kOn});
    Error error;
    return outcome_of(given.add(made.get(), error, flags), error);
  };
  EXPECT_EQ(refused([](Given& given) { given.changed = {3, 19}; }).text.find("changed[1]: row 19 of 19 rows") !=
                std::string::npos,
            true);
  EXPECT_EQ(refused([](Given&) {}, 4).status, CKPT_INVALID);
  EXPECT_EQ(refused([](Given&) {}, CKPT_TABLE_CHANGES | CKPT_TABLE_DIGESTS).status, CKPT_INVALID);
  RankTable again = table_of(20);
  save_alone(world, "s1", again);
  again.put(7, 1);
  again.removed = {7};
  const Alone both = save_alone(world, "s2", again);
  EXPECT_EQ(both.outcome.status, CKPT_MISMATCH);
  EXPECT_NE(both.outcome.text.find("id 7 is in row"), std::string::npos) << both.outcome.text;
}

// Of what a copy or a mirror has, no byte is sent again.
TEST_P(TableRuns, AreCopiedAndMirroredByTheirNews) {
  const StorePlace place(GetParam()), mirror("dir"), copies("dir");
  World world(place.uri(), 2, {}, {{"mirror", mirror.uri().c_str()}});
  const Store to = open_store(copies.uri());
  std::vector<RankTable> ranks{table_of(2000), {}};
  for (uint64_t id = 20000; id < 22000; id++) ranks[1].put(id, 1);
  for (const std::string label : {"s1", "s2"}) {
    commit(world, label, ranks);
    ckpt_job* raw = nullptr;
    Error error;
    ASSERT_EQ(ckpt_session_mirror(world.sessions[0].get(), &raw, error), CKPT_OK) << error.text();
    const Job mirrored(raw);
    EXPECT_EQ(ckpt_job_wait(mirrored.get(), CKPT_JOB_DONE, -1, error), CKPT_OK) << error.text();
    ASSERT_EQ(ckpt_job_new(&raw, nullptr), CKPT_OK);
    const Job copied(raw);
    const Options bag = options({});
    ASSERT_EQ(ckpt_options_set_job(bag.get(), copied.get(), nullptr), CKPT_OK);
    const Reader reader = open_reader(world.store, "label:" + label);
    ASSERT_EQ(ckpt_reader_copy(reader.get(), to.get(), bag.get(), nullptr, error), CKPT_OK) << error.text();
    const ckpt_checkpoint_info info = info_of(reader);
    EXPECT_EQ(info.base_bytes != 0, label == "s2");
    EXPECT_EQ(stats_of(copied).bytes_reused, info.base_bytes);
    EXPECT_LT(stats_of(copied).bytes_written, info.bytes - info.base_bytes) << "that of MANIFEST is not counted";
    for (const std::string& uri : {mirror.uri(), copies.uri()}) {
      for (const auto& file : std::filesystem::directory_iterator(uri + "/" + info.id))
        EXPECT_EQ(file.hard_link_count() == 2, label == "s2" && file.path().filename().string()[0] == 'B')
            << file.path();
      const Reader there = open_reader(open_store(uri), "label:" + label);
      EXPECT_EQ(load(there, open_share(there, share_desc(CKPT_SHARE_ALL))), all_of(ranks));
    }
    ranks[0].put(7, 2);
    ranks[1].remove(20001);
  }
}

TEST_P(TableRuns, ComeFromACacheToo) {
  const StorePlace place(GetParam());
  const Scratch scratch;
  std::vector<Setting> settings;  // a store that is near has no cache
  if (GetParam() == "s3") settings = {{"cache", scratch.path().c_str()}, {"cache_bytes", int64_t{1} << 30}};
  World world(place.uri(), 1);
  RankTable table = table_of(5000);
  ASSERT_EQ(save_alone(world, "s1", table).outcome.status, CKPT_OK);
  for (uint64_t id = 0; id < 5000; id += 50) table.put(id * 7, 1);
  ASSERT_EQ(save_alone(world, "s2", table).outcome.status, CKPT_OK);
  for (const char* label : {"s1", "s2", "s2"}) {  // s2 finds in it what it shares with s1, and then all
    const Store store = open_store(place.uri(), settings);
    const Reader reader = open_reader(store, label);
    const Rows rows = load(reader, open_share(reader, share_desc(CKPT_SHARE_ALL)));
    EXPECT_EQ(rows.size(), table.rows.size());
    EXPECT_EQ(rows == table.rows, label == std::string("s2"));
  }
}

TEST_P(TableRuns, HaveTheirNamesForThemselves) {
  const StorePlace place(GetParam());
  World world(place.uri(), 1);
  const Save made = new_save(world.sessions[0], "column");
  TestTable reserved{.ids = {1}, .columns = {{"run-1", CKPT_DTYPE_U8, {1}}}};
  Error error;
  EXPECT_EQ(reserved.try_add(made.get(), "t", error), CKPT_INVALID);
  RankTable table = table_of(20);
  save_alone(world, "s1", table);
  table.put(7, 1);
  const Bytes bytes = pattern(8, 1);
  const Alone second = save_alone(world, "s2", table, {kOn}, [&](ckpt_save* save) {
    ::add(save, "t/run-1/ids", whole(CKPT_DTYPE_U8, {8}), bytes);
  });
  EXPECT_EQ(second.outcome.status, CKPT_EXISTS) << second.outcome.text;
}

}  // namespace
