// ckpt::Keeper: a training that is interrupted goes on from what it kept.
#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <vector>

#include "ckpt.hpp"

namespace {

using Todo = ckpt::Keeper::Todo;

// A training whose whole state is one number for each step that it made.
struct Training {
  Training(const ckpt::Store& store, const ckpt::Options& options)
      : store(store), keeper(ckpt::Keeper::create(store, options)), session(ckpt::Session::open(store)) {}

  // The step that it goes on from.
  int64_t restore() {
    while (const auto id = keeper.find("latest")) {
      try {
        const auto reader = ckpt::Reader::open(store, *id);
        state = reader.read<float>("w");
        keeper.restored(reader);
        return reader.info().step;
      } catch (const ckpt::Error& error) {
        keeper.pass_over(error);
      }
    }
    return 0;
  }
  void train(int64_t step) {
    for (float& one : state) one = one * 1.5f + static_cast<float>(step);
  }
  bool end(int64_t step) {
    if (keeper.decide(keeper.step(step)) == Todo::go_on) return false;
    if (auto save = keeper.save(session, keeper.plan())) {
      save->add_tensor("w", {8}, state);
      save->run();
    }
    return true;
  }

  const ckpt::Store& store;
  ckpt::Keeper keeper;
  ckpt::Session session;
  std::vector<float> state = std::vector<float>(8, 1.0f);
};

std::vector<std::string> labels(const ckpt::Store& store) {
  std::vector<std::string> all;
  for (const auto& info : store.list()) all.emplace_back(info.label);
  return all;
}

TEST(CppKeeper, AnInterruptedTrainingGoesOnBitForBit) {
  const ckpt::Options policy{{"every", "2 steps"}, {"keep_last", 2}};
  auto whole = ckpt::Store::open("mem:cpp-keeper-whole"), broken = ckpt::Store::open("mem:cpp-keeper-broken");
  Training once(whole, policy);
  for (int64_t n = 1; n <= 9; n++) once.train(n), once.end(n);
  {
    Training first(broken, policy);
    for (int64_t n = 1; n <= 5; n++) first.train(n), first.end(n);
  }
  Training second(broken, policy);
  const int64_t start = second.restore();
  EXPECT_EQ(start, 4);
  for (int64_t n = start + 1; n <= 9; n++) second.train(n), second.end(n);
  EXPECT_EQ(second.state, once.state);
  EXPECT_EQ(labels(broken), (std::vector<std::string>{"step-6", "step-8"}));
  EXPECT_EQ(second.keeper.saved(), "step-8.2.1");
}

TEST(CppKeeper, ASignalSavesForTheLastTime) {
  auto store = ckpt::Store::open("mem:cpp-keeper-signal");
  Training training(store, {});
  training.keeper.catch_signal(SIGUSR2);
  EXPECT_FALSE(training.end(1));
  raise(SIGUSR2);
  EXPECT_EQ(training.keeper.decide(training.keeper.step(2)), Todo::save_and_stop);
  EXPECT_EQ(training.keeper.stopping(), "SIGUSR2");
}

TEST(CppKeeper, NumbersAndWarningsAreThere) {
  auto store = ckpt::Store::open("mem:cpp-keeper-numbers");
  Training training(store, {{"every", "1 epoch"}, {"keep_best", "loss:min"}});
  training.keeper.tell_counter("epoch", 3);
  training.keeper.tell_metric("loss", 0.25);
  EXPECT_TRUE(training.end(7));
  training.keeper.at_step(8);
  auto save = training.keeper.save(training.session, training.keeper.plan("mine"));
  save->add_tensor("w", {8}, training.state);
  save->run();
  EXPECT_EQ(training.keeper.save(training.session, training.keeper.plan("mine")), std::nullopt);
  EXPECT_EQ(training.keeper.find("best"), "step-7.1.1");
  training.keeper.restored(ckpt::Reader::open(store, "step:7"));
  EXPECT_EQ(training.keeper.metrics(), (ckpt::Keeper::Numbers{{"loss", 0.25}}));
  EXPECT_EQ(training.keeper.counters(), (ckpt::Keeper::Numbers{{"epoch", 3}}));
  EXPECT_NE(training.keeper.warning().value_or("").find("mine of later steps"), std::string::npos);
  EXPECT_THROW(training.keeper.pass_over(ckpt::Error(CKPT_IO, "torn cable")), ckpt::Error);
  training.keeper.stop(CKPT_KEEPER_TIME_LIMIT);
  EXPECT_FALSE(training.keeper.needs_votes());
  training.keeper.tell_counter("epoch", 3);
  (void)training.keeper.step(9);
  EXPECT_EQ(training.keeper.decide(), Todo::save_and_stop);
}

}  // namespace
