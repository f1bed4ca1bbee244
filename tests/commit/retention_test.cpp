// What retention, removal and repair tell when the store changes between two of their steps.
#include "commit/retention.h"

#include <map>

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
  ASSERT_TRUE(apply_retention(*shell, {.run = "main", .keep_last = 1}, &report, job).ok());
  EXPECT_TRUE(done);
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].kind, CKPT_FINDING_REMOVED);
  EXPECT_EQ(report.findings[0].name, "s2.1.1");
  EXPECT_EQ(ids(), std::vector<std::string>{"s3.1.1"});
}

TEST_F(Retention, RemovesNothingWhileNothingCanBeShownToBeSound) {
  shell->before([](std::string_view operation, std::string_view key) {
    return operation == "open" && key.ends_with("PART_000") ? Status(CKPT_IO, "broken by the test") : Ok();
  });
  Report report;
  Job job;
  EXPECT_EQ(apply_retention(*shell, {.run = "main", .keep_last = 1}, &report, job).code(), CKPT_IO);
  EXPECT_EQ(ids().size(), 3u);
}

// A session that finds trash which cannot go begins all the same; without retention, too, somebody has to hear of it.
TEST_F(Retention, ASaveThatRemovesNothingTellsWhatStaysInTheTrash) {
  struct Left : store::ShellStore {
    using ShellStore::ShellStore;
    Status finish_removals() override { return Status(CKPT_IO, "remove directory trash/s0: it is not empty"); }
  };
  auto save = save::Save::make(open_session(std::make_shared<Left>(inner)), "s4", 4, {}).take();
  ASSERT_TRUE(run_whole(*save).ok());
  const Report report = *save->report();
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].kind, CKPT_FINDING_KEPT);
  EXPECT_NE(report.findings[0].text.find("trash/s0"), std::string::npos) << report.findings[0].text;
}

// What is removed makes room, and the word for whoever still asks is said then.
TEST_F(Removal, OnAFullDiskNeedsNoRoom) {
  bool full = true;
  shell->before([&](std::string_view operation, std::string_view) {
    if (operation == "retire") full = false;
    return full && operation == "put" ? Status(CKPT_NO_SPACE, "full") : Ok();
  });
  const Status removed = remove_by_id(*shell, "s1.1.1");
  ASSERT_TRUE(removed.ok()) << removed.message();
  EXPECT_TRUE(*inner->exists(format::pruned_key(1, 1, "s1")));
  full = true;
  Report report;
  Job job;
  ASSERT_TRUE(apply_retention(*shell, {.run = "main", .keep_last = 1}, &report, job).ok());
  EXPECT_EQ(ids(), std::vector<std::string>{"s3.1.1"});
  // A disk that stays full costs the word, and nothing else.
  shell->before([&](std::string_view operation, std::string_view) {
    return operation == "put" ? Status(CKPT_NO_SPACE, "full") : Ok();
  });
  EXPECT_TRUE(remove_by_id(*shell, "s3.1.1").ok());
  EXPECT_TRUE(ids().empty());
}

TEST_F(Removal, OfAnAttemptOnAFullDiskSaysHowToMakeRoom) {
  ASSERT_TRUE(inner->make_directory("s4.1.9").ok());
  shell->before([&](std::string_view operation, std::string_view) {
    return operation == "put" ? Status(CKPT_NO_SPACE, "full") : Ok();
  });
  const Status refused = remove_attempt(*shell, "s4.1.9", "by the test");
  EXPECT_EQ(refused.code(), CKPT_NO_SPACE);
  EXPECT_NE(refused.message().find("ckpt rm"), std::string::npos) << refused.message();
}

TEST_F(Retention, LeavesAloneWhatIsNamedRatherThanNumbered) {
  auto session = open_session(inner);
  const std::vector<std::pair<std::string, int64_t>> saves = {{"best", 4},   {"ep1-ba10", 10},  {"epoch-3", 30},
                                                              {"v2", -1},    {"step-0040", 40}, {"step-500", 50},
                                                              {"final", 60}, {"step-70", 70},   {"80", 80}};
  for (const auto& [label, step] : saves) {
    auto made = save::Save::make(session, label, step, {});
    ASSERT_TRUE(made.ok() && run_whole(**made).ok()) << label;
  }
  Report report;
  Job job;
  ASSERT_TRUE(apply_retention(*inner, {.run = "main", .keep_last = 2}, &report, job).ok());
  EXPECT_EQ(ids(), (std::vector<std::string>{"best.2.1", "epoch-3.2.1", "v2.2.1", "step-500.2.1", "final.2.1",
                                             "step-70.2.1", "80.2.1"}));
  std::map<std::string, std::string> kept;
  for (const Finding& finding : report.findings)
    if (finding.kind == CKPT_FINDING_KEPT) kept[finding.name] = finding.text;
  EXPECT_EQ(kept["best.2.1"], "best.2.1: kept: its label is a name, not the number of its step");
  EXPECT_EQ(kept.count("80.2.1"), 0u) << "what keep_last keeps is no finding";
}

TEST_F(Retention, OfNamedOnesCountsNoneAmongTheNewest) {
  auto session = open_session(inner);
  for (const char* label : {"best", "final"}) {
    auto made = save::Save::make(session, label, 9, {.keep_last = 2});
    ASSERT_TRUE(made.ok() && run_whole(**made).ok()) << label;
  }
  EXPECT_EQ(ids(), (std::vector<std::string>{"s2.1.1", "s3.1.1", "best.2.1", "final.2.1"}));
}

// Whoever is told TIMEOUT tries again, and is then told that it is not there, or is sound.
TEST_F(Removal, AndRepairThatAreDoneAreNoFailureHoweverLateTheirTidyingUpIs) {
  struct Late : store::ShellStore {
    using ShellStore::ShellStore;
    static Status late() { return CallContext::current().call()->end(Status(CKPT_TIMEOUT, "late")); }
    Status finish_removals() override { return late(); }
    Status remove(std::string_view, bool) override { return late(); }
  };
  const auto store = std::make_shared<Late>(inner);
  const auto apart = [](const std::function<Status(Job&)>& body) {
    const auto job = std::make_shared<Job>();
    return run_apart(job, 60000, body);
  };
  const Status removed = apart([&](Job&) { return remove_by_id(*store, "s2.1.1"); });
  EXPECT_TRUE(removed.ok()) << removed.message();
  EXPECT_EQ(ids(), (std::vector<std::string>{"s1.1.1", "s3.1.1"}));
  ASSERT_TRUE(inner->remove(slot_of(1), true).ok());
  Report report;
  const Status repaired =
      apart([&](Job& job) { return maintain::repair_checkpoint(*store, "s1.1.1", false, true, &report, job); });
  EXPECT_TRUE(repaired.ok()) << repaired.message();
  EXPECT_TRUE(checkpoint::Checkpoint::open(inner, {"s1.1.1", "main"}).ok());
}

TEST_F(Removal, OfAnAttemptThatWasCommittedJustNowIsAConflict) {
  EXPECT_EQ(remove_attempt(*inner, "s2.1.1", "nobody finished it").code(), CKPT_CONFLICT);
  EXPECT_EQ(ids().size(), 3u);
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
