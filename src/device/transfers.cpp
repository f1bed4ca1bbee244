#include "device/transfers.h"

#include <algorithm>
#include <cstring>

#include "device/packing.h"
#include "device/pins.h"
#include "plan/box.h"

namespace ckpt::device {

namespace {

constexpr uint64_t kMostPitch = 0x7fffffff;  // of a copy of rows, on all devices
constexpr size_t kMostDevices = 64;

// Makes as few copies as possible of what comes run by run: neighbours become one, and runs of one length at equal
// distances become one copy of rows.
class RunCopies {
 public:
  explicit RunCopies(Stream& stream) : stream_(stream) {}
  void add(std::byte* to, const std::byte* from, uint64_t bytes) {
    if (held_.rows == 0) return hold(to, from, bytes);
    const uint64_t to_step = static_cast<uint64_t>(to - held_.to), from_step = static_cast<uint64_t>(from - held_.from);
    if (held_.rows == 1 && to == held_.to + held_.bytes && from == held_.from + held_.bytes) {
      held_.bytes += bytes;
    } else if (bytes == held_.bytes && held_.rows == 1 && is_pitch(to, held_.to, bytes) &&
               is_pitch(from, held_.from, bytes)) {
      held_.rows = 2;
      held_.to_pitch = to_step;
      held_.from_pitch = from_step;
    } else if (bytes == held_.bytes && held_.rows > 1 && to_step == held_.rows * held_.to_pitch &&
               from_step == held_.rows * held_.from_pitch) {
      held_.rows++;
    } else {
      flush();
      hold(to, from, bytes);
    }
  }
  // `rows` runs at equal distances.
  void add_rows(const Copy& copy) {
    if (copy.rows == 1) return add(copy.to, copy.from, copy.bytes);
    const bool fits = copy.to_pitch >= copy.bytes && copy.from_pitch >= copy.bytes && copy.to_pitch <= kMostPitch &&
                      copy.from_pitch <= kMostPitch;
    if (!fits) {
      for (uint64_t i = 0; i < copy.rows; i++)
        add(copy.to + i * copy.to_pitch, copy.from + i * copy.from_pitch, copy.bytes);
      return;
    }
    flush();
    held_ = copy;
    flush();
  }
  // What follows is no part of the copies before.
  void flush() {
    if (held_.rows != 0 && status_.ok()) status_ = stream_.copy(held_);
    held_.rows = 0;
  }
  Status end() {
    flush();
    return std::move(status_);
  }

 private:
  static bool is_pitch(const std::byte* next, const std::byte* row, uint64_t bytes) {
    return next > row && static_cast<uint64_t>(next - row) >= bytes && static_cast<uint64_t>(next - row) <= kMostPitch;
  }
  void hold(std::byte* to, const std::byte* from, uint64_t bytes) { held_ = {to, from, bytes, 1, 0, 0}; }

  Stream& stream_;
  Copy held_{nullptr, nullptr, 0, 0, 0, 0};
  Status status_;
};

uint64_t unit_width(uint16_t dtype) { return static_cast<uint64_t>(dtype_bits(dtype)) / 8; }

std::span<const uint64_t> steps_of(const Memory& memory) {
  return {memory.strides.data(), static_cast<size_t>(memory.ndim)};
}

// The element of a memory that begins at `begin`.
uint64_t place_in(const Memory& memory, const Shape& coordinates, const Shape& begin) {
  uint64_t place = 0;
  for (int d = 0; d < memory.ndim; d++) place += (coordinates[d] - begin[d]) * memory.strides[static_cast<size_t>(d)];
  return place;
}

// A range of elements is fetched as a few boxes. Each is packed where its elements belong.
struct PackedBox {
  Box box;
  Packing packing;
  uint64_t begin, memory;  // bytes before it: of the range, and of the memory
};
std::vector<PackedBox> parts_of(const Memory& from, const Shape& extent, uint64_t first, uint64_t count) {
  const Box whole = Box::whole(extent);
  const uint64_t width = unit_width(from.dtype);
  std::vector<PackedBox> parts;
  uint64_t at = 0;
  for (const Box& box : plan::boxes_of_range(whole, first, count)) {
    parts.push_back({box, Packing(box.extent, steps_of(from), width), at * width,
                     place_in(from, box.offset, whole.offset) * width});
    at += box.volume();
  }
  return parts;
}

}  // namespace

bool Fences::reached() const {
  return std::ranges::all_of(fences_, [](const auto& fence) {
    const Result<bool> reached = fence->reached();
    return reached.ok() && *reached;
  });
}

Status Fences::wait() const {
  for (const auto& fence : fences_) CKPT_TRY(fence->wait());
  return Ok();
}

// ---- where memory is ----

Result<Driver*> Transfers::driver_for(Location where) {
  if (where.type != CKPT_DEVICE_CUDA && where.type != CKPT_DEVICE_CUDA_MANAGED)
    return Status(CKPT_UNSUPPORTED,
                  strformat("device type {}: this build takes memory of the CPU (1), of CUDA (2; managed 13) and "
                            "pinned by CUDA (3)",
                            where.type))
        .with("found", std::to_string(where.type));
  if (!driver_) {
    CKPT_ASSIGN(driver_, cuda_driver());
  }
  const int count = driver_->count();
  if (where.id < 0 || where.id >= count)
    return Status(CKPT_INVALID,
                  strformat("{}: this process sees {} devices, from 0 on", driver_->name(where.id), count))
        .with("found", std::to_string(where.id));
  return driver_;
}

Status Transfers::check_place(Location where, const void* memory) const {
  CKPT_ASSIGN(const Driver::Found found, driver_->look_at(where.id, memory));
  const std::string expected = driver_->name(where.id);
  std::string what;
  switch (found.kind) {
    case MemoryKind::kDevice:
      if (found.device == where.id) return Ok();
      what = driver_->name(found.device);
      break;
    case MemoryKind::kManaged:  // is where it was used last
      return Ok();
    case MemoryKind::kPinned:
      what = "pinned memory of the host (device type 3)";
      break;
    default:
      what = "no memory of CUDA";
  }
  return Status(CKPT_INVALID, strformat("the memory is said to be on {}, but it is {}", expected, what))
      .with("expected", expected)
      .with("found", what);
}

Status Transfers::check(Location where) {
  if (where.type == CKPT_DEVICE_CPU || where.type == CKPT_DEVICE_CUDA_HOST) return Ok();
  return driver_for(where).status();
}

Result<uint8_t> Transfers::note(Location where, const void* memory, uint64_t reach, int64_t stream) {
  // CUDA's pinned host memory is host memory too.
  if (where.type == CKPT_DEVICE_CPU || where.type == CKPT_DEVICE_CUDA_HOST) return uint8_t{0};
  if (reach == 0 && where.type == CKPT_DEVICE_CUDA) return uint8_t{0};  // there is nothing to copy
  CKPT_TRY(driver_for(where).status());
  CKPT_TRY(check_place(where, memory));
  CKPT_TRY(check_place(where, static_cast<const std::byte*>(memory) + reach - 1));
  auto device = std::ranges::find_if(devices_, [&](const Device& known) { return known.where.id == where.id; });
  if (device == devices_.end()) {
    if (devices_.size() == kMostDevices)
      return Status(CKPT_UNSUPPORTED, strformat("tensors on more than {} devices", kMostDevices));
    devices_.push_back({where, {}, {}, nullptr});
    device = devices_.end() - 1;
  }
  if (stream == 0) stream = 1;
  if (stream != -1 && std::ranges::find(device->callers, stream) == device->callers.end())
    device->callers.push_back(stream);
  return static_cast<uint8_t>(device - devices_.begin() + 1);
}

Status Transfers::mark() {
  for (Device& device : devices_) {
    for (int64_t stream : device.callers) {
      CKPT_ASSIGN(auto fence, driver_->fence_of(device.where.id, stream));
      device.marks.push_back(std::move(fence));
    }
  }
  return Ok();
}

Status Transfers::open(uint64_t bounce_bytes) {
  bounce_limit_ = bounce_bytes;
  for (Device& device : devices_) {
    CKPT_ASSIGN(device.stream, driver_->make_stream(device.where.id));
    for (const auto& mark : device.marks) CKPT_TRY(device.stream->follow(*mark));
  }
  return Ok();
}

Status Transfers::pin(Mapping* mapping, MutableBytes piece) {
  return device::pin(*mapping, driver_, devices_[0].where.id, piece);
}

// ---- pinned memory to pass through ----

Status Transfers::make_bounce() {
  std::lock_guard lock(mutex_);
  if (piece_count_ != 0) return Ok();
  CKPT_ASSIGN(bounce_, Mapping::make(bounce_bytes()));
  CKPT_TRY(device::pin(bounce_, driver_, devices_[0].where.id, bounce_.bytes()));
  for (; (piece_count_ + 1) * kPieceBytes <= bounce_bytes(); piece_count_++)
    pieces_.push_back({bounce_.bytes().subspan(piece_count_ * kPieceBytes, kPieceBytes), nullptr});
  return Ok();
}

Result<MutableBytes> Transfers::take_piece() {
  CKPT_TRY(make_bounce());
  std::unique_lock lock(mutex_);
  given_.wait(lock, [this] { return !pieces_.empty(); });
  BouncePiece piece = std::move(pieces_.front());
  pieces_.pop_front();
  lock.unlock();
  if (!piece.busy) return piece.memory;
  Status status = piece.busy->wait();
  if (status.ok()) return piece.memory;
  give_piece(piece.memory, std::move(piece.busy));  // whoever closes must not use the memory before it is drained
  return status;
}

void Transfers::give_piece(MutableBytes memory, std::unique_ptr<Fence> busy) {
  std::lock_guard lock(mutex_);
  pieces_.push_back({memory, std::move(busy)});
  given_.notify_one();
}

Status Transfers::end_bounce() {
  std::lock_guard lock(mutex_);
  Status status;
  for (const BouncePiece& piece : pieces_)
    if (piece.busy && status.ok()) status = piece.busy->wait();
  if (!status.ok())
    for (const Device& device : devices_)
      if (device.stream) device.stream->drain();
  pieces_.clear();
  piece_count_ = 0;
  bounce_ = Mapping();
  return status;
}

// ---- moving elements ----

Status Transfers::begin_gather(const Memory& from, const Shape& extent, uint64_t first, uint64_t count,
                               std::byte* out) {
  RunCopies copies(stream_of(from.device));
  for (const PackedBox& part : parts_of(from, extent, first, count))
    part.packing.for_each_copy([&](const Packing::Rows& rows) {
      copies.add_rows({out + part.begin + rows.packed, from.data + part.memory + rows.memory, rows.bytes, rows.rows,
                       rows.packed_pitch, rows.memory_pitch});
    });
  return copies.end();
}

bool Transfers::needs_order(const Memory& from, const Shape& extent, uint64_t first, uint64_t count) {
  return std::ranges::any_of(parts_of(from, extent, first, count),
                             [](const PackedBox& part) { return !part.packing.in_order(); });
}

void Transfers::put_in_order(const std::byte* fetched, const Memory& from, const Shape& extent, uint64_t first,
                             uint64_t count, std::byte* out) {
  for (const PackedBox& part : parts_of(from, extent, first, count)) {
    const Memory packed{const_cast<std::byte*>(fetched) + part.begin, from.dtype, part.packing.strides(), from.ndim};
    const uint64_t volume = part.box.volume();
    device::gather(packed, part.box.extent, 0, volume, {out + part.begin, volume * unit_width(from.dtype)});
  }
}

Status Transfers::begin_gather(uint8_t device, const Runs& runs, uint64_t first, MutableBytes out) {
  RunCopies copies(stream_of(device));
  std::byte* to = out.data();
  uint64_t held = 0;
  runs(first, first + out.size(), [&](const std::byte* from, uint64_t bytes, uint64_t block) {
    if (block != std::exchange(held, block)) copies.flush();
    copies.add(to, from, bytes);
    to += bytes;
  });
  return copies.end();
}

Status Transfers::pass(uint8_t device, uint64_t piece_bytes, MutableBytes out,
                       const std::function<Status(uint64_t, MutableBytes)>& begin,
                       const std::function<void(uint64_t, Bytes)>& end) {
  for (uint64_t at = 0, size; at < out.size(); at += size) {
    size = std::min<uint64_t>(piece_bytes, out.size() - at);
    CKPT_ASSIGN(MutableBytes piece, take_piece());
    Status status = begin(at, piece.first(size));
    if (status.ok()) {
      auto fence = this->fence(device);
      status = fence.ok() ? (*fence)->wait() : std::move(fence).status();
    }
    if (status.ok()) end(at, piece.first(size));
    if (!status.ok()) stream_of(device).drain();
    give_piece(piece, nullptr);
    CKPT_TRY(std::move(status));
  }
  return Ok();
}

Status Transfers::gather(const Memory& from, const Shape& extent, uint64_t first, uint64_t count, MutableBytes out) {
  const uint64_t width = unit_width(from.dtype);
  return pass(
      from.device, kPieceBytes / width * width, out.first(count * width),
      [&](uint64_t at, MutableBytes piece) {
        return begin_gather(from, extent, first + at / width, piece.size() / width, piece.data());
      },
      [&](uint64_t at, Bytes piece) {
        put_in_order(piece.data(), from, extent, first + at / width, piece.size() / width, out.data() + at);
      });
}

Status Transfers::gather(uint8_t device, const Runs& runs, uint64_t first, MutableBytes out) {
  return pass(
      device, kPieceBytes, out,
      [&](uint64_t at, MutableBytes piece) { return begin_gather(device, runs, first + at, piece); },
      [&](uint64_t at, Bytes piece) { std::memcpy(out.data() + at, piece.data(), piece.size()); });
}

// `piece`, which is pinned, has room for all elements of the chunk.
Status Transfers::scatter_piece(const ChunkElements& chunk, const Box& wanted, const Memory& to, MutableBytes piece,
                                uint64_t* copied) {
  const uint64_t width = unit_width(to.dtype);
  RunCopies copies(stream_of(to.device));
  std::byte* at = piece.data();
  for (const Box& range : plan::boxes_of_range(chunk.stored, chunk.first, chunk.count)) {
    const Box box = plan::intersect(range, wanted);
    if (box.volume() == 0) continue;
    const Packing packing(box.extent, steps_of(to), width);
    const Memory packed{at, to.dtype, packing.strides(), to.ndim};
    *copied += device::scatter(chunk.bytes, chunk.dtype, chunk.stored, chunk.first, chunk.count, box, packed);
    std::byte* out = to.data + place_in(to, box.offset, wanted.offset) * width;
    packing.for_each_copy([&](const Packing::Rows& rows) {
      copies.add_rows(
          {out + rows.memory, at + rows.packed, rows.bytes, rows.rows, rows.memory_pitch, rows.packed_pitch});
    });
    at += packing.units() * width;
  }
  return copies.end();
}

Result<uint64_t> Transfers::scatter(Bytes chunk, uint16_t stored_dtype, const Box& stored, uint64_t first,
                                    uint64_t count, const Box& wanted, const Memory& to) {
  const uint64_t in_width = unit_width(stored_dtype), width = unit_width(to.dtype), most = kPieceBytes / width;
  uint64_t copied = 0;
  for (uint64_t at = 0, size; at < count; at += size) {
    size = std::min(most, count - at);
    CKPT_ASSIGN(MutableBytes piece, take_piece());
    const ChunkElements part{chunk.subspan(at * in_width, size * in_width), stored_dtype, stored, first + at, size};
    Status status = scatter_piece(part, wanted, to, piece, &copied);
    std::unique_ptr<Fence> busy;
    if (status.ok()) {
      auto fence = this->fence(to.device);
      if (fence.ok())
        busy = fence.take();
      else
        status = std::move(fence).status();
    }
    if (!status.ok()) stream_of(to.device).drain();
    give_piece(piece, std::move(busy));
    CKPT_TRY(std::move(status));
  }
  return copied;
}

// ---- the end ----

void Transfers::drain() {
  for (const Device& device : devices_)
    if (device.stream) device.stream->drain();
}

Status Transfers::close() {
  Status status = end_bounce();
  for (Device& device : devices_) {
    device.stream.reset();  // drains it
    device.marks.clear();
  }
  return status;
}

}  // namespace ckpt::device
