// What all ranks decide, and why they stop. No store.
#include "keeper/keeper.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ckpt::keeper {
namespace {

using Votes = std::array<int64_t, Keeper::kVotes>;

std::unique_ptr<Keeper> make(KeeperOptions options, uint32_t rank = 0, uint32_t world_size = 1) {
  auto made = Keeper::make(std::move(options), rank, world_size);
  EXPECT_TRUE(made.ok()) << made.status().message();
  return made.ok() ? made.take() : nullptr;
}
ckpt_status refusal(KeeperOptions options, uint32_t rank = 0, uint32_t world_size = 1) {
  return Keeper::make(std::move(options), rank, world_size).status().code();
}

int32_t decide(Keeper& keeper, const Votes& votes) {
  int32_t what = -1;
  const Status status = keeper.decide(votes.data(), &what);
  EXPECT_TRUE(status.ok()) << status.message();
  return what;
}
int32_t one_step(Keeper& keeper, int64_t step) {
  Votes votes{};
  EXPECT_TRUE(keeper.step(step, false, votes.data()).ok());
  return decide(keeper, votes);
}

// All ranks at a step, as a process group would do it.
struct Ranks {
  explicit Ranks(uint32_t size, const KeeperOptions& options = {}) {
    for (uint32_t rank = 0; rank < size; rank++) keepers.push_back(make(options, rank, size));
  }
  Votes votes(const std::vector<int64_t>& steps, uint32_t due_on = UINT32_MAX) {
    Votes most;
    most.fill(INT64_MIN);
    for (uint32_t rank = 0; rank < keepers.size(); rank++) {
      Votes own{};
      EXPECT_TRUE(keepers[rank]->step(steps[rank], rank == due_on, own.data()).ok());
      for (size_t i = 0; i < own.size(); i++) most[i] = std::max(most[i], own[i]);
    }
    return most;
  }
  std::vector<int32_t> decide(const Votes& votes) {
    std::vector<int32_t> all;
    for (const auto& keeper : keepers) all.push_back(keeper::decide(*keeper, votes));
    return all;
  }
  std::vector<std::unique_ptr<Keeper>> keepers;
};

TEST(Keeper, AnImpossiblePolicyIsRefused) {
  EXPECT_EQ(refusal({.every = "often"}), CKPT_INVALID);
  EXPECT_EQ(refusal({.label = "{x}"}), CKPT_INVALID);
  for (const char* label : {"", "a/{step}", ".{step}", "step {step}", "e{epoch:3d}", "ü{step}"})
    EXPECT_EQ(refusal({.label = label}), CKPT_INVALID) << label << ": no save could have it";
  EXPECT_EQ(refusal({.label = "{run_name}-{epoch:03d}-{step}"}), CKPT_OK);
  EXPECT_EQ(refusal({.keep_best = "loss"}), CKPT_INVALID);
  EXPECT_EQ(refusal({.keep_every = 5}), CKPT_INVALID);
  EXPECT_EQ(refusal({.keep_interval = "1 h"}), CKPT_INVALID) << "without keep_last all stay";
  EXPECT_EQ(refusal({.keep_last = 1, .keep_interval = "5 steps"}), CKPT_INVALID);
  EXPECT_EQ(refusal({.every = "idle", .ranks_agree = false}, 0, 2), CKPT_INVALID);
  EXPECT_EQ(refusal({.keep_last = 1, .label = "epoch-{epoch}"}), CKPT_INVALID);
  EXPECT_EQ(refusal({.time_limit = "soon"}), CKPT_INVALID);
  EXPECT_EQ(refusal({}, 2, 2), CKPT_INVALID);
  EXPECT_EQ(refusal({.every = "5 s", .ranks_agree = false}, 0, 2), CKPT_INVALID);
  EXPECT_EQ(refusal({.ranks_agree = false, .time_limit = "5 s"}, 0, 2), CKPT_INVALID);
  EXPECT_EQ(refusal({.every = "5 s", .ranks_agree = false}), CKPT_OK);
}

TEST(Keeper, WhatOneRankWantsAllDo) {
  Ranks ranks(3, {.every = "10 steps"});
  EXPECT_EQ(ranks.decide(ranks.votes({1, 1, 1})), (std::vector<int32_t>{0, 0, 0}));
  EXPECT_EQ(ranks.decide(ranks.votes({2, 2, 2}, 1)), (std::vector<int32_t>{1, 1, 1}));
  EXPECT_EQ(ranks.decide(ranks.votes({10, 10, 10})), (std::vector<int32_t>{1, 1, 1}));
  ranks.keepers[2]->stop(SIGTERM);
  EXPECT_EQ(ranks.decide(ranks.votes({11, 11, 11})), (std::vector<int32_t>{2, 2, 2}));
  for (const auto& keeper : ranks.keepers) EXPECT_STREQ(keeper->stopping(), "SIGTERM");
  EXPECT_EQ(ranks.decide(ranks.votes({12, 12, 12})), (std::vector<int32_t>{0, 0, 0})) << "it is told once";
}

TEST(Keeper, RanksThatCountOtherTokensSaveTheSameSteps) {
  for (const std::string counter : {"token", "batch"}) {
    Ranks ranks(2, {.every = "100 " + counter + "s"});
    EXPECT_TRUE(ranks.keepers[0]->needs_votes()) << "one rank alone may have passed a multiple";
    std::vector<int64_t> saved;
    for (int64_t step = 1; step <= 40; step++) {
      (void)ranks.keepers[0]->tell(CKPT_KEEPER_COUNTER, counter, 30.0 * double(step));
      (void)ranks.keepers[1]->tell(CKPT_KEEPER_COUNTER, counter, 26.0 * double(step));
      const auto what = ranks.decide(ranks.votes({step, step}));
      EXPECT_EQ(what[0], what[1]) << "step " << step;
      if (what[0] != CKPT_KEEPER_GO_ON) saved.push_back(step);
    }
    EXPECT_EQ(saved, (std::vector<int64_t>{4, 7, 10, 14, 17, 20, 24, 27, 30, 34, 37, 40})) << "as the first one passes";
    int32_t what;
    (void)ranks.keepers[0]->tell(CKPT_KEEPER_COUNTER, counter, 9999);
    Votes own{};
    ASSERT_TRUE(ranks.keepers[0]->step(41, false, own.data()).ok());
    EXPECT_EQ(ranks.keepers[0]->decide(nullptr, &what).code(), CKPT_INVALID) << "its count is its own";
  }
  EXPECT_FALSE(make({.every = "100 tokens"})->needs_votes()) << "one rank agrees with itself";
  EXPECT_EQ(refusal({.every = "100 tokens", .ranks_agree = false}, 0, 2), CKPT_OK);
}

TEST(Keeper, ALoopThatSavesWithoutVotesStopsByItsPlan) {
  Ranks ranks(2);
  for (const auto& keeper : ranks.keepers) ASSERT_TRUE(keeper->step(1, false, nullptr).ok());
  EXPECT_EQ(Keeper::read_plan(*ranks.keepers[0]->plan(nullptr).take())->stop, 0);
  ranks.keepers[0]->stop(SIGTERM);
  for (const auto& keeper : ranks.keepers) ASSERT_TRUE(keeper->step(2, false, nullptr).ok());
  const auto plan = Keeper::read_plan(*ranks.keepers[0]->plan(nullptr).take()).take();
  for (const auto& keeper : ranks.keepers) {
    EXPECT_EQ(keeper->stopping(), nullptr);
    keeper->stop_as(plan);
    EXPECT_STREQ(keeper->stopping(), "SIGTERM") << "on all ranks";
  }
  const auto voting = make({.every = "1 step"});
  EXPECT_EQ(one_step(*voting, 1), CKPT_KEEPER_SAVE);
  voting->stop(SIGTERM);
  EXPECT_EQ(Keeper::read_plan(*voting->plan(nullptr).take())->stop, 0) << "the next votes decide";
}

TEST(Keeper, TheBestByAMetricThatNobodyTellsIsSaidOnce) {
  const auto keeper = make({.keep_last = 2, .keep_best = "val_loss:min"});
  keeper->know({});
  std::vector<std::string> said;
  for (int64_t step = 1; step <= 6; step++) {
    EXPECT_TRUE(keeper->tell(CKPT_KEEPER_METRIC, "loss", 1).ok());
    ASSERT_TRUE(keeper->step(step, false, nullptr).ok());
    said.emplace_back(keeper->warning() ? keeper->warning() : "");
    EXPECT_TRUE(keeper->plan(nullptr).ok());
  }
  const std::string text = "keep_best keeps nothing: no checkpoint has the metric \"val_loss\"; they have loss";
  EXPECT_EQ(said, (std::vector<std::string>{"", "", text, "", "", ""})) << "before the first one goes";
  const auto told = make({.keep_best = "val_loss:min"});
  for (int64_t step = 1; step <= 6; step++) {
    if (step == 3) {
      EXPECT_TRUE(told->tell(CKPT_KEEPER_METRIC, "val_loss", 1).ok());
    }
    ASSERT_TRUE(told->step(step, false, nullptr).ok());
    EXPECT_EQ(told->warning(), nullptr) << step;
    EXPECT_TRUE(told->plan(nullptr).ok());
  }
}

TEST(Keeper, VotesThatAreNotThoseOfAllRanksAreRefused) {
  Ranks ranks(2, {.every = "5 s"});
  Votes own{};
  int32_t what;
  ASSERT_TRUE(ranks.keepers[0]->step(1, false, own.data()).ok());
  EXPECT_EQ(ranks.keepers[0]->decide(own.data(), &what).code(), CKPT_INVALID) << "they are this rank's alone";
  EXPECT_EQ(ranks.keepers[0]->decide(nullptr, &what).code(), CKPT_INVALID) << "a clock decides";
  Ranks counted(2, {.every = "5 steps"});
  EXPECT_EQ(counted.keepers[0]->decide(nullptr, &what).code(), CKPT_INVALID) << "no step was told";
  (void)counted.votes({5, 5});
  ASSERT_TRUE(counted.keepers[1]->decide(nullptr, &what).ok());
  EXPECT_EQ(what, CKPT_KEEPER_SAVE);
  ASSERT_TRUE(counted.keepers[0]->step(6, true, own.data()).ok());
  EXPECT_EQ(counted.keepers[0]->decide(nullptr, &what).code(), CKPT_INVALID) << "a rule of this rank decides";
}

TEST(Keeper, RanksAtDifferentStepsAreAMismatch) {
  Ranks ranks(2);
  const Votes votes = ranks.votes({7, 9});
  int32_t what;
  const Status status = ranks.keepers[0]->decide(votes.data(), &what);
  EXPECT_EQ(status.code(), CKPT_MISMATCH);
  EXPECT_EQ(*status.detail("expected"), "7");
  EXPECT_EQ(*status.detail("found"), "9");
}

TEST(Keeper, RanksThatDoNotAgreeRefuseWhatOneAloneWouldDo) {
  Ranks ranks(2, {.every = "2 steps", .ranks_agree = false});
  Votes own{};
  EXPECT_EQ(ranks.keepers[1]->step(1, true, own.data()).code(), CKPT_INVALID);
  EXPECT_EQ(ranks.keepers[1]->catch_signal(SIGUSR1).code(), CKPT_INVALID);
  ASSERT_TRUE(ranks.keepers[1]->step(2, false, own.data()).ok());
  EXPECT_EQ(decide(*ranks.keepers[1], own), CKPT_KEEPER_SAVE);
  EXPECT_TRUE(ranks.keepers[1]->plan(nullptr).ok()) << "each makes its own plan";
  Ranks agreed(2);
  (void)agreed.votes({1, 1});
  EXPECT_EQ(agreed.keepers[1]->plan(nullptr).status().code(), CKPT_INVALID) << "rank 0's is for all";
  EXPECT_TRUE(agreed.keepers[1]->pass_over(Status(CKPT_CORRUPT, "a byte")).ok()) << "rank 0 looks for the next one";
  EXPECT_EQ(agreed.keepers[1]->pass_over(Status(CKPT_IO, "a cable")).code(), CKPT_IO);
  agreed.keepers[1]->stop(5);
  ranks.keepers[1]->stop(5);
  EXPECT_EQ(ranks.keepers[1]->step(3, false, own.data()).code(), CKPT_INVALID);
}

TEST(Keeper, TheTimeLimitStopsBeforeItsMargin) {
  const auto early = make({.time_limit = "1 h", .time_margin_ms = 3599000});
  EXPECT_EQ(one_step(*early, 1), CKPT_KEEPER_GO_ON);
  const auto late = make({.time_limit = "1 h", .time_margin_ms = 3600000});
  EXPECT_EQ(one_step(*late, 1), CKPT_KEEPER_SAVE_AND_STOP);
  EXPECT_STREQ(late->stopping(), "time limit");
  ::unsetenv("SLURM_JOB_END_TIME");
  EXPECT_EQ(refusal({.time_limit = "slurm"}), CKPT_INVALID);
  ::setenv("SLURM_JOB_END_TIME", std::to_string(time(nullptr) + 60).c_str(), 1);
  EXPECT_EQ(one_step(*make({.time_limit = "slurm", .time_margin_ms = 120000}), 1), CKPT_KEEPER_SAVE_AND_STOP);
  for (const char* text : {"", "Unknown", "12 "}) {
    ::setenv("SLURM_JOB_END_TIME", text, 1);
    EXPECT_EQ(refusal({.time_limit = "slurm"}), CKPT_INVALID) << text;
  }
  EXPECT_EQ(one_step(*make({.time_limit = "999999 days"}), 1), CKPT_KEEPER_GO_ON) << "nanoseconds do not count so far";
  ::unsetenv("SLURM_JOB_END_TIME");
}

TEST(Keeper, AClockCountsFromTheSaveBefore) {
  const auto keeper = make({.every = "0.000000001 s"});
  EXPECT_EQ(one_step(*keeper, 1), CKPT_KEEPER_SAVE);
  EXPECT_EQ(one_step(*make({.every = "1 h"}), 1), CKPT_KEEPER_GO_ON);
}

TEST(Keeper, IdleSavesWheneverRank0HasNoSaveInFlight) {
  Ranks ranks(2, {.every = "idle"});
  const auto outcome = std::make_shared<std::atomic<Outcome>>(Outcome::kRunning);
  std::vector<int32_t> what;
  for (int64_t step = 1; step <= 4; step++) {
    if (step == 2) ranks.keepers[0]->begun({"step-1", 1}, "step-1.1.1", outcome);
    if (step == 4) *outcome = Outcome::kFailed;
    what.push_back(ranks.decide(ranks.votes({step, step}))[1]);
  }
  EXPECT_EQ(what, (std::vector<int32_t>{1, 0, 0, 1}));
}

TEST(Keeper, AReadOnlyOneFindsAndSavesNothing) {
  const auto keeper = make({.every = "1 step", .read_only = true});
  Votes votes{};
  EXPECT_EQ(keeper->step(1, false, votes.data()).code(), CKPT_INVALID);
  keeper->restored(1, {}, {});
  EXPECT_EQ(keeper->plan(nullptr).status().code(), CKPT_INVALID);
  EXPECT_EQ(keeper->check_step({"step-1", 1}).code(), CKPT_INVALID);
  EXPECT_EQ(keeper->search("latest").selector, "latest");
}

TEST(Keeper, WhatThisProcessRemovesIsForgotten) {
  const auto keeper = make({}), retaining = make({.keep_last = 1});
  retaining->know({});
  const auto outcome = std::make_shared<std::atomic<Outcome>>(Outcome::kCommitted);
  ASSERT_TRUE(keeper->step(1, false, nullptr).ok());
  keeper->begun({"step-1", 1}, "step-1.1.1", outcome);
  EXPECT_FALSE(keeper->needs_history() || retaining->needs_history());
  checkpoint::note_removal();
  EXPECT_TRUE(keeper->needs_history() && retaining->needs_history());
  ASSERT_TRUE(keeper->step(2, false, nullptr).ok());
  EXPECT_FALSE(keeper->needs_history()) << "another step was not just saved";
  keeper->know({});
  retaining->know({});
  EXPECT_EQ(keeper->saved(), nullptr) << "so that its step can be saved again";
  EXPECT_FALSE(retaining->needs_history());
}

TEST(Keeper, AStepThatComesBeforeTheLastOneWarns) {
  const auto keeper = make({.every = "2 steps"});
  EXPECT_EQ(one_step(*keeper, 5), CKPT_KEEPER_GO_ON);
  EXPECT_EQ(keeper->warning(), nullptr);
  EXPECT_EQ(one_step(*keeper, 4), CKPT_KEEPER_GO_ON);
  EXPECT_NE(std::string(keeper->warning()).find("step 4 comes after step 5"), std::string::npos);
  EXPECT_EQ(keeper->step(-1, false, nullptr).code(), CKPT_INVALID);
  EXPECT_EQ(keeper->warning(), nullptr);
}

TEST(Keeper, NumbersAreOfTheNextStepOnly) {
  const auto keeper = make({.every = "1 epoch"});
  EXPECT_EQ(keeper->tell(CKPT_KEEPER_COUNTER, "epoch", NAN).code(), CKPT_INVALID);
  EXPECT_EQ(keeper->tell(CKPT_KEEPER_METRIC, "", 1).code(), CKPT_INVALID);
  EXPECT_EQ(keeper->tell(7, "loss", 1).code(), CKPT_INVALID);
  EXPECT_TRUE(keeper->tell(CKPT_KEEPER_METRIC, "loss", NAN).ok());
  EXPECT_TRUE(keeper->tell(CKPT_KEEPER_COUNTER, "epoch", 1).ok());
  EXPECT_EQ(one_step(*keeper, 3), CKPT_KEEPER_SAVE);
  const auto plan = keeper->read_plan(*keeper->plan(nullptr).take()).take();
  EXPECT_EQ(plan.label, "step-3");
  EXPECT_EQ(plan.attributes,
            (Attributes{{"trainer.counters", "{\"epoch\": 1}"}, {"trainer.metrics", "{\"loss\": NaN}"}}));
  Votes votes{};
  EXPECT_EQ(keeper->step(4, false, votes.data()).code(), CKPT_INVALID) << "the epoch was not told again";
}

TEST(Keeper, APlanIsTextAndNothingElseIsAPlan) {
  const auto keeper = make({.on_existing = "replace", .keep_last = 2, .keep_every = 10, .keep_best = "loss:min"});
  EXPECT_EQ(keeper->plan(nullptr).status().code(), CKPT_INVALID) << "no step was told";
  ASSERT_TRUE(keeper->step(7, false, nullptr).ok());
  keeper->know({{"step-5.1.1", "step-5", 5, {{"loss", 1}}}});
  const auto plan = keeper->read_plan(*keeper->plan("mine").take()).take();
  EXPECT_EQ(plan.label, "mine");
  EXPECT_EQ(plan.step, 7);
  EXPECT_TRUE(plan.kept);
  EXPECT_EQ(plan.options,
            (tree::StringMap{
                {"on_existing", "replace"}, {"keep_last", "2"}, {"keep_every", "10"}, {"protect", "mine,step-5"}}));
  EXPECT_EQ(plan.attributes, (Attributes{{"trainer.best", "min loss"}, {"trainer.kept", "1"}}));
  for (const char* text : {"", "{}", "[]", "{\"label\": \"x\"}", "{\"step\": \"1\"}", "{\"label\": 1}"})
    EXPECT_FALSE(keeper->read_plan(text).ok()) << text;
}

TEST(Keeper, WhatIsInFlightMayBeTheBestOrMayFail) {
  const auto keeper = make({.keep_last = 1, .keep_best = "loss:min"});
  keeper->know({{"step-1.1.1", "step-1", 1, {{"loss", 2}}}});
  const auto outcome = std::make_shared<std::atomic<Outcome>>(Outcome::kRunning);
  ASSERT_TRUE(keeper->step(2, false, nullptr).ok());
  ASSERT_TRUE(keeper->tell(CKPT_KEEPER_METRIC, "loss", 1).ok());  // after the step: of its checkpoint
  const auto plan = Keeper::read_plan(*keeper->plan(nullptr).take()).take();
  EXPECT_EQ(plan.attributes, (Attributes{{"trainer.best", "min loss"}, {"trainer.metrics", "{\"loss\": 1}"}}));
  keeper->begun(plan, "step-2.1.1", outcome);
  const auto protect = [&](int64_t step) {
    EXPECT_TRUE(keeper->step(step, false, nullptr).ok());
    return keeper->read_plan(*keeper->plan(nullptr).take())->options.back().second;
  };
  EXPECT_EQ(protect(3), "step-1,step-2,step-2") << "the best if it is committed, and if it is not";
  *outcome = Outcome::kCommitted;
  EXPECT_EQ(protect(4), "step-2");
  EXPECT_EQ(keeper->check_step(plan).code(), CKPT_MISMATCH) << "a plan of an older step";
}

TEST(Keeper, OnlyDamageOfTheLatestIsPassedOver) {
  const auto keeper = make({});
  const Status damage(CKPT_CORRUPT, "a byte"), io(CKPT_IO, "a cable");
  EXPECT_EQ(keeper->pass_over(damage).code(), CKPT_INVALID) << "nothing was found";
  (void)keeper->search("latest");
  (void)keeper->found("step-9.1.1", "");
  EXPECT_EQ(keeper->pass_over(io).code(), CKPT_IO);
  EXPECT_TRUE(keeper->pass_over(damage).ok());
  const Keeper::Search next = keeper->search("latest");
  EXPECT_EQ(next.before, "step-9.1.1");
  EXPECT_EQ(next.damage.message(), "a byte");
  EXPECT_EQ(keeper->search("latest").before, "") << "who asks again begins anew";
  ASSERT_TRUE(keeper->step(9, false, nullptr).ok());
  EXPECT_EQ(keeper->read_plan(*keeper->plan(nullptr).take())->options, (tree::StringMap{{"on_existing", "replace"}}));
  EXPECT_EQ(keeper->search("step:9").before, "") << "another question begins anew";
  (void)keeper->found("step-9.1.1", "");
  EXPECT_EQ(keeper->pass_over(damage).code(), CKPT_CORRUPT);
  const auto strict = make({.on_damaged = "error"});
  (void)strict->search("latest");
  (void)strict->found("step-9.1.1", "");
  EXPECT_EQ(strict->pass_over(damage).code(), CKPT_CORRUPT);
}

// ---- signals: each in a child of its own ----

int exit_of(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

volatile sig_atomic_t earlier_calls = 0;
void earlier(int) { earlier_calls = earlier_calls + 1; }

TEST(Signals, OneIsNotedAndTheHandlerBeforeIsCalledToo) {
  EXPECT_EQ(exit_of([] {
              signal(SIGUSR1, earlier);
              {
                const auto first = make({}), second = make({});
                if (!first->catch_signal(SIGUSR1).ok() || !second->catch_signal(SIGUSR1).ok()) return 1;
                raise(SIGUSR1);
                if (one_step(*first, 1) != CKPT_KEEPER_SAVE_AND_STOP) return 2;
                if (one_step(*second, 1) != CKPT_KEEPER_SAVE_AND_STOP) return 3;
                const auto third = make({});
                if (!third->catch_signal(SIGUSR1).ok() || one_step(*third, 1) != CKPT_KEEPER_GO_ON) return 4;
              }
              raise(SIGUSR1);  // the handler before is back
              return earlier_calls == 2 && signal(SIGUSR1, SIG_DFL) == earlier ? 0 : 5;
            }),
            0);
}

TEST(Signals, AWorkerThatWasForkedSinceEndsAsItWould) {
  EXPECT_EQ(exit_of([] {
              const auto keeper = make({});
              if (!keeper->catch_signal(SIGTERM).ok()) return 1;
              return exit_of([] { return raise(SIGTERM); }) == -SIGTERM ? 0 : 2;
            }),
            0);
}

TEST(Signals, AWorkerThatCatchesASignalItselfIsNotEndedByIt) {
  EXPECT_EQ(exit_of([] {
              const auto keeper = make({});
              if (!keeper->catch_signal(SIGTERM).ok()) return 1;
              return exit_of([] {
                const auto own = make({});
                if (!own->catch_signal(SIGTERM).ok()) return 2;
                raise(SIGTERM);
                return one_step(*own, 1) == CKPT_KEEPER_SAVE_AND_STOP ? 0 : 3;
              });
            }),
            0);
}

TEST(Signals, TheSecondSigintEndsTheProcess) {
  EXPECT_EQ(exit_of([] {
              const auto keeper = make({});
              if (!keeper->catch_signal(SIGINT).ok()) return 1;
              raise(SIGINT);
              if (one_step(*keeper, 1) != CKPT_KEEPER_SAVE_AND_STOP) return 2;
              raise(SIGINT);
              return 3;
            }),
            -SIGINT);
}

void (*ours)(int, siginfo_t*, void*) = nullptr;
void chained(int number, siginfo_t* info, void* context) { ours(number, info, context); }

TEST(Signals, AHandlerThatCallsOursInTurnDoesNotRunForEver) {
  EXPECT_EQ(exit_of([] {
              const auto first = std::make_unique<Signals>();
              if (!first->add(SIGUSR1).ok()) return 1;
              struct sigaction now{};
              sigaction(SIGUSR1, nullptr, &now);
              ours = now.sa_sigaction;
              now.sa_sigaction = chained;
              sigaction(SIGUSR1, &now, nullptr);
              first->~Signals();
              new (first.get()) Signals();
              if (!first->add(SIGUSR1).ok()) return 2;
              raise(SIGUSR1);
              return first->received() == SIGUSR1 ? 0 : 3;
            }),
            0);
}

TEST(Signals, WhatCannotBeCaughtIsRefused) {
  for (const int number : {0, -1, 65, SIGKILL, SIGSTOP, SIGSEGV, SIGABRT})
    EXPECT_EQ(make({})->catch_signal(number).code(), CKPT_INVALID) << number;
}

}  // namespace
}  // namespace ckpt::keeper
