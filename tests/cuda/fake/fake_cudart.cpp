// A libcudart.so.13 without a GPU. Device memory faults when the host touches it. Each stream is a thread, so copies
// are late, and those of different streams come in any order. It is stricter than NVIDIA's: the host's side of a copy
// must be pinned, and the other one on the stream's device. Calls and copies fail when a test wants it, and the
// environment variable FAKE_CUDART_ERROR makes it a machine without a driver (35) or without a device (100).
#include <sys/mman.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "cuda/runtime.h"
#include "device/cuda_runtime.h"

namespace {

using namespace ckpt::device::cuda;

constexpr int kDevices = 3;
constexpr size_t kMaxPitch = 0x7fffffff;  // cudaDevAttrMaxPitch of all devices
constexpr Error kCaptureUnsupported = 900, kCaptureInvalidated = 901;
constexpr Error kInvalidValue = 1, kInvalidDevice = 101, kInvalidHandle = 400, kNotRegistered = 713;

// What has happened when all before it in a stream is done.
struct Ticket {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  Error error = kSuccess;

  void finish(Error with) {
    std::lock_guard lock(mutex);
    done = true;
    error = with;
    changed.notify_all();
  }
  Error wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return done; });
    return error;
  }
  Error query() {
    std::lock_guard lock(mutex);
    return done ? error : kNotReady;
  }
};
using TicketPtr = std::shared_ptr<Ticket>;

struct Allocation {
  uint64_t bytes;
  int device, type;
  char* backing;  // what the host may touch
};

struct Fakes {
  std::mutex mutex;
  std::map<const char*, Allocation> memory;  // of devices, by the address that programs know
  std::map<const char*, uint64_t> pinned;    // of the host
  std::map<StreamHandle, bool> streams;      // whether it works beside the legacy stream
  std::map<int, StreamHandle> legacy;        // by device
  cuda_test::Counts counts;
  std::atomic<StreamHandle> captured{nullptr};  // in global mode; the one at a time
  std::atomic<bool> capture_broken{false};
  std::atomic<int64_t> fail_call{0}, fail_copy{0}, least_us{0}, most_us{0}, awaited_peak{0};
  std::atomic<int> call_error{0}, copy_error{0};
};
Fakes& fakes() {
  static Fakes& all = *new Fakes;
  return all;
}

thread_local int current_device = 0;
thread_local int capture_mode = cuda_test::kCaptureGlobal;
thread_local Error last_error = kSuccess;

Error give(Error error) {
  if (error != kSuccess) last_error = error;
  return error;
}

// The error that this call is to answer.
Error called() {
  if (const char* given = std::getenv("FAKE_CUDART_ERROR")) return give(std::atoi(given));
  Fakes& all = fakes();
  {
    std::lock_guard lock(all.mutex);
    all.counts.calls++;
  }
  if (all.fail_call > 0 && --all.fail_call == 0) return give(all.call_error);
  return kSuccess;
}
#define CALLED() \
  if (const Error called_error = called(); called_error != kSuccess) return called_error

// Calls that make memory, or wait, are refused while any thread captures, and break what it captures.
Error called_beside_captures() {
  if (fakes().captured == nullptr || capture_mode == kCaptureModeRelaxed) return kSuccess;
  fakes().capture_broken = true;
  return give(kCaptureUnsupported);
}
#define NO_CAPTURE() \
  if (const Error capture_error = called_beside_captures(); capture_error != kSuccess) return capture_error

bool was_awaited_peak() {
  std::lock_guard lock(fakes().mutex);
  return fakes().counts.under_way_peak >= fakes().awaited_peak;
}

}  // namespace

struct ckpt::device::cuda::StreamRecord {
  explicit StreamRecord(int on) : device(on), thread([this] { run(); }) {}
  ~StreamRecord() {
    {
      std::lock_guard lock(mutex);
      ends = true;
      changed.notify_all();
    }
    thread.join();
  }
  TicketPtr add(std::function<Error()> work) {
    std::lock_guard lock(mutex);
    last = std::make_shared<Ticket>();
    queue.emplace_back(std::move(work), last);
    changed.notify_all();
    return last;
  }
  TicketPtr newest() {
    std::lock_guard lock(mutex);
    return last;
  }
  void run() {
    std::mt19937 random(std::hash<std::thread::id>()(std::this_thread::get_id()));
    Error error = kSuccess;
    for (;;) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [this] { return ends || !queue.empty(); });
      if (queue.empty()) return;
      auto [work, ticket] = std::move(queue.front());
      queue.pop_front();
      lock.unlock();
      const int64_t least = fakes().least_us, most = fakes().most_us;
      if (most > 0)
        std::this_thread::sleep_for(
            std::chrono::microseconds(least + static_cast<int64_t>(random()) % (most - least + 1)));
      for (int ms = 0; ms < 10'000 && !was_awaited_peak(); ms++)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (error == kSuccess) error = work();
      ticket->finish(error);
    }
  }

  const int device;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::pair<std::function<Error()>, TicketPtr>> queue;
  TicketPtr last;
  bool ends = false;
  std::thread thread;  // last member: it uses the others
};

struct ckpt::device::cuda::EventRecord {
  int device;
  std::mutex mutex;
  TicketPtr ticket;

  TicketPtr now() {
    std::lock_guard lock(mutex);
    return ticket;
  }
};

namespace {

// Where the bytes of [address, address + bytes) are; null if they lie across the ends of what is there. `on_device`:
// whether it is a device's; other memory must be pinned.
char* find(const void* address, uint64_t bytes, bool* on_device) {
  const char* first = static_cast<const char*>(address);
  Fakes& all = fakes();
  std::lock_guard lock(all.mutex);
  *on_device = false;
  if (auto next = all.memory.upper_bound(first); next != all.memory.begin()) {
    const auto& [begin, found] = *std::prev(next);
    if (first < begin + found.bytes) {
      *on_device = true;
      return first + bytes <= begin + found.bytes ? found.backing + (first - begin) : nullptr;
    }
  }
  if (auto next = all.pinned.upper_bound(first); next != all.pinned.begin()) {
    const auto& [begin, size] = *std::prev(next);
    if (first + bytes <= begin + size) return const_cast<char*>(first);
  }
  return nullptr;
}

bool copy_fails() {
  Fakes& all = fakes();
  return all.fail_copy > 0 && --all.fail_copy == 0;
}

StreamHandle stream_of(StreamHandle stream) {
  const auto number = reinterpret_cast<uintptr_t>(stream);
  if (number > 2) return stream;
  if (number == 2) {
    thread_local std::map<int, std::unique_ptr<StreamRecord>> mine;
    auto& own = mine[current_device];
    if (!own) own = std::make_unique<StreamRecord>(current_device);
    return own.get();
  }
  Fakes& all = fakes();
  std::lock_guard lock(all.mutex);
  StreamHandle& legacy = all.legacy[current_device];
  if (!legacy) legacy = new StreamRecord(current_device);
  return legacy;
}

// The legacy stream waits for all streams that do not work beside it, and these for it.
TicketPtr enqueue(StreamHandle given, std::function<Error()> work) {
  StreamHandle stream = stream_of(given);
  Fakes& all = fakes();
  std::vector<TicketPtr> before;
  {
    std::lock_guard lock(all.mutex);
    const bool legacy = all.legacy[stream->device] == stream;
    for (const auto& [other, beside] : all.streams)
      if (legacy && !beside && other->device == stream->device) before.push_back(other->newest());
    const auto own = all.streams.find(stream);
    if (!legacy && own != all.streams.end() && !own->second && all.legacy[stream->device])
      before.push_back(all.legacy[stream->device]->newest());
  }
  return stream->add([before = std::move(before), work = std::move(work)] {
    for (const TicketPtr& ticket : before)
      if (ticket) (void)ticket->wait();
    return work();
  });
}

void count_under_way(int64_t step) {
  Fakes& all = fakes();
  std::lock_guard lock(all.mutex);
  all.counts.under_way += step;
  all.counts.under_way_peak = std::max(all.counts.under_way_peak, all.counts.under_way);
}

// Whether memory is of another device than a stream.
bool is_elsewhere(const void* memory, StreamHandle stream) {
  Fakes& all = fakes();
  std::lock_guard lock(all.mutex);
  const auto next = all.memory.upper_bound(static_cast<const char*>(memory));
  if (next == all.memory.begin()) return false;
  const auto& [begin, found] = *std::prev(next);
  return memory < begin + found.bytes && found.type == kMemoryDevice && found.device != stream->device;
}

Error copy_rows(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                StreamHandle stream) {
  if (height == 0 || width == 0) return kSuccess;
  if (std::max(to_pitch, from_pitch) > kMaxPitch && height > 1) return give(kInvalidValue);
  bool to_device = false, from_device = false;
  char* out = find(to, (height - 1) * to_pitch + width, &to_device);
  const char* in = find(from, (height - 1) * from_pitch + width, &from_device);
  if (!out || !in || width > to_pitch || width > from_pitch) return give(kInvalidValue);
  if (is_elsewhere(to, stream_of(stream)) || is_elsewhere(from, stream_of(stream))) return give(kInvalidDevice);
  count_under_way(1);
  // Counted as done even where an earlier copy failed and this one is left out.
  const std::shared_ptr<void> done(nullptr, [](void*) { count_under_way(-1); });
  enqueue(stream, [=]() -> Error {
    (void)done;
    if (copy_fails()) return fakes().copy_error;
    for (size_t i = 0; i < height; i++) std::memcpy(out + i * to_pitch, in + i * from_pitch, width);
    return kSuccess;
  });
  return kSuccess;
}

void pin(const void* memory, uint64_t bytes) {
  Fakes& all = fakes();
  all.pinned[static_cast<const char*>(memory)] = bytes;
  all.counts.pinned += static_cast<int64_t>(bytes);
  all.counts.pins++;
  all.counts.pinned_peak = std::max(all.counts.pinned_peak, all.counts.pinned);
}

// Device memory is a part of two mappings, and is never given again: with two mappings for each of thousands of
// tensors, TSan meets the kernel's limit (vm.max_map_count).
struct DeviceMemory {
  static constexpr uint64_t kBytes = uint64_t{1} << 37;  // TSan has room for 1.5 TiB
  char* known = map(PROT_NONE);                          // what programs know
  char* backing = map(PROT_READ | PROT_WRITE);           // what the host may touch
  uint64_t used = 0;

  static char* map(int access) {
    return static_cast<char*>(mmap(nullptr, kBytes, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  }
};

Error allocate(void** out, size_t bytes, int type) {
  const uint64_t size = (bytes + 4095) / 4096 * 4096;
  std::lock_guard lock(fakes().mutex);
  static DeviceMemory& device = *new DeviceMemory;
  char *address = device.known + device.used, *backing = device.backing + device.used;
  if (type == kMemoryDevice) {
    const bool mapped = device.known != MAP_FAILED && device.backing != MAP_FAILED;
    if (!mapped || size == 0 || size > DeviceMemory::kBytes - device.used) return give(kMemoryAllocation);
    device.used += size;
  } else {
    void* mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return give(kMemoryAllocation);
    address = backing = static_cast<char*>(mapped);
  }
  fakes().memory[address] = {bytes, current_device, type, backing};
  *out = address;
  return kSuccess;
}

}  // namespace

extern "C" {

// ---- what the engine calls: signatures as in cuda_runtime.h ----

Error cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return kSuccess;
}
Error cudaGetDeviceCount(int* count) {
  CALLED();
  *count = kDevices;
  return kSuccess;
}
Error cudaGetDevice(int* device) {
  *device = current_device;
  return kSuccess;
}
Error cudaSetDevice(int device) {
  CALLED();
  if (device < 0 || device >= kDevices) return give(kInvalidDevice);
  current_device = device;
  return kSuccess;
}
Error cudaGetLastError() { return std::exchange(last_error, kSuccess); }
const char* cudaGetErrorName(Error error) {
  switch (error) {
    case kMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case kInsufficientDriver:
      return "cudaErrorInsufficientDriver";
    case kNoDevice:
      return "cudaErrorNoDevice";
    default:
      return error == 700 ? "cudaErrorIllegalAddress" : "cudaErrorOfTheFake";
  }
}
const char* cudaGetErrorString(Error) { return "says the fake"; }
Error cudaPointerGetAttributes(PointerAttributes* out, const void* pointer) {
  CALLED();
  bool on_device = false;
  const char* found = find(pointer, 1, &on_device);
  std::memset(out, 0, sizeof *out);
  if (!found) return kSuccess;
  out->type = kMemoryHost;
  if (!on_device) return kSuccess;
  std::lock_guard lock(fakes().mutex);
  const Allocation& memory = std::prev(fakes().memory.upper_bound(static_cast<const char*>(pointer)))->second;
  out->type = memory.type;
  out->device = memory.device;
  return kSuccess;
}
Error cudaHostRegister(void* memory, size_t bytes, unsigned) {
  CALLED();
  NO_CAPTURE();
  std::lock_guard lock(fakes().mutex);
  pin(memory, bytes);
  return kSuccess;
}
Error cudaHostUnregister(void* memory) {
  NO_CAPTURE();
  std::lock_guard lock(fakes().mutex);
  const auto found = fakes().pinned.find(static_cast<char*>(memory));
  if (found == fakes().pinned.end()) return give(kNotRegistered);
  fakes().counts.pinned -= static_cast<int64_t>(found->second);
  fakes().pinned.erase(found);
  return kSuccess;
}
Error cudaStreamCreateWithFlags(StreamHandle* stream, unsigned flags) {
  CALLED();
  NO_CAPTURE();
  *stream = new StreamRecord(current_device);
  std::lock_guard lock(fakes().mutex);
  fakes().streams[*stream] = flags & kStreamNonBlocking;
  fakes().counts.streams++;
  return kSuccess;
}
Error cudaStreamDestroy(StreamHandle stream) {
  {
    std::lock_guard lock(fakes().mutex);
    if (fakes().streams.erase(stream) == 0) return give(kInvalidHandle);
    fakes().counts.streams--;
  }
  delete stream;
  return kSuccess;
}
Error cudaStreamSynchronize(StreamHandle stream) {
  NO_CAPTURE();
  const TicketPtr last = stream_of(stream)->newest();
  return last ? give(last->wait()) : kSuccess;
}
Error cudaStreamWaitEvent(StreamHandle stream, EventHandle event, unsigned) {
  CALLED();
  const TicketPtr ticket = event->now();
  enqueue(stream, [ticket] { return ticket ? ticket->wait() : kSuccess; });
  return kSuccess;
}
Error cudaStreamIsCapturing(StreamHandle stream, int* status) {
  CALLED();
  *status = fakes().captured != nullptr && fakes().captured == stream ? 1 : kNotCaptured;
  return kSuccess;
}
Error cudaThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(*mode, capture_mode);
  return kSuccess;
}
Error cudaEventCreateWithFlags(EventHandle* event, unsigned) {
  CALLED();
  *event = new EventRecord{current_device, {}, nullptr};
  std::lock_guard lock(fakes().mutex);
  fakes().counts.events++;
  return kSuccess;
}
Error cudaEventDestroy(EventHandle event) {
  delete event;
  std::lock_guard lock(fakes().mutex);
  fakes().counts.events--;
  return kSuccess;
}
Error cudaEventRecord(EventHandle event, StreamHandle stream) {
  CALLED();
  if (stream_of(stream)->device != event->device) return give(kInvalidHandle);
  const TicketPtr ticket = enqueue(stream, [] { return kSuccess; });
  std::lock_guard lock(event->mutex);
  event->ticket = ticket;
  return kSuccess;
}
Error cudaEventQuery(EventHandle event) {
  CALLED();
  NO_CAPTURE();
  return give(event->now()->query());
}
Error cudaEventSynchronize(EventHandle event) {
  CALLED();
  NO_CAPTURE();
  return give(event->now()->wait());
}
Error cudaMemcpyAsync(void* to, const void* from, size_t bytes, int, StreamHandle stream) {
  CALLED();
  {
    std::lock_guard lock(fakes().mutex);
    fakes().counts.copies++;
  }
  return copy_rows(to, bytes, from, bytes, bytes, 1, stream);
}
Error cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                        int, StreamHandle stream) {
  CALLED();
  {
    std::lock_guard lock(fakes().mutex);
    fakes().counts.rows++;
  }
  return copy_rows(to, to_pitch, from, from_pitch, width, height, stream);
}

// ---- what the tests call ----

Error cudaMalloc(void** out, size_t bytes) { return allocate(out, bytes, kMemoryDevice); }
Error cudaMallocManaged(void** out, size_t bytes, unsigned) { return allocate(out, bytes, kMemoryManaged); }
Error cudaFree(void* memory) {
  Fakes& all = fakes();
  std::lock_guard lock(all.mutex);
  const auto found = all.memory.find(static_cast<char*>(memory));
  if (found == all.memory.end()) return memory ? give(kInvalidValue) : kSuccess;
  const Allocation freed = found->second;
  const uint64_t size = (freed.bytes + 4095) / 4096 * 4096;
  all.memory.erase(found);
  if (freed.type == kMemoryDevice)
    madvise(freed.backing, size, MADV_DONTNEED);
  else
    munmap(memory, size);
  return kSuccess;
}
Error cudaMallocHost(void** out, size_t bytes) {
  *out = std::malloc(bytes);
  std::lock_guard lock(fakes().mutex);
  pin(*out, bytes);
  return kSuccess;
}
Error cudaFreeHost(void* memory) {
  const Error error = cudaHostUnregister(memory);
  if (error == kSuccess) std::free(memory);
  return error;
}
Error cudaLaunchHostFunc(StreamHandle stream, void (*function)(void*), void* argument) {
  enqueue(stream, [=] {
    function(argument);
    return kSuccess;
  });
  return kSuccess;
}
Error cudaStreamBeginCapture(StreamHandle stream, int) {
  fakes().captured = stream;
  fakes().capture_broken = false;
  return kSuccess;
}
Error cudaStreamEndCapture(StreamHandle, void** graph) {
  *graph = nullptr;
  fakes().captured = nullptr;
  return fakes().capture_broken ? give(kCaptureInvalidated) : kSuccess;
}
Error cudaDeviceSynchronize() {
  std::vector<TicketPtr> all;
  {
    std::lock_guard lock(fakes().mutex);
    for (const auto& [stream, beside] : fakes().streams)
      if (stream->device == current_device) all.push_back(stream->newest());
    if (StreamHandle legacy = fakes().legacy[current_device]) all.push_back(legacy->newest());
  }
  for (const TicketPtr& ticket : all)
    if (ticket) (void)ticket->wait();
  return kSuccess;
}
// At once, since nothing else works on that memory when a test calls it.
Error cudaMemcpy(void* to, const void* from, size_t bytes, int) {
  bool on_device = false;
  char* out = find(to, bytes, &on_device);
  if (!out && !on_device) out = static_cast<char*>(to);
  const char* in = find(from, bytes, &on_device);
  if (!in && !on_device) in = static_cast<const char*>(from);
  if (!out || !in) return give(kInvalidValue);
  std::memcpy(out, in, bytes);
  return kSuccess;
}

extern const cuda_test::Fake ckpt_fake_cudart;
const cuda_test::Fake ckpt_fake_cudart{[](cuda_test::Counts* out) {
                                         std::lock_guard lock(fakes().mutex);
                                         *out = fakes().counts;
                                       },
                                       [](int64_t number, int error) {
                                         fakes().call_error = error;
                                         fakes().fail_call = number;
                                       },
                                       [](int64_t number, int error) {
                                         fakes().copy_error = error;
                                         fakes().fail_copy = number;
                                       },
                                       [](int64_t least, int64_t most) {
                                         fakes().least_us = least;
                                         fakes().most_us = most;
                                       },
                                       [] {
                                         std::lock_guard lock(fakes().mutex);
                                         fakes().counts.pinned_peak = fakes().counts.pinned;
                                         fakes().counts.under_way_peak = fakes().counts.under_way;
                                       },
                                       [](int64_t copies) { fakes().awaited_peak = copies; }};

}  // extern "C"

// Held to the signatures that the engine calls.
#define SAME(name) static_assert(std::is_same_v<decltype(&name), decltype(Runtime::name)>)
SAME(cudaRuntimeGetVersion);
SAME(cudaGetDeviceCount);
SAME(cudaGetDevice);
SAME(cudaSetDevice);
SAME(cudaGetLastError);
SAME(cudaGetErrorName);
SAME(cudaGetErrorString);
SAME(cudaPointerGetAttributes);
SAME(cudaHostRegister);
SAME(cudaHostUnregister);
SAME(cudaStreamCreateWithFlags);
SAME(cudaStreamDestroy);
SAME(cudaStreamSynchronize);
SAME(cudaStreamWaitEvent);
SAME(cudaStreamIsCapturing);
SAME(cudaThreadExchangeStreamCaptureMode);
SAME(cudaEventCreateWithFlags);
SAME(cudaEventDestroy);
SAME(cudaEventRecord);
SAME(cudaEventQuery);
SAME(cudaEventSynchronize);
SAME(cudaMemcpyAsync);
SAME(cudaMemcpy2DAsync);
