#include "save/source.h"

#include <algorithm>
#include <cstring>

#include "plan/box.h"

namespace ckpt::save {

// A row is a miss in all caches, and most of the time goes by waiting for it. So rows are looked up and fetched a good
// way ahead, and into the second-level cache: there are more such requests under way at once than the first level has
// places for. The last byte may lie in another line than the first. kRow: the size of a row, if the compiler knows it.
template <uint64_t kRow>
static void copy_whole_rows(const RowSource source, uint64_t at, uint64_t count, std::byte* to) {
  static constexpr uint64_t kAhead = 32;
  const uint64_t size = kRow ? kRow : source.row_bytes;
  const std::byte* ahead[kAhead];
  auto fetch = [&](uint64_t i) {
    const std::byte* row = ahead[i % kAhead] = source.row(at + i);
    __builtin_prefetch(row, 0, 2);
    __builtin_prefetch(row + size - 1, 0, 2);
  };
  for (uint64_t i = 0; i < std::min(count, kAhead); i++) fetch(i);
  uint64_t i = 0;
  for (; i + kAhead < count; i++, to += size) {
    std::memcpy(to, ahead[i % kAhead], size);
    fetch(i + kAhead);
  }
  for (; i < count; i++, to += size) std::memcpy(to, ahead[i % kAhead], size);
}

// Copies bytes from byte `first` of all rows on, one after another.
static void copy_rows(const RowSource& rows, uint64_t first, MutableBytes to) {
  if (to.empty()) return;
  const uint64_t row_bytes = rows.row_bytes;
  uint64_t at = first / row_bytes;
  if (const uint64_t skip = first % row_bytes; skip != 0) {
    const uint64_t size = std::min<uint64_t>(row_bytes - skip, to.size());
    std::memcpy(to.data(), rows.row(at++) + skip, size);
    to = to.subspan(size);
  }
  const uint64_t whole = to.size() / row_bytes, left = to.size() % row_bytes;
  auto copy = row_bytes == 8    ? copy_whole_rows<8>
              : row_bytes == 32 ? copy_whole_rows<32>
              : row_bytes == 64 ? copy_whole_rows<64>
                                : copy_whole_rows<0>;
  copy(rows, at, whole, to.data());
  if (left != 0) std::memcpy(to.data() + whole * row_bytes, rows.row(at + whole), left);
}

static device::Transfers::Runs runs_of(const RowSource& rows) {
  return [&rows](uint64_t first, uint64_t end, const device::Transfers::AddRun& add) {
    for (uint64_t at = first, size; at < end; at += size) {
      size = std::min(rows.row_bytes - at % rows.row_bytes, end - at);
      const uint64_t position = rows.position_of(at / rows.row_bytes);
      add(rows.row_at(position) + at % rows.row_bytes, size, position / rows.rows_per_block);
    }
  };
}

namespace {

// Units of a tensor whose memory is in a row or strided.
struct Units {
  device::Memory memory{};
  Shape extent;
  uint64_t first = 0, count = 0;

  Units(const SaveTensor& tensor, uint64_t first_byte, uint64_t bytes)
      : first(first_byte / tensor.width), count(bytes / tensor.width) {
    // It cannot fail: it was checked when the tensor was added.
    const plan::Geometry geometry = *plan::geometry_of(tensor.dtype, tensor.shape());
    extent = plan::memory_extent(geometry, *plan::to_units(geometry, tensor.dtype, tensor.shape(), tensor.region()));
    const Shape strides = tensor.arrangement == Arrangement::kRow
                              ? plan::contiguous_strides(extent)
                              : Shape::of(tensor.strides(static_cast<size_t>(extent.ndim)));
    memory = {.data = tensor.data,
              .dtype = geometry.dtype,
              .strides = strides.dims,
              .ndim = extent.ndim,
              .device = tensor.device};
  }
};

}  // namespace

Status Source::read(uint64_t at, MutableBytes to, device::Transfers* transfers) const {
  if (data) {
    std::memcpy(to.data(), data + at, to.size());
    return Ok();
  }
  if (tensor->arrangement == Arrangement::kTable) {
    if (tensor->device != 0) return transfers->gather(tensor->device, runs_of(*tensor->rows), first + at, to);
    copy_rows(*tensor->rows, first + at, to);
    return Ok();
  }
  const Units units(*tensor, first + at, to.size());
  if (tensor->device != 0) return transfers->gather(units.memory, units.extent, units.first, units.count, to);
  device::gather(units.memory, units.extent, units.first, units.count, to);
  return Ok();
}

Result<Bytes> Source::view(uint64_t at, uint64_t size, std::vector<std::byte>* scratch,
                           device::Transfers* transfers) const {
  if (data) return direct(at, size);
  scratch->resize(std::max<size_t>(scratch->size(), size));
  const MutableBytes to = MutableBytes(*scratch).first(size);
  CKPT_TRY(read(at, to, transfers));
  return Bytes(to);
}

Status Source::begin_read(uint64_t at, MutableBytes to, device::Transfers& transfers) const {
  if (!on_device()) return read(at, to, nullptr);
  if (tensor->arrangement == Arrangement::kTable)
    return transfers.begin_gather(tensor->device, runs_of(*tensor->rows), first + at, to);
  const Units units(*tensor, first + at, to.size());
  return transfers.begin_gather(units.memory, units.extent, units.first, units.count, to.data());
}

void Source::end_read(uint64_t at, MutableBytes fetched, std::vector<std::byte>* scratch) const {
  if (!on_device() || comes_in_order()) return;
  const Units units(*tensor, first + at, fetched.size());
  if (!device::Transfers::needs_order(units.memory, units.extent, units.first, units.count)) return;
  scratch->assign(fetched.begin(), fetched.end());
  device::Transfers::put_in_order(scratch->data(), units.memory, units.extent, units.first, units.count,
                                  fetched.data());
}

}  // namespace ckpt::save
