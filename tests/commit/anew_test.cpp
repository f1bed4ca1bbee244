// What retention leaves of earlier sessions: a training that began anew in an old directory, or went back, removes
// nothing that it does not go on from, and is told at once.
#include "checkpoint/engine.h"
#include "checkpoint/line.h"
#include "checkpoint/select.h"
#include "commit/retention.h"

namespace ckpt::commit {
namespace {

using Steps = std::vector<int64_t>;

class AnewTest : public ::testing::Test {
 protected:
  // A session that saves these steps and keeps two, or all; its findings ANEW, by the names of the checkpoints.
  std::vector<std::string> train(const Steps& steps, const std::string& continue_from = "auto", int64_t keep_last = 2) {
    auto session = session::Session::open(store, 0, 1, nullptr, {.continue_from = continue_from}, Job(), mirror);
    EXPECT_TRUE(session.ok()) << session.status().message();
    std::vector<std::string> names;
    for (const int64_t step : steps) {
      const Report report = save_one(*session, step, keep_last);
      for (const Finding& finding : report.findings)
        if (finding.kind == CKPT_FINDING_ANEW) names.push_back(finding.name);
    }
    return names;
  }
  static Report save_one(const std::shared_ptr<session::Session>& session, int64_t step, int64_t keep_last) {
    auto save = *save::Save::make(session, "s" + std::to_string(step), step, {.keep_last = keep_last});
    EXPECT_TRUE(save->add_object("o", "text/plain", CKPT_OBJECT_SHARED, as_bytes("x")).ok());
    const Status saved = run_whole(*save);
    EXPECT_TRUE(saved.ok()) << saved.message();
    return *save->report();
  }
  void load(const std::string& selector) {
    auto checkpoint = checkpoint::Checkpoint::open(store, {selector, "main"});
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    auto load = *load::Load::make(*checkpoint, {});
    std::byte byte;
    ASSERT_TRUE(load->add_object("o", 0, {&byte, 1}).ok());
    ASSERT_TRUE(run_whole(*load).ok());
  }
  void in_a_new_process() { checkpoint::forget_line(*checkpoint::find_store_id(*store), "main"); }
  Steps there() {
    Steps steps;
    const auto entries = *checkpoint::list_checkpoints(*store);
    for (const auto& entry : entries) steps.push_back(entry.summary.step);
    return steps;
  }

  std::shared_ptr<store::Store> store = fresh_memory_store(), mirror;
};
using BeganAnew = AnewTest;
using WentBack = AnewTest;
using GoesOn = AnewTest;

const std::vector<std::string> kNone, kLast{"s1000.1.1"};

TEST_F(BeganAnew, RemovesNothingOfWhatWasThereAndIsToldOnce) {
  for (const bool new_process : {false, true}) {
    store = fresh_memory_store();
    EXPECT_EQ(train({990, 995, 1000}), kNone);
    if (new_process) in_a_new_process();
    EXPECT_EQ(train({5, 10, 15}), kLast);
    EXPECT_EQ(there(), (Steps{995, 1000, 10, 15}));
    if (new_process) in_a_new_process();
    load("latest");
    EXPECT_EQ(train({20, 2000, 2005}), kNone);
    EXPECT_EQ(there(), (Steps{995, 1000, 2000, 2005})) << "nor do those who go on from it";
  }
}

TEST_F(BeganAnew, EvenWithAHigherStepOrAfterAGlance) {
  train({995, 1000});
  in_a_new_process();
  ASSERT_TRUE(checkpoint::Checkpoint::open(store, {"latest", "main"}).ok());
  EXPECT_EQ(train({2000, 2005, 2010}), kLast);
  EXPECT_EQ(there(), (Steps{995, 1000, 2005, 2010}));
}

TEST_F(BeganAnew, AfterWhatWasLoadedIsAheadOfIt) {
  train({995, 1000});
  in_a_new_process();
  load("latest");
  EXPECT_EQ(train({5, 10, 15}), kLast);
  EXPECT_EQ(there(), (Steps{995, 1000, 10, 15}));
}

TEST_F(BeganAnew, IsToldOfARunThatOnlyTheMirrorHasLeft) {
  EXPECT_EQ(train({990, 995, 1000}), kNone);
  in_a_new_process();
  mirror = std::exchange(store, fresh_memory_store());
  EXPECT_EQ(train({5, 10, 15}), kLast);
}

TEST_F(BeganAnew, IsNotedWhereNobodyCanReadWhatWasThere) {
  for (const bool in_mirror : {false, true}) {
    const auto before = fresh_memory_store(), own = in_mirror ? fresh_memory_store() : before;
    store = before;
    train({1000});
    in_a_new_process();
    const auto shell = std::make_shared<store::ShellStore>(before);
    shell->before([](std::string_view operation, std::string_view key) {
      return operation == "open" && key == "s1000.1.1/MANIFEST" ? Status(CKPT_IO, "broken by the test") : Ok();
    });
    store = in_mirror ? own : shell;
    mirror = in_mirror ? shell : nullptr;
    EXPECT_EQ(train({5}), kNone);
    EXPECT_TRUE(*own->exists(format::run_dir("main") + "/" + format::anew_name(2))) << in_mirror;
  }
}

TEST_F(BeganAnew, OnPurposeIsToldNothing) {
  train({995, 1000});
  load("latest");
  EXPECT_EQ(train({2000, 2005, 2010}, "none"), kNone);
  EXPECT_EQ(there(), (Steps{995, 1000, 2005, 2010}));
}

TEST_F(BeganAnew, IsSaidByTheErrorOfALabelThatIsTaken) {
  train({5, 1000});
  in_a_new_process();
  const Status taken = save_step(open_session(store), 5);
  EXPECT_EQ(taken.code(), CKPT_EXISTS);
  EXPECT_NE(taken.message().find("continue_from"), std::string::npos) << taken.message();
}

TEST_F(WentBack, LeavesWhatCameAfterwards) {
  for (const bool new_process : {false, true}) {
    store = fresh_memory_store();
    train({10, 20, 30, 40, 50}, "auto", 0);
    if (new_process) in_a_new_process();
    load("step:20");
    EXPECT_EQ(train({21, 22}), kNone);
    EXPECT_EQ(there(), (Steps{30, 40, 50, 21, 22}));
  }
}

// A run as a tree: 50 and 22 are of two lines that part at 20.
TEST_F(WentBack, LeavesItAlsoToWhoeverGoesOnFromThere) {
  for (const bool new_process : {false, true}) {
    store = fresh_memory_store();
    train({10, 20, 30, 40, 50}, "auto", 0);
    if (new_process) in_a_new_process();
    load("step:20");
    train({21, 22}, "auto", 0);
    in_a_new_process();
    load("latest");
    EXPECT_EQ(train({23, 24}), kNone);
    EXPECT_EQ(there(), (Steps{30, 40, 50, 23, 24}));
    in_a_new_process();
    load("step:50");
    EXPECT_EQ(train({51, 52}), kNone);
    EXPECT_EQ(there(), (Steps{23, 24, 51, 52})) << "30, 40 and 50 led here";
  }
}

TEST_F(WentBack, WithinASessionLeavesItToo) {
  auto session = open_session(store);
  for (const int64_t step : {10, 20, 30, 40}) save_one(session, step, 0);
  load("step:20");
  save_one(session, 21, 2);
  EXPECT_EQ(there(), (Steps{20, 30, 40, 21}));
  in_a_new_process();
  load("step:21");
  train({22, 23});
  EXPECT_EQ(there(), (Steps{30, 40, 22, 23}));
}

TEST_F(WentBack, WithoutALoadIsToldEachTime) { EXPECT_EQ(train({1000, 5, 10, 7}).size(), 2u); }

TEST_F(GoesOn, FromWhatItLoadedOrSavedBeforeOrWhatItSays) {
  train({995, 1000});
  EXPECT_EQ(train({1005, 1010}), kNone);
  in_a_new_process();
  load("latest");
  EXPECT_EQ(train({1015, 1020}), kNone);
  in_a_new_process();
  EXPECT_EQ(train({1025, 1030}, "latest"), kNone);
  EXPECT_EQ(there(), (Steps{1025, 1030}));
}

TEST_F(GoesOn, FromNothingInANewStore) {
  EXPECT_EQ(train({1, 2, 3}, "latest"), kNone);
  EXPECT_EQ(there(), (Steps{2, 3}));
  const SessionOptions missing{.continue_from = "step:7"};
  EXPECT_EQ(session::Session::open(store, 0, 1, nullptr, missing).status().code(), CKPT_NOT_FOUND);
}

}  // namespace
}  // namespace ckpt::commit
