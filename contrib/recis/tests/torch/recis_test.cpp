// recis::CheckpointManager: what it saves and restores, and how sources of a model bank are chosen from.
#include <deque>

#include "recis_trainer.h"

namespace recis_test {

TEST(Recis, ANameIsRegisteredOnce) {
  StorePlace place;
  Trainer trainer(place.uri());
  for (const char* name : {"note", "train_io", "items", "model", "optimizer", "global_step"}) {
    auto dump = [] { return c10::IValue(1); };
    auto put = [](const c10::IValue&) {};
    expect_error([&] { trainer.manager->register_for_checkpointing(name, dump, put); }, CKPT_INVALID, name);
    expect_error([&] { trainer.manager->register_io_state(name, dump, put); }, CKPT_INVALID, "is taken");
  }
}

TEST(Recis, ATableHasANameOfItsOwnAndIsThere) {
  for (const char* name : {"model", "global_step", "sparse_optim"})
    expect_error([&] { Trainer("mem:recis-none", 0, {}, [&](auto& o) { o.tables[name] = o.tables["items"]; }); },
                 CKPT_INVALID, name);
  expect_error([&] { Trainer("mem:recis-none", 0, {}, [&](auto& o) { o.tables["goods"] = nullptr; }); }, CKPT_INVALID,
               "'goods'");
}

TEST(Recis, StepsAreSavedAtTheIntervalAndMaxKeepOfThemStay) {
  StorePlace place;
  Trainer trainer(place.uri(), 1, {5}, [](auto& options) {
    options.save_interval = 3;
    options.max_keep = 2;
  });
  for (int n = 1; n <= 11; n++) EXPECT_EQ(trainer.manager->step().has_value(), n % 3 == 0) << n;
  trainer.manager->close();
  std::vector<std::string> labels;
  for (const auto& info : ckpt::Store::open(place.uri()).list()) labels.push_back(info.label);
  EXPECT_EQ(labels, (std::vector<std::string>{"ckpt_6", "ckpt_9"}));
  EXPECT_EQ(trainer.items.exported, 3);  // only where a save is due
}

TEST(Recis, TheNewestIsRestoredOrThatOfAStepAndWithoutOneNothingChanges) {
  StorePlace place;
  Trainer fresh(place.uri(), 9);
  EXPECT_EQ(fresh.manager->restore(), 0);
  EXPECT_EQ(fresh.dense(), 9);
  Trainer trainer(place.uri(), 1, {1, 70000}, [](auto& options) {
    options.save_interval = 1;
    options.max_keep = 0;
  });
  trainer.manager->step();
  trainer.items.fill({1, 3}, 2);
  trainer.note = trainer.place = 2;
  trainer.manager->step();
  trainer.manager->close();
  EXPECT_EQ(fresh.manager->restore(), 2);
  EXPECT_EQ(fresh.items.has(), (Rows{{1, 2}, {3, 2}, {70000, 1}}));
  EXPECT_EQ(std::make_pair(fresh.note, fresh.place), std::make_pair(int64_t{2}, int64_t{2}));
  EXPECT_EQ(fresh.dense(), 1);
  EXPECT_EQ(fresh.manager->restore(1), 1);
  EXPECT_EQ(fresh.items.has(), (Rows{{1, 1}, {70000, 1}}));
  EXPECT_EQ(fresh.note, 1);
  expect_error([&] { fresh.manager->restore(7); }, CKPT_NOT_FOUND, "7");
}

TEST(Recis, AfterAnOlderStepIsRestoredLaterOnesAreSavedAnew) {
  StorePlace place;
  auto each_step = [](recis::ManagerOptions& options) {
    options.save_interval = 1;
    options.max_keep = 0;
  };
  Trainer trainer(place.uri(), 1, {1}, each_step);
  for (int i = 0; i < 3; i++) trainer.manager->step();
  trainer.manager->close();
  Trainer fresh(place.uri(), 0, {}, each_step);
  fresh.manager->restore(1);
  fresh.note = 8;
  fresh.manager->step();
  fresh.manager->close();
  Trainer again(place.uri(), 0, {}, each_step), forgetful(place.uri(), 0, {}, each_step);
  EXPECT_EQ(again.manager->restore(), 2);
  EXPECT_EQ(again.note, 8);
  expect_error([&] { forgetful.manager->step(), forgetful.manager->close(); }, CKPT_EXISTS, "ckpt_1");
}

TEST(Recis, ARankWhoseStateCannotBeMadeLeavesNoOtherWaiting) {
  StorePlace place;
  ThreadGroup(2).run([&](ct::Ranks ranks) {
    auto each_step = [](recis::ManagerOptions& options) { options.save_interval = 1; };
    Trainer trainer(place.uri(), 1, {}, each_step, ranks);
    bool fails = ranks.rank == 1;
    trainer.manager->register_for_checkpointing(
        "late",
        [&] {
          if (fails) throw std::runtime_error("no late today");
          return c10::IValue(1);
        },
        [](const c10::IValue&) {});
    expect_error([&] { trainer.manager->step(); }, CKPT_INTERNAL, "rank 1: no late today");
    expect_error([&] { trainer.manager->save(); }, CKPT_INTERNAL, "rank 1: no late today");
    fails = false;
    trainer.manager->step();
    trainer.manager->close();
  });
  EXPECT_EQ(Trainer(place.uri()).manager->restore({}, source("", {"extra"})), 2);
}

TEST(Recis, ATableThatIsDamagedIsPassedOverWithItsCheckpoint) {
  StorePlace place(true);
  Trainer trainer(place.uri(), 1, {1, 2}, [](auto& options) {
    options.save_interval = 1;
    options.max_keep = 0;
  });
  trainer.manager->step();
  trainer.items.fill({1, 2, 3}, 2);
  trainer.note = 2;
  trainer.manager->step();
  trainer.manager->close();
  damage(place.uri(), "ckpt_2", "items/", "embedding");
  Trainer fresh(place.uri());
  EXPECT_EQ(fresh.manager->restore(), 1);
  EXPECT_EQ(fresh.items.has(), (Rows{{1, 1}, {2, 1}}));
  EXPECT_EQ(fresh.note, 1);
  expect_error([&] { fresh.manager->restore(2); }, CKPT_CORRUPT, "items");
}

// A store with two checkpoints, the first without the table `late`, and a layer more in the second, of which the rows
// of a table are damaged, or a tensor of the model.
void save_before_and_after(const std::string& uri, const std::string& damaged, const std::string& more = "embedding",
                           const std::string& late = "users") {
  Trainer first(uri, 1, {1, 2}, [&](auto& options) {
    options.tables.erase(late);
    options.max_keep = 0;
  });
  first.saved();
  Trainer second(uri, 2, {1, 2, 3}, [](auto& options) { options.max_keep = 0; });
  second.manager->restore({}, source("", {"global_step"}));
  second.model->push_back(torch::nn::Linear(1, 1));
  second.manager->register_for_checkpointing("late", [] { return c10::IValue(2); }, [](const c10::IValue&) {});
  second.saved();
  damage(uri, "ckpt_2", damaged + "/", more);
}

TEST(Recis, RowsOfAPassedOverCheckpointAreMixedWithThoseOfNoOther) {
  StorePlace users(true), items(true), bank, joined;
  save_before_and_after(users.uri(), "users");
  save_before_and_after(items.uri(), "items");
  Trainer(bank.uri(), 5, {5}, [](auto& options) { options.tables.erase("users"); }).saved();
  Trainer(joined.uri(), 7, {7}).saved();
  recis::Source what, keeping;
  what.strict = keeping.strict = false;
  keeping.hashtable_clear = false;
  auto restore = [](const std::string& uri, const recis::Source& own, const std::vector<recis::Source>& sources,
                    const ct::Ranks& ranks = {}) {
    Trainer fresh(uri, 9, {2, 8}, [&](auto& options) { options.model_bank = sources; }, ranks);
    const int64_t step = fresh.manager->restore({}, own);
    return std::make_tuple(step, fresh.items.has(), fresh.users.has());
  };
  expect_error([&] { restore(users.uri(), what, {}); }, CKPT_CORRUPT, "'users@id'");
  expect_error([&] { restore(users.uri(), what, {source(bank.uri(), {"*"}, {"dense"})}); }, CKPT_CORRUPT, "'users@id'");
  ThreadGroup(2).run([&](ct::Ranks ranks) {
    recis::Source any = what;
    any.or_rank0 = true;
    expect_error([&] { restore(users.uri(), any, {}, ranks); }, CKPT_CORRUPT, "'users@id'");
  });
  expect_error([&] { restore(users.uri(), keeping, {}); }, CKPT_CORRUPT, "'items@id'");
  recis::Source joining = source(joined.uri(), {"users"});
  const Rows first{{1, 1}, {2, 1}};
  EXPECT_EQ(restore(users.uri(), what, {joining}), std::make_tuple(int64_t{1}, first, (Rows{{7, 7}})));
  joining.hashtable_clear = false;
  expect_error([&] { restore(users.uri(), what, {joining}); }, CKPT_CORRUPT, "'users@id'");
  // Where the damage is found before rows of another table come, those stay.
  EXPECT_EQ(restore(items.uri(), what, {}), std::make_tuple(int64_t{1}, first, (Rows{{2, 9}, {8, 9}})));
}

TEST(Recis, ATableThatWasEmptyIsSoAgainWhereADamagedCheckpointIsPassedOver) {
  StorePlace place(true);
  save_before_and_after(place.uri(), "users", "embedding", "items");
  recis::Source what;
  what.strict = false;
  what.or_rank0 = true;
  for (const uint32_t world : {1, 2, 3})
    ThreadGroup(world).run([&](ct::Ranks ranks) {
      auto all_to_rank_0 = [](recis::ManagerOptions& options) {  // so that the damage is found on this one alone
        options.rowset = [](uint32_t rank, uint32_t) {
          return rank == 0 ? ckpt::Rowset::all() : ckpt::Rowset::ids({2});
        };
      };
      Trainer fresh(place.uri(), 9, {}, all_to_rank_0, ranks), full(place.uri(), 9, {8}, all_to_rank_0, ranks);
      EXPECT_EQ(fresh.manager->restore({}, what), 1);
      EXPECT_EQ(fresh.items.has(), Rows());
      EXPECT_EQ(fresh.users.has(), ranks.rank == 0 ? (Rows{{1, 1}, {2, 1}}) : (Rows{{2, 1}}));
      expect_error([&] { full.manager->restore({}, what); }, CKPT_CORRUPT, "'items@id'");
    });
}

TEST(Recis, WhatADamagedCheckpointLeftUndefinedComesOfTheBankOrIsRefusedOnAllRanks) {
  StorePlace place(true), a;
  save_before_and_after(place.uri(), "model", "0.weight");
  recis::Source what;
  what.strict = false;
  what.or_rank0 = true;
  auto with_layer = [](Trainer& trainer, double value) {
    trainer.model->push_back(torch::nn::Linear(1, 1));
    torch::NoGradGuard guard;
    for (const char* name : {"2.weight", "2.bias"}) trainer.model->named_parameters()[name].fill_(value);
  };
  Trainer bank(a.uri(), 3);
  with_layer(bank, 3);
  bank.saved();
  ThreadGroup(2).run([&](ct::Ranks ranks) {
    Trainer alone(place.uri(), 9, {}, {}, ranks),
        with_bank(place.uri(), 9, {}, [&](auto& options) { options.model_bank = {source(a.uri(), {"2.*"})}; }, ranks);
    if (ranks.rank == 1) with_layer(alone, 9);  // rank 0 has none that is undefined
    with_layer(with_bank, 9);
    expect_error([&] { alone.manager->restore({}, what); }, CKPT_CORRUPT, "'2.weight'");
    EXPECT_EQ(with_bank.manager->restore({}, what), 1);
    EXPECT_EQ(std::make_pair(with_bank.dense(), with_bank.dense("2.weight")), std::make_pair(1.0, 3.0));
  });
}

TEST(Recis, AModelThatAPassedOverCheckpointHasChangedIsNotLeftSo) {
  StorePlace place(true), a;
  save_before_and_after(place.uri(), "items");
  recis::Source what;
  what.strict = false;
  auto with_layer = [](Trainer& trainer, double value) {
    trainer.model->push_back(torch::nn::Linear(1, 1));
    torch::NoGradGuard guard;
    trainer.model->named_parameters()["2.weight"].fill_(value);
  };
  Trainer fresh(place.uri(), 9),
      other(place.uri(), 9, {}, [&](auto& options) { options.model_bank = {source(a.uri(), {"2.*"})}; });
  with_layer(fresh, 9);
  with_layer(other, 9);
  expect_error([&] { fresh.manager->restore({}, what); }, CKPT_CORRUPT, "'2.weight'");
  Trainer trainer(a.uri(), 3);
  with_layer(trainer, 3);
  trainer.saved();
  EXPECT_EQ(other.manager->restore({}, what), 1);
  EXPECT_EQ(std::make_pair(other.dense(), other.dense("2.weight")), std::make_pair(1.0, 3.0));
}

// What is put after all tables is not changed by a checkpoint whose table is damaged.
TEST(Recis, ARegisteredPartThatOnlyThePassedOverCheckpointHasStaysAsItIs) {
  StorePlace place(true);
  save_before_and_after(place.uri(), "items");
  recis::Source what;
  what.strict = false;
  ThreadGroup(2).run([&](ct::Ranks ranks) {
    Trainer fresh(place.uri(), 9, {}, {}, ranks);
    int64_t own = 9;
    fresh.manager->register_for_checkpointing(
        "late", [&] { return c10::IValue(own); }, [&](const c10::IValue& value) { own = value.toInt(); });
    recis::Source any = what;
    any.or_rank0 = true;
    any.exclude = {"users"};  // which one rank may have come to before another finds the damage
    EXPECT_EQ(fresh.manager->restore({}, any), 1);
    EXPECT_EQ(std::make_pair(own, fresh.note), std::make_pair(int64_t{9}, int64_t{1}));
  });
}

TEST(Recis, RestoreTakesOfTheBankWhatTheRunsOwnCheckpointLacks) {
  StorePlace a, own, none;
  Trainer(a.uri(), 1, {1, 2}).saved();
  Trainer(own.uri(), 5, {7}, [](auto& options) { options.tables.erase("users"); }).saved();
  Trainer fresh(own.uri(), 0, {}, [&](auto& options) { options.model_bank = {source(a.uri())}; });
  EXPECT_EQ(fresh.manager->restore(), 1);
  EXPECT_EQ(fresh.dense(), 5);
  EXPECT_EQ(fresh.items.has(), (Rows{{7, 5}}));
  EXPECT_EQ(fresh.users.has(), (Rows{{1, 1}, {2, 1}}));
  Trainer first(none.uri(), 0, {},
                [&](auto& options) { options.model_bank = {source(a.uri(), {"*"}, {"global_step"})}; });
  EXPECT_EQ(first.manager->restore(), 0);
  EXPECT_EQ(first.dense(), 1);
  EXPECT_EQ(first.items.has(), (Rows{{1, 1}, {2, 1}}));
}

TEST(Recis, ARankLoadsTheRowsThatARuleGivesIt) {
  StorePlace place;
  Trainer(place.uri(), 1, {1, 2, 3, 4, 70000}).saved();
  ThreadGroup(2).run([&](ct::Ranks ranks) {
    Trainer fresh(place.uri(), 0, {}, [](auto& options) { options.rowset = ckpt::Rowset::mod; }, ranks);
    fresh.manager->restore({}, source("", {"items"}));
    EXPECT_EQ(fresh.items.has(), ranks.rank == 1 ? (Rows{{1, 1}, {3, 1}}) : (Rows{{2, 1}, {4, 1}, {70000, 1}}));
  });
}

TEST(Recis, NamesOfAnyCharactersAreRestored) {
  StorePlace place(true), own;
  std::map<std::string, int64_t> values{{"loss[0]", 1}, {"a,b*", 2}, {"x/y", 3}};
  auto with_values = [&](Trainer& trainer) {
    for (auto& one : values)
      trainer.manager->register_for_checkpointing(
          one.first, [&one] { return c10::IValue(one.second); },
          [&one](const c10::IValue& value) { one.second = value.toInt(); });
  };
  const auto saved = values;
  Trainer trainer(place.uri(), 1);
  with_values(trainer);
  trainer.saved();
  const std::string file = place.uri() + "/a.pt";
  ckpt::Reader::open(ckpt::Store::open(place.uri())).export_to(file, {{"exclude", "items*,users*"}});
  Trainer fresh(place.uri()), other(own.uri());
  with_values(fresh);
  with_values(other);
  for (const auto& load : std::vector<std::function<void()>>{
           [&] { fresh.manager->restore(); }, [&] { other.manager->load_model_bank({source(place.uri(), {"extra"})}); },
           [&] { other.manager->load_model_bank({source(file, {"extra"})}); }}) {
    for (auto& one : values) one.second = 0;
    load();
    EXPECT_EQ(values, saved);
  }
}

TEST(Recis, ALoadConfigChoosesByClassTableNameAndStars) {
  StorePlace place;
  Trainer(place.uri(), 5, {1}).saved();
  struct Case {
    std::vector<std::string> load, exclude;
    double dense, embedding, slot, note, io;
  };
  const double none = -1;
  for (const Case& one : std::vector<Case>{{{"*"}, {}, 5, 5, 5, 5, 5},
                                           {{"*"}, {"*"}, 0, none, none, 0, 0},
                                           {{"dense"}, {}, 5, none, none, 0, 0},
                                           {{"sparse"}, {}, 0, 5, 0, 0, 0},
                                           {{"*"}, {"sparse_opt", "io_state"}, 5, 5, 0, 5, 0},
                                           {{"extra", "io_state"}, {}, 0, none, none, 5, 5},
                                           {{"items", "0.*"}, {"items@*avg*"}, 5, 5, 0, 0, 0}}) {
    Trainer fresh(place.uri());
    fresh.manager->restore({}, source("", one.load, one.exclude));
    const Rows rows = fresh.items.has(), slots = fresh.items.has(1);
    EXPECT_EQ(fresh.dense(), one.dense);
    EXPECT_EQ(rows.empty() ? none : rows.at(1), one.embedding);
    EXPECT_EQ(slots.empty() ? none : slots.at(1), one.slot);
    EXPECT_EQ(static_cast<double>(fresh.note), one.note);
    EXPECT_EQ(static_cast<double>(fresh.place), one.io);
  }
}

TEST(Recis, StrictNamesWhatIsMissingAndUnexpected) {
  StorePlace place;
  Trainer(place.uri(), 5, {1}).saved();
  Trainer longer(place.uri());
  longer.model->push_back(torch::nn::Linear(1, 1));
  expect_error([&] { longer.manager->restore(); }, CKPT_MISMATCH, "'2.bias'");
  EXPECT_EQ(longer.dense(), 0);
  EXPECT_TRUE(longer.items.rows.empty());
  recis::Source loose;
  loose.strict = false;
  EXPECT_EQ(longer.manager->restore({}, loose), 1);
  EXPECT_EQ(longer.dense(), 5);
  StorePlace other;
  longer.manager = nullptr;
  Trainer more(other.uri(), 5);
  more.model->push_back(torch::nn::Linear(1, 1));
  more.saved();
  Trainer shorter(other.uri());
  expect_error([&] { shorter.manager->restore(); }, CKPT_MISMATCH, "the model '2.bias'");
  expect_error([&] { shorter.manager->restore({}, source("", {"nothing*"})); }, CKPT_NOT_FOUND, "'nothing*'");
}

TEST(Recis, IoStatesOfAnotherNumberOfWorkersAreRefusedWithBothCountsOrRank0sWhereAsked) {
  StorePlace place;
  ThreadGroup(2).run([&](ct::Ranks ranks) {
    const auto rank = static_cast<int64_t>(ranks.rank);
    Trainer trainer(place.uri(), 7, {rank, rank + 2, rank + 4}, {}, ranks);
    trainer.place = 10 + rank;
    trainer.saved();
  });
  std::vector<int64_t> places(3), ids;
  std::mutex mutex;
  ThreadGroup(3).run([&](ct::Ranks ranks) {
    Trainer fresh(place.uri(), 0, {}, {}, ranks);
    expect_error([&] { fresh.manager->restore(); }, CKPT_MISMATCH, "those of 2 workers, and this run has 3");
    EXPECT_TRUE(fresh.items.rows.empty());
    recis::Source what;
    what.or_rank0 = true;
    EXPECT_EQ(fresh.manager->restore({}, what), 1);
    const std::lock_guard<std::mutex> lock(mutex);
    places.at(ranks.rank) = fresh.place;
    for (const auto& one : fresh.items.has()) ids.push_back(one.first);
  });
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(places, (std::vector<int64_t>{10, 11, 10}));
  EXPECT_EQ(ids, (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));  // each row on one of the three
}

TEST(Recis, ATableIsLoadedInWindowsOfBoundedSize) {
  StorePlace place;
  std::vector<int64_t> ids(500);
  for (int64_t i = 0; i < 500; i++) ids[static_cast<size_t>(i)] = 7 * i;
  Trainer(place.uri(), 1, ids).saved();
  Trainer fresh(place.uri(), 0, {}, [](auto& options) { options.window_bytes = 2400; });
  fresh.manager->restore();
  EXPECT_EQ(fresh.items.rows.size(), 500u);
  EXPECT_LE(fresh.items.most, 100);
}

TEST(Recis, OfAModelBankTheLastSourceOfAVariableWins) {
  StorePlace a, b, own;
  Trainer(a.uri(), 1, {1, 2}).saved();
  Trainer(b.uri(), 2, {2, 3}).saved();
  Trainer fresh(own.uri());
  const auto given =
      fresh.manager->load_model_bank({source(a.uri()), source(b.uri(), {"0.weight", "items"}, {"items@*avg"})});
  EXPECT_EQ(fresh.dense("0.weight"), 2);
  EXPECT_EQ(fresh.dense("1.weight"), 1);
  EXPECT_EQ(fresh.items.has(), (Rows{{2, 2}, {3, 2}}));
  EXPECT_EQ(fresh.items.has(1), (Rows{{2, 1}, {3, 0}}));  // of rows that are there, from the source that has the column
  EXPECT_EQ(fresh.users.has(), (Rows{{1, 1}, {2, 1}}));
  EXPECT_EQ(fresh.note, 1);
  EXPECT_EQ(given.size(), 13u);
  EXPECT_EQ(fresh.manager->load_model_bank({source(b.uri()), source(a.uri())}).size(), 13u);
  EXPECT_EQ(fresh.items.has(), (Rows{{1, 1}, {2, 1}}));
}

TEST(Recis, RowsJoinThoseOfEarlierSourcesUnlessTheTableIsCleared) {
  StorePlace a, b, own;
  Trainer(a.uri(), 1, {1, 2}).saved();
  Trainer(b.uri(), 2, {2, 3}).saved();
  Trainer fresh(own.uri(), 9, {8});
  recis::Source joining = source(b.uri(), {"items"});
  joining.hashtable_clear = false;
  fresh.manager->load_model_bank({joining});
  EXPECT_EQ(fresh.items.has(), (Rows{{2, 2}, {3, 2}, {8, 9}}));
  fresh.manager->load_model_bank({source(a.uri()), joining});
  EXPECT_EQ(fresh.items.has(), (Rows{{1, 1}, {2, 2}, {3, 2}}));
}

TEST(Recis, OnameSaysWhatTheSourceCallsIt) {
  StorePlace a, own;
  Trainer trainer(a.uri(), 1, {1});
  trainer.users.fill({4}, 4);
  trainer.saved();
  Trainer fresh(own.uri());
  recis::Source mapped = source(a.uri(), {"items", "users", "0.bias"});
  mapped.oname = {{"items*", "users*"}, {"users*", "items*"}, {"0.b*", "1.b*"}};
  expect_error([&] { fresh.manager->load_model_bank({mapped}); }, CKPT_MISMATCH, "0.bias");  // of another shape
  mapped.load = {"items", "users"};
  fresh.manager->load_model_bank({mapped});
  EXPECT_EQ(fresh.items.has(), (Rows{{1, 1}, {4, 4}}));
  EXPECT_EQ(fresh.users.has(), (Rows{{1, 1}}));
  mapped.oname = {{"items@exp_avg", "users@exp_avg"}};
  expect_error([&] { fresh.manager->load_model_bank({mapped}); }, CKPT_INVALID, "cannot come out of two");
  mapped.oname = {{"items*", "users"}};
  expect_error([&] { fresh.manager->load_model_bank({mapped}); }, CKPT_INVALID, "number of stars");
}

TEST(Recis, OnameMayChangeNamesWithEachOther) {
  StorePlace a, own;
  Trainer trainer(a.uri(), 1);
  trainer.model->push_back(torch::nn::Linear(3, 2));
  {
    torch::NoGradGuard guard;
    trainer.model->named_parameters()["2.weight"].fill_(3);
  }
  trainer.saved();
  Trainer fresh(own.uri());
  fresh.model->push_back(torch::nn::Linear(3, 2));
  recis::Source mapped = source(a.uri(), {"*.weight"});
  mapped.oname = {{"0.w*", "2.w*"}, {"2.w*", "0.w*"}};
  fresh.manager->load_model_bank({mapped});
  EXPECT_EQ(fresh.dense("0.weight"), 3);
  EXPECT_EQ(fresh.dense("2.weight"), 1);
}

TEST(Recis, NamesThatAreNotThereAreRefusedUnlessErrorsAreIgnored) {
  StorePlace a, own;
  Trainer(a.uri(), 1, {1}).saved();
  std::vector<recis::Source> wrong(4, source(a.uri()));
  wrong[0].load = {"nothing"};
  wrong[1].load = {"2.*"};
  wrong[2].oname = {{"none*", "items*"}};
  wrong[3].oname = {{"items*", "none*"}};
  for (recis::Source& one : wrong) {
    Trainer fresh(own.uri());
    fresh.model->push_back(torch::nn::Linear(1, 1));
    expect_error([&] { fresh.manager->load_model_bank({source(a.uri()), one}); }, CKPT_NOT_FOUND, "model bank entry 1");
    EXPECT_EQ(fresh.dense(), 0);
    one.ignore_error = true;
    fresh.manager->load_model_bank({source(a.uri()), one});
    EXPECT_EQ(fresh.dense(), 1);
  }
}

TEST(Recis, ASourceThatIsNotThereIsNamedAndOneMayBeSkipped) {
  StorePlace a, own;
  Trainer(a.uri(), 1, {1}).saved();
  Trainer fresh(own.uri());
  recis::Source gone = source("/nowhere/at/all");
  expect_error([&] { fresh.manager->load_model_bank({source(a.uri()), gone}); }, CKPT_NOT_FOUND,
               "model bank entry 1 (/nowhere/at/all)");
  expect_error([&] { fresh.manager->load_model_bank({source("")}); }, CKPT_INVALID, "path must be given");
  EXPECT_EQ(fresh.dense(), 0);
  gone.skip = true;
  fresh.manager->load_model_bank({source(a.uri()), gone});
  EXPECT_EQ(fresh.dense(), 1);
}

}  // namespace recis_test
