// Others, random generators, saves in the background, and loads of damaged checkpoints.
#include <filesystem>
#include <fstream>

#include "util.h"

namespace {

// ---- others ----

c10::IValue dict_of(std::initializer_list<std::pair<c10::IValue, c10::IValue>> items, c10::TypePtr key) {
  c10::impl::GenericDict dict(key, c10::AnyType::get());
  for (const auto& [k, v] : items) dict.insert(k, v);
  return dict;
}

TEST(Others, AreATreeOfAnyValues) {
  StorePlace place;
  at::Tensor history = at::randn({3});
  c10::impl::GenericList mixed(c10::AnyType::get());
  for (const c10::IValue& value : {c10::IValue(1), c10::IValue("two"), c10::IValue()}) mixed.push_back(value);
  ct::Others others{{"none", c10::IValue()},
                    {"flag", true},
                    {"epoch", 3},
                    {"best", 0.25},
                    {"nan", std::nan("")},
                    {"name", "Zoë\n"},
                    {"z", c10::complex<double>(1, -2)},
                    {"history", history},
                    {"mixed", mixed},
                    {"sizes", std::vector<int64_t>{4, 5}},
                    {"pair", c10::ivalue::Tuple::create({c10::IValue(1), c10::IValue(2.5)})},
                    {"by_epoch", dict_of({{0, 0.5}, {1, history}}, c10::IntType::get())},
                    {"config", dict_of({{"a/b", 1}, {"0", 2}}, c10::StringType::get())}};
  ct::save(place.uri(), {}, {}, others);
  auto loaded = ct::load(place.uri(), {});
  const ct::Others& o = loaded.others;
  ASSERT_EQ(o.items().size(), others.items().size());
  EXPECT_TRUE(o.at("none").isNone());
  EXPECT_TRUE(o.at("flag").toBool());
  EXPECT_EQ(o.at("epoch").toInt(), 3);
  EXPECT_EQ(o.at("best").toDouble(), 0.25);
  EXPECT_TRUE(std::isnan(o.at("nan").toDouble()));
  EXPECT_EQ(o.at("name").toStringRef(), "Zoë\n");
  EXPECT_EQ(o.at("z").toComplexDouble(), c10::complex<double>(1, -2));
  EXPECT_TRUE(same_bits(o.at("history").toTensor(), history));
  EXPECT_EQ(o.at("mixed").toList().get(1).toStringRef(), "two");
  EXPECT_EQ(o.at("sizes").toIntVector(), (std::vector<int64_t>{4, 5}));
  EXPECT_EQ(o.at("pair").toTuple()->elements()[1].toDouble(), 2.5);
  EXPECT_TRUE(same_bits(o.at("by_epoch").toGenericDict().at(1).toTensor(), history));
  EXPECT_EQ(o.at("config").toGenericDict().at("a/b").toInt(), 1);
  EXPECT_EQ(o.at("config").toGenericDict().at("0").toInt(), 2);
  EXPECT_TRUE(loaded.ignored.empty());
  expect_error([&] { o.at("absent"); }, CKPT_NOT_FOUND, "'absent'");
}

TEST(Others, TensorsComeToTheDeviceThatIsAskedFor) {
  StorePlace place;
  Net net;
  ct::save(place.uri(), net, {}, {{"t", at::ones({3})}});
  EXPECT_TRUE(ct::load(place.uri(), net).others.at("t").toTensor().is_cpu());
  ct::LoadOptions options;
  options.map_location = at::kMeta;
  EXPECT_TRUE(ct::load(place.uri(), net, {}, options).others.at("t").toTensor().is_meta());
}

TEST(Others, TakenKeysAndUnknownValuesAreRefused) {
  StorePlace place;
  expect_error([&] { ct::save(place.uri(), {}, {}, {{"model", 1}}); }, CKPT_INVALID, "'model'");
  expect_error([&] { ct::save(place.uri(), {}, {}, {{"optimizer", 1}}); }, CKPT_INVALID, "'optimizer'");
  expect_error([&] { ct::save(place.uri(), {}, {}, {{"where", c10::Device("cpu")}}); }, CKPT_INVALID, "'where'");
  expect_error([&] { ct::save(place.uri(), {}, {}, {{"d", dict_of({{true, 1}}, c10::BoolType::get())}}); },
               CKPT_INVALID, "'d': keys of a dict");
}

TEST(Others, ModelsThatNoModuleIsGivenForComeAsValuesOnRequest) {
  StorePlace place;
  Net net;
  torch::optim::Adam adam(net->parameters(), torch::optim::AdamOptions(0.1));
  train(net, adam, 0);
  ct::save(place.uri(), net, adam, {{"epoch", 1}});
  EXPECT_FALSE(ct::load(place.uri(), {}).others.contains("model"));
  ct::LoadOptions all;
  all.all_values = true;
  auto others = ct::load(place.uri(), {}, {}, all).others;
  auto model = others.at("model").toGenericDict();
  EXPECT_TRUE(same_bits(model.at("a.weight").toTensor(), net->a->weight));
  auto state = others.at("optimizer").toGenericDict().at("state").toGenericDict();
  EXPECT_EQ(state.at(0).toGenericDict().at("step").toInt(), 1);
  auto group = others.at("optimizer").toGenericDict().at("param_groups").toList().get(0).toGenericDict();
  EXPECT_EQ(group.at("lr").toDouble(), 0.1);
  EXPECT_EQ(group.at("betas").toTuple()->elements()[1].toDouble(), 0.999);
  EXPECT_EQ(group.at("params").toIntVector(), (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
}

// ---- labels and settings ----

TEST(Labels, AreTheStepOrOneThatIsReplaced) {
  StorePlace place;
  Net net;
  ct::Session keeper(place.uri(), {}, {{"keep_last", 2}});
  for (int64_t step : {10, 20, 30}) {
    ct::SaveOptions options;
    options.step = step;
    keeper.save({net, {}, {{"at", step}}}, options);
  }
  auto newest = keeper.load(net);
  EXPECT_EQ(newest.step, 30);
  EXPECT_EQ(newest.label, "step-30");
  EXPECT_EQ(newest.world_size, 1u);
  ct::LoadOptions earlier;
  earlier.selector = "step:20";
  EXPECT_EQ(keeper.load(net, {}, earlier).others.at("at").toInt(), 20);
  earlier.selector = "step:10";
  expect_error([&] { keeper.load(net, {}, earlier); }, CKPT_NOT_FOUND, "");  // retention took it
  StorePlace other;
  for (int i = 0; i < 2; i++) ct::save(other.uri(), net, {}, {{"at", i}});
  auto loaded = ct::load(other.uri(), net);
  EXPECT_EQ(loaded.label, "checkpoint");
  EXPECT_EQ(loaded.others.at("at").toInt(), 1);
  expect_error([&] { ct::Session(place.uri(), {}, {{"keep_lost", 2}}); }, CKPT_INVALID, "keep_lost");
  expect_error([&] { ct::Session(place.uri(), {}, {{"keep_last", "two"}}); }, CKPT_INVALID, "'two'");
}

// ---- random generators ----

TEST(RandomState, AResumedRunDrawsTheSameNumbers) {
  StorePlace place;
  Net net;
  torch::manual_seed(5);
  at::randn({7});
  ct::save(place.uri(), net);
  at::Tensor expected = at::randn({9});
  torch::manual_seed(6);
  EXPECT_TRUE(ct::load(place.uri(), net).rng_restored);
  EXPECT_TRUE(same_bits(at::randn({9}), expected));
}

TEST(RandomState, StaysAsItIsWhereThatIsWanted) {
  StorePlace place;
  Net net;
  ct::SaveOptions without;
  without.rng = false;
  without.label = "without";
  ct::Session keeper(place.uri());
  keeper.save({net, {}, {}});
  auto draws_on = [&](const ct::LoadOptions& options) {
    torch::manual_seed(6);
    at::Tensor expected = at::randn({3});
    torch::manual_seed(6);
    EXPECT_FALSE(keeper.load(net, {}, options).rng_restored);
    EXPECT_TRUE(same_bits(at::randn({3}), expected));
  };
  ct::LoadOptions keep;
  keep.rng = ct::Rng::keep;
  draws_on(keep);
  keeper.save({net, {}, {}}, without);
  draws_on({});
}

TEST(RandomState, ARankThatTheSavedRunLackedHasItsOwnOrThatOfRank0OnRequest) {
  StorePlace place;
  Net net;
  ct::save(place.uri(), net);
  at::Tensor expected = at::randn({3});
  ct::Session rank1(place.uri(), ct::Ranks::by_rendezvous(1, 3)), rank2(place.uri(), ct::Ranks::by_rendezvous(2, 3));
  auto drawn = [&](ct::Session& rank) {
    EXPECT_TRUE(rank.load(net).rng_restored);
    return at::randn({3});
  };
  const at::Tensor own = drawn(rank1), other = drawn(rank2);
  EXPECT_TRUE(same_bits(drawn(rank1), own));
  EXPECT_FALSE(same_bits(own, other) || same_bits(own, expected) || same_bits(other, expected));
  ct::LoadOptions options;
  options.rng = ct::Rng::or_rank0;
  EXPECT_TRUE(rank1.load(net, {}, options).rng_restored);
  EXPECT_TRUE(same_bits(at::randn({3}), expected));
}

// ---- in the background ----

TEST(Background, WhatChangesAfterStagingIsNotInTheCheckpoint) {
  StorePlace place(true), copies;
  Net net, loaded, before;
  ct::Session keeper(place.uri());
  for (int64_t step = 0; step < 3; step++) {
    ct::SaveOptions options;
    options.step = step;
    ct::save(copies.uri(), net);
    ct::load(copies.uri(), before);
    auto handle = keeper.save_async({net, {}, {{"at", step}}}, options);
    EXPECT_TRUE(handle.staged());
    at::NoGradGuard no_grad;
    for (auto& p : net->parameters()) p.add_(1);
    handle.wait();
    EXPECT_TRUE(handle.done());
    EXPECT_EQ(keeper.load(loaded).id, handle.id());
    expect_same(*before, *loaded);
  }
}

TEST(Background, AHandleThatIsDroppedDoesNotLoseTheSave) {
  StorePlace place(true);
  Net net;
  {
    ct::Session keeper(place.uri());
    ct::SaveOptions options;
    options.step = 1;
    (void)keeper.save_async({net, {}, {}}, options);
    options.step = 2;
    options.in_place = true;
    (void)keeper.save_async({net, {}, {}}, options);
  }
  EXPECT_EQ(ct::load(place.uri(), net).step, 2);
}

TEST(Background, ASessionThatIsAssignedToWaitsForItsSave) {
  StorePlace place(true), other;
  auto big = std::make_shared<torch::nn::EmbeddingImpl>(1 << 16, 256);  // 64 MiB
  ct::Session keeper(place.uri());
  ct::SaveOptions options;
  options.step = 1;
  options.in_place = true;
  (void)keeper.save_async({big, {}, {}}, options);
  keeper = ct::Session(other.uri());
  EXPECT_EQ(ct::load(place.uri(), big).step, 1);
}

TEST(Background, AFailureThatNobodyWaitedForIsThrownByTheNextSave) {
  StorePlace place(true);
  Net net;
  ct::Session keeper(place.uri());
  ct::SaveOptions options;
  options.label = "same";
  keeper.save({net, {}, {}}, options);
  (void)keeper.save_async({net, {}, {}}, options);
  options.label = "another";
  auto error = expect_error([&] { keeper.save({net, {}, {}}, options); }, CKPT_EXISTS, "in the background failed");
  std::string id = keeper.save({net, {}, {}}, options);
  EXPECT_EQ(keeper.load(net).id, id);
}

TEST(Background, ACancelledSaveIsNotCommitted) {
  StorePlace place(true);
  auto big = std::make_shared<torch::nn::EmbeddingImpl>(1 << 16, 256);  // 64 MiB
  ct::Session keeper(place.uri());
  ct::SaveOptions options;
  options.in_place = true;
  auto handle = keeper.save_async({big, {}, {}}, options);
  handle.cancel();
  try {
    handle.wait();
    EXPECT_EQ(keeper.load(big).id, handle.id());  // the save was faster than cancel()
  } catch (const ct::Error& error) {
    EXPECT_EQ(error.status(), CKPT_CANCELLED) << error.what();
    expect_error([&] { keeper.load(big); }, CKPT_NOT_FOUND, "");
  }
}

// ---- damage ----

void damage_last_bytes_of_tensors(const std::string& directory) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
    if (entry.path().filename() == "PART_000") {
      std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(8192);
      file.write("damaged!", 8);
    }
}

TEST(Damage, NamesWhatIsUndefinedAndStagingFirstLeavesTheModuleAsItWas) {
  StorePlace place(true);
  auto make = [] { return std::make_shared<torch::nn::LinearImpl>(300, 300); };
  auto saved = make(), loaded = make();
  at::Tensor weight = loaded->weight.detach().clone(), bias = loaded->bias.detach().clone();
  ct::save(place.uri(), saved);
  damage_last_bytes_of_tensors(place.uri());
  ct::LoadOptions staged;
  staged.stage_first = true;
  auto error = expect_error([&] { ct::load(place.uri(), loaded, {}, staged); }, CKPT_CORRUPT, "model/weight");
  EXPECT_EQ(error.detail("undefined"), "");
  EXPECT_TRUE(same_bits(loaded->weight, weight));
  EXPECT_TRUE(same_bits(loaded->bias, bias));
  error = expect_error([&] { ct::load(place.uri(), loaded); }, CKPT_CORRUPT, "undefined now: 'weight', 'bias'");
  EXPECT_EQ(error.detail("undefined"), "weight\nbias\n");
}

TEST(Damage, NamesTiedTensorsThatAreUndefinedByAllTheirNames) {
  StorePlace place(true);
  auto make = [] {
    auto module = std::make_shared<torch::nn::LinearImpl>(300, 300);
    module->register_parameter("head", module->weight);
    return module;
  };
  ct::save(place.uri(), make());
  damage_last_bytes_of_tensors(place.uri());
  auto loaded = make();
  auto error = expect_error([&] { ct::load(place.uri(), loaded); }, CKPT_CORRUPT, "undefined now");
  EXPECT_EQ(error.detail("undefined"), "weight\nbias\nhead\n");
}

// Each rank has a copy of the store, and rank 1's is damaged. Rank 0 asks for less.
TEST(Damage, ThatOneRankMeetsIsToldByAllWithTheirOwnUndefinedTensors) {
  StorePlace place(true), copy(true);
  ct::save(place.uri(), std::make_shared<torch::nn::LinearImpl>(300, 300));
  std::filesystem::copy(place.uri(), copy.uri(), std::filesystem::copy_options::recursive);
  damage_last_bytes_of_tensors(copy.uri());
  ThreadGroup two(2);
  two.run([&](ct::Ranks ranks) {
    const bool damaged = ranks.rank == 1;
    torch::nn::Linear loaded(torch::nn::LinearOptions(300, 300).bias(damaged));
    ct::LoadOptions options;
    options.strict = false;
    ct::Session keeper(damaged ? copy.uri() : place.uri(), ranks);
    auto error = expect_error([&] { keeper.load(loaded, {}, options); }, CKPT_CORRUPT, "rank 1: ");
    EXPECT_EQ(error.detail("undefined"), damaged ? "weight\nbias\n" : "weight\n");
    EXPECT_NE(std::string(error.what()).find("undefined now: 'weight'"), std::string::npos) << error.what();
  });
}

}  // namespace
