// Several ranks: threads that share a Group of the test's own, or meet through the store alone.
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
  Place place(true);
  Trainer trained;
  ct::SaveOptions small;  // so that every tensor counts as large, and is cut over the ranks
  small.settings = {{"large_tensor_bytes", 4096}, {"chunk_bytes", 4096}};
  auto wide = std::make_shared<torch::nn::LinearImpl>(100, 100);
  ThreadGroup three(3);
  three.run([&](ct::Ranks ranks) {
    uint32_t rank = ranks.rank;
    ct::Checkpointer keeper(place.uri(), ranks, small.settings);
    keeper.save({{trained.net, wide}, trained.adam, {{"rank", static_cast<int64_t>(rank)}}});
  });
  for (uint32_t size : {1u, 2u, 4u}) {
    ThreadGroup group(size);
    group.run([&](ct::Ranks ranks) {
      Net net;
      auto other = std::make_shared<torch::nn::LinearImpl>(100, 100);
      torch::optim::Adam adam(net->parameters(), Options(1));
      uint32_t rank = ranks.rank;
      auto loaded = ct::load(place.uri(), {net, other}, adam, {}, ranks);
      expect_same(*trained.net, *net);
      expect_same(*wide, *other);
      EXPECT_EQ(loaded.others.at("rank").toInt(), 0);
      EXPECT_EQ(loaded.world_size, 3u);
      EXPECT_EQ(loaded.rng_restored, rank < 3);
    });
  }
}

TEST(Ranks, BuffersAreThoseOfRank0) {
  Place place;
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
  Place place;
  ThreadGroup three(3);
  three.run([&](ct::Ranks ranks) {
    uint32_t rank = ranks.rank;
    Trainer trainer;
    ct::Checkpointer keeper(place.uri(), ranks);
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

TEST(Ranks, ReplicasThatDifferInShapeAreRefusedByName) {
  Place place;
  ThreadGroup two(2);
  two.run([&](ct::Ranks ranks) {
    auto module = std::make_shared<torch::nn::LinearImpl>(ranks.rank == 0 ? 2 : 3, 2);
    expect_error([&] { ct::save(place.uri(), module, {}, {}, {}, ranks); }, CKPT_MISMATCH, "model/weight");
  });
}

TEST(Ranks, SaveInTheBackgroundTogether) {
  Place place;
  ThreadGroup two(2);
  two.run([&](ct::Ranks ranks) {
    Trainer trainer;
    ct::Checkpointer keeper(place.uri(), ranks);
    ct::SaveOptions options;
    options.step = 4;
    auto handle = keeper.save_async({trainer.net, trainer.adam, {}}, options);
    {
      at::NoGradGuard no_grad;
      trainer.net->a->weight.zero_();
    }
    handle.wait();
    Net net;
    EXPECT_EQ(keeper.load(net).step, 4);
    expect_same(*Trainer().net, *net);
  });
}

TEST(RanksWithoutAGroup, MeetThroughTheStore) {
  Place place;
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

TEST(RanksWithoutAGroup, JoinByTheSessionString) {
  Place place;
  ct::Checkpointer first(place.uri(), ct::Ranks::with_session(0, 2, ""));
  std::string session = first.session_string();
  std::thread second([&] {
    Trainer trainer;
    ct::save(place.uri(), trainer.net, {}, {}, {}, ct::Ranks::with_session(1, 2, session));
  });
  Trainer trainer;
  first.save({trainer.net, {}, {}});
  second.join();
  Net net;
  EXPECT_EQ(ct::load(place.uri(), net).world_size, 2u);
}

TEST(RanksWithoutAGroup, OneThatFailsTellsTheOthers) {
  Place place;
  ct::Settings patience{{"timeout_ms", 60000}};
  ct::Checkpointer first(place.uri(), ct::Ranks::with_session(0, 2, ""), patience);
  std::string session = first.session_string();
  std::thread second([&] {
    auto ghost = std::make_shared<torch::nn::LinearImpl>(2, 2);
    ghost->register_parameter("extra", at::empty({2}, at::device(at::kMeta)));
    ct::Checkpointer keeper(place.uri(), ct::Ranks::with_session(1, 2, session));
    expect_error([&] { keeper.save({ghost, {}, {}}); }, CKPT_INVALID, "extra");
  });
  auto linear = std::make_shared<torch::nn::LinearImpl>(2, 2);
  expect_error([&] { first.save({linear, {}, {}}); }, CKPT_MISMATCH, "only ranks 0 added its tensors");
  second.join();
}

}  // namespace
