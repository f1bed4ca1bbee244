// Saves that write only what changed: what they share, what they write, and that no checkpoint needs another one.
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <random>

#include "api/process.h"
#include "api/ranks.h"

using namespace ckpt_test;

namespace {

constexpr size_t kMiB = 1 << 20;
const Setting kOn{"incremental", "on"};

// What a rank saves: tensors by name, and an object too large for an index.
using State = std::map<std::string, Bytes>;

struct Saved {
  ckpt_job_stats stats{};
  std::vector<Found> reused;
};

Saved save(const Session& session, const std::string& label, const State& state, std::vector<Setting> settings = {kOn},
           bool in_background = true) {
  Save made = new_save(session, label, settings);
  for (const auto& [name, bytes] : state)
    add(made.get(), name, whole(CKPT_DTYPE_U8, {static_cast<int64_t>(bytes.size())}), bytes);
  add_object(made.get(), "object", CKPT_OBJECT_SHARED, pattern(9000, 77));
  Saved saved;
  if (in_background) {
    const Job job = start(made);
    finish(job, CKPT_JOB_COMMITTED);
    saved.stats = stats_of(job);
  } else {
    run(made);
  }
  ckpt_report* report = nullptr;
  EXPECT_EQ(ckpt_save_report(made.get(), &report, nullptr), CKPT_OK);
  saved.reused = those_of(findings_of(Report(report).get()), CKPT_FINDING_REUSED);
  return saved;
}

// Every byte is what the state says, and a full verification finds nothing.
void expect_sound(const Store& store, const std::string& selector, const State& state) {
  Reader reader = open_reader(store, selector);
  ASSERT_TRUE(reader) << selector;
  for (const auto& [name, bytes] : state)
    EXPECT_TRUE(load_one(reader, name, whole(CKPT_DTYPE_U8, {static_cast<int64_t>(bytes.size())}), bytes.size()) ==
                bytes)
        << selector << " " << name;
  Bytes object(9000);
  Error error;
  Load load = new_load(reader);
  EXPECT_EQ(ckpt_load_add_object(load.get(), "object", 0, object.data(), object.size(), error), CKPT_OK);
  run(load);
  EXPECT_TRUE(object == pattern(9000, 77));
  const auto found = verify(reader.get());
  EXPECT_TRUE(found.empty()) << to_text(found);
}

// Frozen weights and a few that are trained.
State lora(int step) {
  State state;
  for (int i = 0; i < 6; i++) state["frozen" + std::to_string(i)] = pattern(kMiB + 1000 * i, i);
  state["trained"] = pattern(100000, 1000 + step);
  return state;
}

size_t bytes_of(const State& state) {
  size_t sum = 0;
  for (const auto& [name, bytes] : state) sum += bytes.size();
  return sum;
}

std::vector<std::string> bases_in(const std::string& directory) {
  auto names = names_in(directory);
  std::erase_if(names, [](const std::string& name) { return !name.starts_with("BASE_"); });
  return names;
}

struct stat stat_of(const std::string& path) {
  struct stat found{};
  EXPECT_EQ(::stat(path.c_str(), &found), 0) << path;
  return found;
}

CKPT_ON_EVERY_STORE(Incremental);

class InDirectory : public ::testing::Test {
 protected:
  std::string dir(const std::string& id) const { return uri + "/" + id; }
  Scratch scratch;
  const std::string uri = scratch / "store";
  Store store = open_store(uri);
};
using Shared = InDirectory;

}  // namespace

TEST_P(Incremental, CodecsAreComparedAsTheyAreStored) {
  Store store = open_store(place.uri());
  Session session = open_session(store);
  State state;
  for (int i = 0; i < 4; i++) state["t" + std::to_string(i)] = Bytes(700000 + i, static_cast<unsigned char>(i));
  for (const char* codec : {"lz4", "bitplane-lz4", "auto"}) {
    const std::string label = codec;
    save(session, label + "1", state, {kOn, {"compression", codec}});
    state["t1"][350000]++;
    const Saved next = save(session, label + "2", state, {kOn, {"compression", codec}});
    ASSERT_EQ(next.reused.size(), 1u) << codec;
    expect_sound(store, "label:" + label + "2", state);
  }
  const Saved other = save(session, "raw", state);  // nothing has these bytes
  EXPECT_GE(other.stats.bytes_written, 4 * 700000u);
  expect_sound(store, "label:raw", state);
}

// Chunks of 4096 bytes, of which any may change, in tensors of any size: they are left out in the middle of blocks.
TEST_P(Incremental, AnyChunksMayChange) {
  Store store = open_store(place.uri());
  Session session = open_session(store, 0, 1, nullptr, {{"chunk_bytes", 4096}});
  std::mt19937 random(5);
  State state;
  for (int i = 0; i < 40; i++) state["t" + std::to_string(i)] = pattern(1 + random() % 60000, i);
  state["large"] = pattern(3 * kMiB, 99);
  for (int step = 1; step <= 12; step++) {
    const Saved saved = save(session, "s" + std::to_string(step), state, {kOn}, step % 3 != 0);
    EXPECT_EQ(saved.reused.size(), step == 1 ? 0u : 1u);
    expect_sound(store, "label:s" + std::to_string(step), state);
    for (auto& [name, bytes] : state)
      if (random() % 3 == 0)
        for (int i = 0; i < 3; i++) bytes[random() % bytes.size()]++;
    if (step == 6) state["t3"] = pattern(50000, 1234);  // another size
    if (step == 7) state.erase("t5");
  }
}

TEST_P(Incremental, TheOptionIsOffByDefaultAndTheSavesOwnCounts) {
  Store store = open_store(place.uri());
  Session plain = open_session(store);
  save(plain, "s1", lora(1), {});
  EXPECT_TRUE(save(plain, "s2", lora(1), {}).reused.empty());
  Session on = open_session(store, 0, 1, nullptr, {kOn});
  EXPECT_EQ(save(on, "s3", lora(1), {}).reused.size(), 1u) << "of the latest, which another session saved";
  const Saved off = save(on, "s4", lora(1), {{"incremental", "off"}});
  EXPECT_TRUE(off.reused.empty());
  EXPECT_GE(off.stats.bytes_written, bytes_of(lora(1)));
}

TEST_P(Incremental, ABaseCanBeNamed) {
  Store store = open_store(place.uri());
  Session session = open_session(store);
  save(session, "s1", lora(1));
  State other;
  other["another"] = pattern(kMiB, 5);
  save(session, "s2", other);
  EXPECT_TRUE(save(session, "s3", lora(1), {kOn}).reused.empty())
      << "the newest has the object, in a base that is dead";
  const Saved named = save(session, "s4", lora(1), {kOn, {"base", "label:s1"}});
  ASSERT_EQ(named.reused.size(), 1u);
  EXPECT_EQ(named.reused[0].name, "s1.1.1");
  EXPECT_GE(named.reused[0].count, 6u);
  const Saved none = save(session, "s5", lora(1), {kOn, {"base", "label:none"}});
  ASSERT_EQ(none.reused.size(), 1u);
  EXPECT_EQ(none.reused[0].status, CKPT_NOT_FOUND) << none.reused[0].text;
  expect_sound(store, "label:s5", lora(1));
}

// That most of the base has changed is known only once all is hashed, and staged memory was given back.
TEST_P(Incremental, OfAFileThatIsMostlyDeadAfterAllWhatIsUsedIsWrittenAgain) {
  const Store store = open_store(place.uri());
  Session session = open_session(store);
  State state{{"frozen", pattern(2 * kMiB + 5, 1)}, {"trained", pattern(9 * kMiB, 2)}};
  for (const bool in_background : {true, false}) {
    save(session, "first", state, {{"on_existing", "replace"}});
    state["trained"] = pattern(9 * kMiB, 3 + in_background);
    const Saved saved = save(session, "second", state, {kOn, {"on_existing", "replace"}}, in_background);
    EXPECT_TRUE(saved.reused.empty()) << saved.reused[0].text;
    expect_sound(store, "label:second", state);
    const Saved half = save(session, "third", state, {kOn, {"most_dead", "1"}, {"on_existing", "replace"}});
    ASSERT_EQ(half.reused.size(), 1u);
    EXPECT_EQ(half.reused[0].size, 11 * kMiB + 5 + 9000) << "what was written again lies in the own part now";
    expect_sound(store, "label:third", state);
  }
}

TEST_P(Incremental, RanksReuseTheirOwnParts) {
  World world(place.uri(), 3);
  const Ints shape{6, 100000};
  Bytes rows = pattern(600000, 1), both = pattern(500000, 2);
  for (int step = 1; step <= 4; step++) {
    rows[static_cast<size_t>(step)]++;  // of rank 0
    world.commit("s" + std::to_string(step), {kOn}, [&](uint32_t rank, ckpt_save* made) {
      add(made, "rows", box(CKPT_DTYPE_U8, shape, {2 * rank, 0}, {2, 100000}), rows.data() + 200000 * rank, 200000);
      add(made, "both", whole(CKPT_DTYPE_U8, {500000}), both);
    });
    Reader reader = open_reader(world.store);
    EXPECT_TRUE(load_one(reader, "rows", whole(CKPT_DTYPE_U8, shape), rows.size()) == rows) << step;
    EXPECT_TRUE(load_one(reader, "both", whole(CKPT_DTYPE_U8, {500000}), both.size()) == both) << step;
  }
}

// ---- other numbers of ranks ----

constexpr int64_t kRow = 300000;
const std::vector<Setting> kSmallChunks{{"chunk_bytes", 65536}};

// All ranks of a world save their share of 12 rows. Returns the bytes of the checkpoint's parts, and of these what is
// in parts of earlier ones.
ckpt_checkpoint_info save_rows(World& world, const std::string& label, const Bytes& rows) {
  const Ints shape{12, kRow};
  const auto each = static_cast<int64_t>(12 / world.sessions.size());
  world.commit(label, {kOn}, [&](uint32_t rank, ckpt_save* made) {
    add(made, "rows", box(CKPT_DTYPE_U8, shape, {rank * each, 0}, {each, kRow}), rows.data() + rank * each * kRow,
        static_cast<uint64_t>(each * kRow));
  });
  const Reader reader = open_reader(world.store, "label:" + label);
  EXPECT_TRUE(load_one(reader, "rows", whole(CKPT_DTYPE_U8, shape), rows.size()) == rows) << label;
  return info_of(reader);
}

// Three ranks after two, each with other rows: chunks end at the same places of the tensor.
TEST_P(Incremental, AnotherNumberOfRanksFindsWhatOthersSaved) {
  const Bytes rows = pattern(12 * kRow, 3);
  World two(place.uri(), 2, kSmallChunks);  // a store in memory lives as long as somebody has it
  save_rows(two, "s1", rows);
  World three(place.uri(), 3, kSmallChunks);
  const auto info = save_rows(three, "s2", rows);
  // Of each border between two ranks, of both saves, a chunk.
  EXPECT_LT(info.bytes - info.base_bytes, 5u * 65536 + 100000);
}

// A rank takes another's part on trust; the next save finds that most of it is dead, on any number of ranks.
TEST_P(Incremental, DeadBytesAreBoundedWhenRanksComeAndGo) {
  Bytes rows = pattern(12 * kRow, 3);
  World two(place.uri(), 2, kSmallChunks);
  save_rows(two, "s1", rows);
  World three(place.uri(), 3, kSmallChunks);
  for (int64_t at = 0; at < 11 * kRow; at += 1000) rows[static_cast<size_t>(at)]++;
  EXPECT_GT(save_rows(three, "s2", rows).bytes, 14u * kRow) << "half of all was another's part, of which a row is used";
  World one(place.uri(), 1, kSmallChunks);
  EXPECT_LT(save_rows(one, "s3", rows).bytes, 13u * kRow);
}

// ---- files ----

TEST_F(Shared, PartsHaveASecondNameAndNobodyNeedsTheFirst) {
  Session session = open_session(store);
  save(session, "s1", lora(1));
  save(session, "s2", lora(2));
  const auto bases = bases_in(dir("s2.1.1"));
  ASSERT_EQ(bases.size(), 1u);
  const struct stat first = stat_of(dir("s1.1.1") + "/PART_000"), second = stat_of(dir("s2.1.1") + "/" + bases[0]);
  EXPECT_EQ(first.st_ino, second.st_ino);
  EXPECT_EQ(second.st_nlink, 2u);
  ASSERT_EQ(ckpt_store_remove(store.get(), "s1.1.1", nullptr), CKPT_OK);
  EXPECT_EQ(stat_of(dir("s2.1.1") + "/" + bases[0]).st_nlink, 1u);
  expect_sound(store, "s2.1.1", lora(2));
  std::filesystem::rename(dir("s2.1.1"), dir("moved"));
  expect_sound(store, "moved", lora(2));
}

TEST_F(Shared, WhatSharesNothingHasNoBase) {
  Session session = open_session(store);
  save(session, "s1", {{"t", pattern(kMiB, 1)}}, {kOn});
  save(session, "s2", {{"u", pattern(kMiB, 1)}}, {kOn});
  EXPECT_TRUE(bases_in(dir("s2.1.1")).empty()) << "the object is the same, and too little of its file (most_dead)";
  Save made = new_save(session, "s3", {kOn});
  const Bytes bytes = pattern(kMiB, 3);
  add(made.get(), "t", whole(CKPT_DTYPE_U8, {kMiB}), bytes);
  run(made);
  EXPECT_EQ(names_in(dir("s3.1.1")), (std::vector<std::string>{"MANIFEST", "PART_000"}));
}

// Each save names all files that it needs, so no chain grows, and what is prunable goes.
TEST_F(Shared, RetentionKeepsOneAndWhatItShares) {
  Session session = open_session(store);
  for (int step = 1; step <= 8; step++) {
    save(session, "s" + std::to_string(step), lora(step), {kOn, {"keep_last", 1}});
    expect_sound(store, "latest", lora(step));
    EXPECT_EQ(entries_of(uri).size(), 1u);
    EXPECT_LE(bases_in(dir("s" + std::to_string(step) + ".1.1")).size(), 2u) << step;
  }
}

// A retired part that a checkpoint shares is not overwritten, whatever is saved next.
TEST_F(Shared, FilesAreNeverRecycled) {
  Session session = open_session(store);
  State state{{"frozen", pattern(4 * kMiB, 1)}, {"trained", pattern(2 * kMiB, 2)}};
  for (int step = 1; step <= 6; step++) {
    state["trained"] = pattern(2 * kMiB, 100 + static_cast<uint64_t>(step));
    std::vector<Setting> settings{kOn, {"keep_last", 1}};
    const std::string before = "label:s" + std::to_string(step - 1);
    if (step > 1) settings.emplace_back("base", before.c_str());
    const Saved saved = save(session, "s" + std::to_string(step), state, settings);
    EXPECT_TRUE(step == 1 || saved.reused.at(0).size > 4 * kMiB) << step;
    State other{{"x", pattern(5 * kMiB, 200 + static_cast<uint64_t>(step))}};
    save(session, "other" + std::to_string(step), other, {{"keep_last", 1}});
    expect_sound(store, "label:s" + std::to_string(step), state);
    expect_sound(store, "label:other" + std::to_string(step), other);
  }
  for (const Info& info : entries_of(uri))
    for (const std::string& base : bases_in(dir(info.id)))
      for (const std::string& pooled : names_in(uri + "/.ckpt/recycled"))
        EXPECT_NE(stat_of(dir(info.id) + "/" + base).st_ino, stat_of(uri + "/.ckpt/recycled/" + pooled).st_ino);
}

TEST_F(Shared, ABaseOfWhichTooLittleIsUsedIsWrittenAnew) {
  Session session = open_session(store);
  State state;
  for (int i = 0; i < 10; i++) state["t" + std::to_string(i)] = pattern(kMiB, i);
  save(session, "s1", state);
  for (int i = 0; i < 4; i++) state["t" + std::to_string(i)] = pattern(kMiB, 100 + i);
  EXPECT_GE(save(session, "s2", state).reused.at(0).size, 6 * kMiB);
  const auto old = bases_in(dir("s2.1.1"));
  ASSERT_EQ(old.size(), 1u);
  for (int i = 4; i < 6; i++) state["t" + std::to_string(i)] = pattern(kMiB, 100 + i);
  const Saved third = save(session, "s3", state);
  EXPECT_GE(third.stats.bytes_written, 6 * kMiB) << "two that changed, and four of ten";
  EXPECT_LE(third.stats.bytes_written, 6 * kMiB + 64 * 1024);
  const auto bases = bases_in(dir("s3.1.1"));
  ASSERT_EQ(bases.size(), 1u);
  EXPECT_NE(bases, old);
  expect_sound(store, "s3.1.1", state);
  const Saved fourth = save(session, "s4", state);
  EXPECT_LE(fourth.stats.bytes_written, 64 * 1024u);
  EXPECT_GE(fourth.stats.bytes_done, 10 * kMiB) << "progress counts what was found";
}

TEST_F(Shared, DamageIsFoundInABaseAndNamed) {
  Session session = open_session(store);
  save(session, "s1", lora(1));
  save(session, "s2", lora(2));
  const std::string base = bases_in(dir("s2.1.1")).at(0), path = dir("s2.1.1") + "/" + base;
  std::string bytes = read_file(path);
  bytes[kMiB]++;
  std::filesystem::remove(path);
  write_file(path, bytes);
  const auto found = verify(open_reader(store, "s2.1.1").get());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].name.starts_with("frozen")) << found[0].text;
  EXPECT_TRUE(found[0].text.starts_with(base)) << found[0].text;
}

// A base that cannot be read, or is not the file that it says, costs time only.
TEST_F(Shared, ADamagedBaseIsNotTaken) {
  Session session = open_session(store);
  save(session, "s1", lora(1));
  std::string part = read_file(dir("s1.1.1") + "/PART_000");
  part[20]++;  // the save id in its header
  write_file(dir("s1.1.1") + "/PART_000", part);
  const Saved next = save(session, "s2", lora(1));
  ASSERT_EQ(next.reused.size(), 1u);
  EXPECT_NE(next.reused[0].status, CKPT_OK) << next.reused[0].text;
  EXPECT_EQ(names_in(dir("s2.1.1")), (std::vector<std::string>{"MANIFEST", "PART_000"}));
  expect_sound(store, "s2.1.1", lora(1));
  write_file(dir("s2.1.1") + "/MANIFEST", read_file(dir("s2.1.1") + "/MANIFEST").substr(1));
  const Saved third = save(session, "s3", lora(1));
  expect_sound(store, "s3.1.1", lora(1));
  EXPECT_GE(third.stats.bytes_written, bytes_of(lora(1)));
}

TEST_F(Shared, AnotherFileUnderTheNameOfABaseIsNotTaken) {
  Session session = open_session(store);
  save(session, "s1", lora(1));
  save(session, "s2", lora(2));
  const std::string name = bases_in(dir("s2.1.1")).at(0);
  Save made = new_save(session, "s3", {kOn});
  std::filesystem::create_directories(dir("s3.1.1"));
  write_file(dir("s3.1.1") + "/" + name, "not a part");
  const State state = lora(3);
  for (const auto& [tensor, bytes] : state)
    add(made.get(), tensor, whole(CKPT_DTYPE_U8, {static_cast<int64_t>(bytes.size())}), bytes);
  run(made);
  Reader reader = open_reader(store, "s3.1.1");
  for (const auto& [tensor, bytes] : state)
    EXPECT_TRUE(load_one(reader, tensor, whole(CKPT_DTYPE_U8, {static_cast<int64_t>(bytes.size())}), bytes.size()) ==
                bytes);
}

TEST_F(Shared, AFailedSaveLeavesNoSecondNames) {
  World world(uri, 2);
  const Bytes both = pattern(500000, 2);
  auto one = [&](uint32_t rank, ckpt_save* made) {
    ckpt_tensor_desc desc = whole(CKPT_DTYPE_U8, {500000});
    desc.replica_count = 1;
    add(made, "own" + std::to_string(rank), desc, both);
  };
  world.commit("s1", {kOn}, one);
  const auto outcomes = world.save("s2", {kOn}, [&](uint32_t rank, ckpt_save* made) {
    one(rank, made);
    add(made, "replica", whole(CKPT_DTYPE_U8, {rank == 0 ? 5 : 6}), world.keep(Bytes(rank == 0 ? 5 : 6)));
  });
  for (const auto& outcome : outcomes) EXPECT_NE(outcome.status, CKPT_OK);
  EXPECT_TRUE(bases_in(dir("s2.1.1")).empty());
  for (const char* part : {"/PART_000", "/PART_001"}) EXPECT_EQ(stat_of(dir("s1.1.1") + part).st_nlink, 1u);
  world.commit("s3", {kOn}, one);
  EXPECT_EQ(bases_in(dir("s3.1.1")).size(), 2u);
}
