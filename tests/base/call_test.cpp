// A call's time, its end, what it counts; and threads that the kernel holds.
#include "base/call.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <future>
#include <thread>

#include "base/job.h"
#include "base/parallel.h"

namespace ckpt {
namespace {

// ---- counting ----

void get() { count_request(RequestKind::kGet, false, 0, 10); }

TEST(RequestCounters, WhatBelongsToNoJobIsCountedNowhere) {
  Job job;
  EXPECT_EQ(CallContext::current().call(), nullptr);
  get();
  EXPECT_EQ(job.call->requests.gets, 0u);
}

TEST(RequestCounters, EachKindIsCountedWithItsBytesAndWhetherItIsARetry) {
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
  EXPECT_EQ(job.call->requests.gets, 1u);
  EXPECT_EQ(job.call->requests.puts, 2u);
  EXPECT_EQ(job.call->requests.lists, 1u);
  EXPECT_EQ(job.call->requests.deletes, 1u);
  EXPECT_EQ(job.call->requests.retries, 2u);
  EXPECT_EQ(job.call->requests.bytes_sent, 10u);
  EXPECT_EQ(job.call->requests.bytes_received, 111u);
  EXPECT_EQ(CallContext::current().call(), nullptr) << "its work is done";
}

TEST(RequestCounters, HelpersCountForTheJobThatTheyHelp) {
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
  EXPECT_EQ(a.call->requests.gets, 1000u);
  EXPECT_EQ(b.call->requests.gets, 777u);
}

TEST(RequestCounters, AJobThatAnotherOneBeginsIsAPartOfIt) {
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
                         EXPECT_EQ(inner->call->requests.gets, 1u);
                         inner.reset();
                         get();
                         return Ok();
                       })
                  .ok());
  EXPECT_EQ(outer.call->requests.gets, 3u);
}

// ---- the end of a call ----

ckpt_status of_thread() { return CallContext::current().check().code(); }

TEST(Call, WhoWorksForNobodyWaitsAsLongAsHeLikes) { EXPECT_EQ(of_thread(), CKPT_OK); }

TEST(Call, ACancelledOneIsOverForAllThatHelpIt) {
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

TEST(Call, OneThatIsAPartOfACancelledOneIsOver) {
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

TEST(Call, AWaitEndsWithTheTimeOfWhoeverWaits) {
  const Backoff long_ago(-1), later(3600000);
  {
    const ContextScope within = later.within();
    EXPECT_EQ(of_thread(), CKPT_OK);
    const ContextScope shorter = long_ago.within();
    EXPECT_EQ(of_thread(), CKPT_TIMEOUT);
    const ContextScope not_longer = later.within();
    EXPECT_EQ(of_thread(), CKPT_TIMEOUT);
  }
  EXPECT_EQ(of_thread(), CKPT_OK);
}

void sleep_ms(int64_t ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

TEST(Call, EachOperationHasAllOfItsTimeAndOneThatTakesLongerEndsAllOthers) {
  static constexpr int64_t kTime = 1500;
  Job job;
  job.call->bound(kTime);
  const Status told = job.run(CKPT_JOB_DONE, [](Job& self) -> Status {
    for (int i = 0; i < 3; i++) {
      const Busy busy("write", "here");
      sleep_ms(kTime * 2 / 5);
      CKPT_TRY(CallContext::current().of(busy).check());
    }
    EXPECT_TRUE(self.check().ok()) << "each one was done in time";
    const Busy slow("read", "there", "file");
    const CallContext waiting = CallContext::current().of(slow);
    EXPECT_LE(waiting.left_ms(), kTime);
    while (waiting.check().ok()) sleep_ms(20);
    const Status late = waiting.check();
    EXPECT_EQ(of_thread(), CKPT_TIMEOUT) << "all others end, too";
    EXPECT_EQ(self.check().code(), CKPT_TIMEOUT);
    return late;
  });
  EXPECT_EQ(told.code(), CKPT_TIMEOUT);
  EXPECT_NE(told.message().find("read of there/file"), std::string::npos) << told.message();
  EXPECT_EQ(*told.detail("path"), "there/file");
}

TEST(Call, TheFirstCauseCounts) {
  Call call;
  (void)call.end(Status(CKPT_IO, "first"));
  (void)call.end(Status(CKPT_TIMEOUT, "second"));
  call.cancel();
  EXPECT_NE(call.check().message().find("first"), std::string::npos);
  EXPECT_EQ(call.check().code(), CKPT_TIMEOUT) << "what is asked of a store then gets no answer of the store";
}

TEST(Call, HearsAgainAfterItHadNoMemoryToHear) {
  Call call;
  int heard = 0;
  call.hear_by([&] {
    if (++heard == 1) throw std::bad_alloc();
    call.cancel();
  });
  EXPECT_EQ(call.over_ms(), Call::kNever);
  EXPECT_EQ(heard, 1);
  for (int i = 0; i < 1000 && !call.cancelled(); i++) sleep_ms(10);
  EXPECT_EQ(call.check().code(), CKPT_CANCELLED);
}

TEST(Call, TellingOthersHasOneTimeForAllAndEachRequestAtMostHalfOfIt) {
  Job job;
  EXPECT_TRUE(job.run(CKPT_JOB_DONE,
                      [](Job& self) {
                        self.cancel();
                        EXPECT_EQ(of_thread(), CKPT_CANCELLED);
                        const Closing closing(Status(CKPT_CANCELLED, "it was"));
                        EXPECT_EQ(of_thread(), CKPT_OK);
                        sleep_ms(500);
                        const Busy first("put", "there"), second("get", "there");
                        EXPECT_LE(CallContext::current().of(first).left_ms(), (Call::kClosingMs - 400) / 2);
                        const Closing gives_no_more(Status(CKPT_IO, "another"));
                        EXPECT_LE(CallContext::current().left_ms(), Call::kClosingMs - 400);
                        return Ok();
                      })
                  .ok());
}

TEST(Call, WhoTellsOthersForNobodyHasAnEndToo) {
  const Closing closing(Status(CKPT_IO, "why"));
  EXPECT_LE(CallContext::current().left_ms(), Call::kClosingMs);
  EXPECT_EQ(of_thread(), CKPT_OK);
}

TEST(Call, NothingThatCannotBeUndoneBeginsOnceItIsOver) {
  const auto call = std::make_shared<Call>();
  EXPECT_TRUE(call->answer_if_left(Status(CKPT_COMMIT_UNKNOWN, "maybe")).ok());
  (void)call->end(Status(CKPT_TIMEOUT, "late"));
  EXPECT_EQ(call->answer_if_left(Status(CKPT_COMMIT_UNKNOWN, "maybe")).code(), CKPT_TIMEOUT);
}

// ---- threads that the kernel holds ----

// Something that nothing can break off until the test says so.
struct Hang {
  void hang() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return released; });
    ended = true;
    changed.notify_all();
  }
  ~Hang() {
    std::unique_lock lock(mutex);
    released = true;
    changed.notify_all();
    changed.wait(lock, [&] { return ended; });
  }
  std::mutex mutex;
  std::condition_variable changed;
  bool released = false, ended = false;
};

constexpr int64_t kMostMs = 10000;  // beyond the call's own time

struct Ended {
  Status told;
  int64_t after_ms;
};

template <typename Do>
Ended timed(Do&& work) {
  const int64_t begin = steady_ms();
  Status told = work();
  return {std::move(told), steady_ms() - begin};
}

// All at once, since each takes some seconds.
TEST(Job, AThreadThatTheKernelHoldsIsLeftBehindAndNamed) {
  Hang write, unlink, freed, commit;
  auto hanging = [](Hang& hang, const char* verb, int64_t patience_ms, auto before) {
    return std::async(std::launch::async, [&hang, verb, patience_ms, before] {
      const auto job = std::make_shared<Job>();
      job->call->bound(patience_ms);
      return timed([&] {
        return job->run_apart(CKPT_JOB_DONE, [&hang, verb, before](Job& self) {
          const Status known = before(self);
          const Busy busy(verb, "/data", "PART_000");
          hang.hang();
          return known;
        });
      });
    });
  };
  auto written = hanging(write, "write", 1000, [](Job&) { return Ok(); });
  auto unlinked = hanging(unlink, "removal", 600000, [](Job& self) {
    return self.call->settle(self.call->end(Status(CKPT_MISMATCH, "shapes differ")));
  });
  auto committed = hanging(commit, "publication", 1000, [](Job& self) {
    return self.call->answer_if_left(Status(CKPT_COMMIT_UNKNOWN, "it may be there"));
  });
  const auto background = std::make_shared<Job>();
  ASSERT_TRUE(background
                  ->start(CKPT_JOB_COMMITTED,
                          [&freed](Job& self) {
                            self.reach(CKPT_JOB_STAGED);
                            const Busy busy("sync", "/data", "PART_000");
                            freed.hang();
                            return Ok();
                          })
                  .ok());
  ASSERT_TRUE(background->wait(CKPT_JOB_STAGED, -1).ok());
  const Ended end = timed([&] {
    background->finish();
    return background->wait(CKPT_JOB_COMMITTED, 0);
  });
  EXPECT_LE(end.after_ms, kMostMs);
  EXPECT_EQ(end.told.code(), CKPT_TIMEOUT) << end.told.message();
  EXPECT_TRUE(background->left());
  EXPECT_EQ(background->state(), CKPT_JOB_FAILED);
  const Ended w = written.get(), u = unlinked.get(), c = committed.get();
  for (const Ended& one : {w, u, c}) {
    EXPECT_LE(one.after_ms, 1000 + kMostMs);
    EXPECT_NE(one.told.message().find("of /data/PART_000 has not ended for"), std::string::npos) << one.told.message();
    EXPECT_NE(one.told.message().find("left behind"), std::string::npos) << one.told.message();
  }
  EXPECT_EQ(w.told.code(), CKPT_TIMEOUT);
  EXPECT_EQ(u.told.code(), CKPT_MISMATCH) << "its end was known, and only tidying up was left";
  EXPECT_EQ(c.told.code(), CKPT_COMMIT_UNKNOWN);
}

// Tidying up that asks nobody, of which each step takes a while.
TEST(Job, AThreadThatGoesFromOneSlowOperationToTheNextIsLeftBehind) {
  std::atomic<bool> released = false, ended = false;
  const auto job = std::make_shared<Job>();
  job->call->bound(100);
  const Ended end = timed([&] {
    return job->run_apart(CKPT_JOB_DONE, [&](Job&) {
      while (!released) {
        const Busy busy("removal", "/data", "PART_000");
        sleep_ms(300);
      }
      ended = true;
      return Ok();
    });
  });
  EXPECT_LE(end.after_ms, 100 + kMostMs);
  EXPECT_EQ(end.told.code(), CKPT_TIMEOUT) << end.told.message();
  released = true;
  while (!ended) sleep_ms(10);
}

// A wait's last look at a disk that hangs from then on. Twice its time would be too late.
TEST(Job, AnOperationThatBeginsAtTheEndOfAWaitGetsNoTimeOfItsOwn) {
  Hang other, look;
  const auto job = std::make_shared<Job>();
  job->call->bound(600000);
  const auto waits_until = [](int64_t left_ms) { return CallContext::current().ending_at(steady_ms() + left_ms); };
  std::thread longer;
  const Ended end = timed([&] {
    return job->run_apart(CKPT_JOB_DONE, [&](Job&) {
      longer = std::thread([&other, kept = job, context = waits_until(600000)] {
        const ContextScope on(context);
        const Busy busy("write", "/other");  // older, and not late
        other.hang();
      });
      sleep_ms(100);
      const ContextScope within(waits_until(500));
      sleep_ms(400);
      const Busy busy("read", "/data", "MANIFEST");
      look.hang();
      return Ok();
    });
  });
  EXPECT_LE(end.after_ms, 500 + kMostMs);
  EXPECT_EQ(end.told.code(), CKPT_TIMEOUT) << end.told.message();
  EXPECT_NE(end.told.message().find("read of /data/MANIFEST"), std::string::npos) << end.told.message();
  longer.detach();
}

TEST(Job, OneThatComputesIsWaitedForHoweverLongItTakes) {
  const auto job = std::make_shared<Job>();
  job->call->bound(1);
  EXPECT_TRUE(job->run_apart(CKPT_JOB_DONE,
                             [](Job& self) {
                               sleep_ms(300);
                               return self.check();
                             })
                  .ok());
  EXPECT_FALSE(job->left());
}

TEST(Job, ItsOwnThreadMayBeTheLastThatKnowsIt) {
  std::promise<void> freed;
  auto job = std::make_shared<Job>();
  ASSERT_TRUE(job->start(CKPT_JOB_DONE,
                         [told = freed.get_future().share()](Job&) {
                           told.wait();
                           return Ok();
                         })
                  .ok());
  job.reset();
  freed.set_value();
}

}  // namespace
}  // namespace ckpt
