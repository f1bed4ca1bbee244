// Data-parallel training over a c10d ProcessGroup (Gloo), each rank a process of its own: this binary, run as
//   torch_tests --rank FOLDER RANK SIZE STORE FIRST_STEP STEPS
// loads from the store, trains, saves, and on rank 0 writes its results to FOLDER. Three ranks load what two saved, and
// one loads what those saved.
#include "c10d_test.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <thread>

#include "group.h"
#include "util.h"

namespace {

using torch::optim::Adam;
using torch::optim::AdamOptions;
using torch::optim::AdamParamState;

constexpr int64_t kBatch = 12;  // of all ranks together
constexpr int kSteps = 4;       // of one job

// Every bit of the parameters, moments and counters.
std::string fingerprint(torch::nn::LinearImpl& net, Adam& adam) {
  uint64_t hash = 14695981039346656037u;
  auto add = [&](const at::Tensor& tensor) {
    at::Tensor flat = tensor.detach().contiguous();
    for (size_t i = 0; i < flat.nbytes(); i++)
      hash = (hash ^ static_cast<const uint8_t*>(flat.data_ptr())[i]) * 1099511628211u;
  };
  for (const at::Tensor& param : net.parameters()) {
    add(param);
    for (const auto& [key, state] : adam.state()) {
      auto& own = static_cast<AdamParamState&>(*state);
      if (own.exp_avg().sizes() != param.sizes()) continue;  // the parameters differ in shape
      add(own.exp_avg());
      add(own.exp_avg_sq());
      add(at::full({}, own.step(), at::kLong));
    }
  }
  return std::to_string(hash);
}

// One step on this rank's share of a batch that only depends on `step`; the mean loss of all.
double train_together(c10d::ProcessGroup& group, torch::nn::LinearImpl& net, Adam& adam, int step) {
  auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(step + 1));
  at::Tensor x = at::randn({kBatch, 7}, generator), y = at::randn({kBatch, 3}, generator);
  int64_t share = kBatch / group.getSize(), first = share * group.getRank();
  adam.zero_grad();
  at::Tensor loss = (net.forward(x.narrow(0, first, share)) - y.narrow(0, first, share)).pow(2).sum() / (kBatch * 3);
  loss.backward();
  auto add_up = [&](const at::Tensor& tensor) {
    std::vector<at::Tensor> tensors{tensor};
    group.allreduce(tensors)->wait();
  };
  for (const at::Tensor& param : net.parameters()) add_up(param.grad());
  at::Tensor total = loss.detach().clone();
  add_up(total);
  adam.step();
  return total.item<double>();
}

struct Result {
  std::string loaded, saved;   // fingerprints
  std::vector<double> losses;  // to the bit: hexadecimal in the file
};

}  // namespace

int run_rank(int argc, char** argv) {
  if (argc != 8) return 2;
  std::string folder = argv[2], store = argv[5];
  int rank = std::atoi(argv[3]), size = std::atoi(argv[4]), first = std::atoi(argv[6]), steps = std::atoi(argv[7]);
  try {
    auto group = gloo_group(folder + "/meet", rank, size, std::chrono::seconds(120));
    torch::manual_seed(static_cast<uint64_t>(first == 0 ? 1 : 100 + rank));  // a resumed job starts from other values
    torch::nn::LinearImpl net(7, 3);
    Adam adam(net.parameters(), AdamOptions(0.05));
    ct::Settings settings{{"large_tensor_bytes", 4096}, {"chunk_bytes", 4096}};
    ct::Session keeper(store, ct::Ranks::of(group), settings);
    std::ofstream out(folder + "/result." + std::to_string(rank));
    if (first > 0 && keeper.load(net, adam).others.at("next").toInt() != first) return 3;
    out << fingerprint(net, adam) << "\n";
    for (int step = first; step < first + steps; step++)
      out << std::hexfloat << train_together(*group, net, adam, step) << "\n";
    out << fingerprint(net, adam) << "\n";
    ct::SaveOptions options;
    options.step = first + steps;
    keeper.save({net, adam, {{"next", first + steps}}}, options);
    return out.flush() ? 0 : 4;
  } catch (const std::exception& error) {
    std::cerr << "rank " << rank << ": " << error.what() << "\n";
    return 1;
  }
}

namespace {

Result read_result(const std::string& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  Result result;
  if (lines.size() < 2) return result;
  result.loaded = lines.front();
  result.saved = lines.back();
  for (size_t i = 1; i + 1 < lines.size(); i++) result.losses.push_back(std::strtod(lines[i].c_str(), nullptr));
  return result;
}

// The ranks must agree on all of it.
Result run_job(const std::string& folder, int size, const std::string& store, int first, int steps) {
  run_processes("--rank", folder, size, {store, std::to_string(first), std::to_string(steps)});
  Result result = read_result(folder + "/result.0");
  EXPECT_EQ(result.losses.size(), static_cast<size_t>(steps));
  for (int rank = 1; rank < size; rank++) {
    Result other = read_result(folder + "/result." + std::to_string(rank));
    EXPECT_EQ(other.loaded, result.loaded) << "rank " << rank;
    EXPECT_EQ(other.saved, result.saved) << "rank " << rank;
  }
  return result;
}

TEST(ProcessGroup, ResumedOnTheSameRanksTheLossesAreTheSameToTheBit) {
  StorePlace place(true);
  Result whole = run_job(place.uri() + "/whole", 2, place.uri() + "/a", 0, 2 * kSteps);
  Result first = run_job(place.uri() + "/first", 2, place.uri() + "/b", 0, kSteps);
  Result second = run_job(place.uri() + "/second", 2, place.uri() + "/b", kSteps, kSteps);
  EXPECT_EQ(second.loaded, first.saved);
  std::vector<double> losses = first.losses;
  losses.insert(losses.end(), second.losses.begin(), second.losses.end());
  EXPECT_EQ(losses, whole.losses);
  EXPECT_EQ(second.saved, whole.saved);
}

TEST(ProcessGroup, ARankThatMakesNoCallIsNamedOnStderrAfter10SecondsAndByTheTimeout) {
  StorePlace place(true);
  std::vector<std::thread> ranks;
  std::vector<std::string> missing(3);
  testing::internal::CaptureStderr();
  for (int rank = 0; rank < 3; rank++)
    ranks.emplace_back([&, rank] {
      auto group = gloo_group(place.uri() + "/meet", rank, 3, std::chrono::seconds(13));
      if (rank == 1) return std::this_thread::sleep_for(std::chrono::seconds(12));  // it saves nothing
      try {
        ct::Session(place.uri() + "/store", ct::Ranks::of(group), {{"timeout_ms", 11000}}).save({});
      } catch (const ct::Error& error) {
        missing[static_cast<size_t>(rank)] = error.status() == CKPT_TIMEOUT ? error.detail("ranks") : error.what();
      }
    });
  for (auto& rank : ranks) rank.join();
  const std::string told = testing::internal::GetCapturedStderr();
  const bool can_tell = TORCH_VERSION_MAJOR >= 2;  // 1.13 does not give a group's store
  const std::string one = can_tell ? "1" : "", who = can_tell ? "rank 1" : "other ranks";
  EXPECT_EQ(missing, (std::vector<std::string>{one, "", one}));
  EXPECT_NE(told.find("rank 0 of 3 has waited 10 s for " + who + ";"), std::string::npos) << told;
}

TEST(ProcessGroup, OnOtherNumbersOfRanksTheStateIsTheSameToTheBitAndLossesAgree) {
  StorePlace place(true);
  Result whole = run_job(place.uri() + "/whole", 2, place.uri() + "/a", 0, 3 * kSteps);
  Result two = run_job(place.uri() + "/two", 2, place.uri() + "/b", 0, kSteps);
  Result three = run_job(place.uri() + "/three", 3, place.uri() + "/b", kSteps, kSteps);
  Result one = run_job(place.uri() + "/one", 1, place.uri() + "/b", 2 * kSteps, kSteps);
  EXPECT_EQ(three.loaded, two.saved);
  EXPECT_EQ(one.loaded, three.saved);
  std::vector<double> losses = two.losses;
  for (const Result* next : {&three, &one}) losses.insert(losses.end(), next->losses.begin(), next->losses.end());
  ASSERT_EQ(losses.size(), whole.losses.size());
  for (size_t i = 0; i < losses.size(); i++)
    EXPECT_NEAR(losses[i], whole.losses[i], 1e-5 * std::abs(whole.losses[i])) << "step " << i;
}

}  // namespace
