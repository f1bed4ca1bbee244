#include "plan/declare.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "plan/regions.h"

namespace ckpt::plan {

static std::strong_ordering compare_numbers(std::span<const uint64_t> a, std::span<const uint64_t> b) {
  const auto [in_a, in_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  if (in_a == a.end() || in_b == b.end()) return a.size() <=> b.size();
  return *in_a <=> *in_b;
}

// Compares all offsets, then all extents. With different dimensions, comparing all numbers in a row would differ.
static std::strong_ordering compare_regions(const ReplicaRegion& a, const ReplicaRegion& b) {
  if (auto order = a.kind <=> b.kind; order != 0) return order;
  auto first = a.region_numbers(), second = b.region_numbers();
  if (a.kind != RegionKind::kBox) return compare_numbers(first, second);
  if (auto order = compare_numbers(first.first(a.ndim), second.first(b.ndim)); order != 0) return order;
  return compare_numbers(first.subspan(a.ndim), second.subspan(b.ndim));
}

std::strong_ordering compare_entries(const ReplicaRegion& a, const ReplicaRegion& b) {
  if (auto order = b.bytes <=> a.bytes; order != 0) return order;
  if (auto order = a.name <=> b.name; order != 0) return order;
  if (auto order = compare_regions(a, b); order != 0) return order;
  if (auto order = a.dtype <=> b.dtype; order != 0) return order;
  return compare_numbers(a.extents(), b.extents());
}

std::vector<size_t> assignment_order(std::span<const ReplicaRegion> entries) {
  std::vector<size_t> order(entries.size());
  std::iota(order.begin(), order.end(), size_t{0});
  auto before = [](const ReplicaRegion& a, const ReplicaRegion& b) { return compare_entries(a, b) < 0; };
  if (std::is_sorted(entries.begin(), entries.end(), before)) return order;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return before(entries[a], entries[b]); });
  return order;
}

namespace {

// Little-endian numbers one after the other; types.cpp asserts that the machine is little-endian too.
struct Writer {
  std::vector<std::byte>& out;
  template <typename T>
  void number(T value) {
    bytes(std::as_bytes(std::span(&value, 1)));
  }
  void numbers(std::span<const uint64_t> values) { bytes(std::as_bytes(values)); }
  void bytes(Bytes added) { out.insert(out.end(), added.begin(), added.end()); }
};

// Reads past the end return zeros and set `truncated`.
struct Reader {
  Bytes rest;
  bool truncated = false;

  template <typename T>
  T number() {
    T value{};
    Bytes from = bytes(sizeof value);
    if (!from.empty()) std::memcpy(&value, from.data(), sizeof value);
    return value;
  }
  Shape numbers(int ndim) {
    Shape shape;
    shape.ndim = ndim;
    for (int d = 0; d < ndim; d++) shape[d] = number<uint64_t>();
    return shape;
  }
  Bytes bytes(size_t size) {
    if (size > rest.size()) truncated = true;
    if (truncated) return {};
    Bytes taken = rest.first(size);
    rest = rest.subspan(size);
    return taken;
  }
};

// In the byte that tells the kind of a region (FORMAT §6).
constexpr uint8_t kKindBits = 0x03, kHasValues = 0x10, kFirstOnly = 0x20, kSampled = 0x40;

Region read_region(Reader& in, RegionKind kind, int ndim) {
  std::array<uint64_t, size_t{2} * kMaxNdim> numbers;
  const size_t count = region_number_count(kind, static_cast<size_t>(ndim));
  for (size_t i = 0; i < count; i++) numbers[i] = in.number<uint64_t>();
  return region_of_numbers(kind, std::span(numbers).first(count));
}

Status check_bytes(const Declared& entry, uint64_t bytes) {
  if (dtype_bits(entry.dtype) == 0) return Status(CKPT_FORMAT, strformat("dtype {} has no width", entry.dtype));
  CKPT_ASSIGN(uint64_t elements, region_elements(entry.shape, entry.region));
  CKPT_ASSIGN(uint64_t expected, element_bytes(elements, entry.dtype));
  if (bytes == expected) return Ok();
  return Status(CKPT_FORMAT, "the bytes of a region contradict its shape")
      .with("expected", expected)
      .with("found", bytes);
}

Status read_entry(Reader& in, Declared* entry, uint64_t* bytes) {
  *bytes = in.number<uint64_t>();
  entry->dtype = in.number<uint16_t>();
  const uint8_t said = in.number<uint8_t>(), ndim = in.number<uint8_t>(), kind = said & kKindBits;
  if (kind > 2 || (said & ~(kKindBits | kHasValues | kFirstOnly | kSampled)) || ndim > kMaxNdim)
    return Status(CKPT_FORMAT, strformat("kind {} of {} dimensions is unknown", said, ndim));
  entry->shape = in.numbers(ndim);
  entry->region = read_region(in, static_cast<RegionKind>(kind), ndim);
  uint32_t name_size = in.number<uint32_t>();
  entry->name = as_text(in.bytes(name_size));
  entry->first_only = said & kFirstOnly;
  entry->sampled = said & kSampled;
  if (said & kHasValues) {
    entry->values.lo = in.number<uint64_t>();
    entry->values.hi = in.number<uint64_t>();
  }
  if (in.truncated) return Status(CKPT_FORMAT, "the entry is cut short");
  if ((said & kHasValues) && entry->values.zero()) return Status(CKPT_FORMAT, "a digest of zeros");
  if (name_size == 0 || name_size > kMaxName) return Status(CKPT_FORMAT, strformat("a name of {} bytes", name_size));
  return check_bytes(*entry, *bytes);
}

// The numbers of a declared region, laid out as in ReplicaRegion.
std::vector<uint64_t> numbers_of(const Declared& declared) {
  const std::span<const uint64_t> shape = declared.shape.span();
  std::vector<uint64_t> numbers(shape.size() + region_number_count(declared.region.kind, shape.size()));
  put_region(declared.region, std::copy(shape.begin(), shape.end(), numbers.data()));
  return numbers;
}

ReplicaRegion view_of(const Declared& declared, uint64_t bytes, const std::vector<uint64_t>& numbers) {
  return {.name = declared.name,
          .bytes = bytes,
          .numbers = numbers.data(),
          .dtype = declared.dtype,
          .kind = declared.region.kind,
          .ndim = static_cast<uint8_t>(declared.shape.ndim),
          .first_only = declared.first_only,
          .values = declared.values,
          .sampled = declared.sampled};
}

}  // namespace

std::vector<std::byte> declaration_list(std::span<const ReplicaRegion> entries) {
  std::vector<std::byte> list;
  size_t size = 0;
  for (const ReplicaRegion& entry : entries)
    size += 32 + 8 * (entry.extents().size() + entry.region_numbers().size()) + entry.name.size();
  list.reserve(size);
  Writer out{list};
  for (size_t i : assignment_order(entries)) {
    const ReplicaRegion& entry = entries[i];
    out.number(entry.bytes);
    out.number(entry.dtype);
    const bool compared = !entry.values.zero();
    out.number(static_cast<uint8_t>(static_cast<uint8_t>(entry.kind) | (compared ? kHasValues : 0) |
                                    (entry.first_only ? kFirstOnly : 0) | (entry.sampled ? kSampled : 0)));
    out.number(entry.ndim);
    out.numbers(entry.extents());
    out.numbers(entry.region_numbers());
    out.number(static_cast<uint32_t>(entry.name.size()));
    out.bytes(as_bytes(entry.name));
    if (compared) {
      out.number(entry.values.lo);
      out.number(entry.values.hi);
    }
  }
  return list;
}

size_t declarations_within(Bytes list, size_t limit) {
  Reader in{list};
  size_t size = 0;
  while (!in.rest.empty()) {
    Declared entry;
    uint64_t bytes = 0;
    if (!read_entry(in, &entry, &bytes).ok() || list.size() - in.rest.size() > limit) break;
    size = list.size() - in.rest.size();
  }
  return size;
}

Result<std::vector<Declared>> parse_declaration_list(Bytes list) {
  std::vector<Declared> entries;
  Reader in{list};
  uint64_t earlier_bytes = 0;
  std::vector<uint64_t> numbers, earlier_numbers;
  while (!in.rest.empty()) {
    size_t offset = list.size() - in.rest.size();
    Declared entry;
    uint64_t bytes = 0;
    Status status = read_entry(in, &entry, &bytes);
    if (status.ok()) numbers = numbers_of(entry);
    if (status.ok() && !entries.empty() &&
        compare_entries(view_of(entries.back(), earlier_bytes, earlier_numbers), view_of(entry, bytes, numbers)) >= 0)
      status = Status(CKPT_FORMAT, "the entry is out of order");
    if (!status.ok())
      return Status(CKPT_FORMAT,
                    strformat("declaration list, entry {} at byte {}: {}", entries.size(), offset, status.message()))
          .with("offset", offset);
    entries.push_back(std::move(entry));
    earlier_bytes = bytes;
    earlier_numbers.swap(numbers);
  }
  return entries;
}

}  // namespace ckpt::plan
