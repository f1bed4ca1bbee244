// What becomes of a save whose Job is dropped or replaced, and what a handle says once it was moved from.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ckpt.hpp"

namespace {

// A save of two ranks, of which the second never comes: it cannot commit.
struct Unfinished {
  ckpt::Store store;
  ckpt::Session session = ckpt::Session::open(store, 0, 2);
  std::vector<float> w = std::vector<float>(4, 1.0f);

  explicit Unfinished(const std::string& name) : store(ckpt::Store::open("mem:cpp-jobs-" + name)) {}
  ckpt::Job start(const std::string& label) {
    auto save = ckpt::Save::create(session, label);
    save.add_tensor("w", ckpt::Tensor::of<float>({4}), w);
    return save.start();
  }
  bool committed(const std::string& label) const {
    for (const auto& info : store.list())
      if (info.label == label && info.state == CKPT_CHECKPOINT_COMMITTED) return true;
    return false;
  }
};

TEST(CppJobs, AJobThatIsDestroyedCancelsItsSave) {
  Unfinished save("destroyed");
  {
    const ckpt::Job job = save.start("dropped");
  }
  EXPECT_FALSE(save.committed("dropped"));
  save.w.assign(4, 2.0f);  // the memory is ours again
}

TEST(CppJobs, AssigningToAJobCancelsTheOneBefore) {
  Unfinished save("assigned");
  ckpt::Job job = save.start("before");
  const ckpt_job* before = job.get();
  job = save.start("after");
  EXPECT_NE(job.get(), before);
  EXPECT_FALSE(save.committed("before"));
  EXPECT_LT(job.state(), CKPT_JOB_COMMITTED);  // the new one still waits for the other rank
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
