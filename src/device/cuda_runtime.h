// The few functions of NVIDIA's CUDA Runtime (libcudart 12 or 13) that the engine calls. The library is found when
// the first tensor on a GPU is added, and never linked: one libckpt serves machines with and without CUDA, and nothing
// of CUDA is needed to build it. The declarations are ours; tests/cuda compares them with those of NVIDIA's headers.
#pragma once

#include <cstddef>

#include "base/status.h"

namespace ckpt::device::cuda {

using Error = int;  // cudaError_t
struct StreamRecord;
struct EventRecord;
using StreamHandle = StreamRecord*;  // cudaStream_t
using EventHandle = EventRecord*;    // cudaEvent_t

inline constexpr Error kSuccess = 0, kMemoryAllocation = 2, kInsufficientDriver = 35, kNoDevice = 100, kNotReady = 600;
inline constexpr int kMemoryUnregistered = 0, kMemoryHost = 1, kMemoryDevice = 2, kMemoryManaged = 3;
inline constexpr unsigned kStreamNonBlocking = 1, kEventDisableTiming = 2, kHostRegisterPortable = 1;
inline constexpr int kMemcpyDefault = 4;
inline constexpr int kCaptureModeRelaxed = 2, kNotCaptured = 0;

// cudaPointerAttributes of 13; that of 12 ends before `reserved`.
struct PointerAttributes {
  int type, device;
  void *device_pointer, *host_pointer;
  long reserved[8];
};

// Each member is the function of its name.
struct Runtime {
  Error (*cudaRuntimeGetVersion)(int* version);
  Error (*cudaGetDeviceCount)(int* count);
  Error (*cudaGetDevice)(int* device);
  Error (*cudaSetDevice)(int device);
  Error (*cudaGetLastError)();
  const char* (*cudaGetErrorName)(Error error);
  const char* (*cudaGetErrorString)(Error error);
  Error (*cudaPointerGetAttributes)(PointerAttributes* attributes, const void* pointer);
  Error (*cudaHostRegister)(void* memory, size_t bytes, unsigned flags);
  Error (*cudaHostUnregister)(void* memory);
  Error (*cudaStreamCreateWithFlags)(StreamHandle* stream, unsigned flags);
  Error (*cudaStreamDestroy)(StreamHandle stream);
  Error (*cudaStreamSynchronize)(StreamHandle stream);
  Error (*cudaStreamWaitEvent)(StreamHandle stream, EventHandle event, unsigned flags);
  Error (*cudaStreamIsCapturing)(StreamHandle stream, int* status);
  Error (*cudaThreadExchangeStreamCaptureMode)(int* mode);
  Error (*cudaEventCreateWithFlags)(EventHandle* event, unsigned flags);
  Error (*cudaEventDestroy)(EventHandle event);
  Error (*cudaEventRecord)(EventHandle event, StreamHandle stream);
  Error (*cudaEventQuery)(EventHandle event);
  Error (*cudaEventSynchronize)(EventHandle event);
  Error (*cudaMemcpyAsync)(void* to, const void* from, size_t bytes, int kind, StreamHandle stream);
  Error (*cudaMemcpy2DAsync)(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                             size_t height, int kind, StreamHandle stream);
  int device_count;  // stays the same as long as the process lives
};

// The library, once it was found and has a device. UNSUPPORTED: it was not, or it has none; with the reason. A later
// call tries again. CKPT_CUDART names the library; otherwise its usual names are tried, and one that the process has
// loaded already is found by them.
Result<const Runtime*> load_runtime();

}  // namespace ckpt::device::cuda
