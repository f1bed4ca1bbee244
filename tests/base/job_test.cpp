#include "base/job.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace ckpt
