// What ranks are told of a save when another session, retention or a fault comes in between.
#include <condition_variable>
#include <mutex>
#include <thread>

#include "checkpoint/engine.h"
#include "commit/retention.h"

namespace ckpt::commit {
namespace {

// Two ranks of one session; the test stands between rank 1 and the store.
class OutcomeTest : public ::testing::Test {
 protected:
  OutcomeTest() {
    inner = fresh_memory_store();
    shell = std::make_shared<store::ShellStore>(inner);
    ranks[0] = open_session(inner, 0, 2);
    ranks[1] = open_session(shell, 1, 2, ranks[0]->string().c_str());
  }
  // A save on both ranks at once.
  std::pair<Status, Status> save(int64_t step, const SaveOptions& options = {}) {
    Status other;
    std::thread thread([&] { other = save_step(ranks[1], step, options); });
    Status leader = save_step(ranks[0], step, options);
    thread.join();
    return {leader, other};
  }
  // Saves step 1. Rank 1 sleeps before it asks for the outcome, until `meanwhile` has run.
  Status outcome_after(const std::function<void()>& meanwhile) {
    std::mutex mutex;
    std::condition_variable changed;
    bool asleep = false, awake = false, part_there = false;
    shell->before([&](std::string_view operation, std::string_view key) {
      std::unique_lock lock(mutex);
      part_there |= operation == "create" && key == "s1.1.1/PART_001";
      if (!part_there || asleep || operation != "exists" || key != slot_of(1)) return Ok();
      asleep = true;
      changed.notify_all();
      changed.wait(lock, [&] { return awake; });
      return Ok();
    });
    Status other;
    std::thread thread([&] { other = save_step(ranks[1], 1); });
    Status leader = save_step(ranks[0], 1);
    EXPECT_TRUE(leader.ok()) << leader.message();
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return asleep; });
    }
    meanwhile();
    {
      std::lock_guard lock(mutex);
      awake = true;
      changed.notify_all();
    }
    thread.join();
    return other;
  }

  std::shared_ptr<store::Store> inner;
  std::shared_ptr<store::ShellStore> shell;
  std::shared_ptr<session::Session> ranks[2];
};
using SleepingRank = OutcomeTest;
using FencedRank = OutcomeTest;
using FaultyStore = OutcomeTest;
using SessionsAtOnce = OutcomeTest;

TEST_F(SleepingRank, IsToldOfACommitThatWasPrunedMeanwhile) {
  Status outcome = outcome_after([&] {
    auto [leader, other] = save(2, {.keep_last = 1});
    ASSERT_TRUE(leader.ok() && other.ok()) << leader.message() << other.message();
    ASSERT_EQ(inner->open(slot_of(1)).status().code(), CKPT_NOT_FOUND);
  });
  EXPECT_TRUE(outcome.ok()) << outcome.message();
}

TEST_F(SleepingRank, IsToldOfACommitThatWasRemovedByIdMeanwhile) {
  Status outcome = outcome_after([&] { ASSERT_TRUE(remove_by_id(*inner, "s1.1.1").ok()); });
  EXPECT_TRUE(outcome.ok()) << outcome.message();
}

TEST_F(SleepingRank, IsToldOfACommitThatANewerSessionPruned) {
  Status outcome = outcome_after([&] {
    auto newer = open_session(inner);
    ASSERT_TRUE(save_step(newer, 2, {.keep_last = 1}).ok());
    ASSERT_EQ(inner->open(slot_of(1)).status().code(), CKPT_NOT_FOUND);
  });
  EXPECT_TRUE(outcome.ok()) << outcome.message();
}

TEST_F(SleepingRank, IsToldUnknownOnceTwoSessionsCameAfterItsOwn) {
  Status outcome = outcome_after([&] {
    auto newer = open_session(inner);
    ASSERT_TRUE(save_step(newer, 2, {.keep_last = 1}).ok());
    ASSERT_TRUE(open_session(inner));
  });
  EXPECT_EQ(outcome.code(), CKPT_COMMIT_UNKNOWN) << outcome.message();
  EXPECT_NE(outcome.message().find("session 3"), std::string::npos) << outcome.message();
}

TEST_F(SleepingRank, IsToldUnknownOfWhatSomebodyDeletedByHand) {
  Status outcome = outcome_after([&] { ASSERT_TRUE(inner->retire("s1.1.1", "MANIFEST", {}).ok()); });
  EXPECT_EQ(outcome.code(), CKPT_COMMIT_UNKNOWN) << outcome.message();
}

TEST_F(SleepingRank, WordsOfPrunedCheckpointsDoNotPileUp) {
  for (int64_t step = 1; step <= 80; step++) {
    auto [leader, other] = save(step, {.keep_last = 1});
    ASSERT_TRUE(leader.ok() && other.ok()) << leader.message() << other.message();
  }
  EXPECT_LE(inner->list(".ckpt/sessions/1")->size(), 64u + 2);
}

// A file system whose directories move: `act` runs once `key` is there, before its call ends, and the call then finds
// its directory gone.
class MovedStore final : public store::ShellStore {
 public:
  MovedStore(std::shared_ptr<store::Store> inner, std::string key, std::function<void()> act)
      : ShellStore(std::move(inner)), key_(std::move(key)), act_(std::move(act)) {}
  Status put_if_absent(std::string_view key, Bytes data) override {
    return after(key, inner_->put_if_absent(key, data));
  }
  Result<std::unique_ptr<store::Writer>> create(std::string_view key, uint64_t size, bool at_most) override {
    auto writer = inner_->create(key, size, at_most);
    if (!writer.ok()) return writer;
    return std::unique_ptr<store::Writer>(std::make_unique<Moved>(writer.take(), *this, std::string(key)));
  }

 private:
  struct Moved final : store::Writer {
    Moved(std::unique_ptr<Writer> writer, MovedStore& moved, std::string name)
        : inner(std::move(writer)), store(moved), key(std::move(name)) {}
    bool direct() const override { return inner->direct(); }
    Status write_at(uint64_t offset, Bytes data) override { return inner->write_at(offset, data); }
    Status publish(uint64_t size) override { return store.after(key, inner->publish(size)); }
    std::unique_ptr<Writer> inner;
    MovedStore& store;
    std::string key;
  };
  Status after(std::string_view key, Status put) {
    if (key != key_ || !put.ok()) return put;
    act_();
    return Status(CKPT_NOT_FOUND, path(key) + ": no such directory");
  }
  const std::string key_;
  const std::function<void()> act_;
};

using PrunedWhileItCommits = OutcomeTest;

TEST_F(PrunedWhileItCommits, ARankThatPutItsPartIsToldOfTheCommit) {
  auto store = fresh_memory_store();
  auto leader = open_session(store, 0, 2);
  Status led;
  std::thread thread([&] { led = save_step(leader, 1); });
  auto moved = std::make_shared<MovedStore>(store, "s1.1.1/PART_001", [&] {
    thread.join();
    ASSERT_TRUE(save_step(open_session(store), 2, {.keep_last = 1}).ok());
    ASSERT_FALSE(*store->exists(slot_of(1)));
  });
  const Status told = save_step(open_session(moved, 1, 2, leader->string().c_str()), 1);
  EXPECT_TRUE(led.ok()) << led.message();
  EXPECT_TRUE(told.ok()) << told.message();
}

TEST_F(PrunedWhileItCommits, RankZeroIsToldOfItByWhomeverItWasRemoved) {
  for (const char* by : {"a save of the same session", "hand", "a newer session"}) {
    auto store = fresh_memory_store();
    std::shared_ptr<session::Session> session;
    auto moved = std::make_shared<MovedStore>(store, slot_of(1), [&] {
      const SaveOptions one{.keep_last = 1};
      if (*by == 'h')
        ASSERT_TRUE(remove_by_id(*store, "s1.1.1").ok());
      else
        ASSERT_TRUE(save_step(by[2] == 's' ? session : open_session(store), 2, one).ok());
      ASSERT_FALSE(*store->exists(slot_of(1)));
    });
    session = open_session(moved);
    const Status told = save_step(session, 1);
    EXPECT_TRUE(told.ok()) << by << ": " << told.message();
  }
}

TEST_F(FencedRank, IsToldSoWhereverItsFilesVanish) {
  // A newer session starts before one of rank 0's operations on the attempt.
  for (const char* operation : {"open_attempt", "create"}) {
    auto store = fresh_memory_store();
    auto between = std::make_shared<store::ShellStore>(store);
    auto session = open_session(between);
    bool done = false;
    between->before([&](std::string_view found, std::string_view key) {
      if (!done && found == operation && key.find("s1") != key.npos) {
        done = true;
        EXPECT_TRUE(open_session(store));
      }
      return Ok();
    });
    const Status told = save_step(session, 1);
    EXPECT_EQ(told.code(), CKPT_FENCED) << operation;
    ASSERT_TRUE(told.detail("run") && told.detail("expected")) << told.message();
    EXPECT_EQ(*told.detail("run"), "main");
    EXPECT_EQ(*told.detail("expected") + " " + *told.detail("found"), "1 2");
    EXPECT_TRUE(done) << operation;
  }
}

TEST_F(FaultyStore, AnErrorThatPassesEndsNoSave) {
  int faults = 0;
  auto fault = [&](std::string_view operation, std::string_view key) {
    if (operation != "open" || (key != "s1.1.1/PART_001" && key != slot_of(1)) || faults > 6) return Ok();
    return ++faults % 2 ? Status(CKPT_IO, "it passes") : Ok();
  };
  auto between = std::make_shared<store::ShellStore>(inner);
  auto leader = open_session(between, 0, 2);
  auto other = open_session(inner, 1, 2, leader->string().c_str());
  between->before([&](std::string_view operation, std::string_view key) {
    return fault(operation, key == "s1.2.1/PART_001" ? "s1.1.1/PART_001" : key);
  });
  Status outcome;
  std::thread thread([&] { outcome = save_step(other, 1); });
  Status led = save_step(leader, 1);
  thread.join();
  EXPECT_TRUE(led.ok()) << led.message();
  EXPECT_TRUE(outcome.ok()) << outcome.message();
  EXPECT_GT(faults, 0);
}

// Not the deadline of ten minutes: that the directory is there is no sign that its files can be read.
TEST_F(FaultyStore, AnErrorThatLastsEndsTheSaveThoughItsDirectoryIsSeen) {
  auto between = std::make_shared<store::ShellStore>(inner);
  auto session = open_session(between);
  between->before([&](std::string_view operation, std::string_view key) {
    const bool asks = operation == "open" || operation == "exists";
    return asks && key.starts_with("s1.") ? Status(CKPT_IO, "it lasts") : Ok();
  });
  const Status saved = save_step(session, 1);
  EXPECT_EQ(saved.code(), CKPT_IO) << saved.message();
}

// Rank 0 is not to blame: it opened the attempt, which this rank cannot see.
TEST_F(FaultyStore, ARankThatCannotSeeTheAttemptSaysSo) {
  shell->before([](std::string_view operation, std::string_view key) {
    return operation == "attempt_exists" && key.starts_with("s1.") ? Status(CKPT_IO, "it lasts") : Ok();
  });
  auto [leader, other] = save(1, {.timeout_ms = 30000});
  EXPECT_EQ(other.code(), CKPT_IO) << other.message();
  EXPECT_NE(other.message().find("it lasts"), std::string::npos) << other.message();
  EXPECT_EQ(leader.code(), CKPT_ABORTED) << leader.message();
}

TEST_F(FaultyStore, APartThatSomebodyDeletedIsNotWaitedFor) {
  auto between = std::make_shared<store::ShellStore>(inner);
  auto session = open_session(between);
  between->before([&](std::string_view operation, std::string_view key) {
    if (operation == "exists" && key.ends_with("/PART_000")) (void)inner->remove(key, false);
    return Ok();
  });
  const Status saved = save_step(session, 1);
  EXPECT_EQ(saved.code(), CKPT_IO) << saved.message();
  EXPECT_NE(saved.message().find("PART_000"), std::string::npos) << saved.message();
}

// A file system says so of what is not there. Nobody would remove what a crash of that save leaves.
TEST_F(FaultyStore, AnAttemptWithoutARecordIsNotOpened) {
  store::ShellStore between(inner);
  between.before(
      [](std::string_view operation, auto) { return operation == "put" ? Status(CKPT_EXISTS, "it says") : Ok(); });
  EXPECT_EQ(between.Store::open_attempt(".ckpt/attempts/1", as_bytes("x"), "s1.1.1").code(), CKPT_IO);
  EXPECT_FALSE(*inner->exists("s1.1.1"));
}

// Its publication has had its effect, and its answer got lost; so did all questions after it.
TEST_F(FaultyStore, ARankThatCannotSeeWhetherItsPartIsThereKnowsNoOutcome) {
  auto between = std::make_shared<store::ShellStore>(inner);
  auto leader = open_session(inner, 0, 2);
  auto other = open_session(between, 1, 2, leader->string().c_str());
  for (const bool can_look : {false, true}) {
    const session::Attempt attempt = other->next_attempt("s1");
    ASSERT_TRUE(inner->make_directory(attempt.directory).ok());
    between->before([&](std::string_view operation, std::string_view key) {
      const bool fails = key.ends_with("/MANIFEST") ? operation == "put" : key.ends_with("/PART_001") && !can_look;
      return fails ? Status(CKPT_IO, "the server is away") : Ok();
    });
    const Status told = give_up(*other, attempt, Status(CKPT_IO, "its answer is lost"));
    EXPECT_EQ(told.code(), can_look ? CKPT_IO : CKPT_COMMIT_UNKNOWN) << told.message();
  }
}

// As in a store where a removed file is gone for those who have it open.
TEST_F(FaultyStore, APartThatItsRankTakesBackIsNotTheReasonButTheAbortIs) {
  auto between = std::make_shared<store::ShellStore>(inner);
  auto leader = open_session(between, 0, 2);
  auto other = open_session(inner, 1, 2, leader->string().c_str());
  session::Attempt attempt = other->next_attempt("s1");
  bool done = false;
  between->before([&](std::string_view operation, std::string_view key) {
    if (done || operation != "open" || !key.ends_with("/PART_001")) return Ok();
    done = true;
    EXPECT_FALSE(give_up(*other, attempt, Status(CKPT_NO_SPACE, "the disk of rank 1 is full")).ok());
    return Status(CKPT_GONE, "removed");
  });
  std::thread part([&] {
    while (!inner->list(attempt.directory).ok()) std::this_thread::yield();
    EXPECT_TRUE(inner->put_if_absent(format::part_key(attempt.directory, 1), as_bytes("x")).ok());
  });
  const Status led = save_step(leader, 1);
  part.join();
  EXPECT_TRUE(done);
  EXPECT_EQ(led.code(), CKPT_ABORTED) << led.message();
  EXPECT_NE(led.message().find("the disk of rank 1 is full"), std::string::npos) << led.message();
}

TEST_F(SessionsAtOnce, BothCloseTheSameAttemptAndTheNewerOneOwnsTheRun) {
  // An attempt that nobody will finish.
  shell->before([&](std::string_view operation, std::string_view) {
    return operation == "create" ? Status(CKPT_NO_SPACE, "full") : Ok();
  });
  (void)save(1);
  ASSERT_TRUE(inner->list("s1.1.1").ok());
  // Whatever one session moves or removes, another one did just before.
  auto rival = std::make_shared<store::ShellStore>(inner);
  rival->before([&](std::string_view operation, std::string_view key) {
    if (operation == "retire") (void)inner->retire(key, "MANIFEST", {});
    if (operation == "remove") (void)inner->remove(key, false);
    if (operation == "remove_directory") (void)inner->remove_directory(key);
    return Ok();
  });
  auto opened = session::Session::open(rival, 0, 1, nullptr, {});
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_TRUE(save_step(*opened, 2).ok());
}

TEST_F(SessionsAtOnce, TheOlderOfThemIsToldFenced) {
  bool done = false;
  shell->before([&](std::string_view operation, std::string_view key) {
    if (!done && operation == "put" && key.ends_with("rank.0")) {
      done = true;
      EXPECT_TRUE(open_session(inner));
    }
    return Ok();
  });
  EXPECT_EQ(session::Session::open(shell, 0, 1, nullptr, {}).status().code(), CKPT_FENCED);
  EXPECT_TRUE(done);
}

TEST_F(SessionsAtOnce, ARankThatIsFencedAfterItsStartIsToldOfTheStart) {
  auto store = fresh_memory_store();
  auto first = std::make_shared<store::ShellStore>(store), slow = std::make_shared<store::ShellStore>(store);
  const SessionOptions options{.timeout_ms = 30000, .rendezvous = true};
  // Rank 1 looks whether it is fenced before it can see the start, and gets its answer after rank 0 has started twice.
  std::atomic<bool> polled = false, looks = false, started = false;
  slow->before([&](std::string_view operation, std::string_view key) {
    polled = polled || (operation == "exists" && key.ends_with("/start"));
    if (!polled || operation != "list" || key != ".ckpt/runs/main") return Ok();
    looks = true;
    while (!started) std::this_thread::yield();
    return Ok();
  });
  first->before([&](std::string_view operation, std::string_view key) {
    while (operation == "put" && key.ends_with("/start") && !looks) std::this_thread::yield();
    return Ok();
  });
  Status late;
  std::thread rank([&] { late = session::Session::open(slow, 1, 2, nullptr, options).status(); });
  EXPECT_TRUE(session::Session::open(first, 0, 2, nullptr, options).ok());
  EXPECT_TRUE(open_session(store));
  started = true;
  rank.join();
  EXPECT_TRUE(late.ok()) << late.message();
}

TEST_F(SessionsAtOnce, ADirectoryThatSomebodyPutIntoADeadAttemptDoesNotBlockTheNext) {
  shell->before([&](std::string_view operation, std::string_view) {
    return operation == "create" ? Status(CKPT_NO_SPACE, "full") : Ok();
  });
  (void)save(1);
  ASSERT_TRUE(inner->make_directory("s1.1.1/notes").ok());
  auto next = open_session(inner);
  ASSERT_TRUE(next);
  EXPECT_TRUE(save_step(next, 2).ok());
  EXPECT_TRUE(inner->list("s1.1.1/notes").ok());
}

}  // namespace
}  // namespace ckpt::commit
