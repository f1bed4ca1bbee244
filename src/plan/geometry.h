// Tensors as the engine moves them: elements of whole bytes. Packed elements (4, 6 bits) become bytes here, so that the
// rest of plan and device need not know them.
#pragma once

#include "base/types.h"

namespace ckpt::plan {

// A tensor in byte units. A byte unit is an element if elements are whole bytes. Otherwise it is a byte: the innermost
// dimension counts bytes or, if rows do not end at bytes, the tensor is one row.
struct Geometry {
  uint16_t dtype = 0;  // of a byte unit
  uint64_t width = 0;  // bytes of a byte unit
  Shape shape;         // in byte units
  uint64_t volume = 0;
  bool packed = false, one_row = false;
};
// INVALID for a shape or dtype that cannot exist.
Result<Geometry> geometry_of(uint16_t dtype, const Shape& shape);

// A region in byte units. INVALID if it leaves the tensor or, packed, does not start and end at whole bytes.
Result<Region> to_units(const Geometry& geometry, uint16_t dtype, const Shape& shape, const Region& region);

// The number of byte units in a region.
uint64_t units_of(const Geometry& geometry, const Region& region);

// Numbers the units of a region: they are consecutive in the row-major order of `box`, starting at `first`. For a flat
// range, `box` is the whole tensor.
struct Order {
  Box box;
  uint64_t first = 0;
};
Order order_of(const Geometry& geometry, const Region& region);
// The shape, in byte units, of the memory that holds a region: a flat range is a row.
Shape memory_extent(const Geometry& geometry, const Region& region);

}  // namespace ckpt::plan
