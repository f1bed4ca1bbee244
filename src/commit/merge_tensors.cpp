// Merges the tensors of all parts.
#include "commit/merge_steps.h"

#include <algorithm>
#include <set>

#include "checkpoint/index_coverage.h"
#include "plan/coverage.h"

namespace ckpt::commit {

static std::span<const fb::Tensor> tensors_of(const checkpoint::PartFile& part) { return part.index.tensors; }
static std::string_view name_of(const checkpoint::PartFile& part, const fb::Tensor& tensor) {
  return part.index.text(tensor.name());
}

LargeVector<NameRef> tensors_by_name(std::span<const checkpoint::PartFile> parts) {
  return records_by_name(parts, tensors_of, name_of);
}

static std::string describe(const Held<fb::Tensor>& held) {
  return dtype_name(held.record->dtype()) + std::string(" ") + to_text(held.part->index.shape_of(*held.record));
}

static Status add_merged_tensor(std::span<const Held<fb::Tensor>> same, format::IndexBuilder& builder) {
  const Held<fb::Tensor>& first = same[0];
  std::string_view name = name_of(*first.part, *first.record);
  auto extents = first.part->index.extents_of(*first.record);
  for (const Held<fb::Tensor>& held : same.subspan(1)) {
    auto others = held.part->index.extents_of(*held.record);
    if (held.record->dtype() != first.record->dtype() || !std::ranges::equal(extents, others))
      return disagree("tensor", name, *first.part, *held.part, describe(first), describe(held));
  }
  Shape shape = Shape::of(extents);
  builder.add_tensor(name, first.record->dtype(), shape);
  for (const Held<fb::Tensor>& held : same) {
    const format::Index& index = held.part->index;
    for (const fb::Segment& segment : index.segments_of(*held.record))
      builder.add_segment(held.part->number, index.region_of(segment, held.record->ndim()), shape,
                          static_cast<Codec>(segment.codec()), static_cast<Filter>(segment.filter()),
                          segment.filter_width(), index.chunks_of(segment));
  }
  return Ok();
}

Result<uint64_t> merge_tensors(std::span<const checkpoint::PartFile> parts, std::span<const NameRef> tensors,
                               format::IndexBuilder& builder) {
  uint64_t count = 0;
  CKPT_TRY(for_each_name<fb::Tensor>(parts, tensors, tensors_of, name_of, [&](const auto& same) {
    count++;
    return add_merged_tensor(same, builder);
  }));
  return count;
}

// ---- coverage ----

static Status coverage_error(Status status, std::string_view name, std::span<const uint32_t> ranks) {
  std::string owners;
  std::set<uint32_t> distinct(ranks.begin(), ranks.end());
  for (uint32_t rank : distinct) owners += (owners.empty() ? "" : ", ") + std::to_string(rank);
  const std::string *first = status.detail("first"), *second = status.detail("second");
  if (first && second) {
    size_t a = std::stoul(*first), b = std::stoul(*second);
    if (a < ranks.size() && b < ranks.size()) owners = strformat("{}, {}", ranks[a], ranks[b]);
  }
  // Whether an element is missing or double, the ranks' descriptions do not fit together.
  Status mismatch(CKPT_MISMATCH, "tensor " + quoted(name) + " (ranks " + owners + "): " + status.message());
  if (const std::string* found = status.detail("found")) mismatch = std::move(mismatch).with("found", *found);
  return std::move(mismatch).with("tensor", std::string(name)).with("ranks", owners);
}

static Status explain_coverage(std::span<const checkpoint::PartFile> parts, const format::Index& merged,
                               const fb::Tensor& tensor) {
  std::vector<Region> regions;
  std::vector<uint32_t> ranks;
  for (const fb::Segment& segment : merged.segments_of(tensor)) {
    regions.push_back(merged.region_of(segment, tensor.ndim()));
    ranks.push_back(segment.part());  // a part's number is its rank
  }
  Status covered = plan::check_coverage(merged.shape_of(tensor), regions);
  if (covered.ok()) return covered;
  std::string_view name = merged.text(tensor.name());
  for (const checkpoint::PartFile& part : parts)
    if (part.index.find_tensor(name)) ranks.push_back(part.header.rank);
  return coverage_error(std::move(covered), name, ranks);
}

Status check_merged_coverage(std::span<const checkpoint::PartFile> parts, const format::Index& merged,
                             unsigned threads) {
  Status wrong = checkpoint::check_index_coverage(merged, threads);
  if (wrong.ok()) return wrong;
  for (uint32_t at : merged.divided) CKPT_TRY(explain_coverage(parts, merged, merged.tensors[at]));
  return wrong;
}

}  // namespace ckpt::commit
