// Optimizers: a resumed run continues as if it had not stopped; the state of another optimizer is refused.
#include "util.h"

using torch::optim::Optimizer;

namespace {

using Make = std::function<std::unique_ptr<Optimizer>(std::vector<at::Tensor>)>;

template <class O, class Options>
Make make(Options options) {
  return [options](std::vector<at::Tensor> params) { return std::make_unique<O>(std::move(params), options); };
}

// Trains, saves after `saved` steps, loads into another net and optimizer, and compares the next losses and the end.
void expect_resumes(const Make& make_optimizer, int saved = 4, int more = 4) {
  StorePlace place;
  torch::manual_seed(1);
  Net net, other;  // other: other values
  auto optimizer = make_optimizer(net->parameters());
  for (int step = 0; step < saved; step++) train(net, *optimizer, step);
  ct::save(place.uri(), net, optimizer);
  auto fresh = make_optimizer(other->parameters());
  train(other, *fresh, 99);  // its old state must go
  ct::load(place.uri(), other, fresh);
  expect_same(*net, *other);
  for (int step = saved; step < saved + more; step++)
    EXPECT_EQ(train(net, *optimizer, step), train(other, *fresh, step)) << "at step " << step;
  expect_same(*net, *other);
}

using namespace torch::optim;

TEST(OptimizerResume, SgdPlain) { expect_resumes(make<SGD>(SGDOptions(0.1))); }
TEST(OptimizerResume, SgdWithMomentumAndNesterov) {
  expect_resumes(make<SGD>(SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(0.01)));
}
TEST(OptimizerResume, Adam) { expect_resumes(make<Adam>(AdamOptions(0.01).betas({0.8, 0.99}))); }
TEST(OptimizerResume, AdamWithAmsgrad) {
  expect_resumes(make<Adam>(AdamOptions(0.01).amsgrad(true).weight_decay(0.1)));
}
TEST(OptimizerResume, AdamW) { expect_resumes(make<AdamW>(AdamWOptions(0.01).weight_decay(0.2))); }
TEST(OptimizerResume, Adagrad) {
  expect_resumes(make<Adagrad>(AdagradOptions(0.1).lr_decay(0.01).initial_accumulator_value(0.1)));
}
TEST(OptimizerResume, RmspropPlain) { expect_resumes(make<RMSprop>(RMSpropOptions(0.01))); }
TEST(OptimizerResume, RmspropCenteredWithMomentum) {
  expect_resumes(make<RMSprop>(RMSpropOptions(0.01).centered(true).momentum(0.9)));
}
TEST(OptimizerResume, Lbfgs) { expect_resumes(make<LBFGS>(LBFGSOptions(0.5).max_iter(4).history_size(3)), 3, 3); }
TEST(OptimizerResume, LbfgsWithLineSearch) {
  expect_resumes(make<LBFGS>(LBFGSOptions(1).max_iter(5).line_search_fn("strong_wolfe")), 2, 2);
}
TEST(OptimizerResume, BeforeItsFirstStep) { expect_resumes(make<Adam>(AdamOptions(0.01)), 0, 3); }

TEST(Optimizer, OptionsOfEveryGroupAreRestored) {
  StorePlace place;
  Net net, other;
  auto groups = [](Net& n, double first, double second) {
    std::vector<OptimizerParamGroup> all;
    all.emplace_back(n->a->parameters(), std::make_unique<AdamOptions>(AdamOptions(first).eps(1e-6)));
    all.emplace_back(n->b->parameters(), std::make_unique<AdamOptions>(AdamOptions(second).amsgrad(true)));
    return std::make_unique<Adam>(all, AdamOptions(0.5));
  };
  auto saved = groups(net, 0.25, 0.125), loaded = groups(other, 1, 2);
  train(net, *saved, 0);
  ct::save(place.uri(), net, saved);
  ct::load(place.uri(), other, loaded);
  auto& first = static_cast<AdamOptions&>(loaded->param_groups()[0].options());
  auto& second = static_cast<AdamOptions&>(loaded->param_groups()[1].options());
  EXPECT_EQ(first.lr(), 0.25);
  EXPECT_EQ(first.eps(), 1e-6);
  EXPECT_EQ(second.lr(), 0.125);
  EXPECT_TRUE(second.amsgrad());
  EXPECT_EQ(train(net, *saved, 1), train(other, *loaded, 1));
}

// ---- refused ----

TEST(Optimizer, OfAnotherClassIsRefusedAndNothingChanges) {
  StorePlace place;
  Net net, other, before;
  Adam adam(net->parameters(), AdamOptions(0.1));
  train(net, adam, 0);
  ct::save(place.uri(), net, adam);
  for (const auto& item : other->named_parameters()) before->named_parameters()[item.key()].data().copy_(item.value());
  SGD sgd(other->parameters(), SGDOptions(0.1));
  expect_error([&] { ct::load(place.uri(), other, sgd); }, CKPT_MISMATCH, "was saved from Adam, the optimizer is SGD");
  AdamW adamw(other->parameters(), AdamWOptions(0.1));
  expect_error([&] { ct::load(place.uri(), other, adamw); }, CKPT_MISMATCH, "was saved from Adam");
  expect_same(*before, *other);
}

TEST(Optimizer, OfAnotherModelIsRefused) {
  StorePlace place;
  Net net, wide(9);
  Adam adam(net->parameters(), AdamOptions(0.1));
  train(net, adam, 0);
  ct::save(place.uri(), net, adam);
  Adam wider(wide->parameters(), AdamOptions(0.1));
  expect_error([&] { ct::load(place.uri(), {}, wider); }, CKPT_MISMATCH, "it belongs to another model");
  Adam fewer(net->a->parameters(), AdamOptions(0.1));
  expect_error([&] { ct::load(place.uri(), net, fewer); }, CKPT_MISMATCH,
               "the group has 2 parameters, the checkpoint 6");
  std::vector<OptimizerParamGroup> groups{net->a->parameters(), net->b->parameters()};
  Adam grouped(groups, AdamOptions(0.1));
  expect_error([&] { ct::load(place.uri(), net, grouped); }, CKPT_MISMATCH, "2 parameter groups, the checkpoint 1");
}

// ---- hooks ----

struct SignSgd : Optimizer {
  SignSgd(std::vector<at::Tensor> params)
      : Optimizer({OptimizerParamGroup(params)}, std::make_unique<SGDOptions>(0.1)) {}
  at::Tensor step(LossClosure) override {
    steps++;
    return {};
  }
  int64_t steps = 0;
};

struct SignSgdHook : ct::OptimizerHook {
  std::string class_name() const override { return "SignSgd"; }
  bool handles(const Optimizer& o) const override { return dynamic_cast<const SignSgd*>(&o) != nullptr; }
  c10::IValue state_dict(const Optimizer& o) const override {
    c10::impl::GenericDict dict(c10::StringType::get(), c10::AnyType::get());
    dict.insert("steps", static_cast<const SignSgd&>(o).steps);
    return dict;
  }
  void load_state_dict(Optimizer& o, const c10::IValue& state) const override {
    static_cast<SignSgd&>(o).steps = state.toGenericDict().at("steps").toInt();
    TORCH_CHECK(static_cast<SignSgd&>(o).steps < 100, "one line\nand \x1b[31mmore\u202e", std::string(5000, 'x'));
  }
};

TEST(Optimizer, OfAnUnknownClassNeedsAHook) {
  StorePlace place;
  Net net;
  SignSgd saved(net->parameters()), loaded(net->parameters());
  saved.steps = 7;
  expect_error([&] { ct::save(place.uri(), net, saved); }, CKPT_UNSUPPORTED, "give an OptimizerHook");
  ct::SaveOptions save;
  save.hooks = {std::make_shared<SignSgdHook>()};
  ct::save(place.uri(), net, saved, {}, save);
  ct::LoadOptions load;
  load.hooks = save.hooks;
  ct::load(place.uri(), net, loaded, load);
  EXPECT_EQ(loaded.steps, 7);
}

TEST(Errors, OfLibTorchAndOfNamesAreOneLineOfAtMost1KiBWithoutWhatATerminalObeys) {
  StorePlace place;
  Net net;
  SignSgd optimizer(net->parameters());
  optimizer.steps = 100;
  ct::SaveOptions save;
  ct::LoadOptions load, named;
  save.hooks = load.hooks = {std::make_shared<SignSgdHook>()};
  ct::save(place.uri(), net, optimizer, {}, save);
  named.model_key = "\x1b[2J\n" + std::string(5000, 'y');
  for (const auto& [options, text] : {std::make_pair(load, "LibTorch: one line\\nand \\x1b[31mmore\\xe2\\x80\\xae"),
                                      std::make_pair(named, "the checkpoint has no '\\x1b[2J\\ny")}) {
    const std::string told = expect_error([&] { ct::load(place.uri(), net, optimizer, options); },
                                          options.hooks.empty() ? CKPT_NOT_FOUND : CKPT_INTERNAL, text)
                                 .what();
    EXPECT_LE(told.size(), 1024u);
    EXPECT_EQ(told.find_first_of("\n\x1b"), told.npos);
  }
}

}  // namespace
