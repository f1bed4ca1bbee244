// What a trainer on a GPU feels: how long a save stalls it against the plain copy of its state to the host, and what
// saves and loads of device memory cost against those of host memory. One size per process; prints one line of JSON.
//
//   ckpt_gpu FOLDER MIB [RUNS]     FOLDER gets a store, which is removed at the end; RUNS: of each thing, for medians
//                                  (default: 3)
//
// tools/gpu-check runs it. On the fake libcudart of tests/cuda its figures mean nothing, and it says so ("fake").
#include <algorithm>
#include <chrono>
#include <ckpt.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <vector>

#include "cuda/runtime.h"

namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kTensorBytes = 64 << 20;
int runs = 3;

void must(int error, const char* what) {
  if (error == 0) return;
  std::fprintf(stderr, "%s: CUDA error %d\n", what, error);
  std::exit(1);
}

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Says what comes next, for whoever waits, or may not wait long enough.
void begins(const char* what) {
  static const auto start = Clock::now();
  std::fprintf(stderr, "%6.1f s: %s\n", seconds_since(start), what);
}

template <typename Work>
double median(Work&& work) {
  std::vector<double> all;
  for (int i = 0; i < runs; i++) all.push_back(work());
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

// A state: tensors of 64 MiB, the last one smaller.
class State {
 public:
  explicit State(size_t bytes) {
    std::mt19937_64 random(7);
    for (size_t at = 0; at < bytes; at += kTensorBytes) {
      std::vector<uint64_t> content(std::min(kTensorBytes, bytes - at) / 8);
      for (uint64_t& word : content) word = random() >> 20;  // some bytes alike, as in weights
      content_.push_back(std::move(content));
    }
  }
  size_t count() const { return content_.size(); }
  size_t size(size_t i) const { return content_[i].size() * 8; }
  const void* host(size_t i) const { return content_[i].data(); }
  static std::string name(size_t i) { return "layers." + std::to_string(i) + ".weight"; }
  ckpt::Tensor tensor(size_t i) const { return ckpt::Tensor(CKPT_DTYPE_U8, {static_cast<int64_t>(size(i))}); }

 private:
  std::vector<std::vector<uint64_t>> content_;
};

class OnDevice {
 public:
  explicit OnDevice(const State& state) : state_(state), data_(state.count()) {
    for (size_t i = 0; i < data_.size(); i++) must(cudaMalloc(&data_[i], state.size(i)), "cudaMalloc");
  }
  ~OnDevice() {
    for (void* data : data_) (void)cudaFree(data);
  }
  void fill() {
    for (size_t i = 0; i < data_.size(); i++)
      must(cudaMemcpy(data_[i], state_.host(i), state_.size(i), cuda_test::kDefault), "cudaMemcpy");
  }
  bool is_right() const {
    std::vector<char> back(kTensorBytes);
    bool right = true;
    for (size_t i = 0; i < data_.size(); i++) {
      must(cudaMemcpy(back.data(), data_[i], state_.size(i), cuda_test::kDefault), "cudaMemcpy");
      right &= std::memcmp(back.data(), state_.host(i), state_.size(i)) == 0;
    }
    return right;
  }
  void* operator[](size_t i) const { return data_[i]; }

 private:
  const State& state_;
  std::vector<void*> data_;
};

// The best that a program could do: all of it by plain copies from or to pinned memory.
double plain_copy(const State& state, const OnDevice& device, bool to_host) {
  void* pinned = nullptr;
  size_t bytes = 0;
  for (size_t i = 0; i < state.count(); i++) bytes += state.size(i);
  must(cudaMallocHost(&pinned, bytes), "cudaMallocHost");
  std::memset(pinned, 1, bytes);
  const double taken = median([&] {
    const auto start = Clock::now();
    auto* at = static_cast<char*>(pinned);
    for (size_t i = 0; i < state.count(); at += state.size(i), i++)
      must(cudaMemcpyAsync(to_host ? at : device[i], to_host ? device[i] : at, state.size(i), cuda_test::kDefault,
                           nullptr),
           "cudaMemcpyAsync");
    must(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
    return seconds_since(start);
  });
  must(cudaFreeHost(pinned), "cudaFreeHost");
  return taken;
}

// Memory of this process in MiB: now, and at most since the last reset.
long memory_mib(const std::string& what) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(what + ":")) return std::strtol(line.c_str() + what.size() + 1, nullptr, 10) / 1024;
  return 0;
}
void reset_peak() { std::ofstream("/proc/self/clear_refs") << 5; }

struct Times {
  double stall = 0, durable = 0;
};

// Saves the state from the device, or from the host if that is null.
Times measure_save(const ckpt::Session& session, const State& state, const OnDevice* device, int step) {
  ckpt::Options options;
  options.set("keep_last", int64_t{1});
  auto save = ckpt::Save::create(session, "step-" + std::to_string(step), step, options);
  for (size_t i = 0; i < state.count(); i++) {
    const ckpt::Memory memory(device ? (*device)[i] : state.host(i), state.size(i));
    save.add_tensor(State::name(i), state.tensor(i), memory, {device ? CKPT_DEVICE_CUDA : CKPT_DEVICE_CPU, 0});
  }
  Times times;
  const auto start = Clock::now();
  ckpt::Job job = ckpt::detail::make<ckpt::Job>(ckpt_save_start, save.get());
  job.wait(CKPT_JOB_STAGED, -1);
  times.stall = seconds_since(start);
  job.wait(CKPT_JOB_COMMITTED, -1);
  times.durable = seconds_since(start);
  return times;
}

struct Saves {
  std::vector<Times> on_device, on_host;

  static double middle(std::vector<Times> all, double Times::* field) {
    std::sort(all.begin(), all.end(), [&](const Times& a, const Times& b) { return a.*field < b.*field; });
    return all[all.size() / 2].*field;
  }
};

// In turns, since disks become slower and faster; after a first one of each, which makes the staging memory.
Saves measure_saves(const ckpt::Session& session, const State& state, const OnDevice& device) {
  Saves saves;
  for (int i = 0; i < 2 * (runs + 1); i++) {
    const bool from_device = (i % 4 == 1 || i % 4 == 2);
    const Times times = measure_save(session, state, from_device ? &device : nullptr, i);
    if (i >= 2) (from_device ? saves.on_device : saves.on_host).push_back(times);
  }
  return saves;
}

double measure_load(const ckpt::Store& store, const State& state, const OnDevice* device, std::vector<char>* host) {
  return median([&] {
    auto reader = ckpt::Reader::open(store);
    auto load = ckpt::Load::create(reader);
    size_t at = 0;
    for (size_t i = 0; i < state.count(); at += state.size(i), i++)
      load.add_tensor(State::name(i), state.tensor(i),
                      ckpt::MutableMemory(device ? (*device)[i] : host->data() + at, state.size(i)),
                      {device ? CKPT_DEVICE_CUDA : CKPT_DEVICE_CPU, 0});
    const auto start = Clock::now();
    load.run();
    return seconds_since(start);
  });
}

int measure(const std::string& folder, size_t bytes) {
  begins("make the state");
  const State state(bytes);
  OnDevice device(state);
  device.fill();
  begins("plain copies to the host");
  const double d2h = plain_copy(state, device, true);
  ckpt::Options new_files;  // as the first saves of a training write
  new_files.set("recycle", "off");
  const auto store = ckpt::Store::open(folder, new_files);
  Saves saves;
  reset_peak();
  const long before = memory_mib("VmRSS");
  long peak = 0;
  {
    ckpt::Options options;
    options.set("arena_bytes", static_cast<int64_t>(bytes + (64 << 20)));
    const auto session = ckpt::Session::open(store, 0, 1, "", options);
    begins("saves from the device and from the host");
    saves = measure_saves(session, state, device);
    peak = memory_mib("VmHWM") - before;
  }
  const double stall = Saves::middle(saves.on_device, &Times::stall);
  std::fprintf(stderr, "          stall %.4f s, %.2f x the plain copy\n", stall, stall / d2h);
  OnDevice target(state);
  begins("loads to the device");
  const double to_device = measure_load(store, state, &target, nullptr);
  const bool exact = target.is_right();
  begins("plain copies to the device");
  const double h2d = plain_copy(state, target, false);
  std::vector<char> host(bytes);
  begins("loads to the host");
  const double to_host = measure_load(store, state, nullptr, &host);
  std::printf(
      "{\"mib\": %zu, \"runs\": %d, \"d2h_s\": %.4f, \"stall_s\": %.4f, \"durable_s\": %.4f, \"host_durable_s\": %.4f, "
      "\"load_s\": %.4f, \"host_load_s\": %.4f, \"h2d_s\": %.4f, \"peak_host_mib\": %ld, \"exact\": %s, \"fake\": "
      "%s}\n",
      bytes >> 20, runs, d2h, stall, Saves::middle(saves.on_device, &Times::durable),
      Saves::middle(saves.on_host, &Times::durable), to_device, to_host, h2d, peak, exact ? "true" : "false",
      cuda_test::fake() ? "true" : "false");
  return exact ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) return 2;
  if (argc == 4) runs = std::max(1, std::atoi(argv[3]));
  const std::string folder = std::string(argv[1]) + "/gpu-bench-store";
  try {
    const int status = measure(folder, std::strtoull(argv[2], nullptr, 10) << 20);
    std::filesystem::remove_all(folder);
    return status;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::filesystem::remove_all(folder);
    return 1;
  }
}
