// Several ranks: threads that share a ThreadGroup, or meet through the store alone.
#include "util.h"

namespace {

using Options = torch::optim::AdamOptions;

// The same on every rank.
struct Trainer {
  Trainer() : net(seeded_net(3)), adam(net->parameters(), Options(0.1)) {
    train(net, adam, 0);
    train(net, adam, 1);
  }
  Net net;
  torch::optim::Adam adam;
};

TEST(Ranks, ShareTheWorkAndAnyNumberLoadsIt) {
  StorePlace place(true);
  Trainer trained;
  ct::SaveOptions small;  // every tensor counts as large and is split over the ranks
  small.settings = {{"large_tensor_bytes", 4096}, {"chunk_bytes", 4096}};
  auto wide = std::make_shared<torch::nn::LinearImpl>(100, 100);
  ThreadGroup three(3);
  three.run([&](ct::Ranks ranks) {
    uint32_t rank = ranks.rank;
    ct::Session keeper(place.uri(), ranks, small.settings);
    keeper.save({{trained.net, wide}, trained.adam, {{"rank", static_cast<int64_t>(rank)}}});
  });
  for (uint32_t size : {1u, 2u, 4u}) {
    ThreadGroup group(size);
    group.run([&](ct::Ranks ranks) {
      Net net;
      auto other = std::make_shared<torch::nn::LinearImpl>(100, 100);
      torch::optim::Adam adam(net->parameters(), Options(1));
      auto loaded = ct::load(place.uri(), {net, other}, adam, {}, ranks);
      expect_same(*trained.net, *net);
      expect_same(*wide, *other);
      EXPECT_EQ(loaded.others.at("rank").toInt(), 0);
      EXPECT_EQ(loaded.world_size, 3u);
      EXPECT_TRUE(loaded.rng_restored);  // of rank 3 a stream of its own
    });
  }
}

TEST(Ranks, ThatDisagreeLearnItAtOnceWithBothValues) {
  StorePlace place, elsewhere;
  ThreadGroup two(2);
  two.run([&](ct::Ranks ranks) {
    const std::string number = std::to_string(ranks.rank);
    auto refused = [&](const std::string& store, int64_t step, const std::string& label, const std::string& why) {
      ct::SaveOptions options;
      options.step = step;
      options.label = label;
      expect_error([&] { ct::Session(store, ranks).save({{}, {}, {{"x", 1}}}, options); }, CKPT_MISMATCH, why);
    };
    refused(place.uri(), 5 + ranks.rank, "", "step: rank 0 has '5', rank 1 has '6'");
    refused(place.uri(), 5, "mine-" + number, "label: rank 0 has 'mine-0', rank 1 has 'mine-1'");
    refused(ranks.rank == 0 ? place.uri() : elsewhere.uri(), 5, "", "store: rank 0 has");
  });
}

TEST(Ranks, BuffersAreThoseOfRank0) {
  StorePlace place;
  ThreadGroup two(2);
  two.run([&](ct::Ranks ranks) {
    uint32_t rank = ranks.rank;
    Trainer trainer;
    trainer.net->norm->running_mean.fill_(static_cast<int64_t>(rank));
    ct::save(place.uri(), trainer.net, {}, {}, {}, ranks);
  });
  Net net;
  ct::load(place.uri(), net);
  EXPECT_EQ(net->norm->running_mean.abs().sum().item<double>(), 0);
}

TEST(Ranks, AnErrorOfOneIsThrownByAllAndNamesIt) {
  StorePlace place;
  ThreadGroup three(3);
  three.run([&](ct::Ranks ranks) {
    uint32_t rank = ranks.rank;
    Trainer trainer;
    ct::Session keeper(place.uri(), ranks);
    auto ghost = std::make_shared<torch::nn::LinearImpl>(2, 2);
    if (rank == 1) ghost->bias = ghost->register_parameter("extra", at::empty({2}, at::device(at::kMeta)));
    auto error = expect_error([&] { keeper.save({{trainer.net, ghost}, {}, {}}); }, CKPT_INVALID, "rank 1: ");
    EXPECT_EQ(error.detail("rank"), "1");
    // The session goes on.
    std::string id = keeper.save({trainer.net, trainer.adam, {}});
    // One rank's module does not fit: nobody's changes.
    Net fits, wide(9);
    torch::nn::Module& mine = rank == 2 ? static_cast<torch::nn::Module&>(*wide) : *fits;
    at::Tensor before = fits->a->weight.detach().clone();
    error = expect_error([&] { keeper.load(mine); }, CKPT_MISMATCH, "rank 2: 'a.weight'");
    EXPECT_TRUE(same_bits(fits->a->weight, before));
    EXPECT_EQ(keeper.load(fits).id, id);
  });
}

// Settings with an error on rank `bad`: `threads` is not a number.
ct::Settings wrong_on(uint32_t bad, const ct::Ranks& ranks) {
  ct::Settings settings;
  if (ranks.rank == bad) settings.emplace("threads", "many");
  return settings;
}

TEST(Ranks, ASettingThatOneHasWrongIsThrownByAllLoads) {
  StorePlace place;
  Net saved;
  ct::save(place.uri(), saved);
  ThreadGroup two(2);
  for (uint32_t bad : {0u, 1u})
    two.run([&](ct::Ranks ranks) {
      Net net;
      ct::LoadOptions options;
      options.settings = wrong_on(bad, ranks);
      ct::Session keeper(place.uri(), ranks);
      std::string text = "rank " + std::to_string(bad) + ": option 'threads': expected a number";
      expect_error([&] { keeper.load(net, {}, options); }, CKPT_INVALID, text);
      expect_error([&] { keeper.load_if_any(net, {}, options); }, CKPT_INVALID, text);
      expect_error([&] { ct::load(place.uri(), net, {}, options, ranks); }, CKPT_INVALID, text);
      EXPECT_TRUE(keeper.load_if_any(net));
    });
}

TEST(Ranks, ASettingThatOneHasWrongIsThrownByAllSavesAndTheNextOfTheLabelSucceeds) {
  StorePlace place;
  ThreadGroup two(2);
  for (uint32_t bad : {0u, 1u})
    two.run([&](ct::Ranks ranks) {
      Net net = seeded_net(5);
      ct::Session keeper(place.uri(), ranks, {{"timeout_ms", 20000}});
      ct::SaveOptions options, wrong;
      options.step = wrong.step = 1 + bad;
      wrong.settings = wrong_on(bad, ranks);
      std::string text = "rank " + std::to_string(bad) + ": option 'threads': expected a number";
      expect_error([&] { keeper.save({net, {}, {}}, wrong); }, CKPT_INVALID, text);
      expect_error([&] { (void)keeper.save_async({net, {}, {}}, wrong); }, CKPT_INVALID, text);
      expect_error([&] { ct::save(place.uri(), net, {}, {}, wrong, ranks); }, CKPT_INVALID, text);
      std::string id = keeper.save({net, {}, {}}, options);
      EXPECT_EQ(keeper.load(net).id, id);
    });
}

TEST(Ranks, WhereThereIsNoCheckpointLoadIfAnyIsEmptyOnAll) {
  StorePlace place;
  ThreadGroup two(2);
  two.run([&](ct::Ranks ranks) {
    Net net = seeded_net(1);
    ct::Session keeper(place.uri(), ranks);
    EXPECT_FALSE(keeper.load_if_any(net));
    keeper.save({net, {}, {}});
    EXPECT_TRUE(keeper.load_if_any(net));
  });
}

// Rank 0 of two, of which the other one never saves.
TEST(RanksWithoutAGroup, OneThatAnExceptionUnwindsCancelsItsSaveAtOnce) {
  StorePlace place;
  Trainer trainer;
  const auto ranks = ct::Ranks::with_session(0, 2, "");
  EXPECT_THROW(
      {
        ct::Session keeper(place.uri(), ranks);  // with the timeout of ten minutes
        ct::SaveOptions options;
        options.step = 1;
        auto handle = keeper.save_async({trainer.net, trainer.adam, {}}, options);
        throw std::runtime_error("the trainer failed");
      },
      std::runtime_error);
}

// A group of two whose other rank dies after some calls.
class DyingGroup : public ct::Group {
 public:
  explicit DyingGroup(int calls) : calls_(calls) {}
  uint32_t rank() const override { return 0; }
  uint32_t size() const override { return 2; }
  std::vector<std::string> all_gather(const std::string& mine) override {
    if (calls_-- == 0) throw std::runtime_error("Connection closed by peer");
    return {mine, mine};
  }

 private:
  int calls_;
};

TEST(Ranks, OneThatDiesIsNamedThoughTheGroupFailsToo) {
  StorePlace place;
  Trainer trainer;
  ct::Session keeper(place.uri(), ct::Ranks::of(std::make_shared<DyingGroup>(5)), {{"timeout_ms", 300}});
  ct::SaveOptions options;
  options.step = 1;
  auto handle = keeper.save_async({trainer.net, trainer.adam, {}}, options);
  const ct::Error error = expect_error([&] { handle.wait(); }, CKPT_TIMEOUT, "Connection closed by peer");
  EXPECT_EQ(error.detail("ranks"), "1") << error.what();
}

TEST(RanksWithoutAGroup, MeetThroughTheStore) {
  StorePlace place;
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < 2; rank++)
    threads.emplace_back([&, rank] {
      Trainer trainer;
      ct::save(place.uri(), trainer.net, trainer.adam, {}, {}, ct::Ranks::by_rendezvous(rank, 2));
    });
  for (auto& thread : threads) thread.join();
  Net net;
  EXPECT_EQ(ct::load(place.uri(), net).world_size, 2u);
  expect_same(*Trainer().net, *net);
}

TEST(RanksWithoutAGroup, OneWithAWrongSettingTellsTheOthersAndTheyMeetAgain) {
  StorePlace place;
  ct::Settings patience{{"timeout_ms", 20000}};
  ct::Session first(place.uri(), ct::Ranks::with_session(0, 2, ""), patience);
  std::string session = first.string();
  auto make = [] {
    auto module = std::make_shared<torch::nn::LinearImpl>(2, 2);
    at::NoGradGuard no_grad;
    for (at::Tensor& parameter : module->parameters()) parameter.zero_();
    return module;
  };
  std::thread second([&] {
    ct::Session keeper(place.uri(), ct::Ranks::with_session(1, 2, session), patience);
    ct::SaveOptions wrong;
    wrong.settings = {{"threads", "many"}};
    expect_error([&] { keeper.save({make(), {}, {}}, wrong); }, CKPT_INVALID, "'threads'");
    keeper.save({make(), {}, {}});
  });
  expect_error([&] { first.save({make(), {}, {}}); }, CKPT_ABORTED, "option 'threads': expected a number");
  first.save({make(), {}, {}});
  second.join();
}

// Of which only a part may fit, wherever a character ends.
TEST(RanksWithoutAGroup, OneThatFailsWithALongReasonTellsTheOthers) {
  for (const char* shift : {"", "x"}) {
    StorePlace place;
    ct::Settings patience{{"timeout_ms", 20000}};
    ct::Session first(place.uri(), ct::Ranks::with_session(0, 2, ""), patience);
    std::string session = first.string(), name = shift;
    for (int i = 0; i < 300; i++) name += "\u00e9";
    std::thread second([&] {
      auto ghost = std::make_shared<torch::nn::LinearImpl>(2, 2);
      ghost->register_parameter(name, at::empty({2}, at::device(at::kMeta)));
      ct::Session keeper(place.uri(), ct::Ranks::with_session(1, 2, session), patience);
      expect_error([&] { keeper.save({ghost, {}, {}}); }, CKPT_INVALID, name);
    });
    expect_error([&] { first.save({std::make_shared<torch::nn::LinearImpl>(2, 2), {}, {}}); }, CKPT_ABORTED,
                 name.substr(0, 200));
    second.join();
  }
}

}  // namespace
