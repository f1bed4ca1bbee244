// Compiled with NVIDIA's header, and never run: what src/device/cuda_runtime.h and tests/cuda/runtime.h declare is what
// the header declares.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <type_traits>

#include "device/cuda_runtime.h"

namespace ours = ckpt::device::cuda;

// Types that are passed alike: enums and int, all pointers.
template <class T>
using Passed = std::conditional_t<std::is_pointer_v<T>, void*,
                                  std::conditional_t<std::is_enum_v<T> || std::is_same_v<T, unsigned>, int, T>>;
template <class Function>
struct Signature;
template <class Result, class... Arguments>
struct Signature<Result (*)(Arguments...)> {
  using type = Passed<Result> (*)(Passed<Arguments>...);
};
template <class Result, class... Arguments>
struct Signature<Result (*)(Arguments...) noexcept> : Signature<Result (*)(Arguments...)> {};

#define CHECK(name)                                                                                                 \
  static_assert(std::is_same_v<Signature<decltype(&::name)>::type, Signature<decltype(ours::Runtime::name)>::type>, \
                #name)
CHECK(cudaRuntimeGetVersion);
CHECK(cudaGetDeviceCount);
CHECK(cudaGetDevice);
CHECK(cudaSetDevice);
CHECK(cudaGetLastError);
CHECK(cudaGetErrorName);
CHECK(cudaGetErrorString);
CHECK(cudaPointerGetAttributes);
CHECK(cudaHostRegister);
CHECK(cudaHostUnregister);
CHECK(cudaStreamCreateWithFlags);
CHECK(cudaStreamDestroy);
CHECK(cudaStreamSynchronize);
CHECK(cudaStreamWaitEvent);
CHECK(cudaStreamIsCapturing);
CHECK(cudaThreadExchangeStreamCaptureMode);
CHECK(cudaEventCreateWithFlags);
CHECK(cudaEventDestroy);
CHECK(cudaEventRecord);
CHECK(cudaEventQuery);
CHECK(cudaEventSynchronize);
CHECK(cudaMemcpyAsync);
CHECK(cudaMemcpy2DAsync);

static_assert(sizeof(cudaError_t) == sizeof(ours::Error) && sizeof(cudaMemcpyKind) == sizeof(int));
static_assert(ours::kSuccess == cudaSuccess && ours::kMemoryAllocation == cudaErrorMemoryAllocation);
static_assert(ours::kInsufficientDriver == cudaErrorInsufficientDriver && ours::kNoDevice == cudaErrorNoDevice);
static_assert(ours::kNotReady == cudaErrorNotReady);
static_assert(ours::kMemoryUnregistered == cudaMemoryTypeUnregistered && ours::kMemoryHost == cudaMemoryTypeHost);
static_assert(ours::kMemoryDevice == cudaMemoryTypeDevice && ours::kMemoryManaged == cudaMemoryTypeManaged);
static_assert(ours::kStreamNonBlocking == cudaStreamNonBlocking && ours::kEventDisableTiming == cudaEventDisableTiming);
static_assert(ours::kHostRegisterPortable == cudaHostRegisterPortable && ours::kMemcpyDefault == cudaMemcpyDefault);

static_assert(ours::kCaptureModeRelaxed == cudaStreamCaptureModeRelaxed);
static_assert(ours::kNotCaptured == cudaStreamCaptureStatusNone);
static_assert(sizeof(cudaStreamCaptureMode) == sizeof(int) && sizeof(cudaStreamCaptureStatus) == sizeof(int));

static_assert(sizeof(ours::PointerAttributes) >= sizeof(cudaPointerAttributes));
#define PLACE(mine, theirs) \
  static_assert(offsetof(ours::PointerAttributes, mine) == offsetof(cudaPointerAttributes, theirs))
PLACE(type, type);
PLACE(device, device);
PLACE(device_pointer, devicePointer);
PLACE(host_pointer, hostPointer);
