// Devices whose memory the host cannot touch, as far as the engine knows them: streams of copies, fences, pinned
// memory. CUDA (cuda.cpp) is the only kind today. The host is no device: its memory is read and written where it lies.
// Everything here may be called by several threads at once.
#pragma once

#include <memory>

#include "base/status.h"
#include "base/types.h"

namespace ckpt::device {

// A moment in a stream: it is reached when all that was put into the stream before is done.
class Fence {
 public:
  virtual ~Fence() = default;
  virtual Result<bool> reached() const = 0;  // or the error of what was before it
  virtual Status wait() const = 0;
};

// `rows` of `bytes` each, at equal distances on both sides. One side is a device's memory. The other is the host's,
// which must be pinned for the copy to run beside the caller.
struct Copy {
  std::byte* to;
  const std::byte* from;
  uint64_t bytes, rows = 1, to_pitch = 0, from_pitch = 0;
};

// Copies of one device, one after another, on no stream of the caller.
class Stream {
 public:
  virtual ~Stream() = default;
  // What is put into the stream from now on starts after the fence.
  virtual Status follow(const Fence& fence) = 0;
  virtual Status copy(const Copy& copy) = 0;  // returns before it is done
  virtual Result<std::unique_ptr<Fence>> fence() = 0;
  virtual void drain() = 0;  // afterwards none of its copies touches memory
};

enum class MemoryKind { kUnknown, kPinned, kDevice, kManaged };

// A kind of devices.
class Driver {
 public:
  virtual ~Driver() = default;
  virtual int count() const = 0;
  virtual std::string name(int device) const = 0;  // "cuda:0"
  struct Found {
    MemoryKind kind;
    int device;
  };
  // `device`: where the caller says that it is.
  virtual Result<Found> look_at(int device, const void* memory) = 0;
  // A moment in a stream of the caller, by DLPack's number of it (see ckpt_tensor_desc).
  virtual Result<std::unique_ptr<Fence>> fence_of(int device, int64_t stream) = 0;
  virtual Result<std::unique_ptr<Stream>> make_stream(int device) = 0;
  // Memory of the host, from which and to which all devices copy while others work. NOMEM.
  virtual Status pin(int device, MutableBytes memory) = 0;
  virtual void unpin(void* memory) = 0;
};

// UNSUPPORTED, with the reason, where there is none. Lives as long as the process.
Result<Driver*> cuda_driver();

}  // namespace ckpt::device
