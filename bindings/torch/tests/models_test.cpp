// Modules: a load restores what was saved, in place, and refuses what does not fit before anything changes.
#include "util.h"

namespace {

// A module with whatever tensors a test wants.
struct Bag : torch::nn::Module {
  at::Tensor param(const std::string& name, at::Tensor value) {
    return register_parameter(name, std::move(value), /*requires_grad=*/false);
  }
  at::Tensor buffer(const std::string& name, at::Tensor value) { return register_buffer(name, std::move(value)); }
};
std::shared_ptr<Bag> bag() { return std::make_shared<Bag>(); }

// Saves one tensor as a parameter and as a buffer and loads both into others of the same layout.
void expect_kept(const at::Tensor& value, const at::Tensor& into) {
  StorePlace place;
  auto saved = bag(), loaded = bag();
  saved->param("p", value);
  saved->buffer("b", value.clone());
  at::Tensor p = loaded->param("p", into.clone()), b = loaded->buffer("b", into.clone());
  ct::save(place.uri(), saved);
  ct::load(place.uri(), loaded);
  EXPECT_TRUE(same_bits(value, p)) << value.dtype();
  EXPECT_TRUE(same_bits(value, b)) << value.dtype();
}

at::Tensor values(at::ScalarType type) {
  at::Tensor bytes = at::randint(0, 120, {4 * 6 * 16}, at::kByte);
  if (type == at::kBool) bytes = bytes.bitwise_and(1);
  return bytes.slice(0, 0, 24 * static_cast<int64_t>(c10::elementSize(type))).clone().view(type).view({4, 6});
}

TEST(Layouts, EveryDtypeIsKept) {
  std::vector<at::ScalarType> types{at::kByte,        at::kChar,         at::kShort,        at::kInt,  at::kLong,
                                    at::kHalf,        at::kFloat,        at::kDouble,       at::kBool, at::kBFloat16,
                                    at::kComplexHalf, at::kComplexFloat, at::kComplexDouble};
#if TORCH_VERSION_MAJOR >= 2
  types.insert(types.end(),
               {at::ScalarType::Float8_e5m2, at::ScalarType::Float8_e4m3fn, at::ScalarType::Float8_e5m2fnuz,
                at::ScalarType::Float8_e4m3fnuz, at::ScalarType::Float8_e8m0fnu, at::ScalarType::UInt16,
                at::ScalarType::UInt32, at::ScalarType::UInt64});
#endif
  for (auto type : types) {
    at::Tensor value = values(type);
    expect_kept(value, at::empty_like(value).copy_(values(type)));
  }
}

TEST(Layouts, EmptyAndScalarTensorsAreKept) {
  expect_kept(at::empty({0, 3}), at::empty({0, 3}));
  expect_kept(at::full({}, 2.5), at::full({}, 1.0));
}

TEST(Layouts, NonContiguousTensorsAreReadAsTheyAreShaped) {
  at::Tensor base = at::arange(48, at::kFloat).view({6, 8});
  expect_kept(base.t(), at::zeros({8, 6}));                                       // transposed into contiguous
  expect_kept(base, at::zeros({8, 6}).t());                                       // and the other way round
  expect_kept(base.slice(1, 1, 7, 2), at::zeros({6, 3}));                         // a view with gaps
  expect_kept(base.select(1, 2).unsqueeze(1).expand({6, 4}), at::zeros({6, 4}));  // expanded
  at::Tensor image = at::randn({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  expect_kept(image, at::zeros({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast));
  at::Tensor complex = at::randn({3, 4}, at::kComplexFloat);
  expect_kept(complex.conj(), at::zeros({3, 4}, at::kComplexFloat));
}

TEST(Layouts, AViewWithGapsIsLoadedIntoAndItsSurroundingsAreNot) {
  StorePlace place;
  auto saved = bag(), loaded = bag();
  saved->param("p", at::full({3, 2}, 7.0));
  at::Tensor whole = at::zeros({3, 6});
  loaded->param("p", whole.slice(1, 0, 4, 2));
  ct::save(place.uri(), saved);
  ct::load(place.uri(), loaded);
  EXPECT_EQ(whole.sum().item<double>(), 42);
  EXPECT_EQ(whole.select(1, 1).abs().sum().item<double>(), 0);
}

TEST(Layouts, SparseCooIsKeptWithItsDuplicates) {
  StorePlace place;
  auto saved = bag(), loaded = bag();
  at::Tensor indices = at::tensor({0, 2, 2, 1, 0, 0}, at::kLong).view({2, 3}), v = at::randn({3});
  at::Tensor one = saved->buffer("s", at::sparse_coo_tensor(indices, v, {4, 5}));
  saved->buffer("c", one.coalesce());
  at::Tensor s = loaded->buffer("s", at::sparse_coo_tensor({4, 5}, at::dtype(at::kFloat).layout(at::kSparse)));
  at::Tensor c = loaded->buffer("c", at::sparse_coo_tensor({4, 5}, at::dtype(at::kFloat).layout(at::kSparse)));
  ct::save(place.uri(), saved);
  ct::load(place.uri(), loaded);
  EXPECT_TRUE(same_bits(s._indices(), indices));
  EXPECT_TRUE(same_bits(s._values(), v));
  EXPECT_FALSE(s.is_coalesced());
  EXPECT_TRUE(c.is_coalesced());
  EXPECT_TRUE(same_bits(c.to_dense(), one.to_dense()));
}

TEST(Layouts, SparseCsrIsKept) {
  StorePlace place;
  auto saved = bag(), loaded = bag();
  at::Tensor dense = at::tensor({1., 0., 0., 2., 3., 0.}).view({2, 3});
  saved->buffer("s", dense.to_sparse_csr());
  at::Tensor s = loaded->buffer("s", at::zeros({2, 3}, at::kDouble).to(dense.dtype()).to_sparse_csr());
  ct::save(place.uri(), saved);
  ct::load(place.uri(), loaded);
  EXPECT_EQ(s.layout(), at::kSparseCsr);
  EXPECT_TRUE(same_bits(s.to_dense(), dense));
}

TEST(Layouts, ColumnsAndBlocksOfSparseTensorsAreKept) {
  StorePlace place;
  auto saved = bag(), loaded = bag();
  at::Tensor dense = at::arange(24, at::kFloat).view({4, 6}), none = at::zeros({4, 6});
  dense.slice(0, 0, 2).slice(1, 0, 3).zero_();
  saved->buffer("csc", dense.to_sparse_csc());
  saved->buffer("bsr", dense.to_sparse_bsr({2, 3}));
  saved->buffer("bsc", dense.to_sparse_bsc({2, 3}));
  at::Tensor csc = loaded->buffer("csc", none.to_sparse_csc());
  at::Tensor bsr = loaded->buffer("bsr", none.to_sparse_bsr({2, 3}));
  at::Tensor bsc = loaded->buffer("bsc", none.to_sparse_bsc({2, 3}));
  ct::save(place.uri(), saved);
  ct::load(place.uri(), loaded);
  EXPECT_EQ(csc.layout(), at::kSparseCsc);
  EXPECT_TRUE(same_bits(csc.ccol_indices(), dense.to_sparse_csc().ccol_indices()));
  EXPECT_TRUE(same_bits(csc.row_indices(), dense.to_sparse_csc().row_indices()));
  EXPECT_TRUE(same_bits(csc.values(), dense.to_sparse_csc().values()));
  EXPECT_EQ(bsr.layout(), at::kSparseBsr);
  EXPECT_TRUE(same_bits(bsr.col_indices(), dense.to_sparse_bsr({2, 3}).col_indices()));
  EXPECT_TRUE(same_bits(bsr.values(), dense.to_sparse_bsr({2, 3}).values()));
  EXPECT_EQ(bsc.layout(), at::kSparseBsc);
  EXPECT_TRUE(same_bits(bsc.values(), dense.to_sparse_bsc({2, 3}).values()));
}

TEST(Layouts, QuantizedTensorsKeepScalesAndZeroPoints) {
  StorePlace place;
  auto saved = bag(), loaded = bag();
  at::Tensor x = at::randn({3, 4});
  at::Tensor scales = at::tensor({0.1, 0.2, 0.3}, at::kDouble), zeros = at::tensor({1, 2, 3}, at::kLong);
  at::Tensor per_tensor = saved->buffer("t", at::quantize_per_tensor(x, 0.05, 10, at::kQUInt8));
  at::Tensor per_channel = saved->buffer("c", at::quantize_per_channel(x, scales, zeros, 0, at::kQInt8));
  at::Tensor t = loaded->buffer("t", at::quantize_per_tensor(x, 1.0, 0, at::kQUInt8));
  at::Tensor c = loaded->buffer(
      "c", at::quantize_per_channel(x, at::ones({3}, at::kDouble), at::zeros({3}, at::kLong), 0, at::kQInt8));
  ct::save(place.uri(), saved);
  ct::load(place.uri(), loaded);
  EXPECT_TRUE(same_bits(t.int_repr(), per_tensor.int_repr()));
  EXPECT_EQ(t.q_scale(), 0.05);
  EXPECT_EQ(t.q_zero_point(), 10);
  EXPECT_TRUE(same_bits(c.int_repr(), per_channel.int_repr()));
  EXPECT_TRUE(same_bits(c.q_per_channel_scales(), scales));
  EXPECT_TRUE(same_bits(c.q_per_channel_zero_points(), zeros));
  EXPECT_EQ(c.q_per_channel_axis(), 0);
}

TEST(Layouts, AMetaTensorIsRefusedByName) {
  auto module = bag();
  module->buffer("ghost", at::empty({3}, at::device(at::kMeta)));
  StorePlace place;
  expect_error([&] { ct::save(place.uri(), module); }, CKPT_INVALID, "model/ghost");
}

TEST(Layouts, AMetaTensorIsNotLoadedIntoSilently) {
  StorePlace place;
  auto saved = bag(), meta = bag();
  at::Tensor real = saved->param("real", at::ones({2})), ghost = saved->param("ghost", at::ones({2}));
  torch::optim::Adam adam(saved->parameters(), torch::optim::AdamOptions(1));
  ct::save(place.uri(), saved, adam);
  real = meta->param("real", at::zeros({2}));
  ghost = meta->param("ghost", at::empty({2}, at::device(at::kMeta)));
  expect_error([&] { ct::load(place.uri(), meta); }, CKPT_INVALID, "'ghost': the module has a meta tensor");
  EXPECT_EQ(real.sum().item<double>(), 0);
  torch::optim::Adam of_meta(meta->parameters(), torch::optim::AdamOptions(1));
  expect_error([&] { ct::load(place.uri(), {}, of_meta); }, CKPT_INVALID, "meta");
}

// ---- shared memory ----

TEST(Tied, WeightsAreStoredOnceAndStayTied) {
  StorePlace place;
  auto make = [] {
    auto module = bag();
    at::Tensor weight = module->param("embed", at::randn({6, 4}));
    module->param("head", weight);
    module->buffer("row", weight.select(0, 2));
    return module;
  };
  auto saved = make(), loaded = make();
  at::Tensor head = loaded->named_parameters()["head"], embed = loaded->named_parameters()["embed"];
  ct::Session keeper(place.uri());
  std::string id = keeper.save({saved, {}, {}});
  ct::load(place.uri(), loaded);
  expect_same(*saved, *loaded);
  EXPECT_EQ(head.data_ptr(), embed.data_ptr());
  // In the store there is one tensor and two aliases.
  const auto reader = ckpt::Reader::open(ckpt::Store::open(place.uri()), id);
  for (const char* name : {"model/head", "model/row"}) EXPECT_STREQ(reader.tensor(name).alias_of, "model/embed");
}

TEST(Tied, WhatTheCheckpointHasUnderBothNamesOrUnderOneIsTakenIfItIsEqual) {
  at::Tensor shared = at::zeros({3});
  auto loaded = bag();
  loaded->param("a", shared);
  loaded->param("b", shared);
  auto load = [&](const std::map<std::string, double>& values) {
    StorePlace place;
    auto saved = bag();
    for (const auto& [name, value] : values) saved->param(name, at::tensor({1.0, 1.0, value}, at::kFloat));
    ct::save(place.uri(), saved);
    shared.zero_();
    ct::load(place.uri(), loaded);
    return shared[2].item<double>();
  };
  EXPECT_EQ(load({{"a", 2}, {"b", 2}}), 2);
  EXPECT_EQ(load({{"a", 3}}), 3);
  EXPECT_EQ(load({{"b", 4}}), 4);
  auto error = expect_error([&] { load({{"a", 5}, {"b", 6}}); }, CKPT_MISMATCH, "differ at element 2: 5 and 6");
  EXPECT_EQ(error.detail("tensor"), "b");
  EXPECT_EQ(shared.sum().item<double>(), 0);  // nothing has changed
}

// ---- several ----

TEST(Several, ModelsAndOptimizersComeBackInTheirPlaces) {
  StorePlace place;
  Net a, b, c, d;
  torch::optim::Adam adam(a->parameters(), torch::optim::AdamOptions(0.1));
  torch::optim::SGD sgd(b->parameters(), torch::optim::SGDOptions(0.1).momentum(0.5));
  train(a, adam, 0);
  train(b, sgd, 1);
  ct::save(place.uri(), {a, b}, {adam, sgd});
  torch::optim::Adam adam2(c->parameters(), torch::optim::AdamOptions(1));
  torch::optim::SGD sgd2(d->parameters(), torch::optim::SGDOptions(1));
  ct::load(place.uri(), {c, d}, {adam2, sgd2});
  expect_same(*a, *c);
  expect_same(*b, *d);
  EXPECT_EQ(train(a, adam, 2), train(c, adam2, 2));
  EXPECT_EQ(train(b, sgd, 3), train(d, sgd2, 3));
  expect_error([&] { ct::load(place.uri(), a); }, CKPT_MISMATCH, "1 was given, the checkpoint has 2");
}

// ---- strict, shapes, dtypes ----

TEST(Strict, OtherKeysAreRefusedOrListed) {
  StorePlace place;
  auto saved = bag(), loaded = bag();
  saved->param("both", at::full({2}, 5.0));
  saved->param("only_saved", at::ones({2}));
  at::Tensor both = loaded->param("both", at::zeros({2}));
  at::Tensor mine = loaded->param("only_loaded", at::zeros({2}));
  ct::save(place.uri(), saved);
  auto error = expect_error([&] { ct::load(place.uri(), loaded); }, CKPT_MISMATCH, "'only_loaded'");
  EXPECT_NE(std::string(error.what()).find("'only_saved'"), std::string::npos);
  EXPECT_EQ(both.sum().item<double>(), 0);
  ct::LoadOptions lenient;
  lenient.strict = false;
  auto result = ct::load(place.uri(), loaded, {}, lenient);
  EXPECT_EQ(result.missing, std::vector<std::string>{"only_loaded"});
  EXPECT_EQ(result.unexpected, std::vector<std::string>{"only_saved"});
  EXPECT_EQ(both.sum().item<double>(), 10);
  EXPECT_EQ(mine.sum().item<double>(), 0);
}

TEST(Strict, AnotherShapeIsRefusedBeforeAnythingChanges) {
  StorePlace place;
  auto saved = bag(), loaded = bag();
  saved->param("a", at::ones({2}));
  saved->param("b", at::ones({2, 3}));
  at::Tensor a = loaded->param("a", at::zeros({2}));
  loaded->param("b", at::zeros({3, 2}));
  ct::save(place.uri(), saved);
  ct::LoadOptions lenient;
  lenient.strict = false;
  auto error = expect_error([&] { ct::load(place.uri(), loaded, {}, lenient); }, CKPT_MISMATCH,
                            "'b': the module has shape [3, 2], the checkpoint [2, 3]");
  EXPECT_EQ(error.detail("tensor"), "model/b");
  EXPECT_EQ(a.sum().item<double>(), 0);
}

TEST(Strict, AnotherDtypeIsConvertedOnRequestOnly) {
  StorePlace place;
  auto saved = bag(), loaded = bag();
  at::Tensor x = saved->param("half", at::randn({5}));
  saved->param("wide", x.to(at::kDouble));
  at::Tensor half = loaded->param("half", at::zeros({5}, at::kBFloat16));
  at::Tensor wide = loaded->param("wide", at::zeros({5}, at::kFloat));
  ct::save(place.uri(), saved);
  expect_error([&] { ct::load(place.uri(), loaded); }, CKPT_MISMATCH, "dtype bf16, the checkpoint f32");
  ct::LoadOptions convert;
  convert.convert = true;
  ct::load(place.uri(), loaded, {}, convert);
  EXPECT_TRUE(same_bits(half, x.to(at::kBFloat16)));
  EXPECT_TRUE(same_bits(wide, x));
  auto integers = bag();
  integers->param("half", at::zeros({5}, at::kLong));
  integers->param("wide", at::zeros({5}, at::kFloat));
  expect_error([&] { ct::load(place.uri(), integers, {}, convert); }, CKPT_MISMATCH, "dtype i64, the checkpoint f32");
}

TEST(Strict, TheEnginesOwnComparisonOfNamesIsRefused) {
  StorePlace place;
  Net net;
  ct::save(place.uri(), net);
  ct::LoadOptions options;
  options.settings = {{"strict", "exact"}};
  expect_error([&] { ct::Session(place.uri()).load(net, {}, options); }, CKPT_INVALID, "LoadOptions::strict");
}

TEST(Strict, LoadingCountsAsAChangeForAutograd) {
  StorePlace place;
  Net net;
  ct::save(place.uri(), net);
  auto version = net->a->weight._version();
  ct::load(place.uri(), net);
  EXPECT_GT(net->a->weight._version(), version);
  EXPECT_TRUE(net->a->weight.requires_grad());
}

TEST(Missing, ACheckpointWithoutTheKeySaysWhatItHas) {
  StorePlace place;
  Net net;
  ct::save(place.uri(), net, {}, {{"epoch", 3}});
  ct::LoadOptions other;
  other.model_key = "state_dict";
  expect_error([&] { ct::load(place.uri(), net, {}, other); }, CKPT_NOT_FOUND,
               "'state_dict'; at its top are 'model', 'epoch'");
  StorePlace empty;
  expect_error([&] { ct::load(empty.uri(), net); }, CKPT_NOT_FOUND, "");
}

TEST(Missing, WhereThereIsNoCheckpointLoadIfAnyIsEmptyAndOtherErrorsAreThrown) {
  StorePlace place;
  Net saved = seeded_net(1), net = seeded_net(2), before = seeded_net(2);
  ct::Session keeper(place.uri());
  EXPECT_FALSE(keeper.load_if_any(net));
  EXPECT_FALSE(ct::load_if_any(place.uri(), net));
  expect_same(*before, *net);
  ct::SaveOptions options;
  options.step = 3;
  keeper.save({saved, {}, {}}, options);
  ct::LoadOptions other;
  other.selector = "step:4";
  EXPECT_FALSE(keeper.load_if_any(net, {}, other));
  other.selector = "step:four";
  expect_error([&] { keeper.load_if_any(net, {}, other); }, CKPT_INVALID, "step:N");
  other.selector = "latest";
  other.model_key = "state_dict";
  expect_error([&] { keeper.load_if_any(net, {}, other); }, CKPT_NOT_FOUND, "'state_dict'");
  expect_same(*before, *net);
  auto loaded = keeper.load_if_any(net);
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->step, 3);
  expect_same(*saved, *net);
}

// ---- nothing where something is expected ----

TEST(Null, ModulesOptimizersAndGroupsAreRefused) {
  StorePlace place;
  Net net;
  ct::save(place.uri(), {net, net});
  std::shared_ptr<Bag> no_module;
  torch::nn::Linear no_layer{nullptr};
  std::shared_ptr<torch::optim::Adam> no_optimizer;
  expect_error([&] { ct::save(place.uri(), no_module); }, CKPT_INVALID, "no module");
  expect_error([&] { ct::save(place.uri(), {net, no_layer}); }, CKPT_INVALID, "models[1]");
  expect_error([&] { ct::save(place.uri(), net, no_optimizer); }, CKPT_INVALID, "no optimizer");
  expect_error([&] { ct::load(place.uri(), {net, no_module}); }, CKPT_INVALID, "models[1]");
  expect_error([&] { ct::load(place.uri(), {}, no_optimizer); }, CKPT_INVALID, "no optimizer");
  expect_error([&] { ct::Ranks::of(std::shared_ptr<ct::Group>()); }, CKPT_INVALID, "no group");
  expect_error([&] { ct::c10d_group({}); }, CKPT_INVALID, "no group");
}

}  // namespace
