// Checkpoints as `ckpt import` makes them of Python's .pt files: schemas/STATE_TREE.md, "Records".
#include <ATen/CPUGeneratorImpl.h>

#include <map>

#include "../src/optim_fields.h"  // state_key
#include "util.h"

namespace {

// A checkpoint made without the adapter: a tree, and tensors under their paths.
class PythonFile {
 public:
  PythonFile& begin(int32_t kind) { return tree_.begin(kind), *this; }
  PythonFile& record(const char* name) { return tree_.begin_record(name), *this; }
  PythonFile& dict() { return begin(CKPT_NODE_DICT); }
  PythonFile& list() { return begin(CKPT_NODE_LIST); }
  PythonFile& tuple() { return begin(CKPT_NODE_TUPLE); }
  PythonFile& end() { return tree_.end(), *this; }
  PythonFile& key(const std::string& key) { return tree_.key(key), *this; }
  PythonFile& key(int key) { return tree_.key(key), *this; }
  PythonFile& none() { return tree_.add_null(), *this; }
  PythonFile& flag(bool value) { return tree_.add_bool(value), *this; }
  PythonFile& number(int value) { return tree_.add_int(value), *this; }
  PythonFile& number(double value) { return tree_.add_float(value), *this; }
  PythonFile& text(const char* text) { return tree_.add_text(text), *this; }
  PythonFile& tensor(const at::Tensor& given) { return raw(given, ckpt::Tensor::of<float>(given.sizes().vec())); }
  PythonFile& bytes(const at::Tensor& given) { return raw(given, ckpt::Tensor::of<uint8_t>(given.sizes().vec())); }
  PythonFile& object(const char* name, const std::string& bytes) {
    return save_.add_object(name, "application/octet-stream", CKPT_OBJECT_PER_RANK, bytes), *this;
  }
  PythonFile& raw(const at::Tensor& given, const ckpt::Tensor& as) {
    kept_.push_back(given.detach().contiguous());
    save_.add_tensor(tree_.add_tensor(), as, {kept_.back().data_ptr(), given.nbytes()});
    return *this;
  }
  const std::string& uri() const { return place_.uri(); }
  const std::string& commit() {
    save_.add_tree(tree_);
    save_.run();
    return place_.uri();
  }

 private:
  StorePlace place_;
  ckpt::Session session_ = ckpt::Session::open(ckpt::Store::open(place_.uri()));
  ckpt::Save save_ = ckpt::Save::create(session_, "imported");
  ckpt::Tree tree_ = ckpt::Tree::create();
  std::vector<at::Tensor> kept_;
};

// model.state_dict() as Python pickles it: an OrderedDict with _metadata.
void put_model(PythonFile& file, const at::Tensor& weight, const at::Tensor& bias) {
  file.record("collections.OrderedDict").key("items").dict();
  file.key("weight").record("torch.nn.parameter.Parameter").key("data").tensor(weight);
  file.key("requires_grad").flag(true).end();
  file.key("bias").tensor(bias).end();
  file.key("metadata").dict().key("").dict().key("version").number(1).end().end().end();
}

// torch.optim.Adam's state_dict(): steps are tensors, and there are options that LibTorch lacks.
void put_adam(PythonFile& file, const at::Tensor& weight, const at::Tensor& bias, bool maximize = false,
              double steps = 7) {
  file.dict().key("state").dict();
  int index = 0;
  for (const at::Tensor& like : {weight, bias}) {
    file.key(index++).dict().key("step").tensor(at::full({}, steps, at::kFloat));
    file.key("exp_avg").tensor(at::full_like(like, 0.5)).key("exp_avg_sq").tensor(at::full_like(like, 0.25)).end();
  }
  file.end().key("param_groups").list().dict();
  file.key("lr").number(0.125).key("betas").tuple().number(0.5).number(0.75).end().key("eps").number(1e-6);
  file.key("weight_decay").number(0).key("amsgrad").flag(false).key("maximize").flag(maximize);
  file.key("foreach").none().key("capturable").flag(false).key("differentiable").flag(false).key("fused").none();
  file.key("initial_lr").number(0.5).key("params").list().number(0).number(1).end().end().end().end();
}

TEST(PythonFile, OfAModelAndAdamIsLoaded) {
  at::Tensor weight = at::randn({3, 2}), bias = at::randn({3});
  PythonFile file;
  file.dict().key("state_dict");
  put_model(file, weight, bias);
  file.key("optim");
  put_adam(file, weight, bias);
  file.key("epoch").number(12).key("device").record("torch.device").key("type").none().end();
  file.key("shape").record("torch.Size").key("items").tuple().number(3).number(2).end().end().end();
  auto uri = file.commit();

  torch::nn::Linear model(2, 3);
  torch::optim::Adam adam(model->parameters(), torch::optim::AdamOptions(9));
  ct::LoadOptions options;
  options.model_key = "state_dict";
  options.optimizer_key = "optim";
  auto loaded = ct::load(uri, model, adam, options);
  EXPECT_TRUE(same_bits(model->weight, weight));
  EXPECT_TRUE(same_bits(model->bias, bias));
  EXPECT_FALSE(loaded.rng_restored);
  auto& group = static_cast<torch::optim::AdamOptions&>(adam.param_groups()[0].options());
  EXPECT_EQ(group.lr(), 0.125);
  EXPECT_EQ(group.betas(), std::make_tuple(0.5, 0.75));
  ASSERT_EQ(adam.state().size(), 2u);
  for (const auto& [key, state] : adam.state()) {
    auto& own = static_cast<torch::optim::AdamParamState&>(*state);
    EXPECT_EQ(own.step(), 7);
    EXPECT_EQ(own.exp_avg().min().item<double>(), 0.5);
    EXPECT_EQ(own.exp_avg_sq().max().item<double>(), 0.25);
  }
  EXPECT_EQ(loaded.others.at("epoch").toInt(), 12);
  EXPECT_EQ(loaded.others.at("shape").toTuple()->elements()[0].toInt(), 3);
  EXPECT_EQ(loaded.others.at("device").toGenericDict().at("__class__").toStringRef(), "torch.device");
  ASSERT_EQ(loaded.ignored.size(), 2u);  // initial_lr, and the device's class
  EXPECT_NE(loaded.ignored[0].find("initial_lr"), std::string::npos) << loaded.ignored[0];
}

TEST(PythonFile, OfAStateDictAloneIsLoaded) {
  at::Tensor weight = at::randn({3, 2}), bias = at::randn({3});
  PythonFile file;
  put_model(file, weight, bias);
  auto uri = file.commit();
  torch::nn::Linear model(2, 3);
  ct::LoadOptions options;
  options.model_key = "";
  EXPECT_TRUE(ct::load(uri, model, {}, options).others.items().empty());
  EXPECT_TRUE(same_bits(model->weight, weight));
  options.model_key = "checkpoint/model";
  expect_error([&] { ct::load(uri, model, {}, options); }, CKPT_NOT_FOUND, "'checkpoint/model'");
}

TEST(PythonFile, AnOptimizerThatMaximizesIsRefused) {
  at::Tensor weight = at::randn({3, 2}), bias = at::randn({3});
  PythonFile file;
  file.dict().key("checkpoint").dict().key("model");
  put_model(file, weight, bias);
  file.end().key("optimizer");
  put_adam(file, weight, bias, true);
  file.end();
  auto uri = file.commit();
  torch::nn::Linear model(2, 3);
  torch::optim::Adam adam(model->parameters(), torch::optim::AdamOptions(9));
  ct::LoadOptions options;
  options.model_key = "checkpoint/model";
  expect_error([&] { ct::load(uri, model, adam, options); }, CKPT_UNSUPPORTED, "maximize");
  EXPECT_FALSE(same_bits(model->weight, weight));
  torch::optim::RMSprop other(model->parameters(), torch::optim::RMSpropOptions(9));
  expect_error([&] { ct::load(uri, model, other, options); }, CKPT_MISMATCH, "has no 'momentum'");
  ct::load(uri, model, {}, options);
  EXPECT_TRUE(same_bits(model->weight, weight));
}

// ---- optimizers by the names of their parameters ----

// A group of Adam's parameters: what they are called, and the moment of each.
struct NamedGroup {
  double lr;
  std::vector<std::pair<std::string, double>> moments;
};

// What ckpt's Python saves of an Adam beside its modules, of 2 by 2 weights; `numbered`: as torch does that was given
// names.
void put_named_adam(PythonFile& file, const std::vector<NamedGroup>& groups, bool numbered = false) {
  int number = 0;
  auto each = [&](const auto& put) {
    number = 0;
    for (const NamedGroup& group : groups)
      for (const auto& [name, moment] : group.moments) put(name, moment), number++;
  };
  file.dict().key("state").dict();
  each([&](const std::string& name, double moment) {
    numbered ? file.key(number) : file.key(name);
    file.dict().key("step").number(3).key("exp_avg").tensor(at::full({2, 2}, moment));
    file.key("exp_avg_sq").tensor(at::full({2, 2}, moment + 0.5)).end();
  });
  file.end().key("param_groups").list();
  number = 0;
  for (const NamedGroup& group : groups) {
    file.dict().key("lr").number(group.lr).key("betas").tuple().number(0.5).number(0.75).end().key("eps").number(1e-6);
    file.key("weight_decay").number(0).key("amsgrad").flag(false);
    auto names = [&] {
      for (const auto& one : group.moments) file.text(one.first.c_str());
      file.end();
    };
    if (numbered) file.key("param_names").list(), names();
    file.key("params").list();
    if (!numbered) names();
    for (size_t i = 0; numbered && i < group.moments.size(); i++) file.number(number++);
    if (numbered) file.end();
    file.end();
  }
  file.end().end();
}

// Modules of 2 by 2 weights of these names, saved as {"model": [{…}, …], "optimizer": …}.
struct Weights : torch::nn::Module {
  explicit Weights(const std::vector<std::string>& names) {
    for (const std::string& name : names) register_parameter(name, at::ones({2, 2}));
  }
};
using Modules = std::vector<std::shared_ptr<Weights>>;

ct::Models all_of(const Modules& modules) {
  if (modules.size() == 1) return modules[0];
  return {modules[0], modules[1]};
}

std::string named_file(PythonFile& file, const Modules& modules, const std::vector<std::vector<NamedGroup>>& optimizers,
                       bool numbered = false) {
  auto many = [&](size_t count, const auto& put) {
    if (count > 1) file.list();
    for (size_t i = 0; i < count; i++) put(i);
    if (count > 1) file.end();
  };
  file.dict().key("model");
  many(modules.size(), [&](size_t i) {
    file.dict();
    for (const auto& one : modules[i]->named_parameters()) file.key(one.key()).tensor(one.value());
    file.end();
  });
  file.key("optimizer");
  many(optimizers.size(), [&](size_t i) { put_named_adam(file, optimizers[i], numbered); });
  file.end();
  return file.commit();
}

struct NamedAdam {
  // A group of each list of parameters.
  explicit NamedAdam(const std::vector<std::vector<at::Tensor>>& groups) : adam(made(groups)) {}
  static std::vector<torch::optim::OptimizerParamGroup> made(const std::vector<std::vector<at::Tensor>>& groups) {
    std::vector<torch::optim::OptimizerParamGroup> out;
    for (const auto& params : groups)
      out.emplace_back(params, std::make_unique<torch::optim::AdamOptions>(torch::optim::AdamOptions(9)));
    return out;
  }
  double lr(size_t group) { return static_cast<torch::optim::AdamOptions&>(adam.param_groups()[group].options()).lr(); }
  // The moments of the parameters, in the optimizer's order; 0: none.
  std::vector<double> moments() {
    using Key = std::decay_t<decltype(adam.state())>::key_type;
    std::vector<double> out;
    for (const auto& group : adam.param_groups())
      for (const at::Tensor& param : group.params()) {
        const auto found = adam.state().find(ct::internal::state_key<Key>(param));
        const bool is_there = found != adam.state().end();
        out.push_back(
            is_there ? static_cast<torch::optim::AdamParamState&>(*found->second).exp_avg()[1][1].item<double>() : 0);
      }
    return out;
  }
  torch::optim::Adam adam;
};

at::Tensor weight(const std::shared_ptr<Weights>& module, const char* name = "w") {
  return module->named_parameters()[name];
}

std::shared_ptr<Weights> weights(const std::vector<std::string>& names) { return std::make_shared<Weights>(names); }

using Values = std::vector<double>;

TEST(NamedParameters, OfSeveralModulesAreFoundByTheirModulesNames) {
  const Modules modules{weights({"w", "v"}), weights({"w", "v"})};
  PythonFile file;
  const auto uri =
      named_file(file, modules, {{{0.125, {{"model.1.w", 3}, {"model.0.v", 2}, {"model.1.v", 4}, {"model.0.w", 1}}}}});
  NamedAdam own({{weight(modules[0]), weight(modules[0], "v"), weight(modules[1]), weight(modules[1], "v")}});
  ct::load(uri, all_of(modules), own.adam);
  EXPECT_EQ(own.moments(), (Values{1, 2, 3, 4}));
  EXPECT_EQ(own.lr(0), 0.125);
  ct::CheckpointerOptions options;
  options.signals.emplace();
  own.adam.state().clear();
  ct::State state{all_of(modules), own.adam, {}};
  ct::Checkpointer(uri, options).restore(state);
  EXPECT_EQ(own.moments(), (Values{1, 2, 3, 4}));
}

TEST(NamedParameters, OfSeveralModulesHaveTheirBareNamesWhereAnOptimizerHasOneOfThem) {
  const Modules modules{weights({"w", "v"}), weights({"w", "v"})};
  PythonFile file;
  const auto uri = named_file(file, modules, {{{0.125, {{"v", 2}, {"w", 1}}}}, {{0.25, {{"v", 4}, {"w", 3}}}}});
  NamedAdam first({{weight(modules[0]), weight(modules[0], "v")}}),
      second({{weight(modules[1]), weight(modules[1], "v")}});
  ct::load(uri, all_of(modules), {first.adam, second.adam});
  EXPECT_EQ(first.moments(), (Values{1, 2}));
  EXPECT_EQ(second.moments(), (Values{3, 4}));
  EXPECT_EQ(std::make_pair(first.lr(0), second.lr(0)), std::make_pair(0.125, 0.25));
}

TEST(NamedParameters, OfSeveralModulesMayHaveBareNamesThatAreEachOnlyOnes) {
  const Modules modules{weights({"a"}), weights({"b"})};
  PythonFile file;
  const auto uri = named_file(file, modules, {{{0.125, {{"b", 2}, {"a", 1}}}}});
  NamedAdam own({{weight(modules[0], "a"), weight(modules[1], "b")}});
  ct::load(uri, all_of(modules), own.adam);
  EXPECT_EQ(own.moments(), (Values{1, 2}));
}

TEST(NamedParameters, FindTheSettingsOfTheirGroups) {
  const Modules modules{weights({"a", "b", "c"})};
  PythonFile file;
  const auto uri = named_file(file, modules, {{{0.125, {{"c", 3}}}, {0.25, {{"b", 2}, {"a", 1}}}}});
  NamedAdam own({{weight(modules[0], "a"), weight(modules[0], "b")}, {weight(modules[0], "c")}});
  ct::load(uri, all_of(modules), own.adam);
  EXPECT_EQ(own.moments(), (Values{1, 2, 3}));
  EXPECT_EQ(std::make_pair(own.lr(0), own.lr(1)), std::make_pair(0.25, 0.125));
  NamedAdam other({{weight(modules[0], "a"), weight(modules[0], "c")}, {weight(modules[0], "b")}});
  expect_error([&] { ct::load(uri, all_of(modules), other.adam); }, CKPT_MISMATCH,
               "group 0 of the optimizer has parameters of 2 groups of the checkpoint");
  EXPECT_EQ(other.moments(), (Values{0, 0, 0}));
}

// Tied ones are called by any of their names, and by one that is changed by a rename.
TEST(NamedParameters, MayHaveOtherNamesOrSeveral) {
  const Modules modules{weights({"a", "b"}), weights({"a"})};
  modules[0]->register_parameter("tied", weight(modules[0], "b"));
  PythonFile file, renamed;
  const auto uri = named_file(file, modules, {{{0.125, {{"model.1.a", 3}, {"model.0.tied", 2}, {"model.0.a", 1}}}}});
  NamedAdam own({{weight(modules[0], "a"), weight(modules[0], "b"), weight(modules[1], "a")}});
  ct::load(uri, all_of(modules), own.adam);
  EXPECT_EQ(own.moments(), (Values{1, 2, 3}));

  const Modules then{weights({"x", "y"}), weights({"x"})}, now{weights({"y", "x"}), weights({"z"})};
  const auto other = named_file(renamed, then, {{{0.125, {{"model.1.x", 3}, {"model.0.x", 1}, {"model.0.y", 2}}}}});
  NamedAdam adam({{weight(now[0], "y"), weight(now[0], "x"), weight(now[1], "z")}});
  ct::CheckpointerOptions options;
  options.signals.emplace();
  ct::State state{all_of(now), adam.adam, {}};
  ct::RestoreOptions how;
  how.rename = {{"model/0/x", "model/0/y"}, {"model/0/y", "model/0/x"}, {"model/1/x", "model/1/z"}};
  ct::Checkpointer(other, options).restore(state, "latest", how);
  EXPECT_EQ(adam.moments(), (Values{1, 2, 3}));
}

TEST(NamedParameters, ThatTorchWasToldAreFoundByTheirNamesOrElseByTheirPlaces) {
  const Modules modules{weights({"a", "b"})};
  PythonFile file, others;
  const auto uri = named_file(file, modules, {{{0.125, {{"b", 2}, {"a", 1}}}}}, true);
  NamedAdam own({{weight(modules[0], "a"), weight(modules[0], "b")}});
  EXPECT_TRUE(ct::load(uri, all_of(modules), own.adam).ignored.empty());
  EXPECT_EQ(own.moments(), (Values{1, 2}));
  ct::load(named_file(others, modules, {{{0.125, {{"p0", 1}, {"p1", 2}}}}}, true), all_of(modules), own.adam);
  EXPECT_EQ(own.moments(), (Values{1, 2}));
  ct::load(uri, {}, own.adam);  // torch's own rule: nothing else says which is which
  EXPECT_EQ(own.moments(), (Values{2, 1}));
}

TEST(NamedParameters, AreSavedBesideTheNumbers) {
  StorePlace place;
  const Modules modules{weights({"w"}), weights({"w", "v"})};
  NamedAdam saved({{weight(modules[1]), weight(modules[0])}, {weight(modules[1], "v")}});
  static_cast<torch::optim::AdamOptions&>(saved.adam.param_groups()[1].options()).lr(0.5);
  double value = 10;
  for (const auto& group : saved.adam.param_groups())
    for (at::Tensor param : group.params()) param.mutable_grad() = at::full({2, 2}, value), value += 10;
  saved.adam.step();
  ct::save(place.uri(), all_of(modules), saved.adam);
  NamedAdam own({{weight(modules[1], "v")}, {weight(modules[0])}, {weight(modules[1])}});
  EXPECT_TRUE(ct::load(place.uri(), all_of(modules), own.adam).ignored.empty());
  const auto moments = own.moments(), before = saved.moments();
  EXPECT_EQ(moments, (Values{before[2], before[1], before[0]}));
  EXPECT_EQ(std::make_pair(own.lr(0), own.lr(1)), std::make_pair(0.5, 9.0));
  const auto tree = ckpt::Reader::open(ckpt::Store::open(place.uri())).tree();
  const ckpt::Node groups = tree.root()["optimizer"]["param_groups"];
  EXPECT_EQ(groups[size_t{0}]["param_names"][size_t{0}].as_text(), "model.1.w");
  EXPECT_EQ(groups[size_t{1}]["param_names"][size_t{0}].as_text(), "model.1.v");
}

TEST(NamedParameters, ThatAreNotEachOneOfTheCheckpointsAreRefusedBeforeAnythingChanges) {
  const Modules modules{weights({"w"}), weights({"w"})};
  auto refused = [&](const std::vector<NamedGroup>& saved, const ct::Models& models,
                     const std::vector<at::Tensor>& params, const std::vector<std::string>& told) {
    PythonFile file;
    const auto uri = named_file(file, modules, {saved});
    NamedAdam own({params});
    const auto error = expect_error([&] { ct::load(uri, models, own.adam); }, CKPT_MISMATCH, told[0]);
    for (const std::string& one : told) EXPECT_NE(std::string(error.what()).find(one), std::string::npos) << one;
    EXPECT_EQ(own.moments(), Values(params.size()));
    EXPECT_EQ(own.lr(0), 9);
  };
  const std::vector<at::Tensor> both{weight(modules[0]), weight(modules[1])};
  const std::vector<NamedGroup> whole{{0.125, {{"model.1.w", 2}, {"model.0.w", 1}}}};
  refused({{0.125, {{"w", 2}, {"v", 1}}}}, all_of(modules), both,
          {"parameter 'model.0.w' and another one would both be 'w' of the checkpoint"});
  refused({{0.125, {{"gen.w", 2}, {"disc.w", 1}}}}, all_of(modules), both,
          {"parameter 'model.0.w' is none of 'gen.w', 'disc.w'", "give the models as they were saved"});
  refused({{0.125, {{"model.0.w", 2}}}}, all_of(modules), both, {"the optimizer has 2 parameters, the checkpoint 1"});
  refused(whole, {}, both, {"the optimizer's parameter 0 of shape [2, 2] is of none of the given models"});
  refused(whole, all_of(modules), {both[0], at::ones({2, 2})}, {"parameter 1 of shape [2, 2] is of none of the given"});
  NamedAdam own({both});
  PythonFile file;
  const auto uri = named_file(file, modules, {whole});
  ct::load(uri, {modules[1], modules[0]}, own.adam);  // models are the checkpoint's by their places
  EXPECT_EQ(own.moments(), (Values{2, 1}));
}

TEST(NamedParameters, OfAnOptimizerWithOneStateForAllHaveTheirOrder) {
  const Modules modules{weights({"a", "b"})};
  PythonFile file;
  file.dict().key("model").dict().key("a").tensor(at::ones({2, 2})).key("b").tensor(at::ones({2, 2})).end();
  file.key("optimizer").dict().key("state").dict().key("a").dict().key("func_evals").number(3).key("n_iter").number(2);
  file.key("t").number(1.0).key("prev_loss").number(0.5).key("d").tensor(at::arange(8).to(at::kFloat)).end().end();
  file.key("param_groups").list().dict().key("lr").number(0.5).key("max_iter").number(4).key("max_eval").none();
  file.key("tolerance_grad").number(1e-7).key("tolerance_change").number(1e-9).key("history_size").number(5);
  file.key("line_search_fn").none().key("params").list().text("a").text("b").end().end().end().end().end();
  const auto uri = file.commit();
  torch::optim::LBFGS same({weight(modules[0], "a"), weight(modules[0], "b")}),
      other({weight(modules[0], "b"), weight(modules[0], "a")});
  ct::load(uri, all_of(modules), same);
  EXPECT_EQ(same.state().size(), 1u);
  expect_error([&] { ct::load(uri, all_of(modules), other); }, CKPT_MISMATCH, "in another order than the checkpoint");
  EXPECT_TRUE(other.state().empty());
}

// Errors that only the values show, once they are read.
TEST(PythonFile, ACountThatIsNoneIsRefusedBeforeAnythingChanges) {
  at::Tensor weight = at::randn({3, 2}), bias = at::randn({3});
  PythonFile file;
  file.dict().key("model");
  put_model(file, weight, bias);
  file.key("optimizer");
  put_adam(file, weight, bias, false, 7.5);
  file.end();
  auto uri = file.commit();
  torch::nn::Linear model(2, 3);
  torch::optim::Adam adam(model->parameters(), torch::optim::AdamOptions(9));
  at::Tensor before = model->weight.detach().clone();
  for (bool stage_first : {true, false}) {
    ct::LoadOptions options;
    options.stage_first = stage_first;
    expect_error([&] { ct::load(uri, model, adam, options); }, CKPT_MISMATCH, "expected a count, found 7.5");
    EXPECT_TRUE(same_bits(model->weight, before)) << stage_first;
    EXPECT_TRUE(adam.state().empty());
    EXPECT_EQ(static_cast<torch::optim::AdamOptions&>(adam.param_groups()[0].options()).lr(), 9);
  }
}

TEST(PythonFile, ARandomStateThatIsNoneIsRefusedBeforeAnythingChanges) {
  at::Tensor weight = at::randn({3, 2}), bias = at::randn({3});
  PythonFile file;
  file.dict().key("model");
  put_model(file, weight, bias);
  file.end();
  size_t bytes = at::detail::getDefaultCPUGenerator().get_state().nbytes();
  auto uri = file.object("torch.rng.cpu", std::string(bytes, '\xff')).commit();
  torch::nn::Linear model(2, 3);
  at::Tensor before = model->weight.detach().clone();
  torch::manual_seed(4);
  at::Tensor drawn = at::randn({5});
  torch::manual_seed(4);
  expect_error([&] { ct::load(uri, model); }, CKPT_MISMATCH, "'torch.rng.cpu'");
  EXPECT_TRUE(same_bits(model->weight, before));
  EXPECT_TRUE(same_bits(at::randn({5}), drawn));
}

// ---- records of torch.Tensor ----

constexpr auto kLast = at::MemoryFormat::ChannelsLast;

TEST(PythonTensor, InChannelsLastComesBackSoAndIntoAModuleAsThatHasIt) {
  at::Tensor weight = at::randn({2, 3, 4, 5}), deep = at::randn({2, 3, 4, 5, 2});
  PythonFile file;
  auto put = [&](const at::Tensor& tensor, const char* format) {
    file.record("torch.Tensor").key("data").tensor(tensor).key("memory_format").text(format).end();
  };
  file.dict().key("model").dict().key("weight").record("torch.nn.parameter.Parameter").key("data");
  put(weight, "torch.channels_last");
  file.key("requires_grad").flag(true).end().end().key("w");
  put(weight, "torch.channels_last");
  file.key("deep");
  put(deep, "torch.channels_last_3d");
  file.end();
  const auto uri = file.commit();
  for (bool in_order : {true, false}) {
    torch::nn::Module module;
    const auto format = in_order ? kLast : at::MemoryFormat::Contiguous;
    const at::Tensor own = module.register_parameter("weight", at::zeros({2, 3, 4, 5}).contiguous(format));
    const auto loaded = ct::load(uri, module);
    EXPECT_TRUE(same_bits(own, weight));
    EXPECT_TRUE(own.is_contiguous(format));
    const at::Tensor w = loaded.others.at("w").toTensor(), d = loaded.others.at("deep").toTensor();
    EXPECT_TRUE(same_bits(w, weight) && w.is_contiguous(kLast));
    EXPECT_TRUE(same_bits(d, deep) && d.is_contiguous(at::MemoryFormat::ChannelsLast3d));
  }
}

TEST(PythonTensor, OfADtypeOrOrderThatLibTorchLacksIsRefusedByName) {
  auto saved = [](const char* key, const char* text) {
    auto file = std::make_unique<PythonFile>();
    file->dict()
        .key("model")
        .dict()
        .end()
        .key("x")
        .record("torch.Tensor")
        .key("data")
        .bytes(at::ones({2, 2}, at::kByte));
    file->key(key).text(text).end().end().commit();
    return file;
  };
  auto load = [](PythonFile& file, int32_t status, const char* text) {
    torch::nn::Module none;
    expect_error([&] { ct::load(file.uri(), none); }, status, text);
  };
  load(*saved("dtype", "torch.bits99"), CKPT_UNSUPPORTED, "tensor 'x' is torch.bits99, which this LibTorch does not");
  load(*saved("memory_format", "torch.channels_last"), CKPT_FORMAT, "tensor 'x' of 2 dimensions");
  auto file = saved("dtype", "torch.bits99");
  torch::nn::Module module;
  module.register_buffer("x", at::zeros({2, 2}, at::kByte));
  ct::LoadOptions whole;
  whole.model_key = "";
  whole.strict = false;
  expect_error([&] { ct::load(file->uri(), module, {}, whole); }, CKPT_MISMATCH, "torch.bits99, which this LibTorch");
}

TEST(PythonTensor, OfTheDtypesThatTorchAloneHasIsKept) {
  StorePlace place;
  const at::Tensor bytes = at::arange(24, at::kByte).view({4, 6});
  std::vector<std::pair<std::string, at::Tensor>> all{{"u8", bytes}};
#if TORCH_VERSION_MAJOR >= 2
  all.emplace_back("bits8", bytes.view(at::ScalarType::Bits8));
  all.emplace_back("bits4x2", bytes.t().view(at::ScalarType::Bits4x2));
  all.emplace_back("uint1", at::ones({4, 6}, at::kByte).view(at::ScalarType::UInt1));
  all.emplace_back("uint7", bytes.t().view(at::ScalarType::UInt7));
  all.emplace_back("int4", bytes.view(at::ScalarType::Int4));
  all.emplace_back("float4", bytes.view(at::ScalarType::Float4_e2m1fn_x2));
  all.emplace_back("float4 columns", bytes.view(at::ScalarType::Float4_e2m1fn_x2).t());
#endif
  ct::Others others;
  for (const auto& [name, tensor] : all) others.set(name, tensor);
  ct::save(place.uri(), {}, {}, others);
  const auto loaded = ct::load(place.uri(), {});
  for (const auto& [name, tensor] : all) {
    const at::Tensor found = loaded.others.at(name).toTensor();
    EXPECT_EQ(found.scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(same_bits(found.view(at::kByte), tensor.view(at::kByte))) << name;
  }
#if TORCH_VERSION_MAJOR >= 2  // as Python has it
  const auto reader = ckpt::Reader::open(ckpt::Store::open(place.uri()));
  EXPECT_EQ(reader.tensor("float4").dtype, CKPT_DTYPE_F4_E2M1FN);
  EXPECT_EQ(reader.tensor("float4").shape[1], 12);
  EXPECT_EQ(reader.tensor("float4 columns").dtype, CKPT_DTYPE_U8);
  EXPECT_EQ(reader.tensor("uint7").dtype, CKPT_DTYPE_U8);
  EXPECT_EQ(reader.tensor("int4").dtype, CKPT_DTYPE_I8);
#endif
}

#if TORCH_VERSION_MAJOR >= 2
TEST(PythonTensor, OfFewBitsIsFilledInPlaceAndNeverConverted) {
  StorePlace place;
  auto module_of = [](const at::Tensor& tensor) {
    auto module = std::make_shared<torch::nn::Module>();
    module->register_buffer("x", tensor);
    return module;
  };
  ct::save(place.uri(), module_of(at::full({5}, 3, at::kByte).view(at::ScalarType::UInt2)));
  auto mine = module_of(at::zeros({5}, at::kByte).view(at::ScalarType::UInt2));
  ct::load(place.uri(), mine);
  EXPECT_TRUE(mine->buffers()[0].view(at::kByte).eq(3).all().item<bool>());
  ct::LoadOptions convert;
  convert.convert = true;
  for (const at::Tensor& other : {at::zeros({5}, at::kByte), at::zeros({5}), at::empty({5}, at::ScalarType::UInt3)})
    expect_error([&] { ct::load(place.uri(), module_of(other), {}, convert); }, CKPT_MISMATCH, "UInt2");
}
#endif

TEST(PythonTensor, InChannelsLastIsSavedSo) {
  StorePlace place;
  torch::nn::Module module;
  module.register_parameter("weight", at::randn({2, 3, 4, 5}).contiguous(kLast));
  ct::save(place.uri(), module, {}, {{"x", at::randn({2, 3, 4, 5}).contiguous(kLast)}});
  EXPECT_TRUE(ct::load(place.uri(), module).others.at("x").toTensor().is_contiguous(kLast));
  const auto tree = ckpt::Reader::open(ckpt::Store::open(place.uri())).tree();
  for (const ckpt::Node& node : {tree.root()["model"]["weight"], tree.root()["x"]})
    EXPECT_EQ(node["memory_format"].as_text(), "torch.channels_last");
}

}  // namespace
