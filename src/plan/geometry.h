// Tensors as the engine moves them: elements of whole bytes. Packed elements (4, 6 bits) become bytes here, so that
// plan and device need not know them.
#pragma once

#include "base/types.h"

namespace ckpt::plan {

// A tensor in byte units: the tensor itself where its elements are whole bytes; else bytes, with the innermost
// dimension counted in bytes, or (where rows do not end at bytes) as one row.
struct Geometry {
  uint16_t dtype = 0;  // of a byte unit
  uint64_t width = 0;  // bytes of a byte unit
  Shape shape;         // in byte units
  uint64_t volume = 0;
  bool packed = false, one_row = false;
};
// INVALID for shapes or dtypes that cannot be.
Result<Geometry> geometry_of(uint16_t dtype, const Shape& shape);

// A region in byte units. INVALID where it leaves the tensor or, packed, does not start and end at whole bytes.
Result<Region> to_units(const Geometry& geometry, uint16_t dtype, const Shape& shape, const Region& region);
// The inverse, for the index; `region` lies in byte units.
Region to_elements(const Geometry& geometry, uint16_t dtype, const Shape& shape, const Region& region);

// Whether a region that lies inside `shape` is all of it.
bool is_whole(const Region& region, const Shape& shape);

// The number of byte units in a region.
uint64_t units_of(const Geometry& geometry, const Region& region);

// The box in whose row-major order the units of a region are numbered, and the first one: a flat range lies in the
// whole tensor.
struct Order {
  Box box;
  uint64_t first = 0;
};
Order order_of(const Geometry& geometry, const Region& region);
// The shape of the memory that holds a region of byte units: a flat range is a row.
Shape memory_extent(const Geometry& geometry, const Region& region);

}  // namespace ckpt::plan
