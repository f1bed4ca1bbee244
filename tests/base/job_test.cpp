#include "base/job.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>
#include <vector>

#include "no_threads.h"

namespace ckpt {
namespace {

TEST(Backoff, PausesDoubleAndAllPollersTogetherAskNoMoreThanAFewThousandTimesASecond) {
  for (uint32_t pollers : {1u, 64u, 400u, 1000u, 10000u, 100000u}) {
    Backoff backoff(0, pollers);  // its time is over, so it does not sleep
    const int64_t first = backoff.next_pause_ms();
    EXPECT_GE(first, 1);
    EXPECT_LE(first, std::max(1u, pollers / 400)) << "a short wait stays short";
    backoff.sleep();
    EXPECT_EQ(backoff.next_pause_ms(), 2 * first);
    for (int i = 0; i < 20; i++) backoff.sleep();
    EXPECT_GE(backoff.next_pause_ms(), 100);
    EXPECT_LE(pollers * 1000.0 / static_cast<double>(backoff.next_pause_ms()), 4000.0) << pollers;
    backoff.reset();
    EXPECT_EQ(backoff.next_pause_ms(), first);
  }
}

// A load inside an export, say: it wakes up when the export has ended.
TEST(Job, WhatAPartOfACallUsesOutlivesThePartThatIsLeftBehind) {
  std::promise<void> disk, ended;
  const auto answers = disk.get_future().share();
  auto outer = std::make_shared<Job>();
  std::weak_ptr<std::vector<int>> kept;
  const Status told = run_apart(outer, 60000, [&](Job&) {
    auto memory = std::make_shared<std::vector<int>>(1000);
    kept = memory;
    Status part = run_apart(std::make_shared<Job>(), 100, [&ended, answers, to = memory->data()](Job&) {
      {
        const Busy busy("read", "a disk that hangs");
        answers.wait();
      }
      to[999] = 1;
      ended.set_value();
      return Ok();
    });
    CallContext::current().call()->keep_if_left(std::move(memory));
    // The whole call is over, so no later part has memory that is kept without need.
    Status later = run_apart(std::make_shared<Job>(), 100, [](Job&) { return CallContext::current().check(); });
    EXPECT_EQ(later.code(), CKPT_TIMEOUT) << later.message();
    return part;
  });
  EXPECT_EQ(told.code(), CKPT_TIMEOUT) << told.message();
  outer.reset();
  EXPECT_FALSE(kept.expired());
  disk.set_value();
  ended.get_future().wait();
  for (int i = 0; i < 1000 && !kept.expired(); i++) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(kept.expired()) << "kept no longer than the part that was left behind";
}

TEST(Job, ATimeoutTellsWhatItsBodyKnowsOfIt) {
  for (const ckpt_status code : {CKPT_TIMEOUT, CKPT_NOT_FOUND, CKPT_OK}) {
    const Status told = run_apart(std::make_shared<Job>(), 50, [code](Job& self) -> Status {
      const Busy busy("GET", "a server that always answers 502");
      while (self.check().ok()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return code == CKPT_OK ? Ok() : Status(code, "HTTP status 502");
    });
    EXPECT_EQ(told.code(), CKPT_TIMEOUT) << told.message();
    EXPECT_EQ(told.message().find("502") != std::string::npos && told.message().find("GET of") == std::string::npos,
              code == CKPT_TIMEOUT)
        << told.message();
  }
}

// Else those that stand still and then fail, one after another, hold a call for many times its timeout_ms.
TEST(Job, OperationsThatGetNoAnswerHaveOneTimeTogether) {
  constexpr int64_t kPatience = 1000000, kStood = 20;
  const auto stand = [=](const Status& status) {
    const Busy busy("read", "/data");
    std::this_thread::sleep_for(std::chrono::milliseconds(kStood));
    (void)Busy::of_thread_ended(status);
  };
  const auto lost = [=](const Busy& busy) { return busy.since_ms() + kPatience - busy.until_ms(kPatience); };
  const Status io(CKPT_IO, "input/output error"), absent(CKPT_NOT_FOUND, "no such file");
  const Status told = run_apart(std::make_shared<Job>(), kPatience, [&](Job&) {
    const Busy before("read", "/other");
    stand(io);
    stand(io);
    const Busy after("read", "/data");
    EXPECT_GE(lost(after), 2 * kStood);
    EXPECT_EQ(lost(before), 0) << "it stands no longer than they did";
    const int64_t both = lost(after), began = steady_ms();
    {
      const Busy beside("read", "/data");
      stand(io);
      (void)Busy::of_thread_ended(io);
    }
    EXPECT_LE(lost(Busy("read", "/data")), both + steady_ms() - began) << "what stands at the same time counts once";
    stand(absent);
    EXPECT_EQ(lost(Busy("read", "/data")), 0) << "an answer";
    EXPECT_EQ(lost(after), 0);
    return Ok();
  });
  EXPECT_EQ(told.code(), CKPT_OK);
}

// Of a library above ckpt, whose calls have a half in ckpt.
TEST(Job, IsLeftBehindWhereItsOtherHalfHangs) {
  std::promise<void> disk;
  const auto job = std::make_shared<Job>();
  job->look_too([](Status* answer) {
    *answer = Status(CKPT_TIMEOUT, "the other half hangs");
    return true;
  });
  const Status told = run_apart(job, 60000, [answers = disk.get_future().share()](Job&) {
    answers.wait();
    return Ok();
  });
  EXPECT_EQ(told.message(), "the other half hangs");
  EXPECT_TRUE(job->left());
  disk.set_value();
}

TEST(Job, WhatWasSettledIsToldThoughItsOtherHalfHangs) {
  for (const Status& known : {Ok(), Status(CKPT_MISMATCH, "refused")}) {
    std::promise<void> disk, settled;
    const auto job = std::make_shared<Job>();
    job->look_too([is_settled = settled.get_future().share()](Status* answer) {
      *answer = Status(CKPT_TIMEOUT, "the other half hangs");
      return is_settled.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    });
    const Status told = run_apart(job, 60000, [&, answers = disk.get_future().share()](Job& self) {
      (void)self.call->settle(known);
      settled.set_value();
      answers.wait();
      return Ok();
    });
    EXPECT_EQ(told.code(), known.code()) << told.message();
    EXPECT_EQ(told.message(), known.ok() ? "" : "refused; the other half hangs");
    EXPECT_TRUE(job->left());
    disk.set_value();
  }
}

TEST(Job, HearsOfItsOtherHalfAlsoWhereThereIsNoThreadToBeHad) {
  const auto job = std::make_shared<Job>();
  int64_t looked = 0;
  job->look_too([own = job.get(), &looked](Status*) {
    if (++looked == 3) own->cancel();
    return true;  // but this thread cannot be left behind
  });
  const ckpt_test::NoThreads none;
  const int64_t begin = steady_ms();
  const Status told = run_apart(job, 60000, [&](Job& self) {
    Job part;
    return part.run(CKPT_JOB_DONE, [&](Job&) {
      while (CallContext::current().check().ok() && steady_ms() - begin < 10000)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return self.check();
    });
  });
  EXPECT_EQ(told.code(), CKPT_CANCELLED) << told.message();
  EXPECT_GE(looked, 3);
  EXPECT_GE(steady_ms() - begin, 20 * (looked - 1)) << "not at each question";
}

TEST(Job, WhatWasSettledIsToldThoughTidyingUpTakesLong) {
  const auto slow = std::make_shared<Job>();
  const Status told = run_apart(slow, 100, [](Job& job) {
    Status refused = job.call->settle(Status(CKPT_MISMATCH, "refused"));
    const Busy busy("telling", "others");
    while (job.check().ok()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return refused;
  });
  EXPECT_EQ(told.code(), CKPT_MISMATCH) << told.message();
}

}  // namespace
}  // namespace ckpt
