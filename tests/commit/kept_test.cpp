// Who keeps a checkpoint and who removes it at the same time: on every kind of store, at each step of the other one,
// and where one of them dies on the way.
#include "commit/kept.h"

#include "commit/any_store.h"
#include "commit/retention.h"
#include "store/shell_store.h"

namespace ckpt::commit {
namespace {

constexpr const char* kId = "s1.1.1";

class Kept : public ::testing::TestWithParam<Kind> {
 protected:
  // A store with checkpoints of the steps 1 and 2, by one rank.
  static Handles filled() {
    Handles handles = GetParam().make();
    Start start(handles, 1);
    for (const int64_t step : {1, 2}) EXPECT_TRUE(all_ok(start.save(step)).ok());
    return handles;
  }
  static Report prune(store::Store& store) {
    Report report;
    Job job;
    (void)apply_retention(store, {.run = "main", .keep_last = 1}, &report, job);
    return report;
  }
  // Of a new store each time: does `first` on a handle that calls `meanwhile`, whose answer is that of the operation,
  // before its operation 0 and each later one, then before 1 and each later one; until it has no more.
  static void at_each_step(const std::function<void(store::Store&)>& first,
                           const std::function<Status(const Handles&)>& meanwhile,
                           const std::function<void(const Handles&)>& check) {
    bool more = true;
    for (int at = 0; more; at++) {
      SCOPED_TRACE(at);
      ASSERT_LT(at, 200);
      const Handles handles = filled();
      store::ShellStore shell(handles());
      int number = 0;
      bool inside = false;
      more = false;
      shell.before([&](std::string_view, std::string_view) {
        if (inside || number++ < at) return Ok();
        inside = more = true;
        Status answer = meanwhile(handles);
        inside = false;
        return answer;
      });
      first(shell);
      if (more) check(handles);
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Stores, Kept,
                         ::testing::Values(Kind{"Directory", directory_store}, Kind{"Memory", memory_store},
                                           Kind{"Weak", [] { return weak_store({}); }}, Kind{"Cached", cached_store},
                                           Kind{"Backend", folder_backend}),
                         [](const auto& kind) { return kind.param.name; });

INSTANTIATE_TEST_SUITE_P(OnS3, Kept, ::testing::ValuesIn(s3_kinds()), [](const auto& kind) { return kind.param.name; });

TEST_P(Kept, StaysUntilItIsReleased) {
  const Handles handles = filled();
  auto store = handles();
  ASSERT_TRUE(keep(*store, kId).ok());
  ASSERT_TRUE(keep(*store, kId).ok());
  const Report report = prune(*store);
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].kind, CKPT_FINDING_KEPT);
  EXPECT_EQ(report.findings[0].text, "s1.1.1: kept: somebody said so (ckpt keep)");
  const Status refused = remove_by_id(*store, kId);
  EXPECT_EQ(refused.code(), CKPT_CONFLICT);
  EXPECT_TRUE(refused.detail("kept"));
  EXPECT_EQ(*load(handles, "s1"), 1);
  ASSERT_TRUE(release(*store, kId).ok());
  ASSERT_TRUE(release(*store, kId).ok());
  EXPECT_EQ(prune(*store).findings[0].kind, CKPT_FINDING_REMOVED);
  EXPECT_FALSE(is_committed(*store, kId));
  EXPECT_FALSE(*is_kept(*store, kId));
  EXPECT_EQ(keep(*store, kId).code(), CKPT_NOT_FOUND);
  EXPECT_EQ(release(*store, "nothing.1.1").code(), CKPT_NOT_FOUND);
}

TEST_P(Kept, StaysWhereASaveReplacesItsLabelAndRetentionOfASessionRuns) {
  const Handles handles = filled();
  ASSERT_TRUE(keep(*handles(), kId).ok());
  Start start(handles, 1);
  (void)load(handles, "latest");
  ASSERT_TRUE(all_ok(start.save(1, {.on_existing = "replace", .keep_last = 1})).ok());
  EXPECT_TRUE(is_committed(*handles(), kId));
}

// Whoever was told that it stays finds it there, whatever the other one did in between, and later.
TEST_P(Kept, AtEachStepOfARemovalAKeepHoldsOrIsRefused) {
  bool kept = false;
  Status removed;
  at_each_step([&](store::Store& store) { kept = false, removed = remove_by_id(store, kId); },
               [&](const Handles& handles) {
                 kept = kept || keep(*handles(), kId).ok();
                 return Ok();
               },
               [&](const Handles& handles) {
                 EXPECT_EQ(kept, is_committed(*handles(), kId)) << removed.message();
                 EXPECT_NE(kept, removed.ok()) << removed.message();
               });
}

TEST_P(Kept, AtEachStepOfAKeepARemovalIsSeenOrRefused) {
  Status kept;
  at_each_step([&](store::Store& store) { kept = keep(store, kId); },
               [](const Handles& handles) {
                 (void)remove_by_id(*handles(), kId);
                 return Ok();
               },
               [&](const Handles& handles) {
                 EXPECT_TRUE(!kept.ok() || remove_by_id(*handles(), kId).code() == CKPT_CONFLICT);
                 EXPECT_EQ(kept.ok(), is_committed(*handles(), kId)) << kept.message();
               });
}

// From some operation on nothing succeeds for the one who dies.
TEST_P(Kept, AfterADeathAtEachStepTheOthersGoOn) {
  for (const bool removes : {true, false})
    at_each_step([&](store::Store& store) { (void)(removes ? remove_by_id(store, kId) : keep(store, kId)); },
                 [](const Handles&) { return Status(CKPT_IO, "dead"); },
                 [](const Handles& handles) {
                   const bool there = is_committed(*handles(), kId);
                   const Status kept = keep(*handles(), kId);
                   if (kept.ok()) prune(*handles());
                   EXPECT_TRUE(!kept.ok() || is_committed(*handles(), kId));
                   EXPECT_TRUE(!kept.ok() || release(*handles(), kId).ok());
                   EXPECT_TRUE(!there || remove_by_id(*handles(), kId).ok());
                 });
}

}  // namespace
}  // namespace ckpt::commit
