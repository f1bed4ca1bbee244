// What one save or load moves into and out of the memory of devices: which devices, where the caller's work on them
// stands, a stream of the engine's own for each, and pinned memory to pass through.
//
// note() for each tensor, mark() on the caller's thread when the work begins, open(), copies, close().
#pragma once

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

#include "base/mapping.h"
#include "device/device.h"
#include "device/scatter.h"

namespace ckpt::device {

// Where a caller says that memory is: DLPack's numbers.
struct Location {
  int32_t type = CKPT_DEVICE_CPU, id = 0;
};

// Moments on several devices.
class Fences {
 public:
  void add(std::unique_ptr<Fence> fence) { fences_.push_back(std::move(fence)); }
  bool reached() const;  // false also if one failed: wait() says how
  Status wait() const;

 private:
  std::vector<std::unique_ptr<Fence>> fences_;
};

class Transfers {
 public:
  static constexpr uint64_t kPieceBytes = 1 << 20;  // of pinned memory to pass through: full speed from there on
  Transfers() = default;
  Transfers(const Transfers&) = delete;
  ~Transfers() { (void)close(); }

  // Memory of the caller, of `reach` bytes, that the work of `stream` so far makes or uses. Returns the number of its
  // device, 0 for the host. UNSUPPORTED: a kind of device that this build or this machine does not have. INVALID: the
  // memory is elsewhere.
  Result<uint8_t> note(Location where, const void* memory, uint64_t reach, int64_t stream);
  // Whether there is such a device here. UNSUPPORTED, INVALID.
  Status check(Location where);
  bool empty() const { return devices_.empty(); }

  // Remembers where the streams of the caller stand. On his thread.
  Status mark();
  // Makes the engine's streams, which begin when those of the caller have come to where they were marked. NOMEM.
  // `bounce_bytes`: limit of the pinned memory that elements pass through on their way.
  Status open(uint64_t bounce_bytes);
  uint64_t bounce_bytes() const { return empty() ? 0 : Mapping::size_for(std::max(bounce_limit_, kPieceBytes)); }

  // Makes memory of the host pinned, as a piece of `mapping`.
  Status pin(Mapping* mapping, MutableBytes piece);

  // As device::gather, of a device's memory. Returns when the elements are there.
  Status gather(const Memory& from, const Shape& extent, uint64_t first, uint64_t count, MutableBytes out);
  // The same into pinned memory, and returns before; a fence that is made afterwards tells when they are there. They
  // are then in the order in which the device has them (packing.h).
  Status begin_gather(const Memory& from, const Shape& extent, uint64_t first, uint64_t count, std::byte* out);
  // Whether that is another order than theirs, and if so, what puts them in order. `out` is other memory.
  static bool needs_order(const Memory& from, const Shape& extent, uint64_t first, uint64_t count);
  static void put_in_order(const std::byte* fetched, const Memory& from, const Shape& extent, uint64_t first,
                           uint64_t count, std::byte* out);
  // The same of bytes that lie anywhere in a device's memory: `runs` calls `add` for each run of bytes [first, end),
  // with the number of the block of memory that holds it: no copy may reach from one into another.
  using AddRun = std::function<void(const std::byte* from, uint64_t bytes, uint64_t block)>;
  using Runs = std::function<void(uint64_t first, uint64_t end, const AddRun& add)>;
  Status gather(uint8_t device, const Runs& runs, uint64_t first, MutableBytes out);
  Status begin_gather(uint8_t device, const Runs& runs, uint64_t first, MutableBytes out);
  Result<std::unique_ptr<Fence>> fence(uint8_t device) { return stream_of(device).fence(); }

  // As device::scatter, to a device's memory; the chunk may go when this returns, the elements are there when close()
  // has returned OK.
  Result<uint64_t> scatter(Bytes chunk, uint16_t stored_dtype, const Box& stored, uint64_t first, uint64_t count,
                           const Box& wanted, const Memory& to);

  // Gives the pinned memory back that elements pass through; gather() and scatter() make it again.
  Status end_bounce();
  // Nothing touches memory any more, of the host or of a device.
  void drain();
  // drain(), and gives everything back. The first error of a copy that nobody waited for.
  Status close();

 private:
  struct Device {
    Location where;
    std::vector<int64_t> callers;  // streams
    std::vector<std::unique_ptr<Fence>> marks;
    std::unique_ptr<Stream> stream;
  };
  // A piece of pinned memory, and until when a copy uses it.
  struct Piece {
    MutableBytes memory;
    std::unique_ptr<Fence> busy;
  };

  Result<Driver*> driver_for(Location where);
  Status check_place(Location where, const void* memory) const;
  Stream& stream_of(uint8_t device) { return *devices_[device - 1].stream; }
  Status make_bounce();
  // Fills `out` through pinned memory: begin(at, piece) begins to fill a piece, for bytes from `at` of `out` on;
  // end(at, piece) copies it there.
  Status pass(uint8_t device, uint64_t piece_bytes, MutableBytes out,
              const std::function<Status(uint64_t at, MutableBytes piece)>& begin,
              const std::function<void(uint64_t at, Bytes piece)>& end);
  Result<MutableBytes> take_piece();
  void give_piece(MutableBytes memory, std::unique_ptr<Fence> busy);
  // Elements [first, first + count) of a stored box.
  struct ChunkElements {
    Bytes bytes;
    uint16_t dtype;
    const Box& stored;
    uint64_t first, count;
  };
  Status scatter_piece(const ChunkElements& chunk, const Box& wanted, const Memory& to, MutableBytes piece,
                       uint64_t* copied);

  Driver* driver_ = nullptr;
  std::vector<Device> devices_;  // by number - 1
  uint64_t bounce_limit_ = 0;

  std::mutex mutex_;
  std::condition_variable given_;
  Mapping bounce_;
  std::deque<Piece> pieces_;  // that nobody fills; those first that were given first
  size_t piece_count_ = 0;
};

}  // namespace ckpt::device
