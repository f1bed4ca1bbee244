// What the sources of a recis::CheckpointManager's model bank may be, and what goes wrong with them.
#include <filesystem>
#include <fstream>

#include "recis_trainer.h"
#include "src/group.h"

namespace recis_test {

TEST(Recis, TheSparseOptimizerIsSavedAndIsOfClassSparseOpt) {
  StorePlace place;
  int64_t beta = 4, loaded = 0;
  auto with_optim = [&](Trainer& trainer, int64_t& value) {
    trainer.manager->register_sparse_optim([&value] { return c10::IValue(value); },
                                           [&value](const c10::IValue& state) { value = state.toInt(); });
  };
  Trainer trainer(place.uri(), 1, {1});
  with_optim(trainer, beta);
  expect_error([&] { with_optim(trainer, beta); }, CKPT_INVALID, "is registered");
  trainer.saved();
  Trainer fresh(place.uri());
  with_optim(fresh, loaded);
  fresh.manager->restore({}, source("", {"sparse", "dense", "extra"}));
  EXPECT_EQ(loaded, 0);
  fresh.manager->restore({}, source("", {"sparse_opt"}));
  EXPECT_EQ(loaded, 4);
}

TEST(Recis, ADynamicSourceIsLoadedAgainWhenItHasANewerCheckpoint) {
  StorePlace a, b, own;
  Trainer(a.uri(), 1, {1}).saved();
  Trainer(b.uri(), 2, {2}).saved();
  Trainer fresh(own.uri());
  recis::Source dynamic = source(b.uri(), {"items"});
  dynamic.is_dynamic = true;
  fresh.manager->load_model_bank({source(a.uri()), dynamic});
  fresh.items.fill({4}, 4);
  EXPECT_TRUE(fresh.manager->reload_model_bank().empty());
  EXPECT_EQ(fresh.items.has(), (Rows{{2, 2}, {4, 4}}));
  for (const std::string& uri : {a.uri(), b.uri()}) {
    Trainer newer(uri, 6, {6});
    newer.manager->restore({}, source("", {"global_step"}));
    newer.saved();
  }
  EXPECT_EQ(fresh.manager->reload_model_bank().size(), 3u);
  EXPECT_EQ(fresh.items.has(), (Rows{{6, 6}}));
  EXPECT_EQ(fresh.dense(), 1);
}

TEST(Recis, ATableThatIsLoadedAgainHasAllThatItsSourcesGive) {
  StorePlace a, b, c, own;
  Trainer(a.uri(), 1, {1}).saved();
  Trainer(b.uri(), 2, {1, 2}).saved();
  Trainer(c.uri(), 3, {2, 3}).saved();
  Trainer fresh(own.uri());
  recis::Source slots = source(a.uri()), newer = source(b.uri(), {"items@id", "items@emb*"}),
                joining = source(c.uri(), {"items", "users"});
  newer.is_dynamic = true;
  joining.hashtable_clear = false;
  fresh.manager->load_model_bank({slots, newer, joining});
  const Rows rows{{1, 2}, {2, 3}, {3, 3}}, slots_of{{1, 1}, {2, 3}, {3, 3}};
  EXPECT_EQ(std::make_pair(fresh.items.has(), fresh.items.has(1)), std::make_pair(rows, slots_of));
  Trainer trainer(b.uri(), 6, {1, 6});
  trainer.manager->restore({}, source("", {"global_step"}));
  trainer.saved();
  fresh.users.rows.clear();
  fresh.note = 9;
  EXPECT_EQ(fresh.manager->reload_model_bank().size(), 3u);
  EXPECT_EQ(fresh.items.has(), (Rows{{1, 6}, {2, 3}, {3, 3}, {6, 6}}));
  EXPECT_EQ(fresh.items.has(1), (Rows{{1, 1}, {2, 3}, {3, 3}, {6, 0}}));
  EXPECT_TRUE(fresh.users.rows.empty());
  EXPECT_EQ(fresh.note, 9);
}

// A run of RecIS with one checkpoint, of what a Trainer has, saved by two workers.
void write_recis(const std::string& folder, double value, const std::vector<int64_t>& ids, int64_t step = 7) {
  const std::string name = "ckpt_" + std::to_string(step), uri = "mem:recis-" + folder + name;
  const auto store = ckpt::Store::open(uri);  // while it is open what is in memory stays
  ThreadGroup(2).run([&](ct::Ranks ranks) {
    std::vector<int64_t> own;
    for (size_t i = ranks.rank; i < ids.size(); i += 2) own.push_back(ids[i]);
    Trainer trainer(uri, value, own, {}, ranks);
    trainer.place = 10 + static_cast<int64_t>(ranks.rank);
    c10::Dict<std::string, at::Tensor> optim;
    optim.insert("step", at::tensor(int64_t{30}));
    trainer.manager->register_sparse_optim([&] { return c10::IValue(optim); }, [](const c10::IValue&) {});
    while (trainer.manager->global_step() < step) trainer.manager->step();
    trainer.manager->save();
    trainer.manager->close();
  });
  const bool more = std::filesystem::exists(folder);
  ckpt::Reader::open(store).export_to(more ? folder + "/" + name : folder, {{"format", "recis"}, {"shards", 2}});
  if (more) std::ofstream(folder + "/checkpoint", std::ios::app) << name << "\n";
}

void expect_bank_of_recis(const std::string& path) {
  StorePlace own;
  std::vector<Rows> rows(3);
  std::vector<int64_t> places(3);
  std::mutex mutex;
  ThreadGroup(3).run([&](ct::Ranks ranks) {
    Trainer fresh(own.uri(), 0, {}, [](auto& options) { options.window_bytes = 100; }, ranks);
    int64_t optim = 0;
    fresh.manager->register_sparse_optim(
        [] { return c10::IValue(0); },
        [&](const c10::IValue& state) { optim = state.toGenericDict().at("step").toTensor().item<int64_t>(); });
    expect_error([&] { fresh.manager->load_model_bank({source(path)}); }, CKPT_MISMATCH,
                 "those of 2 workers, and this run has 3");
    EXPECT_EQ(fresh.dense(), 0);
    recis::Source what = source(path);
    what.or_rank0 = true;
    EXPECT_EQ(fresh.manager->load_model_bank({what}).size(), 14u);
    EXPECT_EQ(std::make_pair(fresh.dense("0.weight"), fresh.dense("1.bias")), std::make_pair(5.0, 5.0));
    EXPECT_EQ(std::make_pair(fresh.manager->global_step(), fresh.note), std::make_pair(int64_t{7}, int64_t{5}));
    EXPECT_EQ(optim, 30);
    EXPECT_EQ(fresh.items.has(1), fresh.users.has());
    const std::lock_guard<std::mutex> lock(mutex);
    rows.at(ranks.rank) = fresh.items.has();
    places.at(ranks.rank) = fresh.place;
  });
  Rows all;
  size_t count = 0;
  for (const Rows& some : rows) {
    all.insert(some.begin(), some.end());
    count += some.size();
  }
  EXPECT_EQ(all, (Rows{{1, 5}, {2, 5}, {30000, 5}, {40000, 5}, {-1, 5}}));
  EXPECT_EQ(count, all.size());  // each row on one of the three
  EXPECT_EQ(places, (std::vector<int64_t>{10, 11, 10}));
}

TEST(Recis, ABankTakesAllThatRecIsHasSavedInPlaceOrImported) {
  StorePlace folder(true);
  const std::string run = folder.uri() + "/run";
  write_recis(run, 5, {1, 2, 30000, 40000, -1});
  expect_bank_of_recis(run);
  expect_bank_of_recis(run + "/ckpt_7");
  ckpt::Store::open(folder.uri() + "/imported").import(run, "theirs");
  expect_bank_of_recis(folder.uri() + "/imported");
}

TEST(Recis, RowsOfRecIsAreRenamedJoinAndFillWhatIsThere) {
  StorePlace folder(true), own;
  write_recis(folder.uri() + "/run", 5, {1, 2});
  Trainer fresh(own.uri(), 3, {2, 9});
  recis::Source what = source(folder.uri() + "/run", {"items@exp_avg"});
  what.oname = {{"items@*", "users@*"}};
  fresh.manager->load_model_bank({what});
  EXPECT_EQ(fresh.items.has(1), (Rows{{2, 5}, {9, 3}}));
  EXPECT_EQ(fresh.items.has(), (Rows{{2, 3}, {9, 3}}));
  what.load = {"items"};
  what.hashtable_clear = false;
  fresh.manager->load_model_bank({what});
  EXPECT_EQ(fresh.items.has(), (Rows{{1, 5}, {2, 5}, {9, 3}}));
}

TEST(Recis, ASourceMayBeAFileOfPyTorchOrSafetensors) {
  StorePlace folder(true), own;
  Trainer from("mem:recis-file", 4);
  ct::save(folder.uri() + "/store", from.model, {}, {{"note", 8}});
  const auto reader = ckpt::Reader::open(ckpt::Store::open(folder.uri() + "/store"));
  for (const std::string name : {"/a.pt", "/a.safetensors", "/root.pt"}) {
    const std::string path = folder.uri() + name;
    reader.export_to(path, name == "/root.pt" ? ckpt::Options{{"at", "model"}} : ckpt::Options{});
    Trainer fresh(own.uri());
    recis::Source what = source(path, {"dense"}, {"0.bias"});
    if (name == "/a.safetensors") what.at = "model";
    what.oname = {{"0.*", "0.*"}};
    EXPECT_EQ(fresh.manager->load_model_bank({what}).size(), 3u) << name;
    EXPECT_EQ(std::make_pair(fresh.dense("0.weight"), fresh.dense("0.bias")), std::make_pair(4.0, 0.0)) << name;
    if (name != "/a.pt") continue;
    fresh.manager->load_model_bank({source(path, {"note"})});
    EXPECT_EQ(fresh.note, 8);
  }
}

TEST(Recis, ADynamicRunOfRecIsIsLoadedAgainWhenItHasANewerCheckpoint) {
  StorePlace folder(true), own;
  write_recis(folder.uri() + "/run", 5, {1, 2});
  Trainer fresh(own.uri());
  recis::Source what = source(folder.uri() + "/run", {"items"});
  what.is_dynamic = true;
  EXPECT_EQ(fresh.manager->load_model_bank({what}).at("items@id"), folder.uri() + "/run/ckpt_7");
  EXPECT_TRUE(fresh.manager->reload_model_bank().empty());
  write_recis(folder.uri() + "/run", 6, {3}, 8);
  EXPECT_EQ(fresh.manager->reload_model_bank().at("items@id"), folder.uri() + "/run/ckpt_8");
  EXPECT_EQ(fresh.items.has(), (Rows{{3, 6}}));
}

TEST(Recis, ANewestCheckpointOutsideOfARunOfRecIsIsRefused) {
  StorePlace folder(true), own;
  const std::string run = folder.uri() + "/run";
  write_recis(run, 5, {1});
  write_recis(folder.uri() + "/other", 6, {1});
  for (const std::string name : {"../other/ckpt_7", "/../other/ckpt_7", "..", ".", "ckpt_7/../../other/ckpt_7"}) {
    std::ofstream(run + "/checkpoint") << name << "\n";
    Trainer fresh(own.uri(), 9);
    EXPECT_TRUE(ct::internal::caught([&] { fresh.manager->load_model_bank({source(run, {"dense"})}); })) << name;
    EXPECT_EQ(fresh.dense(), 9) << name;
  }
  std::filesystem::rename(folder.uri() + "/other/ckpt_7", run + "/ckpt_8");
  std::ofstream(run + "/checkpoint") << "ckpt_8\n";
  Trainer fresh(own.uri(), 9);
  fresh.manager->load_model_bank({source(run, {"dense"})});
  EXPECT_EQ(fresh.dense(), 6);
}

TEST(Recis, ASourceMayBeAnyCheckpointOfARun) {
  StorePlace place(true), own;
  Trainer trainer(place.uri(), 1, {1}, [](auto& options) {
    options.save_interval = 1;
    options.max_keep = 0;
    options.checkpointer.settings = {{"run", "first"}};
  });
  trainer.manager->step();
  trainer.items.fill({1}, 2);
  trainer.manager->step();
  trainer.manager->close();
  const std::string id = ckpt::Store::open(place.uri()).list()[0].id;
  std::vector<recis::Source> sources{source(place.uri()), source(place.uri() + "/ckpt_1"),
                                     source(place.uri() + "/" + id + "/")};
  sources[0].select = "step:1";
  sources[0].run = sources[1].run = "first";
  for (const recis::Source& one : sources) {
    Trainer fresh(own.uri());
    EXPECT_EQ(fresh.manager->load_model_bank({one}).at("items@id"), place.uri() + "/" + id);
    EXPECT_EQ(fresh.items.has(), (Rows{{1, 1}}));
  }
  Trainer fresh(own.uri());
  expect_error([&] { fresh.manager->load_model_bank({source(place.uri() + "/ckpt_9")}); }, CKPT_NOT_FOUND,
               "model bank entry 0 (" + place.uri() + "/ckpt_9)");
}

TEST(Recis, TheOptimizerOfRecIsIsLoadedIntoTheManagersOwn) {
  StorePlace first, a, own;
  auto with_adam = [](torch::optim::Adam& adam) {
    return [&adam](recis::ManagerOptions& options) { options.optimizers = adam; };
  };
  torch::nn::Sequential model{torch::nn::Linear(3, 2), torch::nn::Linear(2, 1)};
  torch::optim::Adam adam(model->parameters(), torch::optim::AdamOptions(0.5));
  model->forward(at::ones({1, 3})).sum().backward();
  adam.step();
  ct::save(first.uri(), model, adam);
  ct::LoadOptions all;
  all.all_values = true;
  const c10::IValue state = ct::load(first.uri(), model, {}, all).others.at("optimizer");
  Trainer trainer(a.uri(), 1);
  trainer.manager->register_for_checkpointing("recis.dense.optim", [&] { return state; }, [](const c10::IValue&) {});
  trainer.saved();
  torch::optim::Adam fresh_adam(model->parameters(), torch::optim::AdamOptions(0.1));
  Trainer fresh(own.uri(), 0, {}, with_adam(fresh_adam));
  auto rate = [&] { return static_cast<torch::optim::AdamOptions&>(fresh_adam.param_groups()[0].options()).lr(); };
  fresh.manager->load_model_bank({source(a.uri(), {"*"}, {"recis.dense.optim"})});
  EXPECT_EQ(rate(), 0.1);
  EXPECT_EQ(fresh.manager->load_model_bank({source(a.uri(), {"recis.dense.optim"})}).count("optimizer"), 1u);
  EXPECT_EQ(rate(), 0.5);
  EXPECT_EQ(fresh_adam.state().size(), 4u);
}

// The values of an optimizer as another program has them, who calls parameters by these names in this order.
c10::IValue with_names(const c10::IValue& optimizer, const std::vector<std::string>& names) {
  const auto from = optimizer.toGenericDict();
  auto dict = [] { return c10::impl::GenericDict(c10::StringType::get(), c10::AnyType::get()); };
  auto state = dict(), group = dict(), out = dict();
  c10::impl::GenericList params(c10::StringType::get()), groups(c10::AnyType::get());
  for (const std::string& name : names) {
    state.insert(name, from.at("state").toGenericDict().at(name[0] - '0'));
    params.push_back(name);
  }
  for (const auto& one : from.at("param_groups").toList().get(0).toGenericDict()) group.insert(one.key(), one.value());
  group.insert_or_assign("params", params);
  groups.push_back(group);
  out.insert("state", state);
  out.insert("param_groups", groups);
  return out;
}

TEST(Recis, ParametersOfAnOptimizerAreFoundByNameWhicheverSourceGivesTheModel) {
  StorePlace first, a, own, none, alone;
  const auto shape = torch::nn::LinearOptions(2, 2).bias(false);
  torch::nn::Sequential model{torch::nn::Linear(shape), torch::nn::Linear(shape)};
  auto values_of = [&](torch::optim::Adam& adam) {
    ct::save(first.uri(), model, adam);
    ct::LoadOptions all;
    all.all_values = true;
    return ct::load(first.uri(), model, {}, all).others.at("optimizer");
  };
  torch::optim::Adam adam(model->parameters());
  for (const int i : {0, 1}) model->parameters()[i].mutable_grad() = at::full({2, 2}, 10.0 * (i + 1));
  adam.step();
  const c10::IValue named = with_names(values_of(adam), {"1.weight", "0.weight"});
  torch::optim::Adam fresh_adam(model->parameters());
  auto moment = [&](int i) {
    const auto state = values_of(fresh_adam).toGenericDict().at("state").toGenericDict();
    return state.at(i).toGenericDict().at("exp_avg").toTensor()[0][0].item<float>();
  };
  auto of_model = [&](recis::ManagerOptions& options) { options.models = model; };
  Trainer trainer(a.uri(), 1, {}, of_model);
  trainer.manager->register_for_checkpointing("recis.dense.optim", [&] { return named; }, [](const c10::IValue&) {});
  trainer.saved();
  Trainer(own.uri(), 1, {}, of_model).saved();
  ct::save(alone.uri(), {}, {}, {{"recis.dense.optim", named}});
  const recis::Source dense = source(a.uri(), {"dense"}), optimizer = source(a.uri(), {"recis.dense.optim"});
  for (const auto& [uri, bank] :
       std::map<std::string, std::vector<recis::Source>>{{own.uri(), {optimizer}},
                                                         {none.uri(), {dense, optimizer}},
                                                         {none.uri() + "-2", {dense, source(alone.uri())}},
                                                         {a.uri(), {}}}) {
    fresh_adam.state().clear();
    Trainer fresh(uri, 0, {}, [&, &bank = bank](auto& options) {
      of_model(options);
      options.optimizers = fresh_adam;
      options.model_bank = bank;
    });
    fresh.manager->restore({}, source("", bank.empty() ? optimizer.load : std::vector<std::string>{"*"}));
    EXPECT_EQ(std::make_pair(moment(0), moment(1)), std::make_pair(1.0f, 2.0f)) << bank.size();
  }
  StorePlace others;  // who calls them otherwise, and gives no model
  ct::save(others.uri(), {}, {}, {{"recis.dense.optim", with_names(values_of(adam), {"1x.weight", "0x.weight"})}});
  fresh_adam.state().clear();
  Trainer fresh(own.uri(), 0, {}, [&](auto& options) {
    of_model(options);
    options.optimizers = fresh_adam;
  });
  recis::Source renamed = source(others.uri(), {"optimizer"});
  expect_error([&] { fresh.manager->load_model_bank({renamed}); }, CKPT_MISMATCH, "'0.weight' is none of '1x.weight'");
  renamed.oname = {{"*.weight", "*x.weight"}};
  renamed.ignore_error = true;  // that it has no such tensors
  fresh.manager->load_model_bank({renamed});
  EXPECT_EQ(std::make_pair(moment(0), moment(1)), std::make_pair(1.0f, 2.0f));
}

// ---- what goes wrong ----

TEST(Recis, WhatDoesNotFitInAnySourceIsRefusedBeforeAnythingChanges) {
  StorePlace a, b, own;
  Trainer(a.uri(), 1, {1, 2}).saved();
  {
    ct::CheckpointerOptions options;
    options.signals.emplace();
    torch::nn::Sequential other{torch::nn::Linear(4, 2), torch::nn::Linear(2, 1)};
    other->to(at::kDouble);
    ct::State state{other, {}, {}};
    const at::Tensor ids = at::tensor({int64_t{3}});
    state.tables["items"] = {ids, {{"embedding", at::ones({1, 3})}, {"exp_avg", at::ones({1, 2}, at::kHalf)}}};
    ct::Checkpointer(b.uri(), options).save(1, state);
  }
  Trainer fresh(own.uri(), 9, {8});
  auto refused = [&](const std::string& word, const std::string& told, bool convert = false) {
    recis::Source what = source(b.uri(), {word});
    what.convert = convert;
    const ct::Error error =
        expect_error([&] { fresh.manager->load_model_bank({source(a.uri()), what}); }, CKPT_MISMATCH, told);
    EXPECT_NE(std::string(error.what()).find("model bank entry 1 (" + b.uri()), std::string::npos) << error.what();
    EXPECT_EQ(std::make_pair(fresh.dense(), fresh.dense("1.bias")), std::make_pair(9.0, 9.0));
    EXPECT_EQ(fresh.items.has(), (Rows{{8, 9}}));
    EXPECT_EQ(fresh.note, 9);
  };
  refused("0.weight", "[2, 4]", true);
  refused("1.bias", "the module has dtype f32, the checkpoint f64");
  refused("items@embedding", "table 'items', column 'embedding': expected rows of f32 [2], found f32 [3]");
  refused("items@exp_avg", "column 'exp_avg': expected rows of f32 [2], found f16 [2]");
  recis::Source converted = source(b.uri(), {"1.*"});
  converted.convert = true;
  fresh.manager->load_model_bank({source(a.uri(), {"dense"}), converted});
  EXPECT_EQ(fresh.dense(), 1);
  EXPECT_NE(fresh.dense("1.bias"), 1);
}

// Of these the beginning of a file is there, or a byte of it is another one.
TEST(Recis, ADamagedSourceIsNamedAndNothingChanges) {
  StorePlace a, folder(true), own;
  Trainer(a.uri(), 1, {1}).saved();
  const std::string store = folder.uri() + "/store", manifest = folder.uri() + "/manifest";
  for (const std::string& uri : {store, manifest}) Trainer(uri, 4, {4}).saved();
  const auto reader = ckpt::Reader::open(ckpt::Store::open(store));
  std::vector<std::string> paths{manifest, store};
  for (const std::string name : {"/a.pt", "/a.safetensors"}) {
    paths.push_back(folder.uri() + name);
    reader.export_to(paths.back(), {{"exclude", "items*,users*"}});
    std::filesystem::resize_file(paths.back(), std::filesystem::file_size(paths.back()) / 2);
  }
  std::filesystem::resize_file(manifest + "/ckpt_1.1.1/MANIFEST", 100);
  damage(store, "ckpt_1", "model/1.weight");
  for (const char* gone : {"model-000001-of-000002.safetensors", "io_state_1.pt", "model.pt"}) {
    paths.push_back(folder.uri() + "/without-" + gone);
    write_recis(paths.back(), 5, {1, 2});
    std::filesystem::remove(paths.back() + "/ckpt_7/" + gone);
  }
  Trainer fresh(own.uri(), 9, {8}, [](auto& options) { options.stage_first = true; });
  for (const std::string& path : paths) {
    const auto error = ct::internal::caught([&] { fresh.manager->load_model_bank({source(a.uri()), source(path)}); });
    ASSERT_TRUE(error) << path;
    EXPECT_NE(std::string(error->what()).find("model bank entry 1 (" + path), std::string::npos) << error->what();
    EXPECT_EQ(std::make_pair(fresh.dense(), fresh.dense("1.weight")), std::make_pair(9.0, 9.0)) << path;
    EXPECT_EQ(fresh.items.has(), (Rows{{8, 9}}));
    EXPECT_EQ(fresh.note, 9);
  }
  Trainer unstaged(own.uri(), 9);
  const ct::Error error =
      expect_error([&] { unstaged.manager->load_model_bank({source(store)}); }, CKPT_CORRUPT, "1.weight");
  EXPECT_NE(error.detail("undefined").find("model/1.weight\n"), std::string::npos);
}

TEST(Recis, ARankThatCannotLoadABankLeavesNoOtherWaiting) {
  StorePlace a, own;
  Trainer(a.uri(), 1, {1}).saved();
  ThreadGroup(2).run([&](ct::Ranks ranks) {
    Trainer fresh(own.uri(), 9, {}, {}, ranks);
    recis::Source what = source(ranks.rank == 0 ? a.uri() : "/nowhere");
    what.or_rank0 = true;
    expect_error([&] { fresh.manager->load_model_bank({what}); }, CKPT_NOT_FOUND, "rank 1: model bank entry 0");
    EXPECT_EQ(fresh.dense(), 9);
  });
}

TEST(Recis, AnIdThatADirectoryHasTwiceIsNamedBeforeATableChanges) {
  StorePlace folder(true), own;
  const std::string run = folder.uri() + "/run", shard = run + "/ckpt_7/model-000000-of-000002.safetensors";
  write_recis(run, 5, {1, 2, 4});
  std::fstream file(shard, std::ios::in | std::ios::out | std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const std::string one("\1\0\0\0\0\0\0\0", 8), two("\2\0\0\0\0\0\0\0", 8);
  for (size_t at = text.find(two); at != text.npos; at = text.find(two, at + 1)) {
    file.seekp(static_cast<std::streamoff>(at));
    file.write(one.data(), 8);
  }
  file.close();
  Trainer fresh(own.uri(), 9, {8});
  expect_error([&] { fresh.manager->load_model_bank({source(run, {"items"})}); }, CKPT_MISMATCH, "id 1 is there twice");
  EXPECT_EQ(fresh.items.has(), (Rows{{8, 9}}));
}

}  // namespace recis_test
