// Every budget of staging memory that a save takes works, whatever its store wants of blocks; one that cannot work is
// refused with the least that does.
#include <thread>

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
    const auto session = *session::Session::open(store, 0, 1, nullptr, make_options({{"chunk_bytes", chunk}}));
    for (const int64_t staging : {8, 10, 16, 20})
      for (const char* codec : {"none", "lz4"})
        for (const bool copies : {false, true}) {
          SCOPED_TRACE(strformat("chunk {} staging {} {} copies {}", chunk, staging, codec, copies));
          Options options = make_options({{"staging_bytes", staging * kMiB}});
          ASSERT_TRUE(options.set_str("compression", codec).ok() && options.set_str("on_existing", "replace").ok());
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

// What ranks declare of the tensors that they share is one chunk, however many they are.
TEST(Budget, ThatCannotHoldTheNamesIsRefusedWithTheLeastThatCan) {
  const std::shared_ptr<store::Store> store = fresh_memory_store();
  const auto leader = open_session(store, 0, 2), other = open_session(store, 1, 2, leader->string().c_str());
  const float value = 1;
  ckpt_tensor_desc shared = f32_rows(1, 1, 0, 1);
  shared.region_kind = CKPT_REGION_WHOLE;
  auto save_with = [&](const std::shared_ptr<session::Session>& of, const std::string& label, int64_t staging) {
    auto save = *save::Save::make(of, label, 1, make_options({{"staging_bytes", staging}}));
    for (int i = 0; i < 9000; i++)
      EXPECT_TRUE(save->add_tensor(std::string(1000, 'a') + std::to_string(i), shared, &value, 4).ok());
    return save;
  };
  auto save_both = [&](const std::string& label, int64_t staging) {
    Status told[2];
    std::thread beside([&] {
      Job job;
      told[1] = end_of(job, *save_with(other, label, staging), true);
    });
    Job job;
    told[0] = end_of(job, *save_with(leader, label, staging), true);
    beside.join();
    return told[0].ok() ? told[1] : told[0];
  };
  const Status refused = save_both("a", 8 * kMiB);
  ASSERT_EQ(refused.code(), CKPT_INVALID) << refused.message();
  ASSERT_TRUE(refused.detail("expected"));
  const Status taken = save_both("b", std::stoll(*refused.detail("expected")));
  EXPECT_TRUE(taken.ok()) << taken.message();
}

}  // namespace
}  // namespace ckpt::commit
