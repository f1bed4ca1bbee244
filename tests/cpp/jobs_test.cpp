// What becomes of a save whose Job or Session is dropped or replaced, and what a handle says once it was moved from.
#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ckpt.hpp"

namespace {

// A store with the sessions of two ranks.
struct Ranks {
  ckpt::Store store;
  ckpt::Session session, other;
  std::vector<float> w = std::vector<float>(4, 1.0f);

  explicit Ranks(const std::string& name)
      : store(ckpt::Store::open("mem:cpp-jobs-" + name)),
        session(ckpt::Session::open(store, 0, 2)),
        other(ckpt::Session::open(store, 1, 2, session.string())) {}
  ckpt::Save save(const ckpt::Session& rank, const std::string& label) {
    auto save = ckpt::Save::create(rank, label);
    save.add_tensor("w", ckpt::Tensor::of<float>({4}), w);
    return save;
  }
  bool committed(const std::string& label) const {
    for (const auto& info : store.list())
      if (info.label == label && info.state == CKPT_CHECKPOINT_COMMITTED) return true;
    return false;
  }
};

ckpt_status status_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const ckpt::Error& error) {
    return error.status();
  }
  return CKPT_OK;
}

// ---- a save belongs to its session ----

TEST(CppJobs, ASaveWhoseJobIsDroppedIsCommittedWithTheMemoryAsItWasAtTheStart) {
  Ranks ranks("dropped");
  ranks.save(ranks.session, "a").start();
  ranks.w.assign(4, 2.0f);  // staged: the memory is ours again
  EXPECT_FALSE(ranks.committed("a"));
  std::vector<float> same(4, 1.0f);
  auto other = ckpt::Save::create(ranks.other, "a");
  other.add_tensor("w", ckpt::Tensor::of<float>({4}), same);
  other.start();
  ranks.session.close();
  EXPECT_TRUE(ranks.committed("a"));
  EXPECT_EQ(ckpt::Reader::open(ranks.store).read<float>("w"), same);
}

TEST(CppJobs, TheDestructorOfASessionWaitsForItsSaves) {
  Ranks ranks("session");
  {
    const ckpt::Session session = std::move(ranks.session);
    ranks.save(session, "a").start();
    ranks.save(ranks.other, "a").start();
  }
  EXPECT_TRUE(ranks.committed("a"));
}

TEST(CppJobs, ASaveThatIsStartedAfterItsSessionWasDestroyedIsCommitted) {
  auto store = ckpt::Store::open("mem:cpp-jobs-orphan");
  {
    auto save = ckpt::Save::create(ckpt::Session::open(store), "a");
    save.start();
  }
  EXPECT_EQ(store.list().size(), 1u);
}

TEST(CppJobs, AFailureOfWhichNobodyWasToldIsThatOfTheNextSaveAndOfItsOtherRanks) {
  Ranks ranks("told");
  ranks.save(ranks.session, "a").start();
  ranks.save(ranks.other, "a").give_up("no room");
  while (status_of([&] { ckpt::Save::create(ranks.session, "probe"); }) == CKPT_OK) continue;
  // Told once; the session can be used again.
  ranks.save(ranks.session, "b").start();
  ranks.save(ranks.other, "b").start();
  ranks.session.close();
  EXPECT_TRUE(ranks.committed("b"));
}

TEST(CppJobs, CloseFailsAsTheSaveThatFailed) {
  Ranks ranks("close");
  ranks.save(ranks.session, "a").start();
  ranks.save(ranks.other, "a").give_up("no room");
  try {
    ranks.session.close();
    ADD_FAILURE() << "it said nothing";
  } catch (const ckpt::Error& error) {
    EXPECT_EQ(error.status(), CKPT_ABORTED);
    EXPECT_NE(std::string(error.what()).find("the save \"a\" in the background failed: "), std::string::npos)
        << error.what();
  }
  ranks.other.close();
}

TEST(CppJobs, AFailureThatAWaitToldIsNotToldAgain) {
  Ranks ranks("once");
  const ckpt::Job job = ranks.save(ranks.session, "a").start();
  EXPECT_EQ(status_of([&] { job.wait(CKPT_JOB_COMMITTED, 1); }), CKPT_TIMEOUT);
  ranks.save(ranks.other, "a").give_up("no room");
  EXPECT_EQ(status_of([&] { job.wait_committed(); }), CKPT_ABORTED);
  ranks.session.close();
}

TEST(CppJobs, AnExceptionThatLeavesTheSessionCancelsItsSavesAtOnce) {
  Ranks ranks("unwinding");
  try {
    const ckpt::Session session = std::move(ranks.session);
    ranks.save(session, "a").start();
    throw std::runtime_error("the trainer failed");  // without the cancel this would wait for the other rank
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(status_of([&] { ranks.save(ranks.other, "a").run(); }), CKPT_ABORTED);
}

TEST(CppJobs, AJobInPlaceThatIsDestroyedWaitsUntilTheMemoryIsFreeAndLosesNothing) {
  Ranks ranks("in-place");
  {
    const ckpt::Job job = ranks.save(ranks.session, "a").start_in_place();
  }
  ranks.w.assign(4, 2.0f);
  std::vector<float> same(4, 1.0f);
  auto other = ckpt::Save::create(ranks.other, "a");
  other.add_tensor("w", ckpt::Tensor::of<float>({4}), same);
  other.run();
  ranks.session.close();
  EXPECT_EQ(ckpt::Reader::open(ranks.store).read<float>("w"), same);
}

TEST(CppJobs, AssigningToAJobLosesNothing) {
  Ranks ranks("assigned");
  ckpt::Job job = ranks.save(ranks.session, "a").start();
  job = ranks.save(ranks.session, "b").start();
  for (const char* label : {"a", "b"}) ranks.save(ranks.other, label).start();
  ranks.session.close();
  EXPECT_TRUE(ranks.committed("a") && ranks.committed("b"));
}

TEST(CppJobs, AJobThatIsMovedGoesOn) {
  auto store = ckpt::Store::open("mem:cpp-jobs-moved");
  auto session = ckpt::Session::open(store);
  auto save = ckpt::Save::create(session, "a");
  const std::vector<float> w(4, 1.0f);
  save.add_tensor("w", ckpt::Tensor::of<float>({4}), w);
  ckpt::Job job = save.start();
  ckpt::Job taken = std::move(job);
  taken.wait_committed();
  EXPECT_EQ(taken.state(), CKPT_JOB_COMMITTED);
  EXPECT_EQ(store.list().size(), 1u);
}

// ---- moved-from handles ----

using Calls = std::vector<std::pair<const char*, std::function<void()>>>;
void expect_invalid(const Calls& calls) {
  for (const auto& [what, call] : calls) {
    try {
      call();
      ADD_FAILURE() << what << " was done";
    } catch (const ckpt::Error& error) {
      EXPECT_EQ(error.status(), CKPT_INVALID) << what << ": " << error.what();
    }
  }
}

struct MovedFrom {
  ckpt::Store store = ckpt::Store::open("mem:cpp-jobs-empty");
  ckpt::Session session = ckpt::Session::open(store);
  ckpt::Save save = ckpt::Save::create(session, "a");
  ckpt::Job job{nullptr};
  ckpt::Reader reader{nullptr};
  ckpt::Load load{nullptr};
  ckpt::Report report{nullptr};
  ckpt::Tree tree = ckpt::Tree::parse("[1]");

  MovedFrom() {
    job = save.start();
    job.wait_committed();
    reader = ckpt::Reader::open(store);
    load = ckpt::Load::create(reader);
    report = reader.diff(reader);
    empty(load, report, job, tree, reader, save, session, store);
  }
  template <class... Handles>
  static void empty(Handles&... handles) {
    ((void)Handles(std::move(handles)), ...);
  }
};

TEST(CppJobs, ACallOnAMovedFromHandleIsInvalid) {
  MovedFrom of;
  std::vector<float> w(1);
  const auto tensor = ckpt::Tensor::of<float>({1});
  expect_invalid({{"list", [&] { of.store.list(); }},
                  {"find", [&] { of.store.find("latest"); }},
                  {"session", [&] { (void)ckpt::Session::open(of.store); }},
                  {"save", [&] { (void)ckpt::Save::create(of.session, "a"); }},
                  {"add", [&] { of.save.add_tensor("w", tensor, w); }},
                  {"run", [&] { of.save.run(); }},
                  {"start", [&] { (void)of.save.start(); }},
                  {"wait", [&] { of.job.wait_committed(); }},
                  {"stats", [&] { of.job.stats(); }},
                  {"info", [&] { of.reader.info(); }},
                  {"tensor", [&] { of.reader.tensor("w"); }},
                  {"attributes", [&] { of.reader.attrs(); }},
                  {"attributes of a tensor", [&] { of.reader.tensor_attrs("w"); }},
                  {"tree", [&] { (void)of.reader.tree(); }},
                  {"load", [&] { (void)ckpt::Load::create(of.reader); }},
                  {"load of a tensor", [&] { of.load.add_tensor("w", tensor, w); }},
                  {"run of a load", [&] { of.load.run(); }},
                  {"finding", [&] { of.report.at(0); }},
                  {"node", [&] { of.tree.at(0); }},
                  {"key", [&] { of.tree.find(0, "k"); }},
                  {"key with a NUL", [&] { of.tree.find(0, std::string("a\0b", 3)); }},
                  {"json", [&] { of.tree.json(); }},
                  {"add to a tree", [&] { of.tree.add_int(1); }}});
}

TEST(CppJobs, WhatAMovedFromHandleTellsIsEmptyOrZeroAndItsJobFailed) {
  const MovedFrom of;
  EXPECT_FALSE(of.store);
  EXPECT_EQ(of.session.string(), "");
  EXPECT_EQ(of.save.id(), "");
  EXPECT_EQ(of.job.state(), CKPT_JOB_FAILED);
  of.job.cancel();  // nothing
  EXPECT_EQ(of.reader.tensor_count(), 0u);
  EXPECT_EQ(of.reader.object_count(), 0u);
  EXPECT_EQ(of.reader.attr("k"), std::nullopt);
  EXPECT_EQ(of.reader.tensor_attr("w", "k"), std::nullopt);
  EXPECT_EQ(of.report.size(), 0u);
  EXPECT_TRUE(of.report.empty());
  EXPECT_EQ(of.tree.size(), 0u);
  const ckpt::File file(nullptr);
  EXPECT_EQ(file.format(), "");
  EXPECT_EQ(file.tensor_count(), 0u);
}

}  // namespace
