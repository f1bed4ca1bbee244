#include "plan/geometry.h"

namespace ckpt::plan {

Result<Geometry> geometry_of(uint16_t dtype, const Shape& shape) {
  int bits = dtype_bits(dtype);
  if (bits == 0)
    return Status(CKPT_INVALID, strformat("dtype 0x{:04x} has elements of 0 bits", dtype))
        .with("found", uint64_t{dtype});
  uint64_t count = 0, bytes = 0;
  if (!count_elements(shape.span(), &count)) return element_count(shape).status();
  if (!count_bytes(count, dtype, &bytes)) return element_bytes(count, dtype).status();
  Geometry geometry;
  geometry.dtype = dtype;
  geometry.shape = shape;
  geometry.volume = count;
  geometry.width = static_cast<uint64_t>(bits) / 8;
  if (bits % 8 == 0) return geometry;
  geometry.packed = true;
  geometry.dtype = CKPT_DTYPE_U8;
  geometry.width = 1;
  geometry.volume = bytes;
  int last = shape.ndim - 1;
  geometry.one_row = last < 0 || count == 0 || shape[last] * static_cast<uint64_t>(bits) % 8 != 0;
  if (geometry.one_row)
    geometry.shape = Shape::of(std::span(&bytes, 1));
  else
    geometry.shape[last] = shape[last] * static_cast<uint64_t>(bits) / 8;
  return geometry;
}

static Status outside(const Region& region, const Shape& shape) {
  return Status(CKPT_INVALID, to_text(region) + " lies outside shape " + to_text(shape))
      .with("expected", to_text(shape))
      .with("found", to_text(region));
}

static Status check_inside(const Region& region, const Shape& shape) {
  if (region.kind == RegionKind::kFlat) {
    uint64_t end, total = *element_count(shape);
    if (add_overflows(region.flat_offset, region.flat_size, &end) || end > total) return outside(region, shape);
  }
  if (region.kind == RegionKind::kBox) {
    if (region.box.ndim() != shape.ndim) return outside(region, shape);
    for (int i = 0; i < shape.ndim; i++) {
      uint64_t end;
      if (add_overflows(region.box.offset[i], region.box.extent[i], &end) || end > shape[i])
        return outside(region, shape);
    }
  }
  return Ok();
}

static Status split_byte(const Region& region) {
  return Status(CKPT_INVALID, to_text(region) + " of packed elements does not start and end at whole bytes");
}

static bool scale(uint64_t elements, int bits, uint64_t* bytes) {
  unsigned __int128 product = static_cast<unsigned __int128>(elements) * static_cast<unsigned>(bits);
  *bytes = static_cast<uint64_t>(product / 8);
  return product % 8 == 0;
}

static bool is_whole(const Region& region, const Shape& shape) {
  if (region.kind == RegionKind::kWhole || region.kind == RegionKind::kRows) return true;
  if (region.kind == RegionKind::kFlat) return region.flat_offset == 0 && region.flat_size == *element_count(shape);
  for (int i = 0; i < shape.ndim; i++)
    if (region.box.offset[i] != 0 || region.box.extent[i] != shape[i]) return false;
  return true;
}

Result<Region> to_units(const Geometry& geometry, uint16_t dtype, const Shape& shape, const Region& region) {
  CKPT_TRY(check_inside(region, shape));
  if (region.kind == RegionKind::kRows) return Region{};  // all that the rank has
  if (!geometry.packed) return region;
  if (is_whole(region, shape)) {
    Region whole;
    if (region.kind == RegionKind::kFlat) {
      whole.kind = RegionKind::kFlat;
      whole.flat_size = geometry.volume;
    }
    return whole;
  }
  int bits = dtype_bits(dtype);
  Region units = region;
  if (region.kind == RegionKind::kFlat) {
    uint64_t total = *element_count(shape), end = region.flat_offset + region.flat_size;
    bool ok = scale(region.flat_offset, bits, &units.flat_offset) && (scale(end, bits, &end) || end == total);
    if (region.flat_offset + region.flat_size == total) end = geometry.volume;
    if (!ok && region.flat_size != 0) return split_byte(region);
    units.flat_size = region.flat_size == 0 ? 0 : end - units.flat_offset;
    return units;
  }
  int last = shape.ndim - 1;
  if (geometry.one_row) return split_byte(region);
  if (!scale(region.box.offset[last], bits, &units.box.offset[last]) ||
      !scale(region.box.extent[last], bits, &units.box.extent[last]))
    return split_byte(region);
  return units;
}

uint64_t units_of(const Geometry& geometry, const Region& region) {
  switch (region.kind) {
    case RegionKind::kWhole:
    case RegionKind::kRows:
      return geometry.volume;
    case RegionKind::kBox:
      return region.box.volume();
    case RegionKind::kFlat:
      return region.flat_size;
  }
  return 0;
}

Order order_of(const Geometry& geometry, const Region& region) {
  Order order;
  order.box = region.kind == RegionKind::kBox ? region.box : Box::whole(geometry.shape);
  order.first = region.kind == RegionKind::kFlat ? region.flat_offset : 0;
  return order;
}

Shape memory_extent(const Geometry& geometry, const Region& region) {
  if (region.kind == RegionKind::kFlat) return Shape::of(std::span(&region.flat_size, 1));
  return region.kind == RegionKind::kBox ? region.box.extent : geometry.shape;
}

}  // namespace ckpt::plan
