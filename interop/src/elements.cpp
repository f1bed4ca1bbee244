#include "interop/src/elements.h"

#include <algorithm>
#include <vector>

#include "device/scatter.h"
#include "plan/box.h"

namespace ckpt::interop {

namespace {

constexpr uint64_t kStepBytes = 1 << 20;
constexpr uint64_t kNearBytes = 256 << 10;  // of a file on a server, so much is fetched at once: more may be wanted
constexpr uint64_t kWindowBytes = kRequestsAtOnce * kRequestBytes;  // and so much at most

// A box of a tensor in memory, in byte units.
struct BoxMemory {
  Box box;
  std::byte* data;
  Shape strides;

  std::byte* at(const Box& inner, uint64_t width) const {
    uint64_t step = 0;
    for (int i = 0; i < box.ndim(); i++) step += (inner.offset[i] - box.offset[i]) * strides[i];
    return data + step * width;
  }
  device::Memory memory(const Box& inner, uint16_t dtype, uint64_t width) const {
    return {at(inner, width), dtype, strides.dims, box.ndim()};
  }
};

// What lies in a row in the order of `region`; a flat range is several boxes.
std::vector<BoxMemory> boxes_in_row(const plan::Geometry& geometry, const Region& region, std::byte* data) {
  const plan::Order order = plan::order_of(geometry, region);
  if (region.kind != RegionKind::kFlat) return {{order.box, data, plan::contiguous_strides(order.box.extent)}};
  std::vector<BoxMemory> boxes;
  for (const Box& box : plan::boxes_of_range(order.box, order.first, region.flat_size)) {
    boxes.push_back({box, data, plan::contiguous_strides(box.extent)});
    data += box.volume() * geometry.width;
  }
  return boxes;
}

std::vector<BoxMemory> wanted_boxes(const device::RegionRequest& wanted) {
  if (wanted.units.kind == RegionKind::kFlat) return boxes_in_row(wanted.geometry, wanted.units, wanted.memory.data);
  const Box box = plan::order_of(wanted.geometry, wanted.units).box;
  return {{box, wanted.memory.data, Shape::of({wanted.memory.strides.data(), static_cast<size_t>(box.ndim())})}};
}

Result<std::vector<BoxMemory>> boxes_of_piece(const plan::Geometry& geometry, const ForeignTensor& tensor,
                                              const ForeignPiece& piece, Bytes bytes) {
  CKPT_ASSIGN(const Region units, plan::to_units(geometry, tensor.dtype, tensor.shape, piece.region));
  auto* data = const_cast<std::byte*>(bytes.data());  // it is only read
  if (!piece.strides || geometry.packed) return boxes_in_row(geometry, units, data);
  const Box box = plan::order_of(geometry, units).box;
  BoxMemory strided{box, data, Shape{.ndim = box.ndim()}};
  for (size_t i = 0; i < static_cast<size_t>(box.ndim()); i++)
    strided.strides.dims[i] = static_cast<uint64_t>((*piece.strides)[i]);
  return std::vector<BoxMemory>{strided};
}

// Copies a box that both have. A disk may hold the thread while it looks at the file; if it was left behind meanwhile,
// it must not touch the caller's memory any more.
Status copy_shared(const BoxMemory& from, const BoxMemory& to, const Box& shared, const plan::Geometry& geometry,
                   std::vector<std::byte>& buffer, const std::string& path) {
  const uint64_t volume = shared.volume(), step = std::max<uint64_t>(kStepBytes / geometry.width, 1);
  const device::Memory source = from.memory(shared, geometry.dtype, geometry.width);
  const device::Memory target = to.memory(shared, geometry.dtype, geometry.width);
  for (uint64_t first = 0; first < volume; first += step) {
    const uint64_t count = std::min(step, volume - first);
    buffer.resize(count * geometry.width);
    {
      const Busy busy("read", path);
      device::gather(source, shared.extent, first, count, buffer);
    }
    CKPT_TRY(CallContext::current().check());
    device::scatter(buffer, geometry.dtype, shared, first, count, shared, target);
  }
  return Ok();
}

// From the first element of a box to its last, in bytes.
uint64_t span_of(const BoxMemory& from, const Box& box, uint64_t width) {
  uint64_t last = 0;
  for (int i = 0; i < box.ndim(); i++) last += (box.extent[i] - 1) * from.strides[i];
  return (last + 1) * width;
}

// Of a piece what lies there, and a little around it.
FileRange range_near(const FileRange& piece, Bytes bytes, const BoxMemory& from, const Box& shared, uint64_t width) {
  const auto first = static_cast<uint64_t>(from.at(shared, width) - bytes.data());
  const uint64_t begin = first / kNearBytes * kNearBytes;
  const uint64_t end = std::min(piece.size, round_up(first + span_of(from, shared, width), kNearBytes));
  return {piece.file, piece.offset + begin, end - begin};
}

// Calls use(part) for parts of a box that lie in a window of the file each: cut along the dimension that reaches
// farthest.
template <typename Use>
Status in_parts(const BoxMemory& from, const Box& box, uint64_t width, const Use& use) {
  if (span_of(from, box, width) <= kWindowBytes) return use(box);
  auto reach = [&](int i) { return (box.extent[i] - 1) * from.strides[i]; };
  int dim = 0;
  for (int i = 1; i < box.ndim(); i++)
    if (reach(i) > reach(dim)) dim = i;
  const uint64_t fits = std::max<uint64_t>(kWindowBytes / width / from.strides[dim], 1);
  const uint64_t step = std::min(fits, (box.extent[dim] + 1) / 2);
  Box part = box;
  for (uint64_t at = 0; at < box.extent[dim]; at += step) {
    part.offset[dim] = box.offset[dim] + at;
    part.extent[dim] = std::min(step, box.extent[dim] - at);
    CKPT_TRY(in_parts(from, part, width, use));
  }
  return Ok();
}

}  // namespace

Status copy_elements(FileTable& files, const ForeignTensor& tensor, const device::RegionRequest& wanted, bool stays) {
  const std::vector<BoxMemory> targets = wanted_boxes(wanted);
  std::vector<std::byte> buffer;
  uint64_t copied = 0;
  for (const ForeignPiece& piece : tensor.pieces) {
    if (piece.bytes.size == 0) continue;
    CKPT_ASSIGN(const Bytes bytes, files.place(piece.bytes));
    CKPT_ASSIGN(const std::vector<BoxMemory> sources, boxes_of_piece(wanted.geometry, tensor, piece, bytes));
    const std::string path = files.path(piece.bytes.file);
    const bool remote = files.remote_of(piece.bytes.file) != nullptr;
    for (const BoxMemory& from : sources)
      for (const BoxMemory& to : targets) {
        auto copy = [&](const Box& part) -> Status {
          const FileRange near = range_near(piece.bytes, bytes, from, part, wanted.geometry.width);
          CKPT_TRY(files.fetch({near}));
          CKPT_TRY(copy_shared(from, to, part, wanted.geometry, buffer, path));
          copied += part.volume();
          if (!stays) files.release(near);
          return Ok();
        };
        const Box shared = plan::intersect(from.box, to.box);
        if (shared.volume() == 0) continue;
        CKPT_TRY(remote ? in_parts(from, shared, wanted.geometry.width, copy) : copy(shared));
      }
  }
  const uint64_t expected = plan::units_of(wanted.geometry, wanted.units);
  if (copied == expected) return Ok();
  return Status(CKPT_INTERNAL,
                strformat("tensor {}: {} of {} units were copied", ckpt::in_quotes(tensor.name), copied, expected));
}

}  // namespace ckpt::interop
