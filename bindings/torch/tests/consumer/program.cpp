// consumer STORE: saves a layer and loads it into another one.
#include <ckpt_torch.h>
#include <torch/nn/modules/linear.h>

#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  torch::nn::Linear saved(4, 3), loaded(4, 3);
  try {
    std::string id = ckpt_torch::save(argv[1], saved);
    if (ckpt_torch::load(argv[1], loaded).id != id) return 3;
  } catch (const ckpt_torch::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return at::equal(saved->weight, loaded->weight) && at::equal(saved->bias, loaded->bias) ? 0 : 4;
}
