// When a save is due, what it is called, and what numbers look like in attributes.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "keeper/history.h"
#include "keeper/label.h"

namespace ckpt::keeper {
namespace {

// The steps from 1 to `last` at which a save is due by the counters; `counters` tells what each step is told.
std::vector<int64_t> due(std::string_view every, int64_t last, Numbers (*counters)(int64_t) = nullptr) {
  auto schedule = Schedule::parse(every);
  std::vector<int64_t> steps;
  std::optional<Moment> before;
  for (int64_t n = 1; n <= last; n++) {
    const Moment now{n, counters ? counters(n) : Numbers()};
    if (schedule->due_by_counters(now, before).take()) steps.push_back(n);
    before = now;
  }
  return steps;
}
using Steps = std::vector<int64_t>;

TEST(Schedule, ASaveIsDueWhenACounterHasPassedAMultiple) {
  EXPECT_EQ(due("", 9), Steps());
  EXPECT_EQ(due("3", 9), (Steps{3, 6, 9}));
  EXPECT_EQ(due("3 steps", 9), (Steps{3, 6, 9}));
  EXPECT_EQ(due(" 4 batches , 6 steps", 12), (Steps{4, 6, 8, 12}));
  EXPECT_EQ(due("1 epoch", 9, [](int64_t n) { return Numbers{{"epoch", std::floor(double(n) / 4)}}; }), (Steps{4, 8}));
  EXPECT_EQ(due("100 tok", 9, [](int64_t n) { return Numbers{{"token", 30.0 * double(n)}}; }), (Steps{4, 7}));
}

TEST(Schedule, AfterAGapOneSaveIsDueAndGoingBackNone) {
  const auto schedule = Schedule::parse("10 steps");
  EXPECT_TRUE(schedule->due_by_counters({35}, Moment{8}).take());
  EXPECT_FALSE(schedule->due_by_counters({8}, Moment{35}).take());
  EXPECT_TRUE(schedule->due_by_counters({10}, std::nullopt).take());
  EXPECT_FALSE(schedule->due_by_counters({11}, std::nullopt).take());
}

TEST(Schedule, StepsMayHaveMoreDigitsThanADouble) {
  const int64_t big = 1764350000000000001;  // nanoseconds since 1970
  const auto schedule = Schedule::parse("2 steps");
  EXPECT_TRUE(schedule->due_by_counters({big + 1}, Moment{big}).take());
  EXPECT_FALSE(schedule->due_by_counters({big + 2}, Moment{big + 1}).take());
  EXPECT_EQ(LabelTemplate::parse("s{step}", {})->label({big}).take(), "s1764350000000000001");
}

TEST(Schedule, AMultipleThatAnotherRankPassedFirstIsSavedOnce) {
  const auto schedule = Schedule::parse("7 steps, 100 tokens").take();
  Schedule::Multiples saved;
  const auto at = [](int64_t step, double tokens) { return Moment{step, {{"token", tokens}}}; };
  schedule.count_as_saved(1, at(3, 90), &saved);
  EXPECT_FALSE(schedule.due_by_counters(at(4, 110), at(3, 90), saved).take());
  EXPECT_EQ(schedule.due_by_counters(at(4, 110), at(3, 90)).take().by_count, 2u);
  EXPECT_EQ(schedule.due_by_counters(at(5, 210), at(4, 110), saved).take().by_count, 2u);
  schedule.count_as_saved(1, at(4, 110), &saved);
  schedule.count_as_saved(1, at(4, 110), &saved);
  EXPECT_FALSE(schedule.due_by_counters(at(5, 310), at(4, 110), saved).take()) << "two more were saved";
  EXPECT_TRUE(schedule.due_by_counters(at(7, 310), at(6, 310), saved).take().by_step);
  EXPECT_TRUE(schedule.counts_more_than_steps());
  EXPECT_FALSE(Schedule::parse("7 steps, 5 s")->counts_more_than_steps());
  EXPECT_TRUE(Schedule::parse("7 steps, 2 batches")->counts_more_than_steps()) << "a trainer may tell batches";
}

TEST(Schedule, ATimeIsDueByTheClock) {
  for (const char* text : {"90 s", "1.5 min", "90 seconds", "90 sec", "2 h, 1.5 minutes"}) {
    const auto schedule = Schedule::parse(text);
    ASSERT_TRUE(schedule.ok()) << text;
    EXPECT_TRUE(schedule->has_clock()) << text;
    EXPECT_TRUE(schedule->due_by_clock(90, true)) << text;
    EXPECT_FALSE(schedule->due_by_clock(89.9, false)) << text;
  }
  EXPECT_FALSE(Schedule::parse("5 steps")->has_clock());
}

TEST(Schedule, IdleIsDueWheneverNoSaveRuns) {
  for (const auto& [text, seconds] : {std::pair("idle", 0.0), {"5 steps, idle", 0.0}, {"idle 1.5 min", 90.0}}) {
    const auto schedule = Schedule::parse(text);
    ASSERT_TRUE(schedule.ok()) << text;
    EXPECT_TRUE(schedule->has_clock()) << "each rank has its own";
    EXPECT_TRUE(schedule->due_by_clock(seconds, false)) << text;
    EXPECT_FALSE(schedule->due_by_clock(seconds, true)) << text;
    EXPECT_FALSE(schedule->due_by_clock(seconds - 0.1, false)) << text;
  }
}

TEST(Schedule, WhatIsNoNumberAndUnitIsRefused) {
  for (const char* text : {"0", "-1 step", "x", "5 bananas", "5 steps,", "nan steps", "inf s", "1e3 steps", "5 sss",
                           "idle 5 steps", "idler"})
    EXPECT_EQ(Schedule::parse(text).status().code(), CKPT_INVALID) << text;
}

TEST(Schedule, ACounterThatWasNotToldIsAnErrorAndBatchesAreSteps) {
  const Status status = Schedule::parse("2 epochs")->due_by_counters({4}, std::nullopt).status();
  EXPECT_EQ(status.code(), CKPT_INVALID);
  EXPECT_EQ(status.message(), "every 2 epochs: this step was not told the counter \"epoch\"");
  EXPECT_TRUE(Schedule::parse("2 batches")->due_by_counters({4}, std::nullopt).take());
}

TEST(Schedule, TimesAreSecondsUnlessTheySayOtherwise) {
  EXPECT_EQ(parse_seconds("time_limit", "90").take(), 90);
  EXPECT_EQ(parse_seconds("time_limit", "1.5 h").take(), 5400);
  for (const char* text : {"", "soon", "5 steps", "-5"})
    EXPECT_EQ(parse_seconds("time_limit", text).status().code(), CKPT_INVALID) << text;
}

Result<std::string> label(std::string_view text, const Moment& now) {
  CKPT_ASSIGN(const auto labels, LabelTemplate::parse(text, {{"run_name", "main"}, {"world_size", "8"}}));
  return labels.label(now);
}

TEST(Label, VariablesAreFilledIn) {
  const Moment now{120, {{"epoch", 3}, {"sample", 4.5}}};
  EXPECT_EQ(label("step-{step}", now).take(), "step-120");
  EXPECT_EQ(label("ep{epoch:03d}-ba{batch:6}.{{x}}", now).take(), "ep003-ba   120.{x}");
  EXPECT_EQ(label("{run_name}-{world_size:4}-{sample}", now).take(), "main-   8-4.5");
}

TEST(Label, MetricsAreFilledInAndWhatWasNotToldIsNone) {
  const Moment now{5, {}, {{"val/loss", 0.12345}, {"big", 1e20}, {"bad", NAN}, {"step", -2}}};
  EXPECT_EQ(label("s{step}-{metrics.val/loss:.3f}-{metrics.step}", now).take(), "s5-0.123--2");
  EXPECT_EQ(label("{metrics.big:.2f}_{metrics.bad:.1f}_{metrics.acc:.2f}", now).take(), "1e+20_NaN_none");
  EXPECT_FALSE(LabelTemplate::parse("{metrics.step}", {})->numbered()) << "that is no step";
  for (const char* text : {"{metrics.}", "{metrics.a:3d}", "{metrics.a:.f}", "{metrics.a:.10f}", "{metrics.a:}"})
    EXPECT_EQ(LabelTemplate::parse(text, {}).status().code(), CKPT_INVALID) << text;
}

TEST(Label, WhatCannotBeFilledInIsRefused) {
  for (const char* text : {"{", "}", "a{step", "{nobody}", "{step:>8}", "{step:100d}", "{step:x}", "{}"})
    EXPECT_EQ(LabelTemplate::parse(text, {}).status().code(), CKPT_INVALID) << text;
  EXPECT_EQ(label("{epoch}", {5}).status().code(), CKPT_INVALID);
}

TEST(Label, OneWithAStepInItIsNumbered) {
  EXPECT_TRUE(LabelTemplate::parse("s{step}", {})->numbered());
  EXPECT_TRUE(LabelTemplate::parse("b{batch}", {})->numbered());
  EXPECT_FALSE(LabelTemplate::parse("e{epoch}", {})->numbered());
}

TEST(Numbers, AreJsonAsPythonWritesIt) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(json_of({}), "{}");
  EXPECT_EQ(json_of({{"b", 0.1}, {"a\"", 3}, {"c", -infinity}, {"d", NAN}}),
            R"({"a\"": 3, "b": 0.1, "c": -Infinity, "d": NaN})");
  EXPECT_FALSE(parse_numbers(R"({"NaN": 1, "x": NaN, "y": [)").ok());
  const Numbers got = parse_numbers(R"({"NaN \"": -Infinity, "i": Infinity, "n": NaN, "f": 1e-3, "m": -7})").take();
  EXPECT_EQ(got.at("NaN \""), -infinity);
  EXPECT_EQ(got.at("i"), infinity);
  EXPECT_TRUE(std::isnan(got.at("n")));
  EXPECT_EQ(got.at("f"), 1e-3);
  EXPECT_EQ(got.at("m"), -7);
}

TEST(Numbers, EveryDoubleComesBack) {
  for (const double one :
       {0.1, 1.0 / 3, 5e-324, 1.7976931348623157e308, 123456789012345678.0, -0.5, 9007199254740993.0})
    EXPECT_EQ(parse_numbers(json_of({{"x", one}}))->at("x"), one);
}

TEST(Numbers, WhatIsNoObjectOfNumbersIsRefused) {
  for (const char* text : {"", "[]", "5", "{\"a\": \"b\"}", "{\"a\": {}}", "{\"a\": [1]}", "{\"a\": null}", "NaN",
                           "{\"a\": NaN", "\"\\", "{\"a\": 1}x"})
    EXPECT_FALSE(parse_numbers(text).ok()) << text;
}

}  // namespace
}  // namespace ckpt::keeper
