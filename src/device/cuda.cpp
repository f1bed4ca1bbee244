// CUDA as a kind of devices (device.h), by the functions of cuda_runtime.h.
#include "device/cuda_runtime.h"
#include "device/device.h"

namespace ckpt::device {

namespace {

using cuda::Runtime;

std::string name_of(int device) { return strformat("cuda:{}", device); }

// The library keeps what a call of this thread answered, but for OK, until somebody asks. The caller of ckpt, who asks
// after calls of his own, shall not find ours.
void forget(const Runtime& runtime, cuda::Error error) {
  if (error != cuda::kSuccess) (void)runtime.cudaGetLastError();
}

// What a call says that failed. Errors that an earlier copy or the caller's own work caused come here, too.
Status failure(const Runtime& runtime, int device, const char* call, cuda::Error error) {
  forget(runtime, error);
  const bool memory = error == cuda::kMemoryAllocation;
  return Status(memory ? CKPT_NOMEM : CKPT_IO,
                strformat("{}: {}: error {} {} ({})", name_of(device), call, error, runtime.cudaGetErrorName(error),
                          runtime.cudaGetErrorString(error)))
      .with("device", name_of(device))
      .with("found", std::to_string(error));
}

#define CKPT_CUDA(runtime, device, function, ...)                                                     \
  do {                                                                                                \
    if (const cuda::Error cuda_error = (runtime).function(__VA_ARGS__); cuda_error != cuda::kSuccess) \
      return failure((runtime), (device), #function, cuda_error);                                     \
  } while (0)

// For as long as it lives, calls of this thread do no harm to what other threads capture into a graph, nor are they
// refused for that: none of them concerns a stream that is captured.
class Uncaptured {
 public:
  explicit Uncaptured(const Runtime& runtime) : runtime_(runtime) { exchange(); }
  Uncaptured(const Uncaptured&) = delete;
  ~Uncaptured() { exchange(); }

 private:
  void exchange() { forget(runtime_, runtime_.cudaThreadExchangeStreamCaptureMode(&mode_)); }
  const Runtime& runtime_;
  int mode_ = cuda::kCaptureModeRelaxed;
};

// Makes a device the thread's current one, and gives the caller's own back at the end.
class Current {
 public:
  explicit Current(const Runtime& runtime) : runtime_(runtime), uncaptured_(runtime) {}
  ~Current() {
    if (before_ >= 0) forget(runtime_, runtime_.cudaSetDevice(before_));
  }
  Status set(int device) {
    int before = -1;
    CKPT_CUDA(runtime_, device, cudaGetDevice, &before);
    if (before == device) return Ok();
    CKPT_CUDA(runtime_, device, cudaSetDevice, device);
    before_ = before;
    return Ok();
  }

 private:
  const Runtime& runtime_;
  Uncaptured uncaptured_;
  int before_ = -1;
};

class CudaFence final : public Fence {
 public:
  CudaFence(const Runtime& runtime, int device) : runtime_(runtime), device_(device) {}
  ~CudaFence() override {
    const Uncaptured uncaptured(runtime_);
    if (event_) forget(runtime_, runtime_.cudaEventDestroy(event_));
  }
  // The device must be current.
  Status record(cuda::StreamHandle stream) {
    CKPT_CUDA(runtime_, device_, cudaEventCreateWithFlags, &event_, cuda::kEventDisableTiming);
    CKPT_CUDA(runtime_, device_, cudaEventRecord, event_, stream);
    return Ok();
  }
  Result<bool> reached() const override {
    const Uncaptured uncaptured(runtime_);
    const cuda::Error error = runtime_.cudaEventQuery(event_);
    if (error == cuda::kSuccess) return true;
    if (error == cuda::kNotReady) {
      forget(runtime_, error);
      return false;
    }
    return failure(runtime_, device_, "cudaEventQuery", error);
  }
  Status wait() const override {
    const Uncaptured uncaptured(runtime_);
    CKPT_CUDA(runtime_, device_, cudaEventSynchronize, event_);
    return Ok();
  }
  cuda::EventHandle event() const { return event_; }

 private:
  const Runtime& runtime_;
  const int device_;
  cuda::EventHandle event_ = nullptr;
};

Result<std::unique_ptr<Fence>> record(const Runtime& runtime, int device, cuda::StreamHandle stream) {
  Current current(runtime);
  CKPT_TRY(current.set(device));
  auto fence = std::make_unique<CudaFence>(runtime, device);
  CKPT_TRY(fence->record(stream));
  return std::unique_ptr<Fence>(std::move(fence));
}

class CudaStream final : public Stream {
 public:
  CudaStream(const Runtime& runtime, int device) : runtime_(runtime), device_(device) {}
  ~CudaStream() override {
    if (!stream_) return;
    drain();
    const Uncaptured uncaptured(runtime_);
    forget(runtime_, runtime_.cudaStreamDestroy(stream_));
  }
  Status open() {
    Current current(runtime_);
    CKPT_TRY(current.set(device_));
    CKPT_CUDA(runtime_, device_, cudaStreamCreateWithFlags, &stream_, cuda::kStreamNonBlocking);
    return Ok();
  }
  Status follow(const Fence& fence) override {
    const Uncaptured uncaptured(runtime_);
    CKPT_CUDA(runtime_, device_, cudaStreamWaitEvent, stream_, static_cast<const CudaFence&>(fence).event(), 0);
    return Ok();
  }
  Status copy(const Copy& copy) override {
    Current current(runtime_);
    CKPT_TRY(current.set(device_));
    if (copy.rows == 1)
      CKPT_CUDA(runtime_, device_, cudaMemcpyAsync, copy.to, copy.from, copy.bytes, cuda::kMemcpyDefault, stream_);
    else
      CKPT_CUDA(runtime_, device_, cudaMemcpy2DAsync, copy.to, copy.to_pitch, copy.from, copy.from_pitch, copy.bytes,
                copy.rows, cuda::kMemcpyDefault, stream_);
    return Ok();
  }
  Result<std::unique_ptr<Fence>> fence() override { return record(runtime_, device_, stream_); }
  void drain() override {
    const Uncaptured uncaptured(runtime_);
    forget(runtime_, runtime_.cudaStreamSynchronize(stream_));
  }

 private:
  const Runtime& runtime_;
  const int device_;
  cuda::StreamHandle stream_ = nullptr;
};

class CudaDriver final : public Driver {
 public:
  explicit CudaDriver(const Runtime& runtime) : runtime_(runtime) {}

  int count() const override { return runtime_.device_count; }
  std::string name(int device) const override { return name_of(device); }
  Result<Found> look_at(int device, const void* memory) override {
    Current current(runtime_);
    CKPT_TRY(current.set(device));  // it would otherwise begin to use another one
    cuda::PointerAttributes found{};
    CKPT_CUDA(runtime_, device, cudaPointerGetAttributes, &found, memory);
    const MemoryKind kind = found.type == cuda::kMemoryHost      ? MemoryKind::kPinned
                            : found.type == cuda::kMemoryDevice  ? MemoryKind::kDevice
                            : found.type == cuda::kMemoryManaged ? MemoryKind::kManaged
                                                                 : MemoryKind::kUnknown;
    return Found{kind, found.device};
  }
  // CUDA's handles of its default streams are DLPack's numbers 1 and 2; any other number is a handle.
  Result<std::unique_ptr<Fence>> fence_of(int device, int64_t stream) override {
    const auto handle = reinterpret_cast<cuda::StreamHandle>(stream);
    Current current(runtime_);
    CKPT_TRY(current.set(device));
    int captured = cuda::kNotCaptured;
    CKPT_CUDA(runtime_, device, cudaStreamIsCapturing, handle, &captured);
    if (captured != cuda::kNotCaptured)
      return Status(CKPT_INVALID, strformat("{}: the stream is being captured into a graph, so its work is not done: "
                                            "save or load before or after that",
                                            name_of(device)))
          .with("device", name_of(device));
    return record(runtime_, device, handle);
  }
  Result<std::unique_ptr<Stream>> make_stream(int device) override {
    auto stream = std::make_unique<CudaStream>(runtime_, device);
    CKPT_TRY(stream->open());
    return std::unique_ptr<Stream>(std::move(stream));
  }
  Status pin(int device, MutableBytes memory) override {
    Current current(runtime_);
    CKPT_TRY(current.set(device));
    CKPT_CUDA(runtime_, device, cudaHostRegister, memory.data(), memory.size(), cuda::kHostRegisterPortable);
    return Ok();
  }
  void unpin(void* memory) override {
    const Uncaptured uncaptured(runtime_);
    forget(runtime_, runtime_.cudaHostUnregister(memory));
  }

 private:
  const Runtime& runtime_;
};

}  // namespace

Result<Driver*> cuda_driver() {
  CKPT_ASSIGN(const Runtime* runtime, cuda::load_runtime());
  static CudaDriver& driver = *new CudaDriver(*runtime);  // there is one runtime, once there is one
  return &driver;
}

}  // namespace ckpt::device
