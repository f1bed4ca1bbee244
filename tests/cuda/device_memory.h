// Memory of devices for the tests, and saves and loads of it. Uses only ckpt.h and the CUDA Runtime.
#pragma once

#include "api/ranks.h"
#include "cuda/runtime.h"

namespace cuda_test {

using ckpt_test::Bytes;

inline void must(int error) { ASSERT_EQ(error, 0) << "the CUDA Runtime says error " << error; }

class DeviceMemory {
 public:
  explicit DeviceMemory(const Bytes& content, int device = 0, bool managed = false) : bytes_(content.size()) {
    int current = 0;
    must(cudaGetDevice(&current));
    must(cudaSetDevice(device));
    must(managed ? cudaMallocManaged(&data_, bytes_ + 1, kAttachGlobal) : cudaMalloc(&data_, bytes_ + 1));
    must(cudaSetDevice(current));
    put(content);
  }
  DeviceMemory(DeviceMemory&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  ~DeviceMemory() { (void)cudaFree(data_); }
  void put(const Bytes& content) { must(cudaMemcpy(data_, content.data(), content.size(), kDefault)); }
  Bytes get() const {
    Bytes content(bytes_);
    must(cudaMemcpy(content.data(), data_, bytes_, kDefault));
    return content;
  }
  void* data() const { return data_; }
  uint64_t size() const { return bytes_; }

 private:
  void* data_ = nullptr;
  uint64_t bytes_;
};

class CallerStream {
 public:
  explicit CallerStream(unsigned flags = 1) { must(cudaStreamCreateWithFlags(&stream, flags)); }
  ~CallerStream() { (void)cudaStreamDestroy(stream); }
  int64_t number() const { return static_cast<int64_t>(reinterpret_cast<intptr_t>(stream)); }
  Stream stream = nullptr;
};

inline Counts counts() {
  Counts found;
  fake()->counts(&found);
  return found;
}

constexpr int64_t kMiB = 1 << 20;

// Late copies, so that nothing is right by luck.
class Devices : public ::testing::Test {
 protected:
  Devices() {
    if (fake()) fake()->delay_us(0, 300);
  }
  ~Devices() override {
    if (!fake()) return;
    fake()->fail_call(0, 0);
    fake()->fail_copy(0, 0);
    fake()->delay_us(0, 0);
    fake()->await_peak(0);
  }
  static int device_count() {
    int count = 0;
    must(cudaGetDeviceCount(&count));
    return count;
  }

  ckpt_test::StorePlace place{"dir"};
};

inline ckpt_tensor_desc with_strides(ckpt_tensor_desc desc, std::initializer_list<int64_t> strides) {
  desc.flags |= CKPT_TENSOR_STRIDED;
  std::copy(strides.begin(), strides.end(), desc.strides);
  return desc;
}

// Adds memory of device `id`.
inline void add(ckpt_save* save, const std::string& name, const ckpt_tensor_desc& desc, const DeviceMemory& memory,
                int id = 0) {
  ckpt_test::Error error;
  EXPECT_EQ(ckpt_save_add_tensor(save, name.c_str(), &desc, memory.data(), memory.size(), CKPT_DEVICE_CUDA, id, error),
            CKPT_OK)
      << error.text();
}

inline void ask(const ckpt_test::Load& load, const std::string& name, const ckpt_tensor_desc& desc,
                const DeviceMemory& memory, int id = 0) {
  ckpt_test::Error error;
  EXPECT_EQ(
      ckpt_load_add_tensor(load.get(), name.c_str(), &desc, memory.data(), memory.size(), CKPT_DEVICE_CUDA, id, error),
      CKPT_OK)
      << error.text();
}

inline void run(ckpt_save* save) {
  ckpt_test::Error error;
  EXPECT_EQ(ckpt_save_run(save, error), CKPT_OK) << error.text();
}

// Tests that inject errors, or count, need the fake.
#define NEEDS_THE_FAKE() \
  if (!::cuda_test::fake()) GTEST_SKIP() << "NVIDIA's library cannot be made to fail"

}  // namespace cuda_test
