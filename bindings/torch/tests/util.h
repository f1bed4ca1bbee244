// What the adapter's tests share: stores to save into, small models, and comparisons to the bit.
#pragma once

#include <ckpt_torch.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim.h>
#include <torch/types.h>
#include <torch/version.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace ct = ckpt_torch;

// A store in memory, or a directory that is removed at the end.
class StorePlace {
 public:
  explicit StorePlace(bool directory = false);
  ~StorePlace();
  StorePlace(const StorePlace&) = delete;
  const std::string& uri() const { return uri_; }

 private:
  std::string uri_;
  bool directory_;
  ct::Session alive_;  // keeps a store in memory alive
};

// Two linear layers with a normalisation between them: parameters, buffers and a counter.
struct NetImpl : torch::nn::Module {
  explicit NetImpl(int64_t hidden = 8);
  at::Tensor forward(const at::Tensor& x);
  torch::nn::Linear a{nullptr}, b{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};
TORCH_MODULE(Net);

// A net whose values depend on `seed` alone, not on what other threads draw.
Net seeded_net(uint64_t seed);

// Takes one step on data that depends on `step` alone; returns the loss.
double train(Net& net, torch::optim::Optimizer& optimizer, int step);

// Whether dtype, shape and bits are equal; NaNs too.
bool same_bits(const at::Tensor& a, const at::Tensor& b);
// Compares all parameters and buffers.
void expect_same(const torch::nn::Module& a, const torch::nn::Module& b);

// Runs `call`, which must throw an Error with this status whose text holds `text`.
ct::Error expect_error(const std::function<void()>& call, ckpt_status status, const std::string& text);

// Runs this binary once for each rank, as `torch_tests MODE FOLDER RANK SIZE WORDS…`, and expects that each ends with
// 0.
void run_processes(const std::string& mode, const std::string& folder, int size, const std::vector<std::string>& words);

// A group whose ranks are threads.
class ThreadGroup {
 public:
  explicit ThreadGroup(uint32_t size) : size_(size), words_(size) {}
  // Runs `body` on a thread for each rank.
  void run(const std::function<void(ct::Ranks ranks)>& body);
  std::vector<std::string> gather(uint32_t rank, const std::string& word);

 private:
  uint32_t size_, arrived_ = 0, round_ = 0;
  std::vector<std::string> words_, gathered_;
  std::mutex mutex_;
  std::condition_variable changed_;
};
