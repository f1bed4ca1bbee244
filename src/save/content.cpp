#include "save/content.h"

#include <algorithm>
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

SaveTensor* keep_tensor(std::string_view name, const device::RegionRequest& request, const Replica& replica,
                        std::pmr::memory_resource* memory) {
  const bool in_a_row = request.bytes == 0 || plan::is_contiguous(request.memory_extent.span(), request.memory.strides);
  const Region& region = request.region;
  const size_t ndim = static_cast<size_t>(request.shape.ndim);
  const size_t steps = in_a_row ? 0 : static_cast<size_t>(request.memory_extent.ndim);
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
                                 .arrangement = in_a_row ? Arrangement::kRow : Arrangement::kStrided,
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

std::string_view SaveContent::keep_text(std::string_view text) {
  auto* kept = static_cast<char*>(memory.allocate(text.size(), 1));
  std::ranges::copy(text, kept);
  return {kept, text.size()};
}

SaveTensor* SaveContent::with_rows(const SaveTensor& like, std::string_view name, uint64_t rows) {
  static std::byte nothing;
  auto* numbers = static_cast<uint64_t*>(memory.allocate(like.ndim * sizeof(uint64_t), alignof(uint64_t)));
  std::ranges::copy(like.extents(), numbers);
  auto* tensor = new (memory.allocate(sizeof(SaveTensor), alignof(SaveTensor))) SaveTensor(like);
  tensor->name = keep_text(name);
  tensor->bytes = like.bytes / std::max<uint64_t>(numbers[0], 1) * rows;
  tensor->numbers = numbers;
  numbers[0] = rows;
  if (rows == 0) {
    tensor->arrangement = Arrangement::kRow;
    tensor->data = &nothing;
  }
  tensors.push_back(tensor);
  return tensor;
}

}  // namespace ckpt::save
