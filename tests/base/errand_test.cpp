#include "base/errand.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/job.h"
#include "base/parallel.h"

namespace ckpt {
namespace {

ckpt_status of_thread() { return Errand::current().check().code(); }

TEST(Errand, WhoWorksForNobodyWaitsAsLongAsHeLikes) { EXPECT_EQ(of_thread(), CKPT_OK); }

TEST(Errand, OfACancelledJobIsOverForAllThatHelpIt) {
  Job job;
  EXPECT_TRUE(job.run(CKPT_JOB_DONE,
                      [](Job& self) {
                        EXPECT_EQ(of_thread(), CKPT_OK);
                        self.cancel();
                        return for_each_parallel(4, 100, [](size_t) {
                          EXPECT_EQ(of_thread(), CKPT_CANCELLED);
                          return Ok();
                        });
                      })
                  .ok());
  EXPECT_EQ(of_thread(), CKPT_OK) << "its work is done";
}

TEST(Errand, OfAJobThatIsAPartOfACancelledOneIsOver) {
  Job outer, inner;
  EXPECT_TRUE(outer
                  .run(CKPT_JOB_DONE,
                       [&](Job& self) {
                         self.cancel();
                         return inner.run(CKPT_JOB_DONE, [](Job& part) {
                           EXPECT_FALSE(part.cancelled());
                           EXPECT_EQ(of_thread(), CKPT_CANCELLED);
                           return Ok();
                         });
                       })
                  .ok());
}

TEST(Errand, IsOverWithTheTimeOfWhoeverWaits) {
  const Backoff long_ago(-1), later(3600000);
  {
    const OnErrand within = later.within();
    EXPECT_EQ(of_thread(), CKPT_OK);
    const OnErrand shorter = long_ago.within();
    EXPECT_EQ(of_thread(), CKPT_TIMEOUT);
    const OnErrand not_longer = later.within();
    EXPECT_EQ(of_thread(), CKPT_TIMEOUT);
  }
  EXPECT_EQ(of_thread(), CKPT_OK);
}

TEST(Errand, WhatMustBeDoneGoesOnForAWhileButNotForEver) {
  Job job;
  EXPECT_TRUE(job.run(CKPT_JOB_DONE,
                      [](Job& self) {
                        self.cancel();
                        const GoingOn going_on;
                        EXPECT_EQ(of_thread(), CKPT_OK);
                        std::this_thread::sleep_for(std::chrono::milliseconds(Errand::kLastMs / 2));
                        const GoingOn gives_no_more;
                        std::this_thread::sleep_for(std::chrono::milliseconds(Errand::kLastMs / 2));
                        EXPECT_EQ(of_thread(), CKPT_CANCELLED);
                        return Ok();
                      })
                  .ok());
}

}  // namespace
}  // namespace ckpt
