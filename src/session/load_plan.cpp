// Which chunks a set of boxes needs. Pure but for the index it reads.
#include <algorithm>
#include <map>
#include <tuple>

#include "plan/box.h"
#include "session/load.h"

namespace ckpt::session {

void add_boxes(LoadPlan* plan, uint32_t request, const Geometry& geometry, const Region& units,
               const device::Memory& memory) {
  uint64_t count = units_of(geometry, units);
  plan->units += count;
  if (count == 0) return;
  if (units.kind != RegionKind::kFlat) {
    plan->boxes.push_back({request, order_of(geometry, units).box, memory});
    return;
  }
  // A flat range is a few boxes, one after the other in memory.
  uint64_t width =
      memory.dtype == geometry.dtype ? geometry.width : static_cast<uint64_t>(dtype_bits(memory.dtype)) / 8;
  uint64_t position = 0;
  for (const Box& box : plan::boxes_of_range(Box::whole(geometry.shape), units.flat_offset, units.flat_size)) {
    device::Memory at = memory;
    at.data = memory.data + position * width;
    at.ndim = box.ndim();
    Shape strides = plan::contiguous_strides(box.extent);
    at.strides = strides.dims;
    plan->boxes.push_back({request, box, at});
    position += box.volume();
  }
}

// What one box takes of one segment: adds (read, box) pairs.
struct PairKey {
  uint32_t part;
  uint64_t offset;
  const fb::Tensor* tensor;
  const fb::Segment* segment;
  const fb::Chunk* chunk;
  uint64_t first;
  uint32_t box;
};

class ReadPlanner {
 public:
  ReadPlanner(const format::Index& index, LoadPlan* plan) : index_(index), plan_(plan) {}

  Status add(const fb::Tensor& tensor, uint32_t box_index) {
    const Box& wanted = plan_->boxes[box_index].box;
    uint64_t found = 0, volume = wanted.volume();
    if (cached_tensor_ != &tensor) cache(tensor);
    for (size_t i = 0; i < segments_.size(); i++) {
      found += add_segment(tensor, segments_[i], box_index, wanted);
      if (found == volume) break;
    }
    if (found == volume) return Ok();
    return Status(CKPT_INCOMPLETE,
                  strprintf("tensor \"%s\": %llu of the %llu elements of box %s are stored",
                            std::string(index_.text(tensor.name())).c_str(), static_cast<unsigned long long>(found),
                            static_cast<unsigned long long>(volume), to_text(wanted).c_str()))
        .with("tensor", std::string(index_.text(tensor.name())));
  }

  void finish();

 private:
  struct Stored {
    const fb::Segment* segment;
    Order order;
    uint64_t units;
  };

  void cache(const fb::Tensor& tensor) {
    cached_tensor_ = &tensor;
    geometry_ = *geometry_of(tensor.dtype(), index_.shape_of(tensor));
    segments_.clear();
    for (const fb::Segment& segment : index_.segments_of(tensor)) {
      Region region =
          *to_units(geometry_, tensor.dtype(), index_.shape_of(tensor), index_.region_of(segment, tensor.ndim()));
      segments_.push_back({&segment, order_of(geometry_, region), units_of(geometry_, region)});
    }
  }

  uint64_t add_segment(const fb::Tensor& tensor, const Stored& stored, uint32_t box_index, const Box& wanted);

  const format::Index& index_;
  LoadPlan* plan_;
  const fb::Tensor* cached_tensor_ = nullptr;
  Geometry geometry_;
  std::vector<Stored> segments_;
  std::vector<PairKey> pairs_;
};

// The number of units that this segment gives. Segments do not overlap, so the sum proves that the box is complete.
uint64_t ReadPlanner::add_segment(const fb::Tensor& tensor, const Stored& stored, uint32_t box_index,
                                  const Box& wanted) {
  Box common = plan::intersect(stored.order.box, wanted);
  if (common.volume() == 0) return 0;
  bool all = common == stored.order.box;
  Shape strides = plan::contiguous_strides(wanted.extent);
  auto chunks = index_.chunks_of(*stored.segment);
  uint64_t first = stored.order.first, last = stored.order.first + stored.units, found = 0;
  uint64_t chunk_units = chunks[0].raw_size() / geometry_.width;
  size_t begin = 0, end = chunks.size();
  if (!all) {
    // Only chunks between the first and the last wanted position can hold anything.
    Shape steps = plan::contiguous_strides(stored.order.box.extent);
    uint64_t low = 0, high = 0;
    for (int i = 0; i < steps.ndim; i++) {
      low += (common.offset[i] - stored.order.box.offset[i]) * steps[i];
      high += (common.offset[i] + common.extent[i] - 1 - stored.order.box.offset[i]) * steps[i];
    }
    if (high < first || low >= last) return 0;
    begin = low <= first ? 0 : (low - first) / chunk_units;
    end = std::min<uint64_t>(end, (high - first) / chunk_units + 1);
  }
  for (size_t i = begin; i < end; i++) {
    uint64_t from = first + i * chunk_units, to = std::min(last, from + chunk_units), count = 0;
    if (all)
      count = to - from;
    else
      plan::for_each_run(stored.order.box, from, to, wanted, strides.span(), [&](const plan::Run& run) {
        count += run.count;
        plan_->run_count++;
      });
    if (count == 0) continue;
    found += count;
    pairs_.push_back(
        {stored.segment->part(), chunks[i].offset(), &tensor, stored.segment, &chunks[i], from, box_index});
  }
  if (all) plan_->run_count++;
  plan_->bytes_requested += found * geometry_.width;
  return found;
}

// Sorts the pairs by place in the parts; boxes that want the same chunk share its read.
void ReadPlanner::finish() {
  std::sort(pairs_.begin(), pairs_.end(), [](const PairKey& a, const PairKey& b) {
    return std::tie(a.part, a.offset, a.box) < std::tie(b.part, b.offset, b.box);
  });
  for (const PairKey& pair : pairs_) {
    if (plan_->reads.empty() || plan_->reads.back().chunk != pair.chunk)
      plan_->reads.push_back({pair.part, pair.tensor, pair.segment, pair.chunk, pair.first,
                              static_cast<uint32_t>(plan_->targets.size()), 0});
    plan_->targets.push_back(pair.box);
    plan_->reads.back().wanted_count++;
  }
}

Status plan_reads(const format::Index& index, std::span<const fb::Tensor* const> tensor_of, LoadPlan* plan) {
  ReadPlanner planner(index, plan);
  for (uint32_t i = 0; i < plan->boxes.size(); i++) CKPT_TRY(planner.add(*tensor_of[plan->boxes[i].request], i));
  planner.finish();
  return Ok();
}

}  // namespace ckpt::session
