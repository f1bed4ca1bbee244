// A fingerprint of all bits of the training state, to show that the loaded state equals the saved one. A trainer does
// not need it to use ckpt.
#pragma once

#define XXH_INLINE_ALL
#include <torch/torch.h>
#include <xxhash.h>

#include <cstdio>
#include <memory>
#include <string>

class Fingerprint {
 public:
  Fingerprint() : state_(XXH3_createState(), XXH3_freeState) { XXH3_128bits_reset(state_.get()); }

  void add(const void* data, size_t size) { XXH3_128bits_update(state_.get(), data, size); }
  void add(const std::string& text) { add(text.c_str(), text.size() + 1); }
  void add(int64_t number) { add(&number, sizeof number); }
  void add(double number) { add(&number, sizeof number); }
  void add(const torch::Tensor& tensor) {
    const torch::Tensor bytes = tensor.detach().contiguous();
    add(std::string(bytes.dtype().name().data(), bytes.dtype().name().size()));
    for (int64_t extent : bytes.sizes()) add(extent);
    add(bytes.data_ptr(), bytes.nbytes());
  }
  std::string text() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
    char digits[33];
    std::snprintf(digits, sizeof digits, "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                  static_cast<unsigned long long>(hash.low64));
    return digits;
  }

 private:
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state_;
};

// nullptr if the optimizer has not stepped yet. LibTorch 1.13 and 2.x name a parameter's state differently.
inline const torch::optim::AdamWParamState* moments_of(const torch::optim::Optimizer& optimizer,
                                                       const torch::Tensor& parameter) {
#if TORCH_VERSION_MAJOR >= 2
  auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
#else
  auto found = optimizer.state().find(c10::guts::to_string(parameter.unsafeGetTensorImpl()));
#endif
  if (found == optimizer.state().end()) return nullptr;
  return static_cast<const torch::optim::AdamWParamState*>(found->second.get());
}

// Parameters, buffers, moments, counters and learning rates, by name, to the bit.
inline std::string fingerprint(const torch::nn::Module& model, const torch::optim::AdamW& optimizer) {
  Fingerprint print;
  for (const auto& item : model.named_parameters()) {
    print.add(item.key());
    print.add(item.value());
    if (const auto* moments = moments_of(optimizer, item.value())) {
      print.add(moments->step());
      print.add(moments->exp_avg());
      print.add(moments->exp_avg_sq());
    }
  }
  for (const auto& item : model.named_buffers()) {
    print.add(item.key());
    print.add(item.value());
  }
  for (const auto& group : optimizer.param_groups()) {
    print.add(static_cast<const torch::optim::AdamWOptions&>(group.options()).lr());
  }
  return print.text();
}

// The state of this process's CPU generator, which shuffling and dropout use.
inline std::string random_fingerprint() {
  Fingerprint print;
  print.add(at::globalContext().defaultGenerator(at::kCPU).get_state());
  return print.text().substr(0, 16);
}
