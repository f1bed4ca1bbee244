#include "base/types.h"

#include <sys/random.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/text.h"

namespace ckpt {

static_assert(std::endian::native == std::endian::little, "ckpt files are little-endian and mapped as they are");

std::string to_hex(const Id& id) {
  unsigned char bytes[16];
  std::memcpy(bytes, &id.lo, 8);
  std::memcpy(bytes + 8, &id.hi, 8);
  std::string text;
  for (unsigned char byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

Result<Id> id_from_hex(std::string_view text) {
  unsigned char bytes[16];
  if (text.size() != 32)
    return Status(CKPT_INVALID, strformat("an id has 32 hexadecimal digits, found {} characters", text.size()));
  for (size_t i = 0; i < 16; i++) {
    int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return Status(CKPT_INVALID, "an id has 32 hexadecimal digits, found another character");
    bytes[i] = static_cast<unsigned char>(high * 16 + low);
  }
  Id id;
  std::memcpy(&id.lo, bytes, 8);
  std::memcpy(&id.hi, bytes + 8, 8);
  return id;
}

Id random_id() {
  Id id;
  // The kernel never cuts a request of 16 bytes short. It blocks only in early boot, when no trainer runs.
  while (getrandom(&id, sizeof id, 0) != sizeof id) {
  }
  return id;
}

struct DtypeName {
  uint16_t dtype;
  const char* name;
};
static constexpr DtypeName kDtypes[] = {
#define CKPT_DTYPE_ROW(constant, name, ...) {CKPT_DTYPE_##constant, name},
#include "base/dtypes.def"
#undef CKPT_DTYPE_ROW
};

const char* dtype_name(uint16_t dtype) {
  for (const auto& row : kDtypes)
    if (row.dtype == dtype) return row.name;
  return "dtype";
}

int32_t dtype_find(std::string_view name) {
  for (const auto& row : kDtypes)
    if (row.name == name) return row.dtype;
  return -1;
}

int dtype_filter_width(uint16_t dtype) {
  int bits = dtype_bits(dtype);
  if (dtype >> 8 == 5) bits /= 2;
  return bits == 16 ? 2 : bits == 32 ? 4 : bits == 64 ? 8 : 1;
}

Shape Shape::of(std::span<const uint64_t> values) {
  Shape shape;
  shape.ndim = static_cast<int>(values.size());
  for (size_t i = 0; i < values.size(); i++) shape.dims[i] = values[i];
  return shape;
}

bool Shape::operator==(const Shape& other) const {
  if (ndim != other.ndim) return false;
  for (int i = 0; i < ndim; i++)
    if ((*this)[i] != other[i]) return false;
  return true;
}

std::string to_text(const Shape& shape) {
  std::string text = "[";
  for (int i = 0; i < shape.ndim; i++) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

Result<uint64_t> element_count(const Shape& shape) {
  uint64_t count;
  if (count_elements(shape.span(), &count)) return count;
  return Status(CKPT_INVALID, "shape " + to_text(shape) + " has more than 2^63-1 elements");
}

Result<uint64_t> element_bytes(uint64_t elements, uint16_t dtype) {
  uint64_t bytes;
  if (count_bytes(elements, dtype, &bytes)) return bytes;
  return Status(CKPT_INVALID, strformat("{} elements of {} take more than 2^63-1 bytes", elements, dtype_name(dtype)));
}

uint64_t Box::volume() const {
  uint64_t count = 1;
  for (uint64_t size : extent.span()) count *= size;
  return count;
}

Box Box::whole(const Shape& shape) {
  Box box;
  box.offset.ndim = shape.ndim;
  box.extent = shape;
  return box;
}

std::string to_text(const Box& box) {
  std::string text = "[";
  for (int i = 0; i < box.ndim(); i++)
    text += (i ? ", " : "") + std::to_string(box.offset[i]) + ":" + std::to_string(box.offset[i] + box.extent[i]);
  return text + "]";
}

std::string to_text(const Region& region) {
  switch (region.kind) {
    case RegionKind::kWhole:
      return "whole";
    case RegionKind::kBox:
      return "box " + to_text(region.box);
    case RegionKind::kFlat:
      return strformat("flat {}:{}", region.flat_offset, region.flat_offset + region.flat_size);
    case RegionKind::kRows:
      return "rows";
  }
  return "?";
}

Region region_of_numbers(RegionKind kind, std::span<const uint64_t> numbers) {
  Region region;
  region.kind = kind;
  if (kind == RegionKind::kBox) {
    region.box.offset = Shape::of(numbers.first(numbers.size() / 2));
    region.box.extent = Shape::of(numbers.subspan(numbers.size() / 2));
  } else if (kind == RegionKind::kFlat) {
    region.flat_offset = numbers[0];
    region.flat_size = numbers[1];
  }
  return region;
}

uint64_t* put_region(const Region& region, uint64_t* to) {
  auto put = [&](std::span<const uint64_t> values) { to = std::copy(values.begin(), values.end(), to); };
  if (region.kind == RegionKind::kBox) put(region.box.offset.span()), put(region.box.extent.span());
  if (region.kind == RegionKind::kFlat) put(std::array{region.flat_offset, region.flat_size});
  return to;
}

}  // namespace ckpt
