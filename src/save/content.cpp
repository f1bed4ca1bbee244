#include "save/content.h"

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

static int region_numbers(RegionKind kind, int ndim) {
  return kind == RegionKind::kBox ? 2 * ndim : kind == RegionKind::kFlat ? 2 : 0;
}

Region SaveTensor::region() const {
  Region region;
  region.kind = kind;
  const uint64_t* at = numbers + ndim;
  if (kind == RegionKind::kBox) {
    region.box.offset = Shape::of({at, ndim});
    region.box.extent = Shape::of({at + ndim, ndim});
  } else if (kind == RegionKind::kFlat) {
    region.flat_offset = at[0];
    region.flat_size = at[1];
  }
  return region;
}

SaveMemory SaveTensor::memory() const {
  plan::Geometry moving = geometry();
  Shape extent = plan::memory_extent(moving, *plan::to_units(moving, dtype, shape(), region()));
  size_t count = static_cast<size_t>(extent.ndim);
  Shape strides =
      contiguous ? plan::contiguous_strides(extent) : Shape::of({numbers + ndim + region_numbers(kind, ndim), count});
  return {{.data = data, .dtype = moving.dtype, .strides = strides.dims, .ndim = extent.ndim}, extent};
}

static uint64_t* put(uint64_t* at, std::span<const uint64_t> values) {
  return std::copy(values.begin(), values.end(), at);
}

const SaveTensor* keep_tensor(std::string_view name, const device::RegionRequest& request, const Replica& replica,
                              std::pmr::memory_resource* memory) {
  bool contiguous = request.bytes == 0 || plan::is_contiguous(request.memory_extent.span(), request.memory.strides);
  const Region& region = request.region;
  int ndim = request.shape.ndim;
  size_t count =
      static_cast<size_t>(ndim + region_numbers(region.kind, ndim) + (contiguous ? 0 : request.memory_extent.ndim));
  void* record = memory->allocate(sizeof(SaveTensor) + count * sizeof(uint64_t), alignof(SaveTensor));
  auto* numbers = reinterpret_cast<uint64_t*>(static_cast<std::byte*>(record) + sizeof(SaveTensor));
  uint64_t* end = put(numbers, request.shape.span());
  if (region.kind == RegionKind::kBox) end = put(put(end, region.box.offset.span()), region.box.extent.span());
  if (region.kind == RegionKind::kFlat) end = put(end, std::array{region.flat_offset, region.flat_size});
  if (!contiguous) put(end, std::span(request.memory.strides).first(static_cast<size_t>(request.memory_extent.ndim)));
  return new (record) SaveTensor{.name = name,
                                 .numbers = numbers,
                                 .data = request.memory.data,
                                 .bytes = request.bytes,
                                 .replica = replica,
                                 .dtype = request.dtype,
                                 .ndim = static_cast<uint8_t>(ndim),
                                 .kind = region.kind,
                                 .width = static_cast<uint8_t>(request.geometry.width),
                                 .contiguous = contiguous};
}

void sort_tensors(LargeVector<const SaveTensor*>* tensors) {
  auto before = [](const SaveTensor* a, const SaveTensor* b) { return a->name < b->name; };
  if (std::is_sorted(tensors->begin(), tensors->end(), before)) return;
  LargeVector<NameRef> refs(tensors->size());
  for (size_t i = 0; i < refs.size(); i++) refs[i].at = static_cast<uint32_t>(i);
  sort_by_name(std::span(refs), [&](const NameRef& ref) { return (*tensors)[ref.at]->name; });
  LargeVector<const SaveTensor*> sorted(refs.size());
  for (size_t i = 0; i < refs.size(); i++) sorted[i] = (*tensors)[refs[i].at];
  tensors->swap(sorted);
}

}  // namespace ckpt::save
