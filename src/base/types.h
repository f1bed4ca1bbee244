// The plain values that all rooms share: bytes, ids, dtypes, regions of tensors. No I/O, no FlatBuffers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ckpt {

// The first member of a struct of settings: nobody can fill it by position, where a field put into the middle would
// change what the others mean.
struct ByName {
  explicit ByName() = default;
};

using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

inline constexpr uint64_t kAlign = 4096;          // of parts, direct I/O and large segments
inline constexpr uint64_t kSmallAlign = 256;      // of small segments
inline constexpr uint64_t kLargeSegment = 65536;  // segments of this size or more align to kAlign (FORMAT §5)
inline constexpr uint64_t kMaxChunkBytes = 64 << 20;
inline constexpr uint64_t kMaxInlineObject = 4096;
inline constexpr size_t kMaxName = 4096;
inline constexpr size_t kMaxLabel = 200;
inline constexpr int kMaxNdim = CKPT_MAX_NDIM;

inline constexpr uint64_t round_up(uint64_t value, uint64_t align) { return (value + align - 1) / align * align; }

inline Bytes as_bytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }
inline std::string_view as_text(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// 16 bytes: an id or an XXH3-128 digest, in file order (FORMAT: low 64 bits first).
struct Id {
  uint64_t lo = 0, hi = 0;
  auto operator<=>(const Id&) const = default;
  bool zero() const { return lo == 0 && hi == 0; }
};
using Digest = Id;

std::string to_hex(const Id& id);               // 32 digits, the bytes in file order
Result<Id> id_from_hex(std::string_view text);  // INVALID
Id random_id();                                 // from the kernel

// ---- checked arithmetic on numbers that callers or files supply ----
inline bool add_overflows(uint64_t a, uint64_t b, uint64_t* sum) { return __builtin_add_overflow(a, b, sum); }
inline bool mul_overflows(uint64_t a, uint64_t b, uint64_t* product) { return __builtin_mul_overflow(a, b, product); }

// ---- dtypes: DLPack code * 256 + bits ----
inline constexpr int dtype_bits(uint16_t dtype) { return dtype & 0xff; }
const char* dtype_name(uint16_t dtype);     // "dtype" for unknown codes
int32_t dtype_find(std::string_view name);  // -1 if unknown
// The element width that a filter should use: 1, 2, 4 or 8 bytes (a complex counts as its components).
int dtype_filter_width(uint16_t dtype);

// A shape of up to 16 extents, without allocation.
struct Shape {
  int ndim = 0;
  std::array<uint64_t, kMaxNdim> dims{};

  uint64_t operator[](int i) const { return dims[static_cast<size_t>(i)]; }
  uint64_t& operator[](int i) { return dims[static_cast<size_t>(i)]; }
  std::span<const uint64_t> span() const { return {dims.data(), static_cast<size_t>(ndim)}; }
  static Shape of(std::span<const uint64_t> values);
  bool operator==(const Shape& other) const;
};
std::string to_text(const Shape& shape);  // "[2, 3]"

// The number of elements of a shape; INVALID above 2^63-1.
Result<uint64_t> element_count(const Shape& shape);
// The bytes that `elements` elements take, rounded up to whole bytes; INVALID above 2^63-1.
Result<uint64_t> element_bytes(uint64_t elements, uint16_t dtype);

// The same without a Status, for loops over many tensors: false if the number is too large.
inline bool count_elements(std::span<const uint64_t> extents, uint64_t* count) {
  bool empty = false, overflow = false;
  *count = 1;
  for (uint64_t extent : extents) {
    empty |= extent == 0;
    overflow |= mul_overflows(*count, extent, count);
  }
  // An empty tensor has no elements, whatever its other extents: [2^62, 2^62, 0] does not overflow.
  if (empty) *count = 0;
  return empty || (!overflow && *count >> 63 == 0);
}
inline bool count_bytes(uint64_t elements, uint16_t dtype, uint64_t* bytes) {
  unsigned __int128 bits = static_cast<unsigned __int128>(elements) * static_cast<unsigned>(dtype_bits(dtype));
  *bytes = static_cast<uint64_t>((bits + 7) >> 3);
  return (bits + 7) >> 66 == 0;
}

// A box of a tensor; ndim 0 is the one element of a scalar.
struct Box {
  Shape offset, extent;
  int ndim() const { return extent.ndim; }
  uint64_t volume() const;  // cannot overflow if the box lies inside a valid shape
  bool operator==(const Box&) const = default;
  static Box whole(const Shape& shape);
};
std::string to_text(const Box& box);  // "[0:2, 3:5]"

// kRows: rows of a tensor that its rank counts from 0; only all ranks together know where they begin.
enum class RegionKind : uint8_t { kWhole = 0, kBox = 1, kFlat = 2, kRows = 3 };

// Which elements of a tensor a segment or a piece of memory holds.
struct Region {
  RegionKind kind = RegionKind::kWhole;
  Box box;                                  // kBox
  uint64_t flat_offset = 0, flat_size = 0;  // kFlat
  bool operator==(const Region&) const = default;
};
std::string to_text(const Region& region);

// A region as numbers: for a box its offsets, then its extents; for a flat range its offset and size; else none.
inline size_t region_number_count(RegionKind kind, size_t ndim) {
  return kind == RegionKind::kBox ? 2 * ndim : kind == RegionKind::kFlat ? 2 : 0;
}
Region region_of_numbers(RegionKind kind, std::span<const uint64_t> numbers);
// Writes them to `to`; returns the end.
uint64_t* put_region(const Region& region, uint64_t* to);

enum class Codec : uint8_t { kRaw = 0, kLz4 = 1 };
enum class Filter : uint8_t { kNone = 0, kByteShuffle = 1, kBitPlanes = 2 };

}  // namespace ckpt
