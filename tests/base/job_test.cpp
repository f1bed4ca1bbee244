#include "base/job.h"

#include <gtest/gtest.h>

#include <future>
#include <vector>

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
  const Status told = run_apart(outer, 60000, [&](Job&) {
    auto memory = std::make_shared<std::vector<int>>(1000);
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
    return part;
  });
  EXPECT_EQ(told.code(), CKPT_TIMEOUT) << told.message();
  outer.reset();
  disk.set_value();
  ended.get_future().wait();
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
