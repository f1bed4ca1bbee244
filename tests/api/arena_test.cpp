// The staging memory of background saves: it exists before the first save if the session asked for it, later saves use
// it again, and it never grows beyond that.
#include <unistd.h>

#include <cstdio>

#include "api/ranks.h"

namespace ckpt_test {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int64_t kSlack = int64_t{320} << 20;  // freed memory that the sanitizer keeps
#else
constexpr int64_t kSlack = 6 << 20;
#endif

int64_t resident() {
  long pages = 0, total = 0;
  FILE* file = std::fopen("/proc/self/statm", "r");
  if (!file || std::fscanf(file, "%ld %ld", &total, &pages) != 2) ADD_FAILURE() << "no /proc/self/statm";
  if (file) std::fclose(file);
  return int64_t{pages} * sysconf(_SC_PAGESIZE);
}

ckpt_job_stats save_in_background(const Session& session, const std::string& label, const Bytes& data,
                                  const std::vector<Setting>& settings = {}) {
  Save save = new_save(session, label, settings);
  add(save.get(), "w", whole(CKPT_DTYPE_U8, {static_cast<int64_t>(data.size())}), data);
  ckpt_job* made = nullptr;
  Error error;
  EXPECT_EQ(ckpt_save_start(save.get(), &made, error), CKPT_OK) << error.text();
  Job job(made);
  EXPECT_EQ(ckpt_job_wait(job.get(), CKPT_JOB_COMMITTED, -1, error), CKPT_OK) << error.text();
  return stats_of(job);
}

TEST(Arena, TheSessionsArenaIsThereBeforeTheFirstSaveAndServesIt) {
  constexpr int64_t kArena = int64_t{512} << 20;
  Scratch scratch;
  Store store = open_store(scratch / "store");
  Bytes data = pattern(400 << 20, 1);  // more than the default budget
  int64_t before = resident();
  Session session = open_session(store, 0, 1, nullptr, {{"arena_bytes", kArena}});
  int64_t opened = resident();
  EXPECT_GE(opened - before, kArena);
  auto stats = save_in_background(session, "a", data);
  EXPECT_LE(stats.staging_peak_bytes, static_cast<uint64_t>(kArena));
  EXPECT_LE(resident() - opened, kSlack);
  session.reset();
  EXPECT_LE(resident() - before, kSlack) << "closing the session gives the arena back";
}

TEST(Arena, ABackgroundSaveWithoutABudgetKeepsRoomForAllOfTheState) {
  constexpr int64_t kState = int64_t{400} << 20;  // more than the default budget
  Scratch scratch;
  Store store = open_store(scratch / "store");
  const Bytes data = pattern(kState, 1);
  const int64_t before = resident();
  for (const auto& [budget, expected] :
       {std::pair(int64_t{0}, kState), std::pair(int64_t{64} << 20, int64_t{64} << 20)}) {
    Session session = open_session(store);
    std::vector<Setting> settings;
    if (budget) settings.emplace_back("staging_bytes", budget);
    save_in_background(session, budget ? "with" : "without", data, settings);
    EXPECT_GE(resident() - before, budget ? 0 : expected) << budget;
    EXPECT_LE(resident() - before, expected + kSlack) << budget;
  }
}

TEST(Arena, ABudgetBelowTheArenaStillHolds) {
  constexpr int64_t kBudget = 8 << 20;
  Scratch scratch;
  Store store = open_store(scratch / "store");
  Session session = open_session(store, 0, 1, nullptr, {{"arena_bytes", int64_t{64} << 20}});
  auto stats = save_in_background(session, "a", pattern(40 << 20, 2), {{"staging_bytes", kBudget}});
  EXPECT_GT(stats.staging_peak_bytes, 0u);
  EXPECT_LE(stats.staging_peak_bytes, static_cast<uint64_t>(kBudget));
}

TEST(Arena, ResidentMemoryIsFlatOverAThousandSaves) {
  Scratch scratch("/dev/shm");
  Store store = open_store(scratch / "store");
  Session session = open_session(store);
  const Bytes data = pattern(3 << 20, 3);
  auto save = [&](int number) {
    auto stats = save_in_background(session, "s" + std::to_string(number), data, {{"keep_last", 1}});
    EXPECT_LE(stats.staging_peak_bytes, uint64_t{4} << 20);
  };
  int number = 0;
  while (number < 20) save(number++);
  int64_t early = resident();
  while (number < 1000) save(number++);
  EXPECT_LE(resident() - early, kSlack);
}

}  // namespace
}  // namespace ckpt_test
