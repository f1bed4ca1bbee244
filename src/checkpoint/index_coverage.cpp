#include "checkpoint/index_coverage.h"

#include <algorithm>

#include "base/parallel.h"
#include "plan/coverage.h"

namespace ckpt::checkpoint {

// So many segments are worth another thread.
static constexpr size_t kSegmentsInRange = 1 << 14;

// Whether the segments, in their order, are slabs of the tensor along one dimension, or flat ranges, that follow each
// other without a gap. Ranks cut nearly every tensor like this. Other segments may cover the tensor too.
static bool consecutive(const format::Index& index, std::span<const uint64_t> dims,
                        std::span<const fb::Segment> segments, uint64_t elements) {
  const size_t ndim = dims.size();
  auto cut = [&](const uint64_t* box) {  // the dimension along which a box does not span the tensor
    size_t d = 0;
    while (d + 1 < ndim && box[ndim + d] == dims[d]) d++;
    return d;
  };
  const bool flat = segments[0].kind() == 1;
  if (!flat && ndim == 0) return segments.size() == 1;
  const size_t along = flat ? 0 : cut(&index.numbers[segments[0].geometry()]);
  uint64_t reached = 0;
  for (const fb::Segment& segment : segments) {
    const uint64_t* at = &index.numbers[segment.geometry()];
    if ((segment.kind() == 1) != flat || at[along] != reached) return false;
    reached += at[flat ? 1 : ndim + along];
    for (size_t d = 0; d < ndim && !flat; d++)
      if (d != along && at[ndim + d] != dims[d]) return false;  // its offset is 0 then, since it lies inside
  }
  return reached == (flat ? elements : dims[along]);
}

static Status check_tensor(const format::Index& index, const fb::Tensor& tensor, std::vector<Region>* regions) {
  auto segments = index.segments_of(tensor);
  uint64_t elements = 0;
  if (!segments.empty() && count_elements(index.extents_of(tensor), &elements) &&
      consecutive(index, index.extents_of(tensor), segments, elements))
    return Ok();
  regions->clear();
  for (const fb::Segment& segment : segments) regions->push_back(index.region_of(segment, tensor.ndim()));
  Status status = plan::check_coverage(index.shape_of(tensor), *regions);
  if (status.ok()) return status;
  std::string name(index.text(tensor.name()));
  return Status(CKPT_FORMAT, "tensor \"" + name + "\": " + status.message()).with("tensor", name);
}

Status check_index_coverage(const format::Index& index, unsigned threads) {
  size_t ranges = threads > 1 ? std::min(index.divided.size(), 1 + index.segments.size() / kSegmentsInRange) : 1;
  std::vector<Status> found(std::max<size_t>(ranges, 1));
  CKPT_TRY(for_each_parallel(found.size() > 1 ? threads : 1, found.size(), [&](size_t i) {
    std::vector<Region> regions;
    size_t count = index.divided.size(), end = count * (i + 1) / found.size();
    for (size_t at = count * i / found.size(); at < end && found[i].ok(); at++)
      found[i] = check_tensor(index, index.tensors[index.divided[at]], &regions);
    return Ok();
  }));
  for (Status& status : found)
    if (!status.ok()) return std::move(status);
  return Ok();
}

}  // namespace ckpt::checkpoint
