// A small training that goes on where the last one stopped, in this language or in Python (goes_on.py, which has the
// same training and compares): trains to STEPS, prints the parameters, what the checkpoint knows, and what is kept.
//
//   goes_on STORE STEPS
#include <ckpt_torch.h>
#include <ckpt_torch/checkpointer.h>
#include <torch/torch.h>

#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  torch::set_num_threads(1);
  torch::nn::Linear model(4, 3);
  {
    torch::NoGradGuard guard;
    for (auto& parameter : model->parameters()) parameter.fill_(0.5);
  }
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.1));
  ckpt_torch::CheckpointerOptions options;
  options.every = 1;
  options.keep_last = 2;
  options.keep_best = ckpt_torch::KeepBest{"loss", "max", 1};  // the first step's
  int64_t samples = 0;
  auto state = [&] { return ckpt_torch::State{model, optimizer, {{"samples", samples}}}; };
  ckpt_torch::Checkpointer keeper(argv[1], options);
  auto restored = state();
  const auto start = keeper.restore(restored);
  samples = restored.others.at("samples").toInt();
  const auto x = torch::arange(20).reshape({5, 4}) / 20.0;
  for (int64_t n = start ? start->step + 1 : 1; n <= std::stoll(argv[2]); n++) {
    optimizer.zero_grad();
    const auto loss = (model->forward(x) - 1).pow(2).sum();
    loss.backward();
    optimizer.step();
    samples += 5;
    keeper.step(n, state(), {{"loss", loss.item<double>()}}, {{"epoch", static_cast<double>(n / 2)}});
  }
  keeper.close();
  for (const auto& parameter : model->parameters()) {
    const auto flat = parameter.detach().reshape({-1});
    for (int64_t i = 0; i < flat.numel(); i++) std::printf("%.9g ", flat[i].item<double>());
  }
  std::printf("\nsamples %ld, went on from %ld with epoch %.0f\n", static_cast<long>(samples),
              start ? static_cast<long>(start->step) : 0L, start ? start->counters.at("epoch") : -1);
  for (const auto& info : ckpt::Store::open(argv[1]).list()) std::printf("%s\n", info.label);
}
