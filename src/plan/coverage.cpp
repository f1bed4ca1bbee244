// check_coverage. Flat ranges are sorted as intervals. Boxes cover the tensor if none overlap and their volumes sum up
// to its volume, so the work is to prove that none overlap: boxes are split into groups along dimensions where they
// separate, and only groups that do not separate are compared pair by pair.
#include "plan/coverage.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "plan/box.h"
#include "plan/regions.h"

namespace ckpt::plan {

namespace {

struct Interval {
  uint64_t begin, end;
  size_t index;  // of the region
};

struct Item {
  const Box* box;
  size_t index;  // of the region
  uint64_t begin(int d) const { return box->offset[d]; }
  uint64_t end(int d) const { return box->offset[d] + box->extent[d]; }
};

using Overlap = std::optional<std::pair<size_t, size_t>>;

// A group this small is compared pair by pair at once.
constexpr size_t kFewItems = 8;

Status overlap_error(const Shape& shape, std::span<const Region> regions, std::pair<size_t, size_t> overlap) {
  auto [first, second] = std::minmax(overlap.first, overlap.second);
  return Status(CKPT_MISMATCH, strformat("regions {} ({}) and {} ({}) of shape {} hold the same elements", first,
                                         to_text(regions[first]), second, to_text(regions[second]), to_text(shape)))
      .with("first", first)
      .with("second", second);
}

Status uncovered(const Shape& shape, const Region& gap) {
  std::string text = to_text(gap);
  return Status(CKPT_INCOMPLETE, "no region of shape " + to_text(shape) + " holds " + text).with("found", text);
}

Status check_flat(const Shape& shape, std::span<const Region> regions, uint64_t total) {
  std::vector<Interval> intervals;
  for (size_t i = 0; i < regions.size(); i++) {
    const Region& region = regions[i];
    if (region.kind == RegionKind::kWhole)
      intervals.push_back({0, total, i});
    else if (region.flat_size)
      intervals.push_back({region.flat_offset, region.flat_offset + region.flat_size, i});
  }
  intervals.push_back({total, total, regions.size()});  // a sentinel, so that a gap at the end is seen
  std::sort(intervals.begin(), intervals.end(), [](const Interval& a, const Interval& b) {
    return std::tie(a.begin, a.index) < std::tie(b.begin, b.index);
  });
  uint64_t reached = 0;
  std::optional<Region> gap;
  for (size_t i = 0; i < intervals.size(); i++) {
    if (intervals[i].begin < reached)
      return overlap_error(shape, regions, {intervals[i - 1].index, intervals[i].index});
    if (intervals[i].begin > reached && !gap)
      gap = Region{RegionKind::kFlat, {}, reached, intervals[i].begin - reached};
    reached = intervals[i].end;
  }
  return gap ? uncovered(shape, *gap) : Ok();
}

bool overlap(const Box& a, const Box& b) {
  for (int d = 0; d < a.ndim(); d++)
    if (a.offset[d] >= b.offset[d] + b.extent[d] || b.offset[d] >= a.offset[d] + a.extent[d]) return false;
  return true;
}

void sort_along(std::span<Item> items, int d) {
  std::sort(items.begin(), items.end(), [d](const Item& a, const Item& b) { return a.begin(d) < b.begin(d); });
}

size_t distinct_starts(std::span<const Item> sorted, int d) {
  size_t count = 1;
  for (size_t i = 1; i < sorted.size(); i++) count += sorted[i].begin(d) != sorted[i - 1].begin(d);
  return count;
}

// Compares every box with the earlier ones that still reach it along `d`: O(n^2) at worst.
Overlap overlap_by_sweep(std::span<Item> items, int d) {
  sort_along(items, d);
  std::vector<Item> open;
  for (const Item& item : items) {
    std::erase_if(open, [&](const Item& other) { return other.end(d) <= item.begin(d); });
    for (const Item& other : open)
      if (overlap(*item.box, *other.box)) return std::pair(other.index, item.index);
    open.push_back(item);
  }
  return std::nullopt;
}

Overlap find_overlap(std::span<Item> items, int ndim, int depth);

// Splits `items`, sorted along `d`, into groups that no box straddles, and looks for overlaps in each group. Sets
// `*separated` if there is more than one group; otherwise it does nothing else.
Overlap overlap_in_groups(std::span<Item> items, int d, int ndim, int depth, bool* separated) {
  size_t first = 0;
  uint64_t reached = items[0].end(d);
  for (size_t i = 1; i <= items.size(); i++) {
    bool boundary = i == items.size() || items[i].begin(d) >= reached;
    if (boundary && i - first == items.size()) break;
    if (boundary) {
      *separated = true;
      if (auto found = find_overlap(items.subspan(first, i - first), ndim, depth + 1)) return found;
      first = i;
    }
    if (i < items.size()) reached = std::max(reached, items[i].end(d));
  }
  return std::nullopt;
}

// The depth is bounded, so that groups which lose one box at a time cannot make it worse than O(n^2).
Overlap find_overlap(std::span<Item> items, int ndim, int depth) {
  if (items.size() <= 1) return std::nullopt;
  if (ndim == 0) return std::pair(items[0].index, items[1].index);
  int best = 0;
  size_t most = 0;
  for (int d = 0; d < ndim && items.size() > kFewItems && depth < 2 * kMaxNdim; d++) {
    sort_along(items, d);
    bool separated = false;
    Overlap found = overlap_in_groups(items, d, ndim, depth, &separated);
    if (separated) return found;
    size_t starts = distinct_starts(items, d);
    if (starts > most) most = starts, best = d;
  }
  return overlap_by_sweep(items, best);
}

// One box of `space` that the (disjoint) items leave uncovered; they must leave something uncovered. Along each
// dimension it takes the first slab that the items' cross sections do not fill.
Box find_gap(const Shape& space, std::vector<Item> items) {
  Box gap = Box::whole(space);
  Shape section = contiguous_strides(space);  // elements of a slab of thickness 1
  for (int d = 0; d < space.ndim && !items.empty(); d++) {
    std::vector<std::pair<uint64_t, uint64_t>> changes{{0, 0},
                                                       {space[d], 0}};  // place, elements per unit from there on
    for (const Item& item : items) {
      uint64_t elements = 1;
      for (int inner = d + 1; inner < space.ndim; inner++) elements *= item.box->extent[inner];
      changes.push_back({item.begin(d), elements});
      changes.push_back({item.end(d), 0 - elements});
    }
    std::sort(changes.begin(), changes.end());
    uint64_t held = 0;
    size_t i = 0;
    for (;; i++) {
      held += changes[i].second;
      if (changes[i].first != changes[i + 1].first && held < section[d]) break;
    }
    uint64_t from = changes[i].first, to = changes[i + 1].first;
    gap.offset[d] = from;
    gap.extent[d] = to - from;
    std::erase_if(items, [&](const Item& item) { return item.end(d) <= from || item.begin(d) >= to; });
  }
  return gap;
}

std::vector<Item> boxes_of(const Shape& shape, std::span<const Region> regions,
                           std::vector<std::vector<Box>>* storage) {
  std::vector<Item> items;
  for (size_t i = 0; i < regions.size(); i++) {
    const Region& region = regions[i];
    if (region.kind == RegionKind::kBox) {
      if (region.box.volume()) items.push_back({&region.box, i});
      continue;
    }
    storage->push_back(region.kind == RegionKind::kWhole
                           ? std::vector<Box>{Box::whole(shape)}
                           : boxes_of_range(Box::whole(shape), region.flat_offset, region.flat_size));
    for (const Box& box : storage->back()) items.push_back({&box, i});
  }
  return items;
}

}  // namespace

Status check_coverage(const Shape& shape, std::span<const Region> regions) {
  CKPT_ASSIGN(uint64_t total, element_count(shape));
  bool boxes = false;
  for (size_t i = 0; i < regions.size(); i++) {
    auto elements = region_elements(shape, regions[i]);
    if (!elements.ok()) return std::move(elements).status().in(strformat("region {}", i)).with("index", i);
    boxes |= regions[i].kind == RegionKind::kBox;
  }
  if (total == 0) return Ok();
  if (!boxes) return check_flat(shape, regions, total);

  std::vector<std::vector<Box>> storage;  // the boxes that flat ranges consist of
  std::vector<Item> items = boxes_of(shape, regions, &storage);
  if (auto overlap = find_overlap(items, shape.ndim, 0)) return overlap_error(shape, regions, *overlap);
  uint64_t covered = 0;
  for (const Item& item : items) covered += item.box->volume();
  if (covered == total) return Ok();
  return uncovered(shape, Region{RegionKind::kBox, find_gap(shape, std::move(items)), 0, 0});
}

}  // namespace ckpt::plan
