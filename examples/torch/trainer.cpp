// A LibTorch trainer that can be killed at any moment and resumes from its last checkpoint: handwritten digits, a small
// convolutional net, AdamW, data-parallel ranks over Gloo. Trainer::save and Trainer::resume use ckpt.
//
//   trainer --data DIGITS --store STORE --losses FILE
//           [--rank R --world W --rendezvous FILE]   ranks of a run; FILE is new for each run
//           [--steps N] [--save-every N] [--norm batch|group] [--seed N]
//           [--die-at-step N]                        kills itself with SIGKILL there, during that step's save
//
// With --norm batch (and dropout), as is usual, each rank normalises over its own share of the batch and draws its own
// dropout, so another number of ranks computes other losses. With --norm group and no dropout the gradient is a plain
// mean over the images of the batch, so any number of ranks computes the same, except for the order of floating-point
// additions. Every rank's share of the batch has the same size.
#include <ckpt_torch.h>
#include <torch/torch.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "digits.h"
#include "fingerprint.h"
#include "group.h"

namespace {

constexpr int64_t kHeldOut = 297;  // the last images, by writers that are not in the training data
constexpr int64_t kBatch = 60;
constexpr double kLearningRate = 3e-3;

// "--name value" pairs of the command line.
class Arguments {
 public:
  Arguments(int argc, char** argv) {
    for (int i = 1; i + 1 < argc; i += 2) values_[std::string(argv[i]).substr(2)] = argv[i + 1];
  }
  std::string text(const std::string& name, const std::string& fallback) const {
    auto found = values_.find(name);
    return found == values_.end() ? fallback : found->second;
  }
  std::string text(const std::string& name) const {
    if (values_.count(name) == 0) throw std::runtime_error("--" + name + " is missing");
    return values_.at(name);
  }
  int64_t number(const std::string& name, int64_t fallback) const {
    return std::stoll(text(name, std::to_string(fallback)));
  }

 private:
  std::map<std::string, std::string> values_;
};

torch::nn::Sequential make_model(const std::string& norm, int64_t seed) {
  using namespace torch::nn;
  torch::manual_seed(static_cast<uint64_t>(seed));
  const bool batch = norm == "batch";
  if (!batch && norm != "group") throw std::runtime_error("--norm " + norm + ": expected batch or group");
  Sequential model;
  model->push_back("conv1", Conv2d(Conv2dOptions(1, 16, 3).padding(1)));
  batch ? model->push_back("norm1", BatchNorm2d(16)) : model->push_back("norm1", GroupNorm(4, 16));
  model->push_back("relu1", ReLU());
  model->push_back("conv2", Conv2d(Conv2dOptions(16, 32, 3).stride(2).padding(1)));
  batch ? model->push_back("norm2", BatchNorm2d(32)) : model->push_back("norm2", GroupNorm(4, 32));
  model->push_back("relu2", ReLU());
  model->push_back("flatten", Flatten());
  model->push_back("dropout", Dropout(batch ? 0.25 : 0.0));
  model->push_back("head", Linear(32 * 4 * 4, 10));
  return model;
}

class Trainer {
 public:
  explicit Trainer(const Arguments& arguments);
  ~Trainer();
  void run();

 private:
  void resume();
  void begin_epoch();
  double step();
  double average(const torch::Tensor& loss);
  void save();
  void report_accuracy();
  void report(const char* what);

  const Arguments& arguments_;
  const int rank_, world_;
  const int64_t save_every_;
  Digits training_, held_out_;
  torch::nn::Sequential model_;
  torch::optim::AdamW optimizer_;
  Group group_;
  ckpt_torch::Session checkpointer_;
  std::optional<ckpt_torch::SaveHandle> saving_;
  std::FILE* losses_;

  // The progress of the run; saved with model and optimizer.
  int64_t step_ = 0, epoch_ = -1, position_ = 0;
  torch::Tensor order_ = torch::empty({0}, torch::kInt64);  // of the images in this epoch
};

Group make_group(const Arguments& arguments, int rank, int world) {
  return world == 1 ? Group() : gloo_group(arguments.text("rendezvous"), rank, world);
}

ckpt_torch::Ranks ranks_of(const Group& group) {
  return group ? ckpt_torch::Ranks::of(group) : ckpt_torch::Ranks::single();
}

Trainer::Trainer(const Arguments& arguments)
    : arguments_(arguments),
      rank_(static_cast<int>(arguments.number("rank", 0))),
      world_(static_cast<int>(arguments.number("world", 1))),
      save_every_(arguments.number("save-every", 10)),
      model_(make_model(arguments.text("norm", "batch"), arguments.number("seed", 1))),
      optimizer_(model_->parameters(), torch::optim::AdamWOptions(kLearningRate)),
      group_(make_group(arguments, rank_, world_)),
      checkpointer_(arguments.text("store"), ranks_of(group_), {{"timeout_ms", 30000}, {"keep_last", 4}}),
      losses_(std::fopen(arguments.text("losses").c_str(), "w")) {
  if (losses_ == nullptr) throw std::runtime_error(arguments.text("losses") + ": cannot be written");
  if (kBatch % world_ != 0) throw std::runtime_error("--world must divide the batch of " + std::to_string(kBatch));
  const Digits all = read_digits(arguments.text("data"));
  training_ = all.slice(0, all.count() - kHeldOut);
  held_out_ = all.slice(all.count() - kHeldOut, all.count());
  torch::manual_seed(static_cast<uint64_t>(arguments.number("seed", 1) + 1000 * rank_));  // each rank's own dropout
  if (group_) {
    for (const torch::Tensor& parameter : model_->parameters()) broadcast(group_, parameter.detach());
  }
}

Trainer::~Trainer() {
  if (saving_) saving_->cancel();  // after an error; a save that run() has waited for is not affected
  std::fclose(losses_);
}

// A store that cannot be read is an error; it must not restart the run from step 0.
void Trainer::resume() {
  const std::optional<ckpt_torch::Loaded> loaded = checkpointer_.load_if_any(model_, optimizer_);
  if (!loaded) return;
  step_ = loaded->others.at("step").toInt();
  epoch_ = loaded->others.at("epoch").toInt();
  position_ = loaded->others.at("position").toInt();
  order_ = loaded->others.at("order").toTensor();
  report("loaded");
}

void Trainer::save() {
  if (saving_) saving_->wait();  // the last save
  // Rank 0's buffers are saved, because DistributedDataParallel keeps those.
  if (group_) {
    for (const torch::Tensor& buffer : model_->buffers()) broadcast(group_, buffer);
  }
  report("saved");
  ckpt_torch::SaveOptions options;
  options.step = step_;
  saving_ = checkpointer_.save_async(
      {model_, optimizer_, {{"step", step_}, {"epoch", epoch_}, {"position", position_}, {"order", order_}}}, options);
}

// Prints one line; the demo and the test compare these lines.
void Trainer::report(const char* what) {
  std::printf("rank %d of %d: %s step %lld, state %s, random %s\n", rank_, world_, what, static_cast<long long>(step_),
              fingerprint(*model_, optimizer_).c_str(), random_fingerprint().c_str());
  std::fflush(stdout);
}

// Rank 0 shuffles the images for all ranks. The learning rate halves every second epoch.
void Trainer::begin_epoch() {
  ++epoch_;
  position_ = 0;
  order_ =
      rank_ == 0 ? torch::randperm(training_.count(), torch::kInt64) : torch::empty({training_.count()}, torch::kInt64);
  if (group_) broadcast(group_, order_);
  const double rate = kLearningRate * std::pow(0.5, static_cast<double>(epoch_ / 2));
  for (auto& parameters : optimizer_.param_groups()) {
    static_cast<torch::optim::AdamWOptions&>(parameters.options()).lr(rate);
  }
}

double Trainer::step() {
  const int64_t share = kBatch / world_, begin = position_ + rank_ * share;
  const Digits mine = training_.pick(order_.slice(0, begin, begin + share));
  optimizer_.zero_grad();
  const torch::Tensor loss = torch::nn::functional::cross_entropy(model_->forward(mine.images), mine.labels);
  loss.backward();
  const double mean = average(loss.detach());
  optimizer_.step();
  position_ += kBatch;
  ++step_;
  return mean;
}

// Averages gradients and loss over all ranks, in one message.
double Trainer::average(const torch::Tensor& loss) {
  if (!group_) return loss.item<float>();
  std::vector<torch::Tensor> pieces;
  for (const torch::Tensor& parameter : model_->parameters()) pieces.push_back(parameter.grad().flatten());
  pieces.push_back(loss.reshape({1}));
  const torch::Tensor all = torch::cat(pieces);
  add_up(group_, all);
  all.div_(world_);
  int64_t at = 0;
  for (const torch::Tensor& parameter : model_->parameters()) {
    parameter.grad().copy_(all.slice(0, at, at + parameter.numel()).view_as(parameter));
    at += parameter.numel();
  }
  return all[at].item<float>();
}

void Trainer::report_accuracy() {
  torch::NoGradGuard no_gradients;
  model_->eval();
  const torch::Tensor predicted = model_->forward(held_out_.images).argmax(1);
  const auto right = predicted.eq(held_out_.labels).sum().item<int64_t>();
  std::printf("accuracy: %lld of %lld held-out digits, after step %lld\n", static_cast<long long>(right),
              static_cast<long long>(held_out_.count()), static_cast<long long>(step_));
}

void Trainer::run() {
  const int64_t steps = arguments_.number("steps", 150), die_at = arguments_.number("die-at-step", 0);
  model_->train();
  resume();
  while (step_ < steps) {
    if (epoch_ < 0 || position_ + kBatch > training_.count()) begin_epoch();
    const double loss = step();
    std::fprintf(losses_, "%lld %a %.6f\n", static_cast<long long>(step_), loss, loss);
    std::fflush(losses_);
    if (step_ % save_every_ == 0 || step_ == steps) save();
    if (step_ == die_at) std::raise(SIGKILL);
  }
  if (saving_) saving_->wait();
  if (rank_ == 0) report_accuracy();
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // as Python does: then a dead rank is an error from Gloo
  at::set_num_threads(1);         // ranks share the machine; also keeps the order of additions
  try {
    const Arguments arguments(argc, argv);
    Trainer(arguments).run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "trainer: %s\n", error.what());
    return 1;
  }
}
