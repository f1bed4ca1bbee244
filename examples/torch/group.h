// The ranks of a run: a c10d ProcessGroup over Gloo; they meet through a file. The same code works with LibTorch 1.13,
// where Gloo's group is a ProcessGroup, and 2.x, where it is a Backend of one. Needs Gloo's headers, which PyPI's wheel
// lacks: Debian's libgloo-dev works for both, because this file calls nothing of Gloo itself.
#pragma once

#ifndef USE_C10D_GLOO
#define USE_C10D_GLOO
#endif
#include <torch/types.h>
#include <torch/version.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <chrono>
#include <string>
#include <vector>

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

// `file`: where the ranks meet, on a file system that they share; a new one for each run. On one machine.
inline Group gloo_group(const std::string& file, int rank, int world_size,
                        std::chrono::seconds timeout = std::chrono::seconds(60)) {
  auto store = c10::make_intrusive<c10d::FileStore>(file, world_size);
  auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  options->timeout = timeout;
  auto gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, world_size, options);
#if TORCH_VERSION_MAJOR >= 2
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, world_size);
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, gloo);
  return group;
#else
  return gloo;
#endif
}

// Afterwards every rank has rank 0's values.
inline void broadcast(const Group& group, const torch::Tensor& tensor) {
  std::vector<at::Tensor> tensors{tensor};
  group->broadcast(tensors)->wait();
}

// Afterwards every rank has the sum.
inline void add_up(const Group& group, const torch::Tensor& tensor) {
  std::vector<at::Tensor> tensors{tensor};
  group->allreduce(tensors)->wait();
}
