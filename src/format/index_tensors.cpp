// The rules of FORMAT §4 for tensors, their segments and chunks. There may be millions, so the loops only find out
// whether a record is good, and they read each column once and in order; code outside them describes what is wrong with
// a record. All arithmetic on numbers of the file is checked.
#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "format/index_check.h"
#include "format/index_fault.h"
#include "format/names.h"

namespace ckpt::format {

// No LZ4 block expands more. A file that claims a higher ratio only makes us allocate memory.
static constexpr uint32_t kMaxLz4Ratio = 255;

// So many records are worth a thread of their own, whose start costs as much as checking some thousand.
static constexpr size_t kRecordsInRange = 1 << 15;

// Adds the name of the tensor to errors that lack it.
static Status of_tensor(Status status, std::string_view name) {
  if (status.detail("tensor")) return status;
  return std::move(status).in("tensor " + quoted(name)).with("tensor", std::string(name));
}

static Status bad_list(const char* records, std::string_view name, const char* what) {
  return bad(strformat("the {} of tensor ", records) + quoted(name) + what).with("tensor", std::string(name));
}

// a < b. Fast for neighbours in the order of names, which share most of their bytes.
static bool ascend(std::string_view a, std::string_view b) {
  size_t common = std::min(a.size(), b.size()), at = 0;
  for (uint64_t left, right; at + 8 <= common; at += 8) {
    std::memcpy(&left, a.data() + at, 8);
    std::memcpy(&right, b.data() + at, 8);
    if (left != right) return __builtin_bswap64(left) < __builtin_bswap64(right);
  }
  return a.substr(at) < b.substr(at);
}

// What the segments of one tensor are checked against.
struct IndexCheck::Extents {
  std::span<const uint64_t> dims;
  uint64_t elements, bytes;
  uint16_t dtype;
};

// ---- tensors ----

Status IndexCheck::tensors(unsigned threads) {
  size_t count = index_.tensors.size(), records = count + index_.segments.size();
  size_t ranges = threads > 1 ? std::min(count, 1 + records / kRecordsInRange) : 1;
  std::vector<Range> found(std::max<size_t>(ranges, 1));
  auto check = [&](size_t i) {
    found[i].status = tensor_range(count * i / found.size(), count * (i + 1) / found.size(), &found[i].divided);
    return Ok();
  };
  CKPT_TRY(for_each_parallel(found.size() > 1 ? threads : 1, found.size(), check));
  for (Range& range : found) {
    if (!range.status.ok()) return std::move(range.status);
    divided_.insert(divided_.end(), range.divided.begin(), range.divided.end());
  }
  return end_of_segments(count) == index_.segments.size() ? Ok() : bad("a segment belongs to no tensor");
}

// Where the segments of the first `count` tensors end, and the chunks of the first `count` segments. Right only if
// those records are good, which the check of another range finds out.
uint64_t IndexCheck::end_of_segments(size_t count) const {
  if (count == 0) return 0;
  const fb::Tensor& last = index_.tensors[count - 1];
  return last.segment_first() + last.segment_count();
}
uint64_t IndexCheck::end_of_chunks(uint64_t count) const {
  if (count == 0 || count > index_.segments.size()) return 0;
  const fb::Segment& last = index_.segments[count - 1];
  return last.chunk_first() + last.chunk_count();
}

Status IndexCheck::tensor_range(size_t first, size_t end, std::vector<uint32_t>* divided) const {
  uint64_t next_segment = end_of_segments(first), next_chunk = end_of_chunks(next_segment);
  std::string_view previous;
  if (first > 0 && text_ok(index_.tensors[first - 1].name())) previous = index_.text(index_.tensors[first - 1].name());
  for (size_t i = first; i < end; i++) {
    const fb::Tensor& tensor = index_.tensors[i];
    if (!text_ok(tensor.name())) return bad("the name of a tensor lies outside the names");
    std::string_view name = index_.text(tensor.name());
    if (Status status = check_tensor_name(name); !status.ok()) return bad(status.message());
    if (i > 0 && !ascend(previous, name)) return bad("tensor " + quoted(name) + " is out of order");
    previous = name;
    if (tensor.ndim() > kMaxNdim || tensor.reserved() != 0 ||
        !range_ok(tensor.shape(), tensor.ndim(), index_.numbers.size()) || dtype_bits(tensor.dtype()) == 0)
      return bad("tensor " + quoted(name) + " has no valid shape or dtype");
    Extents extents{index_.numbers.subspan(tensor.shape(), tensor.ndim()), 0, 0, tensor.dtype()};
    if (!count_elements(extents.dims, &extents.elements) ||
        !count_bytes(extents.elements, extents.dtype, &extents.bytes))
      return bad("tensor " + quoted(name) + " is larger than 2^63-1 bytes");
    if (tensor.segment_first() != next_segment ||
        !range_ok(next_segment, tensor.segment_count(), index_.segments.size()))
      return bad_list("segments", name, " do not follow those before");
    next_segment += tensor.segment_count();
    bool whole = false;
    if (Status status = segments_of(tensor, extents, &next_chunk, &whole); !status.ok())
      return of_tensor(std::move(status), name);
    if (!whole && extents.elements != 0) divided->push_back(static_cast<uint32_t>(i));
  }
  return Ok();
}

// ---- segments ----

// Sets `*whole` if one segment is all of the tensor: then nothing can be missing or double.
Status IndexCheck::segments_of(const fb::Tensor& tensor, const Extents& extents, uint64_t* next_chunk,
                               bool* whole) const {
  const fb::Segment* before = nullptr;
  for (const fb::Segment& segment : index_.segments_of(tensor)) {
    if (segment.chunk_first() != *next_chunk || !range_ok(*next_chunk, segment.chunk_count(), index_.chunks.size()) ||
        segment.chunk_count() == 0)
      return bad_list("chunks", index_.text(tensor.name()), " do not follow those before");
    *next_chunk += segment.chunk_count();
    CKPT_TRY(segment_of(extents, segment, whole));
    if (before && (segment.part() < before->part() ||
                   (segment.part() == before->part() &&
                    index_.chunks_of(segment)[0].offset() <= index_.chunks_of(*before)[0].offset())))
      return bad_list("segments", index_.text(tensor.name()), " are out of order");
    before = &segment;
  }
  *whole = *whole && tensor.segment_count() == 1;
  return Ok();
}

// The number of elements of a segment; 0 if it leaves its tensor or is empty.
static uint64_t segment_elements(bool flat, std::span<const uint64_t> geometry, std::span<const uint64_t> dims,
                                 uint64_t total) {
  uint64_t end;
  if (flat) return add_overflows(geometry[0], geometry[1], &end) || end > total ? 0 : geometry[1];
  uint64_t count = 1;
  bool outside = false;
  for (size_t i = 0; i < dims.size(); i++) {
    uint64_t extent = geometry[dims.size() + i];
    outside |= add_overflows(geometry[i], extent, &end) || end > dims[i];
    count *= extent;  // at most the tensor's own count, which was checked
  }
  return outside ? 0 : count;
}

// FORMAT §5: packed elements start and end at whole bytes, unless the segment is the whole tensor.
static bool whole_bytes(bool flat, std::span<const uint64_t> geometry, std::span<const uint64_t> dims, int bits,
                        uint64_t total) {
  auto aligned = [bits](uint64_t n) { return (n % 8) * static_cast<unsigned>(bits) % 8 == 0; };
  if (flat) return aligned(geometry[0]) && (aligned(geometry[1]) || geometry[0] + geometry[1] == total);
  return aligned(geometry[dims.size() - 1]) && aligned(geometry[2 * dims.size() - 1]) && aligned(dims.back());
}

// The rules for the codes of a segment, which need no other record.
static Status check_codes(const fb::Segment& segment) {
  int width = segment.filter_width();
  if (segment.kind() > 1 || segment.codec() > 1 || segment.filter() > 2)
    return Status(CKPT_UNSUPPORTED,
                  strformat("a segment of kind {}, codec {}, filter {}, which this library does not know",
                            segment.kind(), segment.codec(), segment.filter()));
  if (segment.filter() != 0 ? (width != 1 && width != 2 && width != 4 && width != 8) : width != 0)
    return bad(strformat("filter width {}", width));
  if (segment.codec() == 0 && segment.filter() != 0) return bad("a filter without a codec");
  return Ok();
}

static Status ends_inside(const fb::Chunk& last, const fb::Part& part) {
  uint64_t end = last.offset() + last.stored_size();
  if (end <= part.size()) return Ok();
  return bad(strformat("a chunk ends at {}, beyond its part of {} bytes", end, part.size()));
}

Status IndexCheck::segment_of(const Extents& extents, const fb::Segment& segment, bool* whole) const {
  bool flat = segment.kind() == 1;
  CKPT_TRY(check_codes(segment));
  if (!range_ok(segment.geometry(), flat ? 2 : 2 * extents.dims.size(), index_.numbers.size()))
    return bad("a segment's geometry lies outside the numbers");
  if (kind_ == IndexKind::kManifest && segment.part() >= index_.parts.size())
    return bad(strformat("a segment in part {} of {}", segment.part(), index_.parts.size()));
  auto geometry = index_.numbers.subspan(segment.geometry(), flat ? 2 : 2 * extents.dims.size());
  uint64_t count = segment_elements(flat, geometry, extents.dims, extents.elements), bytes = extents.bytes;
  if (count == 0)
    return bad(flat ? "a flat range is empty or ends outside its tensor" : "a box is empty or ends outside its tensor");
  int bits = dtype_bits(extents.dtype);
  *whole = count == extents.elements;
  if (!*whole) {
    if (bits % 8 != 0 && !whole_bytes(flat, geometry, extents.dims, bits, extents.elements))
      return bad("a segment of packed elements does not end at a whole byte");
    count_bytes(count, extents.dtype, &bytes);  // fits, since the tensor's bytes do
  }
  auto list = index_.chunks_of(segment);
  CKPT_TRY(chunks_of("a segment", list, bytes, segment.codec() == 0));
  if (bits % 8 == 0 && list.size() > 1 && list[0].raw_size() % (static_cast<unsigned>(bits) / 8) != 0)
    return bad("a chunk ends inside an element");
  return kind_ == IndexKind::kManifest ? ends_inside(list.back(), index_.parts[segment.part()]) : Ok();
}

// ---- chunks ----

static Status bad_chunk(std::string_view owner, std::span<const fb::Chunk> list, size_t i) {
  return bad(
      strformat("chunk {} of {} has raw size {}, stored size {}", i, owner, list[i].raw_size(), list[i].stored_size()));
}

// `list` must have at least one chunk.
Status IndexCheck::chunks_of(std::string_view owner, std::span<const fb::Chunk> list, uint64_t bytes, bool raw) {
  uint64_t sum = 0, end = kAlign;
  uint32_t full = list[0].raw_size();  // the size of all chunks but the last
  if (full == 0 || full > kMaxChunkBytes) return bad_chunk(owner, list, 0);
  for (size_t i = 0; i < list.size(); i++) {
    const fb::Chunk& chunk = list[i];
    uint32_t size = chunk.raw_size(), stored = chunk.stored_size();
    bool size_ok = i + 1 < list.size() ? size == full : size <= full && size != 0;
    bool stored_ok = stored == size || (!raw && stored != 0 && stored < size && size / kMaxLz4Ratio <= stored);
    if (!size_ok || !stored_ok) return bad_chunk(owner, list, i);
    if (chunk.offset() < end || add_overflows(chunk.offset(), stored, &end))
      return bad(
          strformat("chunk {} of {} starts at {}, before the end of what precedes it", i, owner, chunk.offset()));
    sum += size;
  }
  if (sum == bytes) return Ok();
  return bad(strformat("the chunks of {} hold {} bytes, expected {}", owner, sum, bytes));
}

}  // namespace ckpt::format
