// Checkpointer on one rank: when it saves, what it keeps, what a checkpoint of it holds.
#include <csignal>
#include <filesystem>

#include "util.h"

namespace {

using Labels = std::vector<std::string>;

Labels labels_in(const std::string& uri) {
  Labels all;
  for (const auto& info : ckpt::Store::open(uri).list())
    if (info.state == CKPT_CHECKPOINT_COMMITTED) all.push_back(info.label);
  return all;
}

ct::State at_step(int64_t step) { return {{}, {}, {{"step", step}, {"w", at::full({1000}, step)}}}; }

ct::CheckpointerOptions every(ct::Every every) {
  ct::CheckpointerOptions options;
  options.every = std::move(every);
  options.signals.emplace();
  return options;
}

ct::CheckpointerOptions keeping(int64_t last, std::optional<ct::KeepBest> best = {}) {
  auto options = every(1);
  options.keep_last = last;
  options.keep_best = std::move(best);
  return options;
}

// What TORCH_WARN says in a call, and how often.
struct Told {
  std::string text;
  int count = 0;
};
Told told_by(const std::function<void()>& call) {
  testing::internal::CaptureStderr();
  call();
  Told told{testing::internal::GetCapturedStderr()};
  const std::string mark = "Warning: ckpt: ";
  for (size_t at = 0; (at = told.text.find(mark, at)) != told.text.npos; at++) told.count++;
  return told;
}

// ---- when ----

TEST(CheckpointerWhen, AStepTimeEpochPredicateOrAListOfThemSaysThatASaveIsDue) {
  using Steps = std::vector<int64_t>;
  auto saved = [](ct::Every due) {
    StorePlace place;
    ct::Checkpointer keeper(place.uri(), every(std::move(due)));
    Steps steps;
    for (int64_t n = 1; n < 10; n++) {
      const auto loss = static_cast<double>(10 - n), epoch = static_cast<double>(n / 4);
      if (keeper.step(n, at_step(n), {{"loss", loss}}, {{"epoch", epoch}})) steps.push_back(n);
    }
    return steps;
  };
  EXPECT_EQ(saved(3), (Steps{3, 6, 9}));
  EXPECT_EQ(saved({4, 3}), (Steps{3, 4, 6, 8, 9}));
  EXPECT_EQ(saved("1 epoch"), (Steps{4, 8}));
  EXPECT_EQ(saved([](const ct::Moment& now) { return now.step == 2 || now.step == 7; }), (Steps{2, 7}));
  EXPECT_EQ(saved({[](const ct::Moment& now) { return now.metrics.at("loss") < 2; }, 5}), (Steps{5, 9}));
  EXPECT_EQ(saved({}), Steps());
  EXPECT_EQ(saved(std::chrono::hours(1)), Steps());
  EXPECT_EQ(saved(std::chrono::nanoseconds(1)), (Steps{1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

// What each means, and what else is refused, the keeper knows (tests/keeper).
TEST(CheckpointerWhen, APolicyThatMeansNothingIsRefused) {
  StorePlace place;
  auto refused = [&](const std::string& words, auto&& change) {
    auto options = every(1);
    change(options);
    expect_error([&] { ct::Checkpointer(place.uri(), options); }, CKPT_INVALID, words);
  };
  for (const ct::Every& wrong : {ct::Every("10 parsecs"), ct::Every(0), ct::Every(std::chrono::seconds(-1))})
    refused("every", [&](auto& options) { options.every = wrong; });
  refused("{nonsense}", [](auto& options) { options.label = "{nonsense}"; });
  refused("without keep_last", [](auto& options) { options.keep_every = 10; });
  refused("loss:least", [](auto& options) { options.keep_best = ct::KeepBest{"loss", "least"}; });
}

// ---- what is kept ----

TEST(CheckpointerKeeps, TheBestOverRestartsAndRestoresIt) {
  StorePlace place;
  const std::vector<std::vector<double>> runs{{5, 1, 5}, {4, 3, 6}, {7, 8, 9}};
  int64_t n = 0;
  for (const auto& losses : runs) {
    ct::Checkpointer keeper(place.uri(), keeping(1, ct::KeepBest{"loss", "min", 2}));
    for (const double loss : losses) n++, keeper.step(n, at_step(n), {{"loss", loss}});
  }
  EXPECT_EQ(labels_in(place.uri()), (Labels{"step-2", "step-5", "step-9"}));
  ct::Checkpointer keeper(place.uri(), keeping(1, ct::KeepBest{"loss"}));
  ct::State state = at_step(0);
  const ct::Restored restored = keeper.restore(state, "best").value();
  EXPECT_EQ(restored.step, 2);
  EXPECT_EQ(restored.metrics, (ct::Numbers{{"loss", 1}}));
}

// With the metric that its number is the loss of.
void save_steps(const std::string& store, int64_t first, int64_t last, const ct::CheckpointerOptions& options) {
  ct::Checkpointer keeper(store, options);
  for (int64_t n = first; n <= last; n++)
    keeper.step(n, at_step(n), {{"loss", static_cast<double>((n - 2) * (n - 2))}});
  keeper.close();
}

TEST(CheckpointerKeeps, TheBestIsKnownWhereverMetricsAre) {
  StorePlace place;
  save_steps(place.uri(), 1, 3, every(1));
  ct::LoadOptions best;
  best.model_key = best.optimizer_key = "";
  for (const char* selector : {"best", "best:loss", "best:loss:min", "best:loss:max"}) {
    best.selector = selector;
    const int64_t step = best.selector == "best:loss:max" ? 3 : 2;  // of equal ones the newest
    EXPECT_EQ(ct::load(place.uri(), {}, {}, best).step, step) << selector;
    ct::State state{{}, {}, {}};
    EXPECT_EQ(ct::Checkpointer(place.uri(), every(1)).restore(state, selector)->step, step) << selector;
  }
}

TEST(CheckpointerKeeps, WhatATrainingThatBeginsAnewFindsAndSaysSoOnceUnlessThatIsMeant) {
  for (const bool fresh : {false, true}) {
    StorePlace place;
    save_steps(place.uri(), 10, 13, keeping(2));
    auto options = keeping(2);
    options.fresh = fresh;
    const Told told = told_by([&] { save_steps(place.uri(), 1, 4, options); });
    EXPECT_EQ(labels_in(place.uri()), (Labels{"step-12", "step-13", "step-3", "step-4"}));
    EXPECT_EQ(told.count, fresh ? 0 : 1) << told.text;
    for (const std::string way : {"step-13.", "restore()", "CheckpointerOptions::fresh", "another directory"})
      EXPECT_EQ(told.text.find(way) == told.text.npos, fresh) << told.text;
  }
}

TEST(CheckpointerKeeps, AndSoDoSavesOfASessionWhichMayGoOnFromWhatItLoads) {
  StorePlace place;
  ct::SaveOptions options;
  auto save = [&](int64_t step) {
    options.step = step;
    return told_by([&] { ct::save(place.uri(), torch::nn::Linear(2, 2), {}, {}, options); }).count;
  };
  EXPECT_EQ(save(10), 0);
  EXPECT_EQ(save(1), 1);
  ct::LoadOptions newest;
  newest.selector = "step:10";
  ct::load(place.uri(), torch::nn::Linear(2, 2), {}, newest);
  EXPECT_EQ(save(11), 0);
}

TEST(CheckpointerSaves, NoStepBelow0AndSaysThatEveryCountsUpwards) {
  StorePlace place;
  ct::Checkpointer keeper(place.uri(), every(1));
  expect_error([&] { keeper.step(-1, at_step(1)); }, CKPT_INVALID, "found -1");
  expect_error([&] { keeper.save(-1, at_step(1)); }, CKPT_INVALID, "found -1");
  keeper.step(5, at_step(5));
  const Told told = told_by([&] { keeper.step(3, at_step(3)); });
  EXPECT_EQ(told.count, 1) << told.text;
  EXPECT_NE(told.text.find("step 3 comes after step 5"), told.text.npos) << told.text;
}

// ---- saving ----

TEST(CheckpointerSaves, AStepOnceAndASecondTimeOnlyWhereItMayBeOverwritten) {
  StorePlace place;
  {
    ct::Checkpointer keeper(place.uri(), every(5));
    const auto first = keeper.step(5, at_step(5));
    EXPECT_EQ(keeper.save(5, at_step(6)), first.value());
  }
  auto options = every({});
  options.overwrite = true;
  ct::Checkpointer(place.uri(), options).save(5, at_step(7));
  EXPECT_EQ(labels_in(place.uri()), Labels{"step-5"});
  EXPECT_EQ(ct::load(place.uri(), {}).others.at("step").toInt(), 7);
  ct::Checkpointer keeper(place.uri(), every({}));
  expect_error([&] { keeper.save(5, at_step(8)), keeper.wait(); }, CKPT_EXISTS, "step-5");
}

TEST(CheckpointerSaves, AFailureIsThrownByTheNextSaveOrByClose) {
  for (bool close : {false, true}) {
    StorePlace place;
    ct::save(place.uri(), {}, {}, {{"step", 0}}, [] {
      ct::SaveOptions o;
      return o.label = "step-1", o;
    }());
    ct::Checkpointer keeper(place.uri(), every({}));
    keeper.save(1, at_step(1));
    expect_error([&] { close ? keeper.close() : (void)keeper.save(2, at_step(2)); }, CKPT_EXISTS, "step-1");
    if (!close) keeper.save(3, at_step(3)), keeper.close();
    EXPECT_EQ(labels_in(place.uri()).size(), close ? 1u : 2u);
    expect_error([&] { keeper.step(4, at_step(4)); }, CKPT_INVALID, "closed");
  }
}

TEST(CheckpointerSaves, TellOfEachCommitOnceAndGoOnThoughThatThrows) {
  StorePlace place;
  Labels told;
  auto options = every(2);
  options.on_commit = [&](const ckpt::CheckpointInfo& info) {
    told.push_back(info.label);
    throw std::runtime_error("the pager is down");
  };
  ct::Checkpointer keeper(place.uri(), options);
  for (int64_t n = 1; n < 6; n++) keeper.step(n, at_step(n));
  keeper.close();
  EXPECT_EQ(told, (Labels{"step-2", "step-4"}));
  EXPECT_EQ(labels_in(place.uri()), told);
}

TEST(CheckpointerSaves, InPlaceWhatChangesOnlyAfterUpdating) {
  StorePlace place(true);
  auto big = std::make_shared<torch::nn::EmbeddingImpl>(1 << 14, 256),
       loaded = std::make_shared<torch::nn::EmbeddingImpl>(1 << 14, 256);
  auto options = every(1);
  options.in_place = true;
  ct::State state{big, {}, {}}, other{loaded, {}, {}};
  ct::Checkpointer keeper(place.uri(), options);
  at::NoGradGuard no_grad;
  for (int64_t n = 1; n < 4; n++) {
    keeper.updating();
    big->weight.fill_(n);
    keeper.step(n, state);
  }
  for (int64_t n = 1; n < 4; n++) {
    ASSERT_TRUE(keeper.restore(other, n));
    EXPECT_TRUE(loaded->weight.eq(n).all().item<bool>()) << n;
  }
}

TEST(CheckpointerSaves, WhatAnExceptionUnwindsIsCancelledAndTheSignalsAreGivenBack) {
  StorePlace place(true);
  struct sigaction before{}, after{};
  sigaction(SIGTERM, nullptr, &before);
  EXPECT_THROW(
      {
        auto options = every(1);
        options.signals.reset();
        ct::Checkpointer keeper(place.uri(), options, ct::Ranks::with_session(0, 1, ""));
        throw std::runtime_error("the trainer failed");
      },
      std::runtime_error);
  sigaction(SIGTERM, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
}

// ---- before step 1 ----

TEST(CheckpointerChecks, WhatASaveWouldDoAndWritesNothing) {
  StorePlace place(true);
  const std::string uri = place.uri() + "/new";
  Net net;
  torch::optim::Adam adam(net->parameters(), torch::optim::AdamOptions(0.1));
  ct::Checkpointer keeper(uri, every({}));
  const ct::Check fine = keeper.check({net, adam, {{"x", at::zeros({4})}}});
  EXPECT_TRUE(fine.ok()) << fine.text();
  EXPECT_EQ(fine.names.at("model/a.weight"), net->a->weight.nbytes());
  EXPECT_EQ(fine.names.at("x"), 16u);
  uint64_t sum = 0;
  for (const auto& [name, bytes] : fine.names) sum += bytes;
  EXPECT_EQ(fine.bytes, sum);
  EXPECT_GT(fine.free.value(), 0u);
  auto ghost = std::make_shared<torch::nn::LinearImpl>(2, 2);
  ghost->register_parameter("extra", at::empty({2}, at::device(at::kMeta)));
  const ct::Check bad = keeper.check({ghost, {}, {{"where", c10::Device("cpu")}, {"n", 1}}});
  EXPECT_FALSE(bad.ok());
  ASSERT_EQ(bad.refused.size(), 2u) << bad.text();
  EXPECT_NE(bad.refused[0].find("model/extra"), std::string::npos);
  EXPECT_NE(bad.refused[1].find("'where'"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(uri));
}

// ---- stopping ----

// A background job of a shell ignores SIGINT, so each test sets what was there before.
class Handler {
 public:
  Handler(int number, void (*handler)(int)) : number_(number), before_(std::signal(number, handler)) {}
  ~Handler() { std::signal(number_, before_); }

 private:
  int number_;
  void (*before_)(int);
};

ct::CheckpointerOptions catching(const std::vector<int>& numbers) {
  auto options = every(1000);
  options.signals = numbers;
  return options;
}

TEST(CheckpointerStops, BeforeTheEndOfTheJob) {
  setenv("SLURM_JOB_END_TIME", "1000", 1);  // long ago
  const std::vector<ct::TimeLimit> limits{std::chrono::seconds(1), std::chrono::milliseconds(100000), "slurm",
                                          std::chrono::system_clock::now() + std::chrono::seconds(60)};
  for (const ct::TimeLimit& limit : limits) {
    StorePlace place;
    auto options = every({});
    options.time_limit = limit;
    ct::Checkpointer keeper(place.uri(), options);
    EXPECT_TRUE(keeper.step(1, at_step(1)));
    EXPECT_EQ(keeper.stopping(), "time limit");
  }
  unsetenv("SLURM_JOB_END_TIME");
  StorePlace place;
  auto options = every({});
  options.time_limit = "slurm";
  expect_error([&] { ct::Checkpointer(place.uri(), options); }, CKPT_INVALID, "SLURM_JOB_END_TIME");
  options.time_limit = std::chrono::hours(1);
  EXPECT_FALSE(ct::Checkpointer(place.uri(), options).step(1, at_step(1)));
}

TEST(CheckpointerStops, WithTheLastSaveThoughTheOneBeforeFailed) {
  StorePlace place;
  ct::save(place.uri(), {}, {}, {{"step", 0}}, [] {
    ct::SaveOptions o;
    return o.label = "step-1", o;
  }());
  const Handler ignored(SIGTERM, SIG_IGN);
  ct::Checkpointer keeper(place.uri(), catching({SIGTERM}));
  keeper.save(1, at_step(1));
  std::raise(SIGTERM);
  keeper.step(2, at_step(2));
  EXPECT_EQ(keeper.stopping(), "SIGTERM");
  EXPECT_EQ(labels_in(place.uri()), (Labels{"step-1", "step-2"}));
}

TEST(CheckpointerStops, WithinAJobOfSlurmOnSIGUSR1Too) {
  const Handler ignored(SIGUSR1, SIG_IGN);
  StorePlace place;
  setenv("SLURM_JOB_ID", "1", 1);
  ct::Checkpointer keeper(place.uri());
  unsetenv("SLURM_JOB_ID");
  std::raise(SIGUSR1);
  keeper.step(1, at_step(1));
  EXPECT_EQ(keeper.stopping(), "SIGUSR1");
}

}  // namespace
