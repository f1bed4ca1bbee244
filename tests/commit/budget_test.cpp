// Every budget of staging memory that a save takes works, whatever its store wants of blocks; one that cannot work is
// refused with the least that does.
#include "checkpoint/engine.h"

namespace ckpt::commit {
namespace {

constexpr int64_t kMiB = 1 << 20;

// Memory that wants the blocks of a server.
class Blocks : public store::ShellStore {
 public:
  Blocks() : ShellStore(fresh_memory_store()) {}
  store::Traits traits() const override {
    store::Traits traits = inner_->traits();
    traits.least_block_bytes = 5 * kMiB;
    traits.copied_bytes = 64 * kMiB;
    return traits;
  }
};

Status end_of(Job& job, save::Save& save, bool copies) {
  CKPT_TRY(save.begin());
  CKPT_TRY(job.start(CKPT_JOB_COMMITTED, [&](Job& running) { return save.work(running, copies); }));
  return job.wait(CKPT_JOB_COMMITTED, 60000);
}

TEST(Budget, EveryOneThatIsAcceptedWorksAndHolds) {
  std::vector<float> values(12 * kMiB / 4);
  for (size_t i = 0; i < values.size(); i++) values[i] = static_cast<float>(i >> 9);
  const auto store = std::make_shared<Blocks>();
  for (const int64_t chunk : {64 << 10, 1 << 20, 4 << 20}) {
    const auto session = *session::Session::open(store, 0, 1, nullptr, {.chunk_bytes = chunk});
    for (const int64_t staging : {8, 10, 16, 20})
      for (const char* codec : {"none", "lz4"})
        for (const bool copies : {false, true}) {
          SCOPED_TRACE(strformat("chunk {} staging {} {} copies {}", chunk, staging, codec, copies));
          const SaveOptions options{.on_existing = "replace",
                                    .compression = codec,
                                    .staging_bytes = staging * kMiB,
                                    .is_set = {.staging_bytes = true}};
          auto save = *save::Save::make(session, "a", 1, options);
          const auto desc = f32_rows(values.size(), 1, 0, values.size());
          ASSERT_TRUE(save->add_tensor("w", desc, values.data(), values.size() * sizeof(float)).ok());
          Job job;
          const Status told = end_of(job, *save, copies);
          ASSERT_TRUE(told.ok()) << told.message();
          EXPECT_LE(job.counters.staging_peak_bytes, static_cast<uint64_t>(staging * kMiB));
        }
  }
}

}  // namespace
}  // namespace ckpt::commit
