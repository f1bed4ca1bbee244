// A c10d ProcessGroup over Gloo whose ranks find each other through a file. Gloo's group is a ProcessGroup in LibTorch
// 1.13, and a Backend of one in 2.x. The wheel lacks Gloo's headers; Debian's libgloo-dev serves both, since nothing of
// Gloo itself is called here.
#pragma once

#ifndef USE_C10D_GLOO
#define USE_C10D_GLOO
#endif
#include <torch/version.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <chrono>
#include <string>

inline c10::intrusive_ptr<c10d::ProcessGroup> gloo_group(const std::string& file, int rank, int size) {
  auto store = c10::make_intrusive<c10d::FileStore>(file, size);
  auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  options->timeout = std::chrono::seconds(120);
  auto gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
#if TORCH_VERSION_MAJOR >= 2
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, size);
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, gloo);
  return group;
#else
  return gloo;
#endif
}
