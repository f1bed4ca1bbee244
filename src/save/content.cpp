#include "save/content.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/name_order.h"
#include "plan/box.h"

namespace ckpt::save {

namespace {

class LargeMemory : public std::pmr::memory_resource {
  void* do_allocate(size_t bytes, size_t) override { return allocate_large(bytes); }
  void do_deallocate(void* memory, size_t bytes, size_t) override { free_large(memory, bytes); }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

}  // namespace

std::pmr::memory_resource* large_memory() {
  static LargeMemory memory;
  return &memory;
}

Region SaveTensor::region() const { return region_of_numbers(kind, region_numbers()); }

uint64_t SaveTensor::elements() const {
  const Region held = region();
  uint64_t total = 0;
  count_elements(extents(), &total);
  return held.kind == RegionKind::kBox ? held.box.volume() : held.kind == RegionKind::kFlat ? held.flat_size : total;
}

SaveMemory SaveTensor::memory() const {
  plan::Geometry moving = geometry();
  Shape extent = plan::memory_extent(moving, *plan::to_units(moving, dtype, shape(), region()));
  size_t count = static_cast<size_t>(extent.ndim);
  Shape strides = contiguous ? plan::contiguous_strides(extent)
                             : Shape::of({numbers + ndim + region_number_count(kind, ndim), count});
  return {{.data = data, .dtype = moving.dtype, .strides = strides.dims, .ndim = extent.ndim, .device = device},
          extent};
}

// A row is a miss in all caches, and most of the time goes by waiting for it. So rows are looked up and fetched a good
// way ahead, and into the second-level cache: there are more such requests under way at once than the first level has
// places for. The last byte may lie in another line than the first. kRow: the size of a row, if the compiler knows it.
template <uint64_t kRow>
static void copy_rows(const RowSource source, uint64_t at, uint64_t count, std::byte* to) {
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

void RowSource::copy(uint64_t first, MutableBytes to) const {
  if (to.empty()) return;
  uint64_t at = first / row_bytes;
  if (const uint64_t skip = first % row_bytes; skip != 0) {
    const uint64_t size = std::min<uint64_t>(row_bytes - skip, to.size());
    std::memcpy(to.data(), row(at++) + skip, size);
    to = to.subspan(size);
  }
  const uint64_t rows = to.size() / row_bytes, left = to.size() % row_bytes;
  auto copy = row_bytes == 8    ? copy_rows<8>
              : row_bytes == 32 ? copy_rows<32>
              : row_bytes == 64 ? copy_rows<64>
                                : copy_rows<0>;
  copy(*this, at, rows, to.data());
  if (left != 0) std::memcpy(to.data() + rows * row_bytes, row(at + rows), left);
}

device::Transfers::Runs RowSource::runs() const {
  return [this](uint64_t first, uint64_t end, const device::Transfers::AddRun& add) {
    for (uint64_t at = first, size; at < end; at += size) {
      size = std::min(row_bytes - at % row_bytes, end - at);
      const uint64_t position = position_of(at / row_bytes);
      add(row_at(position) + at % row_bytes, size, position / rows_per_block);
    }
  };
}

void SaveTensor::gather(uint64_t first, MutableBytes to) const {
  if (gathered) return rows->copy(first * width, to);
  const SaveMemory from = memory();
  device::gather(from.memory, from.extent, first, to.size() / width, to);
}

Status SaveTensor::gather(uint64_t first, MutableBytes to, device::Transfers* transfers) const {
  if (device == 0) {
    gather(first, to);
    return Ok();
  }
  if (gathered) return transfers->gather(device, rows->runs(), first * width, to);
  const SaveMemory from = memory();
  return transfers->gather(from.memory, from.extent, first, to.size() / width, to);
}

Status SaveTensor::begin_gather(uint64_t first, MutableBytes to, device::Transfers& transfers) const {
  if (gathered) return transfers.begin_gather(device, rows->runs(), first * width, to);
  const SaveMemory from = memory();
  return transfers.begin_gather(from.memory, from.extent, first, to.size() / width, to.data());
}

void SaveTensor::end_gather(uint64_t first, MutableBytes fetched, std::vector<std::byte>* scratch) const {
  if (comes_in_order()) return;
  const SaveMemory from = memory();
  const uint64_t count = fetched.size() / width;
  if (!device::Transfers::needs_order(from.memory, from.extent, first, count)) return;
  scratch->assign(fetched.begin(), fetched.end());
  device::Transfers::put_in_order(scratch->data(), from.memory, from.extent, first, count, fetched.data());
}

SaveTensor* keep_tensor(std::string_view name, const device::RegionRequest& request, const Replica& replica,
                        std::pmr::memory_resource* memory) {
  bool contiguous = request.bytes == 0 || plan::is_contiguous(request.memory_extent.span(), request.memory.strides);
  const Region& region = request.region;
  const size_t ndim = static_cast<size_t>(request.shape.ndim);
  const size_t steps = contiguous ? 0 : static_cast<size_t>(request.memory_extent.ndim);
  const size_t count = ndim + region_number_count(region.kind, ndim) + steps;
  void* record = memory->allocate(sizeof(SaveTensor) + count * sizeof(uint64_t), alignof(SaveTensor));
  auto* numbers = reinterpret_cast<uint64_t*>(static_cast<std::byte*>(record) + sizeof(SaveTensor));
  uint64_t* end = put_region(region, std::copy_n(request.shape.dims.begin(), ndim, numbers));
  std::copy_n(request.memory.strides.begin(), steps, end);
  return new (record) SaveTensor{.name = name,
                                 .numbers = numbers,
                                 .data = request.memory.data,
                                 .bytes = request.bytes,
                                 .replica = replica,
                                 .dtype = request.dtype,
                                 .ndim = static_cast<uint8_t>(ndim),
                                 .kind = region.kind,
                                 .width = static_cast<uint8_t>(request.geometry.width),
                                 .contiguous = contiguous,
                                 .device = request.memory.device};
}

static bool region_before(const SaveTensor* a, const SaveTensor* b) {
  return a->kind != b->kind ? a->kind < b->kind
                            : std::ranges::lexicographical_compare(a->region_numbers(), b->region_numbers());
}

// Sorts the regions of each name. Nearly every name has one.
static const SaveTensor* sort_regions(std::span<SaveTensor*> tensors) {
  for (size_t first = 0, end; first < tensors.size(); first = end) {
    for (end = first + 1; end < tensors.size() && tensors[end]->name == tensors[first]->name; end++) {
    }
    if (end - first == 1) continue;
    const auto regions = tensors.subspan(first, end - first);
    std::ranges::sort(regions, region_before);
    for (size_t i = 1; i < regions.size(); i++)
      if (regions[i]->bytes != 0 && !region_before(regions[i - 1], regions[i])) return regions[i];
  }
  return nullptr;
}

const SaveTensor* sort_tensors(LargeVector<SaveTensor*>* tensors) {
  auto before = [](const SaveTensor* a, const SaveTensor* b) { return a->name < b->name; };
  if (!std::is_sorted(tensors->begin(), tensors->end(), before)) {
    LargeVector<NameRef> refs(tensors->size());
    for (size_t i = 0; i < refs.size(); i++) refs[i].at = static_cast<uint32_t>(i);
    sort_by_name(std::span(refs), [&](const NameRef& ref) { return (*tensors)[ref.at]->name; });
    LargeVector<SaveTensor*> sorted(refs.size());
    for (size_t i = 0; i < refs.size(); i++) sorted[i] = (*tensors)[refs[i].at];
    tensors->swap(sorted);
  }
  return sort_regions(*tensors);
}

}  // namespace ckpt::save
