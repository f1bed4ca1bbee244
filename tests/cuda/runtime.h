// What the tests call of the CUDA Runtime: NVIDIA's, or the fake of fake_cudart.cpp, which bears its name. No header of
// CUDA is needed.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>

namespace ckpt::device::cuda {
struct StreamRecord;
}
namespace cuda_test {
using Stream = ckpt::device::cuda::StreamRecord*;  // cudaStream_t
}

extern "C" {
int cudaGetDeviceCount(int* count);
int cudaGetDevice(int* device);
int cudaSetDevice(int device);
int cudaGetLastError();
int cudaDeviceSynchronize();
int cudaMalloc(void** out, size_t bytes);
int cudaMallocManaged(void** out, size_t bytes, unsigned flags);
int cudaMallocHost(void** out, size_t bytes);
int cudaFree(void* memory);
int cudaFreeHost(void* memory);
int cudaMemcpy(void* to, const void* from, size_t bytes, int kind);
int cudaMemcpyAsync(void* to, const void* from, size_t bytes, int kind, cuda_test::Stream stream);
int cudaLaunchHostFunc(cuda_test::Stream stream, void (*function)(void*), void* argument);
int cudaStreamCreateWithFlags(cuda_test::Stream* stream, unsigned flags);
int cudaStreamBeginCapture(cuda_test::Stream stream, int mode);
int cudaStreamEndCapture(cuda_test::Stream stream, void** graph);
int cudaStreamDestroy(cuda_test::Stream stream);
int cudaStreamSynchronize(cuda_test::Stream stream);
}

namespace cuda_test {

inline constexpr int kDefault = 4;            // cudaMemcpyDefault
inline constexpr unsigned kAttachGlobal = 1;  // cudaMemAttachGlobal
inline constexpr int kCaptureGlobal = 0;      // cudaStreamCaptureModeGlobal

// What the fake did, and what it has.
struct Counts {
  int64_t calls = 0;                          // those that can fail
  int64_t copies = 0, rows = 0;               // copies of one row, and of several
  int64_t streams = 0, events = 0;            // alive
  int64_t pinned = 0, pinned_peak = 0;        // bytes
  int64_t pins = 0;                           // of memory, so far
  int64_t under_way = 0, under_way_peak = 0;  // copies that are not done
};

// The fake's own functions; absent where NVIDIA's library runs.
struct Fake {
  void (*counts)(Counts* out);
  // The number'th call from now on that can fail (from 1) answers `error`; 0: none does.
  void (*fail_call)(int64_t number, int error);
  // The number'th copy from now on fails while it runs, and all that follows in its stream.
  void (*fail_copy)(int64_t number, int error);
  void (*delay_us)(int64_t least, int64_t most);  // of each copy
  void (*reset_peaks)();
  void (*await_peak)(int64_t copies);  // each copy ends only when so many were under way at once, or after ten seconds
};
inline const Fake* fake() {
  static const auto* const found = static_cast<const Fake*>(dlsym(RTLD_DEFAULT, "ckpt_fake_cudart"));
  return found;
}

}  // namespace cuda_test
