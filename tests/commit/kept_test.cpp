// Who keeps or names a checkpoint, and who removes it or moves the name at the same time: on every kind of store, at
// each step of the other one, and where one of them dies on the way.
#include "commit/kept.h"

#include "checkpoint/given_names.h"
#include "commit/any_store.h"
#include "commit/retention.h"
#include "format/names.h"
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

TEST_P(Kept, ToReleaseItOnAFullDiskIsAnErrorThatSaysHowToMakeRoom) {
  const Handles handles = filled();
  ASSERT_TRUE(keep(*handles(), kId).ok());
  store::ShellStore full(handles());
  full.before([](std::string_view operation, std::string_view) {
    return operation == "put" ? Status(CKPT_NO_SPACE, "full") : Ok();
  });
  const Status refused = release(full, kId);
  EXPECT_EQ(refused.code(), CKPT_NO_SPACE);
  EXPECT_NE(refused.message().find("ckpt rm"), std::string::npos) << refused.message();
  EXPECT_TRUE(*is_kept(*handles(), kId));
}

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

// ---- names ----

Status give(const Handles& handles, const std::string& id) {
  return checkpoint::give_name(*handles(), "main", "prod", id);
}
std::string holder(const Handles& handles) {
  const auto id = checkpoint::named_id(*handles(), "main", "prod");
  return id.ok() ? *id : id.status().message();
}
// The step that the name selects; 0 if it says that s1.1.1 had it and is gone, -1 otherwise.
int64_t loaded(const Handles& handles) {
  const auto step = load(handles, "name:prod");
  if (step.ok()) return *step;
  const std::string* found = step.status().detail("found");
  return step.status().code() == CKPT_NOT_FOUND && found && *found == kId ? 0 : -1;
}

TEST_P(Kept, ANameMovesAndIsTakenAwayAndSaysWhoHadIt) {
  const Handles handles = filled();
  EXPECT_EQ(loaded(handles), -1);
  for (const int64_t step : {1, 2, 2, 1}) {
    EXPECT_TRUE(give(handles, strformat("s{}.1.1", step)).ok());
    EXPECT_EQ(loaded(handles), step);
  }
  EXPECT_EQ(load(handles, "prod").status().code(), CKPT_NOT_FOUND) << "a name is no label";
  EXPECT_TRUE(remove_by_id(*handles(), kId).ok());
  EXPECT_EQ(loaded(handles), 0);
  EXPECT_EQ(give(handles, kId).code(), CKPT_NOT_FOUND);
  EXPECT_EQ(checkpoint::give_name(*handles(), "other", "prod", "s2.1.1").code(), CKPT_INVALID);
  EXPECT_TRUE(checkpoint::take_name(*handles(), "main", "prod").ok());
  EXPECT_EQ(checkpoint::take_name(*handles(), "main", "prod").code(), CKPT_NOT_FOUND);
  EXPECT_EQ(loaded(handles), -1);
}

TEST_P(Kept, OfSeveralWhoMoveANameEachPutsAWholeWord) {
  const Handles handles = filled();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++)
    threads.emplace_back([&, i] {
      for (int k = i; k < i + 20; k++) EXPECT_TRUE(give(handles, strformat("s{}.1.1", k % 2 + 1)).ok());
    });
  for (int i = 0; i < 40; i++) EXPECT_TRUE(std::set<std::string>({"", kId, "s2.1.1"}).contains(holder(handles)));
  for (std::thread& thread : threads) thread.join();
}

TEST_P(Kept, AfterADeathAtEachStepOfAMoveOneOfBothHasTheName) {
  at_each_step(
      [](store::Store& store) {
        for (const char* id : {kId, "s2.1.1", kId})
          if (!checkpoint::give_name(store, "main", "prod", id).ok()) return;
      },
      [](const Handles&) { return Status(CKPT_IO, "dead"); },
      [](const Handles& handles) {
        EXPECT_TRUE(std::set<std::string>({"", kId, "s2.1.1"}).contains(holder(handles))) << holder(handles);
        EXPECT_TRUE(give(handles, "s2.1.1").ok());
        EXPECT_EQ(loaded(handles), 2);
      });
}

TEST_P(Kept, AtEachStepOfARemovalANameIsRefusedOrTellsOfIt) {
  bool given = false;
  const auto tell = [&](const Handles& handles) {
    const bool named = holder(handles) == kId;
    EXPECT_TRUE(named || !given);
    EXPECT_EQ(loaded(handles), !named ? -1 : is_committed(*handles(), kId) ? 1 : 0);
  };
  const auto name = [&](const Handles& handles) {
    given = given || give(handles, kId).ok();
    return Ok();
  };
  const auto remove = [](const Handles& handles) {
    (void)remove_by_id(*handles(), kId);
    return Ok();
  };
  at_each_step([&](store::Store& store) { given = false, (void)remove_by_id(store, kId); }, name, tell);
  at_each_step([&](store::Store& store) { given = checkpoint::give_name(store, "main", "prod", kId).ok(); }, remove,
               tell);
}

TEST(Names, AtEachStepOfALookTheNameMovesAndAnOlderWordIsNeverFoundAndFewStay) {
  const Handles handles = memory_store();
  Start start(handles, 1);
  for (int64_t step = 1; step <= 20; step++) ASSERT_TRUE(all_ok(start.save(step)).ok());
  const auto give = [&](const std::string& name, int from, int to) {
    for (int i = from; i <= to; i++)
      ASSERT_TRUE(checkpoint::give_name(*handles(), "main", name, strformat("s{}.1.1", i)).ok());
  };
  give("few", 1, 20);
  EXPECT_EQ(handles()->list(format::given_names_dir("main"))->size(), 6u) << "1, 2, 4, 8, 16, 20";
  for (int first = 1; first <= 12; first++)
    for (int moves : {1, 3, 8}) {
      bool more = true;
      for (int at = 0; more; at++) {
        const std::string name = strformat("n{}.{}.{}", first, moves, at);
        give(name, 1, first);
        store::ShellStore shell(handles());
        int number = 0;
        shell.before([&](std::string_view, std::string_view) {
          if (number++ == at) give(name, first + 1, first + moves);
          return Ok();
        });
        const std::string found = *checkpoint::named_id(shell, "main", name);
        more = number > at;
        EXPECT_GE(std::stoi(found.substr(1)), first) << name;
      }
    }
}

}  // namespace
}  // namespace ckpt::commit
