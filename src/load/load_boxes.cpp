// Adds wanted boxes to a load plan as compact records, and turns records back into boxes and memories.
#include <algorithm>

#include "load/load_plan.h"
#include "plan/box.h"

namespace ckpt::load {

uint64_t put_numbers(LoadPlan* plan, std::initializer_list<std::span<const uint64_t>> lists) {
  uint64_t at = plan->numbers.size();
  for (auto list : lists) plan->numbers.insert(plan->numbers.end(), list.begin(), list.end());
  return at;
}

static void add_box(LoadPlan* plan, uint32_t tensor, const plan::Geometry& geometry, const Box& box,
                    const device::Memory& memory) {
  WantedBox wanted{memory.data, kNoNumbers, tensor, memory.dtype, memory.device};
  size_t ndim = static_cast<size_t>(box.ndim());
  if (!(box.extent == geometry.shape) || !plan::is_contiguous(box.extent.span(), memory.strides))
    wanted.numbers = put_numbers(plan, {box.offset.span(), box.extent.span(), {memory.strides.data(), ndim}});
  plan->boxes.push_back(wanted);
}

void add_boxes(LoadPlan* plan, const checkpoint::TensorRef& from, const plan::Geometry& geometry, const Region& units,
               const device::Memory& memory) {
  uint64_t count = plan::units_of(geometry, units);
  plan->units += count;
  if (count == 0) return;
  if (plan->tensors.empty() || !(plan->tensors.back() == from)) plan->tensors.push_back(from);
  const auto tensor = static_cast<uint32_t>(plan->tensors.size() - 1);
  bool all = units.kind == RegionKind::kFlat
                 ? count == geometry.volume
                 : units.kind == RegionKind::kWhole && plan::is_contiguous(geometry.shape.span(), memory.strides);
  if (all) {
    plan->boxes.push_back({memory.data, kNoNumbers, tensor, memory.dtype, memory.device});
    return;
  }
  if (units.kind != RegionKind::kFlat)
    return add_box(plan, tensor, geometry, plan::order_of(geometry, units).box, memory);
  // A flat range is a few boxes that follow each other in memory.
  uint64_t width =
      memory.dtype == geometry.dtype ? geometry.width : static_cast<uint64_t>(dtype_bits(memory.dtype)) / 8;
  uint64_t position = 0;
  for (const Box& box : plan::boxes_of_range(Box::whole(geometry.shape), units.flat_offset, units.flat_size)) {
    device::Memory at = memory;
    at.data = memory.data + position * width;
    at.ndim = box.ndim();
    at.strides = plan::contiguous_strides(box.extent).dims;
    add_box(plan, tensor, geometry, box, at);
    position += box.volume();
  }
}

const uint64_t* LoadPlan::places_of(uint32_t box) const {
  const auto at = std::ranges::lower_bound(placed, box, {}, &PlacedRows::box);
  return at == placed.end() || at->box != box ? nullptr : at->places;
}

Box LoadPlan::box_of(const WantedBox& wanted) const {
  const checkpoint::TensorRef& tensor = tensors[wanted.tensor];
  Shape shape = plan::geometry_of(tensor.dtype(), tensor.shape())->shape;
  if (wanted.numbers == kNoNumbers) return Box::whole(shape);
  size_t ndim = static_cast<size_t>(shape.ndim);
  std::span<const uint64_t> values(numbers.data() + wanted.numbers, 2 * ndim);
  return {Shape::of(values.first(ndim)), Shape::of(values.subspan(ndim))};
}

device::Memory LoadPlan::memory_of(const WantedBox& wanted) const {
  const checkpoint::TensorRef& tensor = tensors[wanted.tensor];
  Shape shape = plan::geometry_of(tensor.dtype(), tensor.shape())->shape;
  size_t ndim = static_cast<size_t>(shape.ndim);
  device::Memory memory{
      .data = wanted.data, .dtype = wanted.dtype, .strides = {}, .ndim = shape.ndim, .device = wanted.device};
  if (wanted.numbers == kNoNumbers)
    memory.strides = plan::contiguous_strides(shape).dims;
  else
    std::copy_n(numbers.begin() + static_cast<ptrdiff_t>(wanted.numbers + 2 * ndim), ndim, memory.strides.begin());
  return memory;
}

Box LoadPlan::box_of(const StoredSegment& segment) const {
  const checkpoint::TensorRef& tensor = tensors[segment.tensor];
  size_t ndim = static_cast<size_t>(plan::geometry_of(tensor.dtype(), tensor.shape())->shape.ndim);
  std::span<const uint64_t> values(numbers.data() + segment.numbers, 2 * ndim);
  return {Shape::of(values.first(ndim)), Shape::of(values.subspan(ndim))};
}

uint64_t LoadPlan::first_unit(const ChunkRead& read) const {
  const StoredSegment& segment = segment_of(read);
  return segment.first + static_cast<uint64_t>(read.chunk - segment.piece.chunks().data()) * segment.chunk_units;
}

std::byte* LoadPlan::whole_target(const ChunkRead& read) const {
  if (read.target_count != 1) return nullptr;
  const Overlap& overlap = overlaps[targets[read.target_first]];
  const StoredSegment& segment = segments[overlap.segment];
  uint64_t from = first_unit(read), end = from + chunk_of(read).raw_size() / segment.width;
  if (from < overlap.source || end > overlap.source + overlap.count) return nullptr;
  return overlap.to + (from - overlap.source) * segment.width;
}

}  // namespace ckpt::load
