// Merges the tensors of all parts: checks that the ranks describe the same tensors and together hold every element
// once, and finds the layout of each.
#include "commit/merge_steps.h"

#include <algorithm>
#include <set>

#include "checkpoint/region_order.h"
#include "plan/box.h"
#include "plan/coverage.h"

namespace ckpt::commit {

using Described = std::span<const Held<fb::Tensor>>;

static std::span<const fb::Tensor> tensors_of(const format::Page& page) { return page.tensors; }
static std::string_view name_of(const format::Page& page, const fb::Tensor& tensor) { return page.text(tensor.name()); }

// ---- who holds what of one tensor ----

namespace {

// What one rank wrote of a region.
struct Share {
  uint64_t start, count;
  uint32_t part;
};

// A region as one part tells it.
struct HeldRegion {
  const Held<fb::Tensor>* by = nullptr;
  const fb::Region* region = nullptr;
  std::span<const uint64_t> numbers;
  // By kind, then by numbers: the order of FORMAT §4.
  bool before(const HeldRegion& other) const {
    return region->kind() != other.region->kind() ? region->kind() < other.region->kind()
                                                  : std::ranges::lexicographical_compare(numbers, other.numbers);
  }
};

class TensorMerge {
 public:
  TensorMerge(Described same, format::IndexBuilder& builder) : same_(same), builder_(builder) {}
  Status run();

 private:
  struct Holders {
    Region region;
    std::vector<Share> shares;  // by their start
    std::vector<uint32_t> parts;
  };
  bool add_whole();
  Status check_same() const;
  void collect();
  Status check_shares(Holders& holders) const;
  Status check_regions() const;
  bool find_grid();
  uint32_t layout() const;
  Status uncovered(Status status, const std::vector<uint32_t>& ranks) const;

  std::string_view name() const { return name_of(*same_[0].page, *same_[0].record); }
  std::span<const uint64_t> extents() const { return same_[0].page->extents_of(*same_[0].record); }
  Shape shape() const { return Shape::of(extents()); }

  const Described same_;
  format::IndexBuilder& builder_;
  std::vector<Holders> regions_;
  HeldRegion last_;              // of the regions collected
  std::vector<uint32_t> parts_;  // that hold something
  std::vector<uint64_t> cells_;  // of the grid that the regions make; empty if they make none
  std::vector<const Holders*> by_cell_;
  uint64_t elements_ = 0, stored_bytes_ = 0, segments_ = 0;
};

static std::string describe(const Held<fb::Tensor>& held) {
  return dtype_name(held.record->dtype()) + std::string(" ") + to_text(held.page->shape_of(*held.record));
}

Status TensorMerge::check_same() const {
  for (const Held<fb::Tensor>& held : same_.subspan(1))
    if (held.record->dtype() != same_[0].record->dtype() ||
        !std::ranges::equal(extents(), held.page->extents_of(*held.record)))
      return disagree("tensor", name(), *same_[0].part, *held.part, describe(same_[0]), describe(held));
  return Ok();
}

void TensorMerge::collect() {
  count_elements(extents(), &elements_);
  std::vector<HeldRegion> held;
  for (const Held<fb::Tensor>& by : same_) {
    const auto regions = by.page->regions_of(*by.record);
    if (!regions.empty()) parts_.push_back(by.part->number);
    for (const fb::Region& region : regions) {
      const size_t count = region_number_count(static_cast<RegionKind>(region.kind()), by.record->ndim());
      held.push_back({&by, &region, by.page->numbers.subspan(region.geometry(), count)});
    }
  }
  // Equal regions become neighbours, in order of parts.
  std::stable_sort(held.begin(), held.end(), [](const HeldRegion& a, const HeldRegion& b) { return a.before(b); });
  for (const HeldRegion& at : held) {
    if (regions_.empty() || last_.before(at))
      regions_.push_back({at.by->page->region_of(*at.region, at.by->record->ndim()), {}, {}});
    last_ = at;
    for (const fb::Segment& segment : at.by->page->segments_of(*at.region)) {
      regions_.back().shares.push_back({segment.start(), segment.count(), at.by->part->number});
      segments_++;
      for (const fb::Chunk& chunk : at.by->page->chunks_of(segment)) stored_bytes_ += chunk.stored_size();
    }
  }
}

// Whether an element is missing or double, the ranks' descriptions do not fit together.
Status TensorMerge::uncovered(Status status, const std::vector<uint32_t>& ranks) const {
  std::string owners;
  const std::set<uint32_t> distinct(ranks.begin(), ranks.end());
  for (uint32_t rank : distinct) owners += (owners.empty() ? "" : ", ") + std::to_string(rank);
  Status mismatch(CKPT_MISMATCH, "tensor " + quoted(name()) + " (ranks " + owners + "): " + status.message());
  if (const std::string* found = status.detail("found")) mismatch = std::move(mismatch).with("found", *found);
  return std::move(mismatch).with("tensor", std::string(name())).with("ranks", owners);
}

Status TensorMerge::check_shares(Holders& holders) const {
  std::sort(holders.shares.begin(), holders.shares.end(),
            [](const Share& a, const Share& b) { return std::tie(a.start, a.part) < std::tie(b.start, b.part); });
  const uint64_t total = checkpoint::region_volume(holders.region, elements_);
  uint64_t end = 0;
  for (size_t i = 0; i < holders.shares.size(); i++) {
    const Share& share = holders.shares[i];
    if (share.start < end)
      return uncovered(
          Status(CKPT_MISMATCH, strformat("both hold element {} of {}", share.start, to_text(holders.region)))
              .with("found", to_text(holders.region)),
          {holders.shares[i - 1].part, share.part});
    if (share.start > end) break;
    end = share.start + share.count;
    if (std::find(holders.parts.begin(), holders.parts.end(), share.part) == holders.parts.end())
      holders.parts.push_back(share.part);
  }
  if (end == total) return Ok();
  return uncovered(Status(CKPT_INCOMPLETE, strformat("no rank holds element {} of {}", end, to_text(holders.region)))
                       .with("found", to_text(holders.region)),
                   parts_);
}

Status TensorMerge::check_regions() const {
  if (regions_.size() == 1 && regions_[0].region.kind == RegionKind::kWhole) return Ok();
  std::vector<Region> regions;
  for (const Holders& holders : regions_) regions.push_back(holders.region);
  Status covered = plan::check_coverage(shape(), regions);
  if (covered.ok()) return covered;
  std::vector<uint32_t> ranks;
  const std::string *first = covered.detail("first"), *second = covered.detail("second");
  for (const std::string* at : {first, second})
    if (at && std::stoul(*at) < regions_.size()) ranks.push_back(regions_[std::stoul(*at)].parts[0]);
  if (ranks.empty())
    for (const Held<fb::Tensor>& held : same_) ranks.push_back(held.part->header.rank);
  return uncovered(std::move(covered), ranks);
}

// ---- the layout ----

// Whether the regions are one box for each cell of a grid of several cells. Then they cover the tensor, each
// element once.
bool TensorMerge::find_grid() {
  const Shape shape = this->shape();
  if (regions_.size() < 2) return false;
  const Holders* corner = nullptr;
  for (const Holders& holders : regions_) {
    if (holders.region.kind != RegionKind::kBox) return false;
    if (std::ranges::all_of(holders.region.box.offset.span(), [](uint64_t at) { return at == 0; })) corner = &holders;
  }
  if (!corner) return false;
  const Shape size = corner->region.box.extent;
  uint64_t count = 1;
  std::vector<uint64_t> cells;
  for (int d = 0; d < shape.ndim; d++) {
    cells.push_back((shape[d] + size[d] - 1) / size[d]);
    // The smallest number of cells of that size must give that size again.
    if ((shape[d] + cells.back() - 1) / cells.back() != size[d]) return false;
    if (mul_overflows(count, cells.back(), &count)) return false;
  }
  if (count != regions_.size()) return false;
  const Shape strides = plan::contiguous_strides(Shape::of(cells));
  std::vector<const Holders*> by_cell(count);
  for (const Holders& holders : regions_) {
    uint64_t number = 0;
    for (int d = 0; d < shape.ndim; d++) {
      const uint64_t at = holders.region.box.offset[d];
      if (at % size[d] != 0 || holders.region.box.extent[d] != std::min(size[d], shape[d] - at)) return false;
      number += at / size[d] * strides[d];
    }
    by_cell[number] = &holders;
  }
  // Regions differ, so there is one for each cell.
  cells_ = std::move(cells);
  by_cell_ = std::move(by_cell);
  return true;
}

uint32_t TensorMerge::layout() const {
  if (cells_.empty()) return builder_.list_layout(parts_);
  size_t per_cell = 1;
  for (const Holders* holders : by_cell_) per_cell = std::max(per_cell, holders->parts.size());
  std::vector<uint32_t> sequence;
  sequence.reserve(per_cell * by_cell_.size());
  for (const Holders* holders : by_cell_)
    for (size_t i = 0; i < per_cell; i++) sequence.push_back(holders->parts[std::min(i, holders->parts.size() - 1)]);
  return builder_.grid_layout(cells_, static_cast<uint32_t>(per_cell), sequence);
}

// The usual case in few steps: one rank has the tensor, and wrote all of it. False in any other case.
bool TensorMerge::add_whole() {
  const auto regions = same_[0].page->regions_of(*same_[0].record);
  if (same_.size() != 1 || regions.size() != 1 || regions[0].kind() != 0 || regions[0].segment_count() != 1)
    return false;
  const fb::Segment& segment = same_[0].page->segments_of(regions[0])[0];
  if (!count_elements(extents(), &elements_) || segment.count() != elements_) return false;
  for (const fb::Chunk& chunk : same_[0].page->chunks_of(segment)) stored_bytes_ += chunk.stored_size();
  builder_.add_tensor(name(), same_[0].record->dtype(), extents());
  builder_.add_holding(stored_bytes_, 1, builder_.list_layout({&same_[0].part->number, 1}));
  return true;
}

Status TensorMerge::run() {
  if (add_whole()) return Ok();
  CKPT_TRY(check_same());
  collect();
  if (elements_ != 0) {
    for (Holders& holders : regions_) CKPT_TRY(check_shares(holders));
    if (!find_grid()) CKPT_TRY(check_regions());
  }
  builder_.add_tensor(name(), same_[0].record->dtype(), extents());
  builder_.add_holding(stored_bytes_, static_cast<uint32_t>(segments_), layout());
  return Ok();
}

}  // namespace

Result<LargeVector<NameRef>> merge_tensors(PartPages pages, format::IndexBuilder& builder) {
  LargeVector<NameRef> tensors = records_by_name(pages, tensors_of, name_of);
  CKPT_TRY(for_each_name<fb::Tensor>(pages, tensors, tensors_of, name_of,
                                     [&](Described same) { return TensorMerge(same, builder).run(); }));
  return tensors;
}

}  // namespace ckpt::commit
