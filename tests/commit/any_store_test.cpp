// Sessions, saves, loads, retention and repair on every kind of store: a directory, memory, an object store at its
// weakest (weak_store.h), and an S3 server where tests/s3/run.sh has started one.
#include "commit/any_store.h"

#include "commit/retention.h"
#include "maintain/check_store.h"
#include "maintain/repair.h"

namespace ckpt::commit {
namespace {

class AnyStore : public ::testing::TestWithParam<Kind> {
 protected:
  const Handles handles = GetParam().make();
};

INSTANTIATE_TEST_SUITE_P(Stores, AnyStore,
                         ::testing::Values(Kind{"Directory", directory_store}, Kind{"Memory", memory_store},
                                           Kind{"Weak", [] { return weak_store({}); }}, Kind{"Cached", cached_store},
                                           Kind{"Backend", folder_backend}),
                         [](const auto& kind) { return kind.param.name; });

INSTANTIATE_TEST_SUITE_P(OnS3, AnyStore, ::testing::ValuesIn(s3_kinds()),
                         [](const auto& kind) { return kind.param.name; });

TEST_P(AnyStore, RanksMeetByRendezvous) {
  std::vector<std::thread> threads;
  std::vector<Status> told(3);
  const SessionOptions options{.timeout_ms = 60000, .rendezvous = true};
  for (uint32_t rank = 0; rank < 3; rank++)
    threads.emplace_back([&, rank] {
      for (int start = 0; start < 2 && told[rank].ok(); start++)
        told[rank] = session::Session::open(handles(), rank, 3, nullptr, options).status();
    });
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(all_ok(told).ok()) << all_ok(told).message();
}

TEST_P(AnyStore, WhatThreeRanksSaveTwoLoad) {
  Start start(handles, 3);
  ASSERT_TRUE(all_ok(start.save(1)).ok()) << all_ok(start.save(1)).message();
  auto loaded = load(handles, "latest", 2);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ(*loaded, 1);
}

TEST_P(AnyStore, TheNewestCommitIsLatestAtOnceAndRetentionKeepsAsManyAsAsked) {
  Start start(handles, 2);
  for (int64_t step = 1; step <= 5; step++) {
    const auto told = start.save(step, {.keep_last = 2});
    ASSERT_TRUE(all_ok(told).ok()) << all_ok(told).message();
    auto loaded = load(handles, "latest");
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    EXPECT_EQ(*loaded, step);
  }
  const auto entries = *checkpoint::list_checkpoints(*handles());
  EXPECT_EQ(entries.size(), 2u);
}

TEST_P(AnyStore, ALabelIsTakenOnceAndReplacedIfAsked) {
  Start start(handles, 2);
  ASSERT_TRUE(all_ok(start.save(1)).ok());
  EXPECT_EQ(start.save(1)[0].code(), CKPT_EXISTS);
  const SaveOptions replace{.on_existing = "replace"};
  const auto told = start.save(1, replace);
  ASSERT_TRUE(all_ok(told).ok()) << all_ok(told).message();
  EXPECT_EQ(*load(handles, "s1"), 1);
}

TEST_P(AnyStore, AnAttemptOfADeadSessionIsClosedForGood) {
  Start dead(handles, 2);
  const session::Attempt attempt = dead.rank(0)->next_attempt("s1");
  Job job;
  ASSERT_TRUE(open_attempt(*dead.rank(0), attempt, {}, job).ok());
  Start living(handles, 2);
  // Its rank 0 wakes up where it had nothing left to do but to commit.
  EXPECT_FALSE(dead.rank(0)->store().put_if_absent(format::slot_key(attempt.directory), as_bytes("late")).ok());
  EXPECT_EQ(dead.save_on(0, 2).code(), CKPT_FENCED);
  ASSERT_TRUE(all_ok(living.save(3)).ok());
  EXPECT_EQ(*load(handles, "latest"), 3);
}

TEST_P(AnyStore, ARankThatFailsEndsTheSaveForAll) {
  Start start(handles, 2);
  Status failed;
  {
    auto save = save::Save::make(start.rank(1), "s1", 1, {});
    ASSERT_TRUE(save.ok());
    failed = (*save)->noted(Status(CKPT_NOMEM, "no memory on rank 1"));
  }  // freed without being run
  const Status told = start.save_on(0, 1);
  EXPECT_EQ(told.code(), CKPT_ABORTED) << told.message();
  EXPECT_NE(told.message().find("no memory on rank 1"), std::string::npos) << told.message();
  const auto again = start.save(2);
  EXPECT_TRUE(all_ok(again).ok()) << all_ok(again).message();
}

TEST_P(AnyStore, AReaderOfAPrunedCheckpointGetsItsBytesOrGone) {
  Start start(handles, 1);
  ASSERT_TRUE(all_ok(start.save(1)).ok());
  auto checkpoint = checkpoint::Checkpoint::open(handles(), {"s1", "main"});
  ASSERT_TRUE(checkpoint.ok());
  ASSERT_TRUE(all_ok(start.save(2, {.keep_last = 1})).ok());
  auto load = load::Load::make(*checkpoint, {});
  std::vector<float> values(kStateRows * kStateColumns);
  ASSERT_TRUE((*load)->add_tensor("w", rows_of(0, 1), values.data(), values.size() * sizeof(float)).ok());
  const Status loaded = run_whole(**load);
  if (loaded.ok())
    EXPECT_EQ(values, values_of(1, 0, 1));
  else
    EXPECT_EQ(loaded.code(), CKPT_GONE) << loaded.message();
}

TEST_P(AnyStore, TheRecordOfAnAttemptGoesThoughItsCheckpointWasPrunedBefore) {
  auto faulty = std::make_shared<store::ShellStore>(handles());
  faulty->before([](std::string_view operation, std::string_view key) {
    return operation == "remove" && key.starts_with(".ckpt/attempts/") ? Status(CKPT_IO, "no answer") : Ok();
  });
  {
    Start start([&] { return faulty; }, 1);
    ASSERT_TRUE(all_ok(start.save(1)).ok());
    ASSERT_TRUE(all_ok(start.save(2, {.keep_last = 1})).ok());
  }
  const Start next(handles, 1);
  EXPECT_TRUE(checkpoint::await_listings(*handles()).ok());
  const auto left = handles()->list(".ckpt/attempts");
  EXPECT_TRUE(!left.ok() || left->empty()) << left->front().name;
}

TEST(Latest, IsTheNewestThoughItCannotBeReadForAMoment) {
  const Handles handles = memory_store();
  Start start(handles, 1);
  ASSERT_TRUE(all_ok(start.save(1)).ok());
  ASSERT_TRUE(all_ok(start.save(2)).ok());
  for (int wrong : {1, 3, 1'000'000}) {
    auto faulty = std::make_shared<store::ShellStore>(handles());
    faulty->before([left = std::make_shared<int>(wrong)](std::string_view operation, std::string_view key) {
      const bool fails = operation == "open" && key == "s2.1.1/MANIFEST" && (*left)-- > 0;
      return fails ? Status(CKPT_IO, "a stale handle") : Ok();
    });
    EXPECT_EQ(*load([&] { return faulty; }, "latest"), wrong > 3 ? 1 : 2);
  }
}

TEST_P(AnyStore, ALostManifestIsRebuiltByteForByte) {
  Start start(handles, 2);
  ASSERT_TRUE(all_ok(start.save(1)).ok());
  auto store = handles();
  const auto before = *store->get("s1.1.1/MANIFEST", 1 << 20);
  ASSERT_TRUE(store->remove("s1.1.1/MANIFEST", true).ok());
  Report report;
  const Status repaired = maintain::repair_checkpoint(*store, "s1.1.1", false, false, &report);
  ASSERT_TRUE(repaired.ok()) << repaired.message();
  EXPECT_EQ(*store->get("s1.1.1/MANIFEST", 1 << 20), before);
  EXPECT_EQ(*load(handles, "latest", 3), 1);
}

TEST_P(AnyStore, WhereNoLockKeepsAReadersCheckpointRetentionSaysSo) {
  Start start(handles, 1);
  for (int64_t step : {1, 2}) ASSERT_TRUE(all_ok(start.save(step)).ok());
  Report report;
  Job job;
  ASSERT_TRUE(apply_retention(*handles(), {.run = "main", .keep_last = 1}, &report, job).ok());
  ASSERT_EQ(report.findings.size(), 1u);
  const bool says = report.findings[0].text.find("no locks") != std::string::npos;
  EXPECT_EQ(says, !handles()->traits().directories) << report.findings[0].text;
}

TEST_P(AnyStore, ARemovedCheckpointIsNotFound) {
  Start start(handles, 2);
  ASSERT_TRUE(all_ok(start.save(1)).ok());
  ASSERT_TRUE(all_ok(start.save(2)).ok());
  ASSERT_TRUE(remove_by_id(*handles(), "s1.1.1").ok());
  EXPECT_EQ(load(handles, "s1").status().code(), CKPT_NOT_FOUND);
  EXPECT_EQ(*load(handles, "latest"), 2);
}

TEST_P(AnyStore, KeepsThePromisesThatCheckTriesAndNothingIsLeft) {
  const auto store = handles();
  const auto promises = maintain::check_store(*store);
  ASSERT_TRUE(promises.ok()) << promises.status().message();
  for (const auto& [name, state, found] : *promises) EXPECT_NE(state, maintain::Promise::kBroken) << name << found;
  EXPECT_TRUE(checkpoint::await_listings(*store).ok());
  const auto left = store->list(".ckpt");
  for (size_t i = 0; left.ok() && i < left->size(); i++) EXPECT_FALSE((*left)[i].name.starts_with("check."));
}

// Whatever gets lost, a commit that a rank was told of is there, and what no rank was told of is whole or not there.
TEST(LostAnswers, NeverMakeAnAcknowledgedSaveUndoneOrAFailedOneHalfDone) {
  int acknowledged = 0, failed = 0;
  for (unsigned seed = 1; seed <= 30; seed++) {
    const Handles handles = weak_store({.list_delay_ms = 2, .lost_per_mille = 30, .seed = seed});
    auto leader = session::Session::open(handles(), 0, 2, nullptr, {});
    if (!leader.ok()) continue;
    auto other = session::Session::open(handles(), 1, 2, (*leader)->string().c_str(), {});
    if (!other.ok()) continue;
    int64_t newest = 0;
    for (int64_t step = 1; step <= 5; step++) {
      Status told;
      std::thread thread([&] { told = save_step(*other, step, {.timeout_ms = 500}); });
      const Status led = save_step(*leader, step, {.timeout_ms = 500});
      thread.join();
      if (led.ok()) newest = step;
      (led.ok() ? acknowledged : failed)++;
      EXPECT_TRUE(!told.ok() || led.ok() || led.code() == CKPT_COMMIT_UNKNOWN) << led.message();
      auto latest = checkpoint::find_checkpoint(*handles(), {"latest", "main"});
      if (newest == 0 && !latest.ok()) continue;
      ASSERT_TRUE(latest.ok()) << seed << " " << step << ": " << latest.status().message();
      EXPECT_GE(latest->entry.summary.step, newest);
    }
  }
  EXPECT_GT(acknowledged, 60);
  EXPECT_GT(failed, 5);
}

}  // namespace
}  // namespace ckpt::commit
