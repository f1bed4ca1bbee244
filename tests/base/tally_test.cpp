#include "base/tally.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/errand.h"
#include "base/job.h"
#include "base/parallel.h"

namespace ckpt {
namespace {

void get() { count_request(RequestKind::kGet, false, 0, 10); }

TEST(Tally, WhatBelongsToNoJobIsCountedNowhere) {
  Job job;
  EXPECT_EQ(Errand::current().tally(), nullptr);
  get();
  EXPECT_EQ(job.tally->gets, 0u);
}

TEST(Tally, EachKindIsCountedWithItsBytesAndWhetherItIsARetry) {
  Job job;
  EXPECT_TRUE(job.run(CKPT_JOB_DONE,
                      [](Job&) {
                        get();
                        count_request(RequestKind::kPut, false, 5, 0);
                        count_request(RequestKind::kPut, true, 5, 1);
                        count_request(RequestKind::kList, false, 0, 100);
                        count_request(RequestKind::kDelete, true, 0, 0);
                        return Ok();
                      })
                  .ok());
  EXPECT_EQ(job.tally->gets, 1u);
  EXPECT_EQ(job.tally->puts, 2u);
  EXPECT_EQ(job.tally->lists, 1u);
  EXPECT_EQ(job.tally->deletes, 1u);
  EXPECT_EQ(job.tally->retries, 2u);
  EXPECT_EQ(job.tally->bytes_sent, 10u);
  EXPECT_EQ(job.tally->bytes_received, 111u);
  EXPECT_EQ(Errand::current().tally(), nullptr) << "its work is done";
}

TEST(Tally, HelpersCountForTheJobThatTheyHelp) {
  Job a, b;
  auto work = [](size_t times) {
    return [times](Job&) {
      return for_each_parallel(4, times, [](size_t) {
        get();
        return Ok();
      });
    };
  };
  std::thread other([&] { EXPECT_TRUE(a.run(CKPT_JOB_DONE, work(1000)).ok()); });
  EXPECT_TRUE(b.run(CKPT_JOB_DONE, work(777)).ok());
  other.join();
  EXPECT_EQ(a.tally->gets, 1000u);
  EXPECT_EQ(b.tally->gets, 777u);
}

TEST(Tally, AJobThatAnotherOneBeginsIsAPartOfIt) {
  auto inner = std::make_unique<Job>();
  Job outer;
  EXPECT_TRUE(outer
                  .run(CKPT_JOB_DONE,
                       [&](Job&) {
                         get();
                         CKPT_TRY(inner->start(CKPT_JOB_DONE, [](Job&) {
                           get();
                           return Ok();
                         }));
                         CKPT_TRY(inner->wait(CKPT_JOB_DONE, -1));
                         EXPECT_EQ(inner->tally->gets, 1u);
                         inner.reset();
                         get();
                         return Ok();
                       })
                  .ok());
  EXPECT_EQ(outer.tally->gets, 3u);
}

}  // namespace
}  // namespace ckpt
