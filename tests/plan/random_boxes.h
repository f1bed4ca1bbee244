// Random shapes, boxes and strides for the property tests, and the slow way to number elements.
#pragma once

#include <random>
#include <vector>

#include "plan/box.h"

namespace ckpt::plan::testing {

struct Random {
  std::mt19937_64 engine;
  explicit Random(uint64_t seed) : engine(seed) {}

  uint64_t below(uint64_t limit) { return limit ? engine() % limit : 0; }
  uint64_t between(uint64_t low, uint64_t high) { return low + below(high - low + 1); }

  Shape shape(int ndim, uint64_t low = 1, uint64_t high = 5) {
    Shape shape;
    shape.ndim = ndim;
    for (int d = 0; d < ndim; d++) shape[d] = between(low, high);
    return shape;
  }
  // Any box inside the shape. One in twenty is empty, so most pairs of boxes intersect.
  Box box(const Shape& shape) {
    Box box = Box::whole(shape);
    for (int d = 0; d < shape.ndim; d++) {
      if (shape[d] == 0 || below(2) == 0) continue;
      box.offset[d] = below(shape[d]);
      box.extent[d] = between(1, shape[d] - box.offset[d]);
    }
    if (shape.ndim == 0 || below(20)) return box;
    int empty = static_cast<int>(below(static_cast<uint64_t>(shape.ndim)));
    box.offset[empty] = below(shape[empty] + 1);
    box.extent[empty] = 0;
    return box;
  }
  // Contiguous, column-major, padded, with zeros, or anything.
  Shape strides(const Shape& extent) {
    Shape strides = contiguous_strides(extent);
    uint64_t kind = below(5), stride = 1;
    for (int d = 0; d < extent.ndim && kind == 1; d++) {
      strides[d] = stride;
      stride *= extent[d];
    }
    for (int d = 0; d + 1 < extent.ndim && kind == 2; d++) strides[d] += below(3);
    for (int d = 0; d < extent.ndim && kind == 3; d++) strides[d] = below(2) ? strides[d] : 0;
    for (int d = 0; d < extent.ndim && kind == 4; d++) strides[d] = below(12);
    return strides;
  }
};

// The coordinates of element number `position` of `box`, relative to the box's offset.
inline Shape coordinates(const Box& box, uint64_t position) {
  Shape at = box.extent;
  for (int d = box.ndim() - 1; d >= 0; d--) {
    at[d] = position % box.extent[d];
    position /= box.extent[d];
  }
  return at;
}

// Whether a place (in coordinates of the tensor) lies in the box.
inline bool holds(const Box& box, const Shape& place) {
  for (int d = 0; d < box.ndim(); d++)
    if (place[d] < box.offset[d] || place[d] - box.offset[d] >= box.extent[d]) return false;
  return true;
}

inline Shape place_of(const Box& box, uint64_t position) {
  Shape place = coordinates(box, position);
  for (int d = 0; d < box.ndim(); d++) place[d] += box.offset[d];
  return place;
}

inline Box make_box(std::vector<uint64_t> offset, std::vector<uint64_t> extent) {
  return {Shape::of(offset), Shape::of(extent)};
}
inline Shape make_shape(std::vector<uint64_t> dims) { return Shape::of(dims); }
inline Region box_region(const Box& box) { return {RegionKind::kBox, box, 0, 0}; }
inline Region box_region(std::vector<uint64_t> offset, std::vector<uint64_t> extent) {
  return box_region(make_box(std::move(offset), std::move(extent)));
}
inline Region flat_region(uint64_t offset, uint64_t size) { return {RegionKind::kFlat, {}, offset, size}; }

// The elements of a region in the tensor's row-major order.
inline std::vector<uint64_t> elements_of(const Shape& shape, const Region& region) {
  Box all = Box::whole(shape);
  std::vector<uint64_t> elements;
  for (uint64_t i = 0; i < all.volume(); i++) {
    bool in = region.kind == RegionKind::kWhole;
    if (region.kind == RegionKind::kBox) in = holds(region.box, place_of(all, i));
    if (region.kind == RegionKind::kFlat) in = i >= region.flat_offset && i - region.flat_offset < region.flat_size;
    if (in) elements.push_back(i);
  }
  return elements;
}

}  // namespace ckpt::plan::testing
