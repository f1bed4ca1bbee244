// What retention, removal and repair tell when the store changes between two of their steps.
#include "commit/retention.h"

#include "checkpoint/engine.h"
#include "maintain/repair.h"

namespace ckpt::commit {
namespace {

class RetentionTest : public ::testing::Test {
 protected:
  RetentionTest() {
    static int number = 0;
    inner = *store::open_memory("retention" + std::to_string(number++));
    shell = std::make_shared<store::ShellStore>(inner);
    auto session = open_session(inner);
    for (int64_t step : {1, 2, 3}) EXPECT_TRUE(save_step(session, step).ok());
  }
  std::vector<std::string> ids() {
    std::vector<std::string> found;
    const auto entries = *checkpoint::list_checkpoints(*inner);
    for (const auto& entry : entries) found.push_back(entry.id);
    return found;
  }

  std::shared_ptr<store::Store> inner;
  std::shared_ptr<store::ShellStore> shell;
};
using Retention = RetentionTest;
using Removal = RetentionTest;
using Repair = RetentionTest;

TEST_F(Retention, SaysNothingOfWhatARivalRemovedMeanwhile) {
  bool done = false;
  shell->before([&](std::string_view operation, std::string_view key) {
    if (done || operation != "try_lock_exclusive" || key != slot_of(1)) return Ok();
    done = true;  // the rival holds the lock, and moves the directory away
    EXPECT_TRUE(inner->retire("s1.1.1", format::kManifestName, {}).ok());
    return Status(CKPT_CONFLICT, "locked");
  });
  Report report;
  Job job;
  ASSERT_TRUE(apply_retention(*shell, {"main", 1, 0, "", false}, &report, job).ok());
  EXPECT_TRUE(done);
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].kind, CKPT_FINDING_REMOVED);
  EXPECT_EQ(report.findings[0].name, "s2.1.1");
  EXPECT_EQ(ids(), std::vector<std::string>{"s3.1.1"});
}

TEST_F(Removal, OfADamagedCheckpointWaitsForItsReader) {
  auto reader = checkpoint::Checkpoint::open(inner, {"s2.1.1", "main"});
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  shell->before([](std::string_view operation, std::string_view key) {
    return operation == "open" && key == slot_of(2) ? Status(CKPT_CORRUPT, "broken by the test") : Ok();
  });
  ASSERT_EQ(checkpoint::read_entry(*shell, "s2.1.1")->state, CKPT_CHECKPOINT_DAMAGED);
  EXPECT_EQ(remove_by_id(*shell, "s2.1.1").code(), CKPT_CONFLICT);
  EXPECT_EQ(ids().size(), 3u);
  reader->reset();
  EXPECT_TRUE(remove_by_id(*shell, "s2.1.1").ok());
  EXPECT_EQ(ids(), (std::vector<std::string>{"s1.1.1", "s3.1.1"}));
}

TEST_F(Repair, SetsNothingAsideThatOnlyCannotBeReadNow) {
  for (ckpt_status code : {CKPT_IO, CKPT_REVISION}) {
    shell->before([code, done = false](std::string_view operation, std::string_view key) mutable {
      if (done || operation != "open" || key != slot_of(2)) return Ok();
      done = true;  // the next try would succeed
      return Status(code, "broken by the test");
    });
    Report report;
    EXPECT_EQ(maintain::repair_checkpoint(*shell, "s2.1.1", false, true, &report).code(), code);
    EXPECT_EQ(inner->list("s2.1.1")->size(), 2u);  // MANIFEST and one part, no copy set aside
  }
}

}  // namespace
}  // namespace ckpt::commit
