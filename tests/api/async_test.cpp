// Jobs: staged is not committed, the budget holds, waiting may time out, cancelling and freeing end a save for all
// ranks.
#include <atomic>
#include <thread>

#include "api/ranks.h"
#include "api/tables.h"

namespace ckpt_test {
namespace {

CKPT_ON_EVERY_STORE(Async);

Job start_in_place(const Save& save) {
  ckpt_job* job = nullptr;
  Error error;
  EXPECT_EQ(ckpt_save_start_in_place(save.get(), &job, error), CKPT_OK) << error.text();
  return Job(job);
}

ckpt_status wait(const Job& job, int32_t state, int64_t timeout_ms = -1) {
  Error error;
  return ckpt_job_wait(job.get(), state, timeout_ms, error);
}

constexpr uint64_t kBudget = 8 << 20;

// Twenty times the budget, in tensors of many sizes.
struct State {
  explicit State(uint64_t seed) {
    for (uint64_t total = 0, i = 0; total < 20 * kBudget; i++) {
      memory.push_back(pattern((uint64_t{1} << (12 + i % 12)) + 4 * (i % 7), seed + i));
      total += memory.back().size();
    }
  }
  void add_to(ckpt_save* save) const {
    for (size_t i = 0; i < memory.size(); i++)
      add(save, "t" + std::to_string(i), whole(CKPT_DTYPE_U32, {static_cast<int64_t>(memory[i].size() / 4)}),
          memory[i]);
  }
  void overwrite() {
    for (auto& bytes : memory) std::fill(bytes.begin(), bytes.end(), static_cast<unsigned char>(0xdd));
  }
  void expect_in(const Reader& reader) const {
    for (size_t i = 0; i < memory.size(); i++) {
      auto desc = whole(CKPT_DTYPE_U32, {static_cast<int64_t>(memory[i].size() / 4)});
      EXPECT_TRUE(load_one(reader, "t" + std::to_string(i), desc, memory[i].size()) == memory[i]) << i;
    }
  }
  std::vector<Bytes> memory;
};

// The declaration list of the replica group is itself larger than a block here.
TEST_P(Async, TheBudgetHoldsForVeryManyNames) {
  World world(place.uri(), 2);
  const Bytes data = pattern(4, 1);
  std::vector<std::thread> ranks;
  for (uint32_t rank = 0; rank < 2; rank++)
    ranks.emplace_back([&, rank] {
      Save save = new_save(world.sessions[rank], "many", {{"staging_bytes", static_cast<int64_t>(kBudget)}});
      for (int i = 0; i < 60000; i++)
        add(save.get(), "layer.with.a.name.of.the.usual.length." + std::to_string(i), whole(CKPT_DTYPE_F32, {1}), data);
      Job job = start(save);
      EXPECT_EQ(wait(job, CKPT_JOB_COMMITTED), CKPT_OK);
      EXPECT_LE(stats_of(job).staging_peak_bytes, kBudget);
    });
  for (auto& rank : ranks) rank.join();
}

TEST_P(Async, MemoryIsTheCallersOnceStagedAndTheBudgetHolds) {
  World world(place.uri(), 1);
  const State original(1);
  for (const char* codec : {"none", "bitplane-lz4"}) {
    State state = original;
    Save save =
        new_save(world.sessions[0], codec, {{"compression", codec}, {"staging_bytes", static_cast<int64_t>(kBudget)}});
    state.add_to(save.get());
    Job job = start(save);
    EXPECT_EQ(wait(job, CKPT_JOB_STAGED), CKPT_OK);
    state.overwrite();
    EXPECT_GE(ckpt_job_state(job.get()), CKPT_JOB_STAGED);
    Error error;
    EXPECT_EQ(ckpt_job_wait(job.get(), CKPT_JOB_COMMITTED, -1, error), CKPT_OK) << error.text();
    auto stats = stats_of(job);
    EXPECT_EQ(stats.state, CKPT_JOB_COMMITTED);
    EXPECT_GT(stats.staging_peak_bytes, 0u);
    EXPECT_LE(stats.staging_peak_bytes, kBudget) << codec;
    EXPECT_GE(stats.bytes_total, 20 * kBudget);
    EXPECT_EQ(stats.bytes_done, stats.bytes_total);
    EXPECT_LE(stats.stage_us, stats.write_us);
    EXPECT_LE(stats.write_us, stats.commit_us);
    EXPECT_LE(stats.commit_us, stats.total_us);
    original.expect_in(open_reader(world.store, codec));
  }
}

// What the caller waits for is the copy: not the store, nor another rank.
TEST_P(Async, AStateThatFitsTheBudgetIsStagedBeforeRank0HasBegun) {
  for (const int64_t threads : {1, 2}) {
    World world(place.uri() + std::to_string(threads), 3);
    const Bytes data = pattern(3 << 20, 1);
    Bytes memory = data;
    Save early = new_save(world.sessions[1], "a", {{"threads", threads}});
    add(early.get(), "w", box(CKPT_DTYPE_U8, {2, 3 << 20}, {1, 0}, {1, 3 << 20}), memory);
    Save empty = new_save(world.sessions[2], "a");
    const Job job = start(early), of_nothing = start(empty);
    EXPECT_EQ(wait(job, CKPT_JOB_STAGED), CKPT_OK);
    EXPECT_EQ(wait(of_nothing, CKPT_JOB_STAGED), CKPT_OK);
    std::fill(memory.begin(), memory.end(), static_cast<unsigned char>(0xdd));
    EXPECT_EQ(ckpt_job_state(job.get()), CKPT_JOB_STAGED);
    Save late = new_save(world.sessions[0], "a");
    add(late.get(), "w", box(CKPT_DTYPE_U8, {2, 3 << 20}, {0, 0}, {1, 3 << 20}), data);
    run(late);
    for (const Job* one : {&job, &of_nothing}) EXPECT_EQ(wait(*one, CKPT_JOB_COMMITTED), CKPT_OK);
    Bytes both = data;
    both.insert(both.end(), data.begin(), data.end());
    EXPECT_TRUE(load_one(open_reader(world.store), "w", whole(CKPT_DTYPE_U8, {2, 3 << 20}), both.size()) == both);
  }
}

TEST_P(Async, ALabelThatIsTakenEndsTheSaveForAllThoughItsCopyWasMade) {
  World world(place.uri(), 2);
  const Bytes data = pattern(100, 1);
  const auto fill = [&](uint32_t, ckpt_save* save) { add(save, "w", whole(CKPT_DTYPE_U8, {100}), data); };
  world.commit("a", {}, fill);
  std::vector<Save> saves;
  std::vector<Job> jobs;
  for (uint32_t rank = 0; rank < 2; rank++) {
    saves.push_back(new_save(world.sessions[rank], "a"));
    fill(rank, saves[rank].get());
  }
  jobs.push_back(start(saves[1]));
  EXPECT_EQ(wait(jobs[0], CKPT_JOB_STAGED), CKPT_OK);
  jobs.push_back(start(saves[0]));
  for (const Job& job : jobs) EXPECT_EQ(wait(job, CKPT_JOB_COMMITTED), CKPT_EXISTS);
  for (const Job& job : jobs) EXPECT_EQ(wait(job, CKPT_JOB_STAGED), CKPT_OK) << "it was, whatever came then";
  EXPECT_EQ(ckpt_job_state(jobs[0].get()), CKPT_JOB_FAILED);
  EXPECT_EQ(committed_count(world.store), 1u);
  world.commit("b", {}, fill);
}

TEST_P(Async, ALabelThatIsTakenIsToldAfterStagedOrIfTheBudgetIsTooSmallForThatBefore) {
  World world(place.uri(), 1);
  const State state(2);
  const Bytes data = pattern(100, 1);
  world.commit("a", {}, [&](uint32_t, ckpt_save* save) { add(save, "w", whole(CKPT_DTYPE_U8, {100}), data); });
  const Bytes large = pattern(64 << 20, 1);  // the refusal is there before the copy
  for (int i = 0; i < 5; i++) {
    Save save = new_save(world.sessions[0], "a");
    add(save.get(), "w", whole(CKPT_DTYPE_U8, {64 << 20}), large);
    const Job job = start(save);
    EXPECT_EQ(wait(job, CKPT_JOB_STAGED), CKPT_OK) << i;
    EXPECT_EQ(wait(job, CKPT_JOB_COMMITTED), CKPT_EXISTS) << i;
  }
  Save save = new_save(world.sessions[0], "a", {{"staging_bytes", static_cast<int64_t>(kBudget)}});
  state.add_to(save.get());
  EXPECT_EQ(wait(start(save), CKPT_JOB_STAGED), CKPT_EXISTS);
}

TEST_P(Async, ARankThatFailsBeforeItAsksTheStoreEndsTheSaveForAll) {
  World world(place.uri(), 2);
  const Bytes data = pattern(100, 1);
  TestTable twice{.ids = {7, 8, 7}};
  for (const uint32_t failing : {0u, 1u}) {
    Save bad = new_save(world.sessions[failing], "a"), good = new_save(world.sessions[1 - failing], "a");
    twice.add(bad.get());
    add(good.get(), "w", whole(CKPT_DTYPE_U8, {100}), data);
    const Job job = start(bad);
    EXPECT_EQ(wait(job, CKPT_JOB_STAGED), CKPT_MISMATCH);
    Error error;
    EXPECT_EQ(ckpt_save_run(good.get(), error), CKPT_ABORTED) << "at once, not at the deadline of ten minutes";
    EXPECT_EQ(error.detail("rank"), std::to_string(failing));
  }
  EXPECT_EQ(committed_count(world.store), 0u);
  world.commit("b", {}, [&](uint32_t, ckpt_save* save) { add(save, "w", whole(CKPT_DTYPE_U8, {100}), data); });
}

TEST_P(Async, ASaveInPlaceTakesNoCopyAndGivesTheMemoryBackOnceStaged) {
  World world(place.uri(), 2);
  State state(5);
  std::vector<Save> saves;
  std::vector<Job> jobs;
  for (const Session& session : world.sessions) {
    saves.push_back(new_save(session, "in-place"));
    state.add_to(saves.back().get());
    jobs.push_back(start_in_place(saves.back()));
  }
  for (const Job& job : jobs) EXPECT_EQ(wait(job, CKPT_JOB_STAGED), CKPT_OK);
  const State expected(5);
  state.overwrite();
  for (const Job& job : jobs) EXPECT_EQ(wait(job, CKPT_JOB_COMMITTED), CKPT_OK);
  expected.expect_in(open_reader(world.store));
}

TEST_P(Async, ProgressAndStatesOnlyGrow) {
  World world(place.uri(), 1);
  State state(3);
  Save save = new_save(world.sessions[0], "a", {{"staging_bytes", static_cast<int64_t>(kBudget)}});
  state.add_to(save.get());
  Job job = start(save);
  ckpt_job_stats before{};
  while (wait(job, CKPT_JOB_COMMITTED, 1) == CKPT_TIMEOUT) {
    auto now = stats_of(job);
    EXPECT_GE(now.state, before.state);
    EXPECT_GE(now.bytes_done, before.bytes_done);
    EXPECT_GE(now.bytes_written, before.bytes_written);
    EXPECT_GE(now.io_count, before.io_count);
    EXPECT_LE(now.bytes_done, now.bytes_total);
    before = now;
  }
  auto end = stats_of(job);
  EXPECT_EQ(end.state, CKPT_JOB_COMMITTED);
  EXPECT_EQ(end.bytes_done, end.bytes_total);
  EXPECT_GE(end.bytes_written, end.bytes_total);
  EXPECT_GT(end.chunk_count, 0u);
}

// Rank 0 of two waits for the part of rank 1, which never comes. So the save stands still for as long as a test needs.
struct Stuck {
  explicit Stuck(const StorePlace& place, const std::vector<Setting>& settings = {}) : world(place.uri(), 2) {
    world.commit("good", {}, [&](uint32_t, ckpt_save* save) { add(save, "w", whole(CKPT_DTYPE_U8, {100}), data); });
    save = new_save(world.sessions[0], "stuck", settings);
    add(save.get(), "w", whole(CKPT_DTYPE_U8, {100}), data);
    job = start(save);
  }
  void expect_only_good() {
    EXPECT_EQ(committed_count(world.store), 1u);
    EXPECT_EQ(load_one(open_reader(world.store), "w", whole(CKPT_DTYPE_U8, {100}), 100), data);
    world.commit("after", {}, [&](uint32_t, ckpt_save* next) { add(next, "w", whole(CKPT_DTYPE_U8, {100}), data); });
  }
  Bytes data = pattern(100, 1);
  World world;
  Save save;
  Job job;
};

TEST_P(Async, ACancelledSaveIsCommittedByNobody) {
  Stuck stuck(place);
  std::thread waiter([&] { EXPECT_EQ(wait(stuck.job, CKPT_JOB_COMMITTED), CKPT_CANCELLED); });
  ckpt_job_cancel(stuck.job.get());
  ckpt_job_cancel(stuck.job.get());
  waiter.join();
  EXPECT_EQ(ckpt_job_state(stuck.job.get()), CKPT_JOB_CANCELLED);
  ckpt_job_cancel(stuck.job.get());
  Save other = new_save(stuck.world.sessions[1], "stuck");
  add(other.get(), "w", whole(CKPT_DTYPE_U8, {100}), stuck.data);
  Error error;
  EXPECT_EQ(ckpt_save_run(other.get(), error), CKPT_ABORTED) << error.text();
  EXPECT_EQ(error.detail("rank"), "0");
  stuck.expect_only_good();
}

TEST_P(Async, AnotherRanksCancelOfASaveInPlaceAbortsItForAll) {
  Stuck stuck(place);
  EXPECT_EQ(wait(stuck.job, CKPT_JOB_WRITTEN), CKPT_OK);
  State state(1);
  Save other = new_save(stuck.world.sessions[1], "stuck");
  state.add_to(other.get());
  Job job = start_in_place(other);
  ckpt_job_cancel(job.get());
  EXPECT_EQ(wait(job, CKPT_JOB_COMMITTED), CKPT_CANCELLED);
  state.overwrite();
  EXPECT_EQ(wait(stuck.job, CKPT_JOB_COMMITTED), CKPT_ABORTED) << "at once, not at the deadline of ten minutes";
  stuck.expect_only_good();
}

TEST_P(Async, AFailureBeforeASaveBeganAbortsItForAllAndTheSaveIsOver) {
  World world(place.uri(), 2);
  const Bytes data = pattern(100, 1);
  for (uint32_t failing : {0u, 1u}) {
    Save bad = new_save(world.sessions[failing], "a"), good = new_save(world.sessions[1 - failing], "a");
    for (const Save* save : {&bad, &good}) add(save->get(), "w", whole(CKPT_DTYPE_U8, {100}), data);
    Error error;
    ASSERT_EQ(ckpt_save_set_attr(bad.get(), "not-there", "key", "value", error), CKPT_OK) << error.text();
    ckpt_job* job = nullptr;
    EXPECT_EQ(failing ? ckpt_save_run(bad.get(), error) : ckpt_save_start(bad.get(), &job, error), CKPT_NOT_FOUND);
    EXPECT_EQ(error.detail("tensor"), "not-there");
    EXPECT_EQ(ckpt_save_run(good.get(), error), CKPT_ABORTED) << "at once, not at the deadline of ten minutes";
    EXPECT_EQ(error.detail("rank"), std::to_string(failing));
    EXPECT_EQ(ckpt_save_run(bad.get(), error), CKPT_INVALID) << "a save runs once, also where it fails";
    EXPECT_EQ(committed_count(world.store), 0u);
  }
  world.commit("a", {}, [&](uint32_t, ckpt_save* next) { add(next, "w", whole(CKPT_DTYPE_U8, {100}), data); });
}

TEST_P(Async, ARankThatWaitedInVainForRank0AbortsTheSaveForAll) {
  World world(place.uri(), 2);
  const Bytes data = pattern(100, 1);
  Save early = new_save(world.sessions[1], "a", {{"timeout_ms", 50}}), late = new_save(world.sessions[0], "a");
  for (const Save* save : {&early, &late}) add(save->get(), "w", whole(CKPT_DTYPE_U8, {100}), data);
  Error error;
  EXPECT_EQ(ckpt_save_run(early.get(), error), CKPT_TIMEOUT) << error.text();
  EXPECT_EQ(ckpt_save_run(late.get(), error), CKPT_ABORTED) << "at once, not at the deadline of ten minutes";
  EXPECT_EQ(error.detail("rank"), "1");
  EXPECT_EQ(error.detail("status"), "TIMEOUT");
}

TEST_P(Async, OfTwoSavesInTheBackgroundTheOneStartedLastIsTheNewest) {
  World world(place.uri(), 1);
  const Bytes data = pattern(100, 1);
  for (int round = 0; round < 50; round++) {
    std::vector<Save> saves;
    std::vector<Job> jobs;
    for (const char* which : {"a", "b"}) {
      saves.push_back(new_save(world.sessions[0], which + std::to_string(round)));
      add(saves.back().get(), "w", whole(CKPT_DTYPE_U8, {100}), data);
      jobs.push_back(start(saves.back()));
    }
    for (const Job& job : jobs) EXPECT_EQ(wait(job, CKPT_JOB_COMMITTED), CKPT_OK);
    EXPECT_EQ(find(world.store).label, "b" + std::to_string(round));
  }
}

TEST_P(Async, AJobKeepsWhatItWasMadeFromAliveUntilItIsFreed) {
  Job job;
  {
    World world(place.uri(), 1);
    const Bytes data = pattern(100, 1);
    Save save = new_save(world.sessions[0], "a");
    add(save.get(), "w", whole(CKPT_DTYPE_U8, {100}), data);
    job = start(save);
    EXPECT_EQ(wait(job, CKPT_JOB_STAGED), CKPT_OK);
  }
  EXPECT_EQ(wait(job, CKPT_JOB_COMMITTED, INT64_MAX), CKPT_OK);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the job's thread is gone as well
  open_reader(open_store(place.uri()), "a");
}

TEST_P(Async, FreeingARunningJobCancelsItAndReturnsWhenItIsQuiet) {
  Stuck stuck(place);
  stuck.job.reset();
  stuck.expect_only_good();
  State state(4);
  {
    Save save = new_save(stuck.world.sessions[0], "freed", {{"staging_bytes", static_cast<int64_t>(kBudget)}});
    state.add_to(save.get());
    Job job = start(save);
  }
  state.memory.clear();  // the sanitizer sees any later read of it
  EXPECT_EQ(committed_count(stuck.world.store), 2u);
}

TEST_P(Async, TwoSavesInFlightAreBothCommitted) {
  World world(place.uri(), 2);
  const State first(1), second(9);
  std::vector<Save> saves;
  std::vector<Job> jobs;
  for (uint32_t rank = 0; rank < 2; rank++)
    for (auto [label, state] : {std::pair{"a", &first}, std::pair{"b", &second}}) {
      saves.push_back(new_save(world.sessions[rank], label, {{"staging_bytes", static_cast<int64_t>(kBudget)}}));
      state->add_to(saves.back().get());
      jobs.push_back(start(saves.back()));
    }
  for (auto& job : jobs) {
    finish(job, CKPT_JOB_COMMITTED);
  }
  first.expect_in(open_reader(world.store, "a"));
  second.expect_in(open_reader(world.store, "b"));
}

}  // namespace
}  // namespace ckpt_test
