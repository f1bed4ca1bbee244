// Checkpointer::restore on one rank: which checkpoint, what of it, and what Python's ckpt.Checkpointer saved.
#include <filesystem>
#include <fstream>

#include "util.h"

namespace {

struct Training {
  StorePlace place{true};
  std::string uri() const { return place.uri(); }
  ct::CheckpointerOptions options = [] {
    ct::CheckpointerOptions given;
    given.signals.emplace();
    return given;
  }();

  void save(const std::vector<int64_t>& steps, const std::string& label = "") {
    ct::Checkpointer keeper(uri(), options);
    for (const int64_t n : steps) keeper.save(n, {filled(n), {}, {{"step", n}}}, label);
    keeper.close();
  }
  std::optional<ct::Restored> restore(ct::State& state, const ct::Select& select = "latest",
                                      const ct::RestoreOptions& chosen = {}) {
    return ct::Checkpointer(uri(), options).restore(state, select, chosen);
  }
  static std::shared_ptr<torch::nn::LinearImpl> filled(int64_t value) {
    auto module = std::make_shared<torch::nn::LinearImpl>(300, 30);
    at::NoGradGuard no_grad;
    for (auto& p : module->parameters()) p.fill_(value);
    return module;
  }
};

bool all_are(const at::Tensor& tensor, int64_t value) { return tensor.eq(value).all().item<bool>(); }

// Changes the last bytes of the manifest, or the first bytes of the data.
void damage_label(const std::string& uri, const std::string& label, const std::string& what) {
  for (const auto& entry : std::filesystem::directory_iterator(uri)) {
    if (entry.path().filename().string().rfind(label + ".", 0) != 0) continue;
    std::fstream file(entry.path() / what, std::ios::in | std::ios::out | std::ios::binary);
    what == "MANIFEST" ? file.seekp(-100, std::ios::end) : file.seekp(8192);
    file.write("damaged!", 8);
  }
}

// ---- which checkpoint ----

TEST(Restore, ANewRunBeginsWithNothingAndLeavesNoStore) {
  Training run;
  const std::string uri = run.uri() + "/new";
  ct::State state{Training::filled(0), {}, {}};
  EXPECT_FALSE(ct::Checkpointer(uri, run.options).restore(state));
  EXPECT_FALSE(std::filesystem::exists(uri));
}

TEST(Restore, TakesTheNewestAStepALabelOrAnId) {
  Training run;
  run.save({1});
  run.save({2}, "half");
  run.save({3});
  auto module = Training::filled(0);
  ct::State state{module, {}, {{"step", 0}}};
  EXPECT_EQ(run.restore(state)->step, 3);
  EXPECT_TRUE(all_are(module->weight, 3));
  EXPECT_EQ(state.others.at("step").toInt(), 3);
  EXPECT_EQ(run.restore(state, 1)->label, "step-1");
  EXPECT_TRUE(all_are(module->weight, 1));
  EXPECT_EQ(run.restore(state, "half")->step, 2);
  EXPECT_EQ(run.restore(state, run.restore(state, 3)->id)->step, 3);
  expect_error([&] { run.restore(state, "nothing"); }, CKPT_NOT_FOUND, "nothing");
  expect_error([&] { run.restore(state, 7); }, CKPT_NOT_FOUND, "7");
}

TEST(Restore, TakesTheRunFromNobody) {
  Training run;
  auto module = Training::filled(1);
  ct::State state{module, {}, {}};
  ct::Checkpointer trainer(run.uri(), run.options);
  trainer.save(1, state);
  trainer.wait();
  EXPECT_TRUE(run.restore(state));
  trainer.save(2, state);
  trainer.close();
}

TEST(Restore, PassesOverADamagedNewestOneWhoseStepCanBeSavedAgain) {
  for (const char* what : {"MANIFEST", "PART_000"}) {
    Training run;
    run.save({1, 2, 3});
    damage_label(run.uri(), "step-3", what);
    auto module = Training::filled(0);
    ct::State state{module, {}, {{"step", 0}}};
    ct::Checkpointer keeper(run.uri(), run.options);
    EXPECT_EQ(keeper.restore(state)->step, 2) << what;
    EXPECT_TRUE(all_are(module->weight, 2));
    EXPECT_EQ(state.others.at("step").toInt(), 2);
    keeper.save(3, {Training::filled(33), {}, {{"step", 33}}});
    keeper.close();
    EXPECT_EQ(ct::load(run.uri(), module).others.at("step").toInt(), 33) << what;
  }
}

TEST(Restore, ThrowsWhereAllAreDamagedOrTheChosenOneIsOrNoneMayBePassedOver) {
  Training run;
  run.save({1, 2});
  damage_label(run.uri(), "step-2", "PART_000");
  ct::State state{Training::filled(0), {}, {}};
  expect_error([&] { run.restore(state, 2); }, CKPT_CORRUPT, "weight");
  auto strict = run.options;
  strict.settings = {{"on_damaged", "error"}};
  expect_error([&] { ct::Checkpointer(run.uri(), strict).restore(state); }, CKPT_CORRUPT, "weight");
  damage_label(run.uri(), "step-1", "PART_000");
  expect_error([&] { run.restore(state); }, CKPT_CORRUPT, "weight");
}

TEST(Restore, DoesNotGoOnWithATensorThatADamagedOneLeftUndefinedAndTheOneBeforeLacks) {
  Training run;
  ct::Checkpointer keeper(run.uri(), run.options);
  keeper.save(1, {std::make_shared<torch::nn::LinearImpl>(torch::nn::LinearOptions(300, 30).bias(false)), {}, {}});
  keeper.save(2, {Training::filled(2), {}, {}});
  keeper.wait();
  damage_label(run.uri(), "step-2", "PART_000");
  ct::State state{Training::filled(0), {}, {}};
  ct::RestoreOptions lax;
  lax.strict = false;
  expect_error([&] { keeper.restore(state, "latest", lax); }, CKPT_CORRUPT, "left undefined");
  lax.stage_first = true;
  EXPECT_EQ(keeper.restore(state, "latest", lax)->missing, std::vector<std::string>{"model/bias"});
}

TEST(Restore, IsRefusedOnAllRanksWhereOneHasATensorThatADamagedOneLeftUndefined) {
  Training run;
  auto small = [] { return std::make_shared<torch::nn::LinearImpl>(torch::nn::LinearOptions(300, 30).bias(false)); };
  {
    ct::Checkpointer keeper(run.uri(), run.options);
    keeper.save(1, {small(), {}, {}});
    keeper.save(2, {Training::filled(2), {}, {}});
    keeper.close();
  }
  damage_label(run.uri(), "step-2", "PART_000");
  ThreadGroup(2).run([&](ct::Ranks ranks) {
    ct::Checkpointer keeper(run.uri(), run.options, ranks);
    ct::State state{ranks.rank == 0 ? small() : Training::filled(0), {}, {}};
    ct::RestoreOptions lax;
    lax.strict = false;
    expect_error([&] { keeper.restore(state, "latest", lax); }, CKPT_CORRUPT,
                 "rank 1: what a damaged checkpoint has left undefined is not in step-1");
  });
}

// ---- what of it ----

struct Parts {
  std::shared_ptr<torch::nn::LinearImpl> module = Training::filled(0);
  torch::optim::Adam adam{module->parameters(), torch::optim::AdamOptions(9)};
  ct::State state{module, adam, {{"epoch", 0}}};
};

// Which parts of a state that had zeros were restored.
std::string restored_parts(Training& run, const ct::RestoreOptions& options) {
  Parts parts;
  EXPECT_TRUE(run.restore(parts.state, "latest", options));
  std::string found;
  if (all_are(parts.module->weight, 1)) found += "weight ";
  if (all_are(parts.module->bias, 1)) found += "bias ";
  if (static_cast<torch::optim::AdamOptions&>(parts.adam.param_groups()[0].options()).lr() == 0.5) found += "adam ";
  if (parts.state.others.at("epoch").toInt() == 1) found += "epoch ";
  return found;
}

TEST(RestoreParts, AreThoseThatAreChosen) {
  Training run;
  auto module = Training::filled(1);
  torch::optim::Adam adam(module->parameters(), torch::optim::AdamOptions(0.5));
  ct::Checkpointer(run.uri(), run.options).save(1, {module, adam, {{"epoch", 1}, {"more", 2}}});
  auto chosen = [&](std::vector<std::string> only, std::vector<std::string> without = {}) {
    ct::RestoreOptions options;
    options.only = std::move(only);
    options.without = std::move(without);
    return restored_parts(run, options);
  };
  EXPECT_EQ(chosen({}), "weight bias adam epoch ");
  EXPECT_EQ(chosen({"model"}), "weight bias ");
  EXPECT_EQ(chosen({"model/weight", "epoch"}), "weight epoch ");
  EXPECT_EQ(chosen({}, {"model"}), "adam epoch ");
  EXPECT_EQ(chosen({}, {"*bias"}), "weight adam epoch ");
  EXPECT_EQ(chosen({"model"}, {"model/w*"}), "bias ");
  EXPECT_EQ(chosen({}, {"optimizer"}), "weight bias epoch ");
  expect_error([&] { chosen({"optimizer/state"}); }, CKPT_INVALID, "'optimizer' is restored whole");
  expect_error([&] { chosen({}, {"epoch/x"}); }, CKPT_INVALID, "'epoch' is restored whole");
}

TEST(RestoreParts, ThatTheCheckpointLacksAreAnErrorOrLeftAlone) {
  Training run;
  ct::Checkpointer(run.uri(), run.options).save(1, {Training::filled(1), {}, {}});
  Parts parts;
  expect_error([&] { run.restore(parts.state); }, CKPT_NOT_FOUND, "no 'optimizer'");
  EXPECT_TRUE(all_are(parts.module->weight, 0));
  ct::RestoreOptions lax;
  lax.strict = false;
  EXPECT_EQ(run.restore(parts.state, "latest", lax)->missing, (std::vector<std::string>{"optimizer", "epoch"}));
  EXPECT_TRUE(all_are(parts.module->weight, 1));
}

TEST(RestoreParts, HaveOtherNamesWhereThatIsSaid) {
  Training run;
  auto saved = std::make_shared<torch::nn::Module>(), other = std::make_shared<torch::nn::Module>();
  saved->register_module("encoder", Training::filled(1));
  saved->register_module("head", Training::filled(2));
  const auto encoder = other->register_module("backbone", Training::filled(0));
  const auto head = other->register_module("head", Training::filled(0));
  ct::Checkpointer(run.uri(), run.options).save(1, {saved, {}, {{"epoch", 4}}});
  ct::State state{other, {}, {{"era", 0}}};
  ct::RestoreOptions renamed;
  renamed.rename = {{"model/encoder", "model/backbone"}, {"epoch", "era"}};
  ASSERT_TRUE(run.restore(state, "latest", renamed));
  EXPECT_TRUE(all_are(encoder->weight, 1));
  EXPECT_TRUE(all_are(head->weight, 2));
  EXPECT_EQ(state.others.at("era").toInt(), 4);
  renamed.rename = [](const std::string& path) { return path == "model/head.bias" ? "elsewhere/bias" : path; };
  expect_error([&] { run.restore(state, "latest", renamed); }, CKPT_INVALID, "another dict");
}

TEST(RestoreParts, OfOtherShapesAreAnErrorOrLeftAlone) {
  Training run;
  ct::Checkpointer(run.uri(), run.options).save(1, {{Training::filled(1), Training::filled(2)}, {}, {}});
  auto body = Training::filled(0);
  torch::nn::Linear head(300, 7);
  ct::State state{{body, head}, {}, {}};
  expect_error([&] { run.restore(state); }, CKPT_MISMATCH, "model/1/weight");
  EXPECT_TRUE(all_are(body->weight, 0));
  ct::RestoreOptions skipping;
  skipping.on_shape_mismatch = ct::ShapeMismatch::skip;
  const auto restored = run.restore(state, "latest", skipping);
  EXPECT_TRUE(all_are(body->weight, 1));
  EXPECT_EQ(restored->other_shape,
            (std::vector<std::string>{"model/1/weight: [7, 300] in the module, [30, 300] in the checkpoint",
                                      "model/1/bias: [7] in the module, [30] in the checkpoint"}));
}

TEST(RestoreParts, OfOptimizersHaveNoStateOfParametersOfOtherShapesAndSayWhich) {
  Training run;
  auto body = Training::filled(1), head = Training::filled(2);
  auto trained = [](const std::vector<std::shared_ptr<torch::nn::LinearImpl>>& layers, double grad) {
    std::vector<at::Tensor> all;
    for (const auto& layer : layers)
      for (const at::Tensor& p : layer->parameters()) all.push_back(p), p.mutable_grad() = at::full_like(p, grad);
    auto adam = std::make_shared<torch::optim::Adam>(all, torch::optim::AdamOptions(0.1));
    adam->step();
    return adam;
  };
  ct::Checkpointer(run.uri(), run.options).save(1, {{body, head}, trained({body, head}, 10), {}});
  auto other = std::make_shared<torch::nn::LinearImpl>(300, 7);
  auto adam = trained({body, other}, 50);
  ct::State state{{body, other}, adam, {}};
  ct::RestoreOptions skipping;
  skipping.on_shape_mismatch = ct::ShapeMismatch::skip;
  const auto left = run.restore(state, "latest", skipping)->other_shape;
  ASSERT_EQ(left.size(), 4u);
  EXPECT_EQ(
      left[2],
      "optimizer/state/2: [7, 300] is the shape of the parameter, [30, 300] that of 'exp_avg_sq' in the checkpoint");
  std::map<int64_t, int64_t> moments;  // by the parameter's size
  for (const auto& one : adam->state()) {
    const at::Tensor moment = static_cast<torch::optim::AdamParamState&>(*one.second).exp_avg();
    moments[moment.numel()] = moment.max().item<double>() + 0.5;
  }
  EXPECT_EQ(moments, (std::map<int64_t, int64_t>{{9000, 1}, {30, 1}, {2100, 5}, {7, 5}}));
}

TEST(RestoreParts, OfModulesAreStrictUnlessThatIsNotWanted) {
  Training run;
  ct::Checkpointer(run.uri(), run.options).save(1, {Training::filled(1), {}, {}});
  auto more = std::make_shared<torch::nn::Module>();
  const at::Tensor weight = more->register_parameter("weight", at::zeros({30, 300}));
  more->register_parameter("extra", at::zeros({3}));
  ct::State state{more, {}, {}};
  expect_error([&] { run.restore(state); }, CKPT_MISMATCH, "missing in the checkpoint: 'model/extra'");
  ct::RestoreOptions lax;
  lax.strict = false;
  const auto restored = run.restore(state, "latest", lax);
  EXPECT_EQ(restored->missing, std::vector<std::string>{"model/extra"});
  EXPECT_EQ(restored->unexpected, std::vector<std::string>{"model/bias"});
  EXPECT_TRUE(all_are(weight, 1));
  lax.only = {"model/weight"};
  EXPECT_TRUE(run.restore(state, "latest", lax)->missing.empty());
}

// ---- to and from Python's ckpt.Checkpointer: the attributes are its json.dumps ----

TEST(RestoreOfPython, FindsWhatPythonsCheckpointerKeepsInTheAttributes) {
  Training run;
  ct::Session python(run.uri());
  auto saved = [&](int64_t step, const ckpt::Attributes& attrs) {
    ct::SaveOptions options;
    options.step = step;
    options.label = "step-" + std::to_string(step);
    options.attrs = attrs;
    python.save({Training::filled(step), {}, {}}, options);
  };
  saved(1, {{"trainer.metrics", R"({"val_loss": 0.25, "a\"b\\": -Infinity, "\u00e9NaN": NaN})"},
            {"trainer.counters", R"({"epoch": 1, "token": 1.5e3})"}});
  saved(2, {{"trainer.metrics", R"({"val_loss": 0.5})"}, {"trainer.kept", "1"}});
  saved(3, {{"trainer.metrics", R"({"val_loss": NaN})"}});
  run.options.keep_last = 1;
  run.options.keep_best = {"val_loss", "min", 1};
  ct::State state{Training::filled(0), {}, {}};
  const ct::Restored best = run.restore(state, "best").value();
  EXPECT_EQ(best.step, 1);
  EXPECT_EQ(best.metrics.at("val_loss"), 0.25);
  EXPECT_EQ(best.metrics.at("a\"b\\"), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(best.metrics.at("\u00e9NaN")));
  EXPECT_EQ(best.counters, (ct::Numbers{{"epoch", 1}, {"token", 1500}}));
  run.save({4});
  EXPECT_TRUE(run.restore(state, 1) && run.restore(state, 2) && run.restore(state, 4));  // best, kept, last
  expect_error([&] { run.restore(state, 3); }, CKPT_NOT_FOUND, "3");
}

TEST(RestoreOfPython, PythonsCheckpointerFindsWhatThisOneKeeps) {
  Training run;
  const double nan = std::nan(""), infinite = std::numeric_limits<double>::infinity();
  ct::Checkpointer keeper(run.uri(), run.options);
  keeper.save(1, {Training::filled(1), {}, {}}, "final", {{"loss", 0.1}, {"more", nan}, {"most", -infinite}},
              {{"epoch", 2}});
  keeper.save(2, {Training::filled(1), {}, {}});
  keeper.close();
  const auto store = ckpt::Store::open(run.uri());
  auto attrs = ckpt::Reader::open(store, "final").attrs();
  EXPECT_EQ(attrs.at("trainer.metrics"), R"({"loss": 0.1, "more": NaN, "most": -Infinity})");
  EXPECT_EQ(attrs.at("trainer.counters"), R"({"epoch": 2})");
  EXPECT_EQ(attrs.at("trainer.kept"), "1");
  attrs = ckpt::Reader::open(store, "step-2").attrs();
  EXPECT_EQ(attrs.count("trainer.metrics") + attrs.count("trainer.counters") + attrs.count("trainer.kept"), 0u);
}

}  // namespace
