// Which checkpoints are the best, and what retention must leave.
#include "keeper/history.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ckpt::keeper {
namespace {

Entry entry(int64_t step, Numbers metrics = {}, std::string told = "") {
  const std::string label = "step-" + std::to_string(step);
  return {label + ".1.1", label, step, std::move(metrics), false, std::move(told)};
}
Entry own(std::string label, int64_t step) { return {label + ".1.1", label, step, {}, true}; }

std::vector<int64_t> best_steps(const History& history, const Best& policy, int64_t count) {
  std::vector<int64_t> steps;
  for (const Entry& one : history.best(policy, count)) steps.push_back(one.step);
  return steps;
}

TEST(Best, IsReadFromText) {
  EXPECT_TRUE(Best::parse("")->empty());
  const Bests both = Best::parse("val_loss:min, a:b:max:3").take();
  ASSERT_EQ(both.size(), 2u);
  const Best &one = both[0], &three = both[1];
  EXPECT_EQ(one.metric, "val_loss");
  EXPECT_EQ(one.mode, "min");
  EXPECT_EQ(one.count, 1);
  EXPECT_EQ(three.metric, "a:b");
  EXPECT_EQ(three.count, 3);
  for (const char* text : {"loss", ":min", "loss:least", "loss:min:0", "loss:min:x", "loss:min:99999999999", "min", "3",
                           "loss:min,", ",loss:min"})
    EXPECT_EQ(Best::parse(text).status().code(), CKPT_INVALID) << text;
}

TEST(History, TheBestComeFirstAndOfEqualOnesTheNewest) {
  const History history(
      {entry(1, {{"loss", 3}}), entry(2, {{"loss", 1}}), entry(3, {{"loss", NAN}}), entry(4), entry(5, {{"loss", 1}})});
  EXPECT_EQ(best_steps(history, {"loss", "min"}, 9), (std::vector<int64_t>{5, 2, 1}));
  EXPECT_EQ(best_steps(history, {"loss", "max"}, 1), (std::vector<int64_t>{1}));
  EXPECT_EQ(best_steps(history, {"accuracy", "max"}, 9), (std::vector<int64_t>()));
}

TEST(History, WhatBestMeansIsSaidToldOrClear) {
  const auto policy = [](std::vector<Entry> entries, const char* selector) {
    const auto found = History(std::move(entries)).policy(selector);
    return found ? found->mode + " " + found->metric : "";
  };
  EXPECT_EQ(policy({}, "best:a:max"), "max a");
  EXPECT_EQ(policy({}, "best:val_loss"), "min val_loss");
  EXPECT_EQ(policy({}, "best:Top1-Accuracy"), "max Top1-Accuracy");
  EXPECT_EQ(policy({}, "best:glossy"), "");
  EXPECT_EQ(policy({entry(1, {}, "max bleu"), entry(2, {}, "min b c"), entry(3)}, "best"), "min b c");
  EXPECT_EQ(policy({entry(1, {{"ppl", 3}})}, "best"), "min ppl");
  EXPECT_EQ(policy({entry(1, {{"ppl", 3}, {"acc", 1}})}, "best"), "");
  EXPECT_EQ(policy({entry(1, {}, "most b")}, "best"), "");
}

TEST(History, FindingTheBestSaysWhatIsMissing) {
  const History two({entry(1, {{"x", 3}, {"y", 1}})});
  const Status which = find_best(two, "main", "best", std::nullopt).status();
  EXPECT_EQ(which.code(), CKPT_INVALID);
  EXPECT_NE(which.message().find("\"best:y:min\" or \"best:y:max\" says so"), std::string::npos) << which.message();
  const Status none = find_best(two, "main", "best:z:min", std::nullopt).status();
  EXPECT_EQ(none.code(), CKPT_NOT_FOUND);
  EXPECT_NE(none.message().find("they have x, y"), std::string::npos) << none.message();
  EXPECT_EQ(find_best(History(), "main", "best", std::nullopt).status().code(), CKPT_NOT_FOUND);
  EXPECT_EQ(find_best(two, "main", "best:x:max", std::nullopt).take(), "step-1.1.1");
}

TEST(History, RetentionKeepsSoManyOfItsOwnAndAllThatHaveALabelOfTheirOwn) {
  History history({entry(1), own("best-5", 5), entry(6), own("mine", 7), entry(8)});
  // Retention counts what has its step in the label, so a numbered label of the caller's own needs one more.
  EXPECT_EQ(history.keep_last(2, entry(9)), 2);
  EXPECT_EQ(history.keep_last(4, entry(9)), 5);
  EXPECT_EQ(history.keep_last(9, entry(9)), 9);
  EXPECT_EQ(history.protected_labels({}, entry(9)), "best-5,mine");
  EXPECT_EQ(history.protected_labels({}, own("end", 9)), "best-5,end,mine");
}

TEST(History, TheBestAreProtectedWithTheNextOneAmongThem) {
  History history({entry(1, {{"loss", 1}}), entry(2, {{"loss", 2}}), entry(3, {{"loss", 3}})});
  const Best two{"loss", "min", 2};
  EXPECT_EQ(history.protected_labels({two}, entry(4, {{"loss", 1.5}})), "step-1,step-4");
  EXPECT_EQ(history.protected_labels({two}, entry(4)), "step-1,step-2");
  EXPECT_EQ(history.protected_labels({two, {"loss", "max"}}, entry(4)), "step-1,step-2,step-3") << "each for itself";
}

TEST(History, OfThoseAnIntervalApartOneIsProtectedAndRemovalsChangeNothing) {
  std::vector<Entry> entries;
  for (int64_t step = 1; step <= 6; step++) {
    entries.push_back(entry(step));
    entries.back().created_ms = 1000 * step;
  }
  const auto kept = [&] {
    Entry next = entry(7);
    next.created_ms = 7000;
    return History(entries).protected_labels({}, next, 2500);
  };
  EXPECT_EQ(kept(), "step-1,step-4,step-7");
  std::erase_if(entries, [](const Entry& one) { return one.step != 1 && one.step != 4; });
  EXPECT_EQ(kept(), "step-1,step-4,step-7");
  entries[0].created_ms = 99000;  // the clock was set back
  EXPECT_EQ(kept(), "step-1,step-4,step-7");
}

TEST(History, WhatIsLaterIsLeftAndIsNoneOfTheLastOrTheBest) {
  History history({entry(1, {{"loss", 3}}),
                   entry(2),
                   own("mine-3", 3),
                   entry(4, {{"loss", 1}}),
                   {"step-5.2.1", "step-5", 5, {}, false}});
  history.go_back_to(2, {1});  // the session of token 1 is this training's, that of token 2 another's
  EXPECT_EQ(history.protected_labels({{"loss", "min"}}, entry(3)), "mine-3,step-1,step-4");
  EXPECT_EQ(history.keep_last(2, entry(3)), 4) << "retention counts those of its own session";
  EXPECT_EQ(history.keep_last(2, entry(4)), 3) << "step-4 is replaced";
}

TEST(History, AnewOneReplacesItsLabelAndLaterStepsAreForgotten) {
  History history({entry(1), entry(2), entry(3)});
  history.add({"step-2.2.1", "step-2", 2, {{"loss", 7}}});
  EXPECT_EQ(history.metrics(), (std::vector<std::string>{"loss"}));
  EXPECT_EQ(history.best({"loss", "min"}, 5)[0].id, "step-2.2.1");
  history.go_back_to(1, {});
  EXPECT_TRUE(history.metrics().empty());
}

}  // namespace
}  // namespace ckpt::keeper
