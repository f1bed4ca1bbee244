// A store with option mirror through the C API: what sessions, jobs, listings and loads make of it.
#include "api/ranks.h"

namespace ckpt_test {
namespace {

CKPT_ON_EVERY_STORE(Mirror);

const Bytes& data_of(int step) {
  static std::map<int, Bytes> made;
  if (!made.contains(step)) made[step] = pattern(100000, static_cast<unsigned>(step));
  return made[step];
}

void commit(World& world, int step, const std::vector<Setting>& settings = {}) {
  const Bytes& data = data_of(step);
  world.commit("s" + std::to_string(step), settings,
               [&](uint32_t, ckpt_save* save) { add(save, "w", whole(CKPT_DTYPE_U8, {100000}), data); });
}

Job follow(const World& world) {
  ckpt_job* made = nullptr;
  Error error;
  EXPECT_EQ(ckpt_session_mirror(world.sessions[0].get(), &made, error), CKPT_OK) << error.text();
  return Job(made);
}

ckpt_status wait(const Job& job) { return ckpt_job_wait(job.get(), CKPT_JOB_DONE, -1, nullptr); }

TEST_P(Mirror, HasWhatSeveralRanksCommittedOnceItsJobIsDone) {
  const StorePlace there("dir");
  World world(place.uri(), 2, {}, {{"mirror", there.uri().c_str()}});
  commit(world, 1);
  const Job job = follow(world);
  EXPECT_EQ(wait(job), CKPT_OK);
  EXPECT_EQ(stats_of(job).bytes_done, stats_of(job).bytes_total);
  EXPECT_EQ(load_one(open_reader(open_store(there.uri())), "w", whole(CKPT_DTYPE_U8, {100000}), 100000), data_of(1));
  const auto listed = entries_of(world.store);  // a look by id does not ask the mirror
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0].flags, uint32_t{CKPT_CHECKPOINT_MIRRORED});
  ckpt_report* report = nullptr;
  ASSERT_EQ(ckpt_job_report(job.get(), &report, nullptr), CKPT_OK);
  EXPECT_EQ(ckpt_report_count(report), 0u);
  ckpt_report_free(report);
}

TEST_P(Mirror, IsRefusedWhereItCannotBe) {
  Error error;
  ckpt_store* store = nullptr;
  EXPECT_EQ(ckpt_store_open(&store, place.uri().c_str(), options({{"mirror", place.uri().c_str()}}).get(), error),
            CKPT_INVALID);
  EXPECT_EQ(ckpt_store_open(&store, place.uri().c_str(), options({{"mirror", "gopher://x"}}).get(), error),
            CKPT_UNSUPPORTED);
  ckpt_session* session = nullptr;
  EXPECT_EQ(ckpt_session_open(&session, open_store(place.uri()).get(), 0, 1, nullptr,
                              options({{"mirror_keep_last", 2}}).get(), error),
            CKPT_INVALID);
  ckpt_job* job = nullptr;
  World alone(place.uri(), 1);
  EXPECT_EQ(ckpt_session_mirror(alone.sessions[0].get(), &job, error), CKPT_INVALID);
  EXPECT_NE(error.text().find("option mirror"), std::string::npos) << error.text();
  const StorePlace there("dir"), other(GetParam());
  World world(other.uri(), 2, {}, {{"mirror", there.uri().c_str()}});
  EXPECT_EQ(ckpt_session_mirror(world.sessions[1].get(), &job, error), CKPT_INVALID);
  EXPECT_NE(error.text().find("rank 0"), std::string::npos) << error.text();
  EXPECT_EQ(ckpt_session_mirror(nullptr, &job, error), CKPT_INVALID);
  EXPECT_EQ(ckpt_session_mirror(world.sessions[0].get(), nullptr, error), CKPT_INVALID);
}

}  // namespace
}  // namespace ckpt_test
