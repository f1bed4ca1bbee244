// Checkpointer on several ranks: what one decides, all do. Ranks are threads, or processes over Gloo: this binary, as
//   torch_tests --trainer FOLDER RANK SIZE STORE MODE
// which trains from what it restores, and writes what became of it to FOLDER.
#include <csignal>
#include <fstream>
#include <iostream>

#include "c10d_test.h"
#include "group.h"
#include "util.h"

namespace {

using torch::optim::AdamW;
using torch::optim::AdamWOptions;

ct::CheckpointerOptions trainer_options(const std::string& mode, int rank, std::string& told) {
  ct::CheckpointerOptions options;
  options.every = {5,
                   [mode, rank](const ct::Moment& now) { return mode == "predicate" && rank == 1 && now.step == 7; }};
  options.keep_last = 2;
  options.keep_best = {"loss", "min", 1};
  options.on_commit = [&told](const ckpt::CheckpointInfo& info) { told += std::string(info.label) + ","; };
  return options;
}

std::string bits_of(torch::nn::Module& module) {
  std::ostringstream text;
  text << std::hexfloat;
  for (const at::Tensor& parameter : module.parameters())
    for (int64_t i = 0; i < parameter.numel(); i++) text << parameter.flatten()[i].item<float>() << ",";
  return text.str();
}

}  // namespace

int run_trainer(int argc, char** argv) {
  if (argc != 7) return 2;
  const std::string folder = argv[2], store = argv[5], mode = argv[6];
  const int rank = std::atoi(argv[3]), size = std::atoi(argv[4]);
  try {
    auto group = gloo_group(folder + "/meet", rank, size, std::chrono::seconds(120));
    torch::manual_seed(1);
    torch::nn::Linear net(4, 3);
    AdamW adam(net->parameters(), AdamWOptions(0.1));
    torch::manual_seed(100 + rank);  // each rank draws its own numbers
    double drawn = 0;
    std::string told = ":";
    int64_t start = 0, n = 0;
    ct::State state{net, adam, {{"step", 0}}, {{"drawn", 0.0}}};
    ct::Checkpointer keeper(store, trainer_options(mode, rank, told), ct::Ranks::of(group));
    ct::RestoreOptions options;
    options.or_rank0 = true;  // another number of ranks goes on
    if (const auto restored = keeper.restore(state, "latest", options)) {
      start = restored->step;
      drawn = state.per_rank.at("drawn").toDouble();
      if (state.others.at("step").toInt() != start) return 3;
    }
    for (n = start + 1; n <= 20; n++) {
      adam.zero_grad();
      net(at::arange(4, at::kFloat) + n).square().sum().backward();
      keeper.updating();
      adam.step();
      drawn += at::randn({1}).item<double>();
      state.others.set("step", n);
      state.per_rank.set("drawn", drawn);
      if (mode == "signal" && n == 8 && rank == 1) std::raise(SIGTERM);
      keeper.step(n, state, {{"loss", std::abs(n - 10) + rank}});
      if (keeper.stopping()) break;
    }
    keeper.close();
    std::ofstream out(folder + "/result." + std::to_string(rank));
    out << start << " " << std::min<int64_t>(n, 20) << " " << keeper.stopping().value_or("-") << " " << told << " "
        << bits_of(*net) << " " << std::hexfloat << drawn << "\n";
    return out.flush() ? 0 : 4;
  } catch (const std::exception& error) {
    std::cerr << "rank " << rank << ": " << error.what() << "\n";
    return 1;
  }
}

namespace {

// From which step, to which, why it stopped, commits, parameters, and what the rank drew.
using Words = std::vector<std::string>;
std::vector<Words> train_ranks(const StorePlace& place, const std::string& store, const std::string& mode,
                               int size = 2) {
  static int next = 0;
  const std::string folder = place.uri() + "/job-" + std::to_string(next++);
  run_processes("--trainer", folder, size, {place.uri() + "/" + store, mode});
  std::vector<Words> all;
  for (int rank = 0; rank < size; rank++) {
    std::ifstream in(folder + "/result." + std::to_string(rank));
    all.emplace_back();
    for (std::string word; in >> word;) all.back().push_back(word);
    EXPECT_EQ(all.back().size(), 6u);
    all.back().resize(6);
  }
  return all;
}

TEST(CheckpointerRanks, StopOnASignalOfOneAndGoOnBitForBit) {
  StorePlace place(true);
  const auto whole = train_ranks(place, "whole", "plain");
  const auto stopped = train_ranks(place, "stopped", "signal");
  for (const Words& one : stopped) EXPECT_EQ(Words(one.begin(), one.begin() + 3), (Words{"0", "8", "SIGTERM"}));
  EXPECT_EQ(stopped[0][3], ":step-5,step-8,");
  const auto on = train_ranks(place, "stopped", "plain", 3);
  for (const Words& one : on) {
    EXPECT_EQ(Words(one.begin(), one.begin() + 3), (Words{"8", "20", "-"}));
    EXPECT_EQ(one[4], whole[0][4]);
  }
  for (size_t rank = 0; rank < 2; rank++) EXPECT_EQ(on[rank][5], whole[rank][5]) << rank;
  EXPECT_EQ(whole[0][3], ":step-5,step-10,step-15,step-20,");
  EXPECT_EQ(whole[1][3], ":");  // told on rank 0 only
  auto store = ckpt::Store::open(place.uri() + "/whole");
  std::string kept;
  for (const auto& info : store.list()) kept += std::string(info.label) + ",";
  EXPECT_EQ(kept, "step-10,step-15,step-20,");  // the best by the metrics of rank 0
}

TEST(CheckpointerRanks, SaveOnAPredicateOfOne) {
  StorePlace place(true);
  EXPECT_EQ(train_ranks(place, "s", "predicate")[0][3], ":step-5,step-7,step-10,step-15,step-20,");
  for (const auto& info : ckpt::Store::open(place.uri() + "/s").list()) EXPECT_EQ(info.world_size, 2u);
}

// Rank 1's copy of the newest is damaged.
TEST(CheckpointerRanks, RestoreTheOneBeforeWhereOneMeetsDamage) {
  StorePlace place(true), copy(true);
  auto options = [] {
    ct::CheckpointerOptions given;
    given.signals.emplace();
    return given;
  }();
  auto filled = [](int64_t value) {
    auto module = std::make_shared<torch::nn::LinearImpl>(300, 300);
    at::NoGradGuard no_grad;
    for (auto& p : module->parameters()) p.fill_(value);
    return module;
  };
  {
    ct::Checkpointer keeper(place.uri(), options);
    for (int64_t n : {1, 2}) keeper.save(n, {filled(n), {}, {}});
  }
  std::filesystem::copy(place.uri(), copy.uri(), std::filesystem::copy_options::recursive);
  for (const auto& entry : std::filesystem::directory_iterator(copy.uri()))
    if (entry.path().filename().string().rfind("step-2.", 0) == 0) {
      std::fstream file(entry.path() / "PART_000", std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(8192);
      file.write("damaged!", 8);
    }
  ThreadGroup two(2);
  two.run([&](ct::Ranks ranks) {
    ct::State state{filled(0), {}, {}};
    ct::Checkpointer keeper(ranks.rank == 1 ? copy.uri() : place.uri(), options, ranks);
    EXPECT_EQ(keeper.restore(state)->step, 1);
    EXPECT_EQ(state.models.modules()[0]->parameters()[0].min().item<float>(), 1);
  });
}

TEST(CheckpointerRanks, EachHaveTheirOwnOfWhatIsPerRankAndNewOnesRank0s) {
  StorePlace place;
  ThreadGroup three(3), four(4);
  auto state_of = [](int64_t value) {
    return ct::State{{}, {}, {{"epoch", value}}, {{"place", value}, {"drawn", at::full({3}, value)}}};
  };
  three.run([&](ct::Ranks ranks) {
    auto options = ct::CheckpointerOptions();
    options.signals.emplace();
    ct::Checkpointer keeper(place.uri(), options, ranks);
    keeper.save(1, state_of(10 + ranks.rank));
    keeper.close();
  });
  four.run([&](ct::Ranks ranks) {
    auto state = state_of(0);
    auto options = ct::CheckpointerOptions();
    options.signals.emplace();
    ct::Checkpointer keeper(place.uri(), options, ranks);
    expect_error([&] { keeper.restore(state); }, CKPT_MISMATCH, "the values of 3 ranks, each its own");
    ct::RestoreOptions any;
    any.or_rank0 = true;
    ASSERT_TRUE(keeper.restore(state, "latest", any));
    const int64_t own = ranks.rank == 3 ? 10 : 10 + ranks.rank;
    EXPECT_EQ(state.others.at("epoch").toInt(), 10);
    EXPECT_EQ(state.per_rank.at("place").toInt(), own);
    EXPECT_TRUE(state.per_rank.at("drawn").toTensor().eq(own).all().item<bool>());
  });
  expect_error([&] { ct::Session(place.uri()).save({{}, {}, {{"a", 1}}, {{"a", 2}}}); }, CKPT_INVALID,
               "'a' is in others and in per_rank");
}

TEST(CheckpointerRanks, ThatCannotAgreeMeetInTheStoreAndSaveBySteps) {
  StorePlace place(true);
  const auto ranks = ct::Ranks::by_rendezvous(0, 2);
  auto refused = [&](auto&& change) {
    ct::CheckpointerOptions options;
    change(options);
    expect_error([&] { ct::Checkpointer(place.uri(), options, ranks); }, CKPT_INVALID, "agree");
  };
  refused([](auto& options) { options.every = "1 h"; });
  refused([](auto& options) { options.every = [](const ct::Moment&) { return true; }; });
  refused([](auto& options) { options.signals = {SIGTERM}; });
  refused([](auto& options) { options.time_limit = std::chrono::seconds(60); });
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < 2; rank++)
    threads.emplace_back([&, rank] {
      ct::CheckpointerOptions options;
      options.every = 2;
      ct::Checkpointer keeper(place.uri(), options, ct::Ranks::by_rendezvous(rank, 2));
      for (int64_t n = 1; n < 5; n++) keeper.step(n, {seeded_net(1), {}, {{"step", n}}});
      keeper.close();
    });
  for (auto& thread : threads) thread.join();
  Net net;
  EXPECT_EQ(ct::load(place.uri(), net).world_size, 2u);
  EXPECT_EQ(ckpt::Store::open(place.uri()).list().size(), 2u);
}

TEST(CheckpointerRanks, TellEachOtherWhatASaveWouldRefuse) {
  StorePlace place;
  ThreadGroup two(2);
  two.run([&](ct::Ranks ranks) {
    auto options = ct::CheckpointerOptions();
    options.signals.emplace();
    auto module = std::make_shared<torch::nn::LinearImpl>(2, 2);
    if (ranks.rank == 1) module->register_parameter("extra", at::empty({2}, at::device(at::kMeta)));
    const ct::Check found =
        ct::Checkpointer(place.uri(), options, ranks).check({module, {}, {}, {{"place", at::zeros({5})}}});
    EXPECT_EQ(found.bytes_by_rank, (std::vector<uint64_t>{44, 44}));
    EXPECT_EQ(found.bytes, 64u);
    ASSERT_EQ(found.refused.size(), 1u) << found.text();
    EXPECT_EQ(found.refused[0].rfind("rank 1: ", 0), 0u) << found.refused[0];
  });
}

}  // namespace
