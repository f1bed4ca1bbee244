// The rules of FORMAT §4 for tensors, their regions, segments and chunks. There may be millions, so the loops only find
// out whether a record is good, and they read each column once and in order; code outside them describes what is wrong
// with a record. All arithmetic on numbers of the file is checked.
#include <algorithm>
#include <cstring>

#include "format/fault.h"
#include "format/names.h"
#include "format/page_check.h"

namespace ckpt::format {

// No LZ4 block expands more. A file that claims a higher ratio only makes us allocate memory.
static constexpr uint32_t kMaxLz4Ratio = 255;

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

// What the regions of one tensor are checked against.
struct PageCheck::Extents {
  std::span<const uint64_t> dims;
  uint64_t elements, bytes;
  uint16_t dtype;
  int bits;
  // Whether so many elements take whole bytes.
  bool whole_bytes(uint64_t count) const { return bits % 8 == 0 || (count % 8) * static_cast<unsigned>(bits) % 8 == 0; }
};

// ---- tensors ----

Status PageCheck::tensors() {
  if (page_.holdings.size() != (manifest_ ? page_.tensors.size() : 0)) return bad("not one holding for each tensor");
  std::string_view previous;
  for (const fb::Tensor& tensor : page_.tensors) {
    if (!text_ok(page_.names, tensor.name())) return bad("the name of a tensor lies outside the names");
    const std::string_view name = page_.text(tensor.name());
    if (Status status = check_tensor_name(name); !status.ok()) return bad(status.message());
    if (&tensor != page_.tensors.data() && !ascend(previous, name))
      return bad("tensor " + in_quotes(name) + " is out of order");
    previous = name;
    if (Status status = this->tensor(tensor, name); !status.ok()) return of_tensor(std::move(status), name);
  }
  if (!page_.tensors.empty() && (page_.text(page_.tensors.front().name()) < from_ || (!to_.empty() && previous >= to_)))
    return bad("a tensor lies on the wrong page");
  if (next_region_ != page_.regions.size() || next_segment_ != page_.segments.size())
    return bad("a region or segment belongs to no tensor");
  return Ok();
}

Status PageCheck::tensor(const fb::Tensor& tensor, std::string_view) {
  Extents extents{{}, 0, 0, tensor.dtype(), dtype_bits(tensor.dtype())};
  if (tensor.ndim() > kMaxNdim || !range_ok(tensor.shape(), tensor.ndim(), page_.numbers.size()) || extents.bits == 0)
    return bad("it has no valid shape or dtype");
  extents.dims = page_.extents_of(tensor);
  if (!numbers_ok(extents.dims)) return bad("it has an extent beyond 2^63-1");
  if (!count_elements(extents.dims, &extents.elements) || !count_bytes(extents.elements, extents.dtype, &extents.bytes))
    return bad("it is larger than 2^63-1 bytes");
  if (tensor.region_first() != next_region_ || !range_ok(next_region_, tensor.region_count(), page_.regions.size()))
    return bad("its regions do not follow those before");
  next_region_ += tensor.region_count();
  return manifest_ ? holding(tensor, extents) : regions_of(tensor, extents);
}

Status PageCheck::holding(const fb::Tensor& tensor, const Extents& extents) const {
  const fb::Holding& holding = page_.holding_of(tensor);
  if (tensor.region_count() != 0) return bad("a manifest has no regions");
  if (holding.layout() >= root_.layouts.size()) return bad("its layout does not exist");
  const fb::Layout& layout = root_.layouts[holding.layout()];
  if ((extents.elements == 0) != (layout.per_cell() == 0)) return bad("its layout has no parts, or too many");
  if (root_.is_rows(layout) && (extents.dims.empty() || extents.dims[0] < layout.per_cell()))
    return bad("it has fewer rows than parts that hold some");
  if (!root_.is_grid(layout)) return Ok();
  if (layout.ndim() != tensor.ndim()) return bad("its layout has another number of dimensions");
  const auto cells = root_.cells_of(layout);
  for (size_t d = 0; d < cells.size(); d++) {
    const uint64_t cell = (extents.dims[d] + cells[d] - 1) / cells[d];
    if (cells[d] > extents.dims[d] || (cells[d] - 1) * cell >= extents.dims[d])
      return bad("its layout has empty cells");
  }
  return Ok();
}

// ---- regions ----

Status PageCheck::regions_of(const fb::Tensor& tensor, const Extents& extents) {
  const fb::Region* before = nullptr;
  for (const fb::Region& region : page_.regions_of(tensor)) {
    uint64_t elements = 0;
    CKPT_TRY(this->region(region, extents, &elements));
    if (before) {
      const auto kind = static_cast<RegionKind>(region.kind());
      const size_t count = region_number_count(kind, extents.dims.size());
      const auto a = page_.numbers.subspan(before->geometry(), before->kind() == region.kind() ? count : 0);
      const auto b = page_.numbers.subspan(region.geometry(), count);
      if (before->kind() > region.kind() ||
          (before->kind() == region.kind() && !std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end())))
        return bad("its regions are out of order");
    }
    before = &region;
    CKPT_TRY(segments_of(region, extents, elements));
    if (static_cast<RegionKind>(region.kind()) == RegionKind::kRows) CKPT_TRY(rows(tensor, extents));
  }
  return Ok();
}

// Rows are all that the part holds of the tensor, and it holds them alone.
Status PageCheck::rows(const fb::Tensor& tensor, const Extents& extents) const {
  if (tensor.region_count() != 1) return bad("another region beside rows");
  if (extents.dims.empty() || !extents.whole_bytes(extents.elements / extents.dims[0]))
    return bad("its rows do not end at whole bytes");
  uint64_t end = 0;
  for (const fb::Segment& segment : page_.segments_of(page_.regions_of(tensor)[0])) {
    if (segment.start() != end) break;
    end += segment.count();
  }
  return end == extents.elements ? Ok() : bad(strformat("only {} of {} elements of its rows", end, extents.elements));
}

// The number of elements of a box inside a tensor; 0 if it leaves the tensor or is empty.
static uint64_t box_elements(std::span<const uint64_t> box, std::span<const uint64_t> dims) {
  uint64_t count = 1, end;
  bool outside = false;
  for (size_t i = 0; i < dims.size(); i++) {
    const uint64_t extent = box[dims.size() + i];
    outside |= add_overflows(box[i], extent, &end) || end > dims[i];
    count *= extent;  // at most the tensor's own count, which was checked
  }
  return outside ? 0 : count;
}

Status PageCheck::region(const fb::Region& region, const Extents& extents, uint64_t* elements) const {
  if (region.kind() > 3 || region.pad() != 0 || region.pad2() != 0) return bad("a region of no known kind");
  const size_t ndim = extents.dims.size();
  const auto kind = static_cast<RegionKind>(region.kind());
  const bool all = kind == RegionKind::kWhole || kind == RegionKind::kRows;
  if (!range_ok(region.geometry(), region_number_count(kind, ndim), page_.numbers.size()) ||
      (all && region.geometry() != 0))
    return bad("a region's geometry lies outside the numbers");
  const uint64_t total = extents.elements;
  const uint64_t* numbers = page_.numbers.data() + region.geometry();
  uint64_t end = 0;
  if (all)
    *elements = total;
  else if (kind == RegionKind::kBox)
    *elements = box_elements({numbers, 2 * ndim}, extents.dims);
  else
    *elements = add_overflows(numbers[0], numbers[1], &end) || end > total ? 0 : numbers[1];
  if (*elements == 0) return bad("a region is empty or ends outside its tensor");
  if (!all && *elements == total) return bad("a region that is all of its tensor is not told so");
  if (extents.bits % 8 == 0) return Ok();
  const bool whole_bytes =
      all || (kind == RegionKind::kFlat
                  ? extents.whole_bytes(numbers[0]) && (extents.whole_bytes(numbers[1]) || end == total)
                  : extents.whole_bytes(numbers[ndim - 1]) && extents.whole_bytes(numbers[2 * ndim - 1]) &&
                        extents.whole_bytes(extents.dims[ndim - 1]));
  return whole_bytes ? Ok() : bad("a region of packed elements does not end at a whole byte");
}

// ---- segments ----

Status PageCheck::segments_of(const fb::Region& region, const Extents& extents, uint64_t elements) {
  if (region.segment_first() != next_segment_ || region.segment_count() == 0 ||
      !range_ok(next_segment_, region.segment_count(), page_.segments.size()))
    return bad("the segments of a region do not follow those before");
  next_segment_ += region.segment_count();
  uint64_t end = 0;
  for (const fb::Segment& segment : page_.segments_of(region)) {
    if (segment.start() < end) return bad("the segments of a region are out of order");
    if (segment.chunk_first() != next_chunk_ || segment.chunk_count() == 0 ||
        !range_ok(next_chunk_, segment.chunk_count(), page_.chunks.size()))
      return bad("the chunks of a segment do not follow those before");
    next_chunk_ += segment.chunk_count();
    CKPT_TRY(this->segment(segment, extents, elements));
    end = segment.start() + segment.count();
  }
  return Ok();
}

// The rules for the codes of a segment, which need no other record.
static Status check_codes(const fb::Segment& segment) {
  const int width = segment.filter_width();
  if (segment.codec() > 1 || segment.filter() > 2)
    return Status(CKPT_UNSUPPORTED, strformat("a segment of codec {}, filter {}, which this library does not know",
                                              segment.codec(), segment.filter()));
  if (segment.filter() != 0 ? (width != 1 && width != 2 && width != 4 && width != 8) : width != 0)
    return bad(strformat("filter width {}", width));
  if (segment.codec() == 0 && segment.filter() != 0) return bad("a filter without a codec");
  return segment.pad() == 0 && segment.pad2() == 0 ? Ok() : bad("a segment of no known kind");
}

Status PageCheck::segment(const fb::Segment& segment, const Extents& extents, uint64_t elements) const {
  CKPT_TRY(check_codes(segment));
  uint64_t end, bytes = 0;
  if (segment.count() == 0 || add_overflows(segment.start(), segment.count(), &end) || end > elements)
    return bad("a segment is empty or ends outside its region");
  if (!extents.whole_bytes(segment.start()) || (!extents.whole_bytes(segment.count()) && end != elements))
    return bad("a segment of packed elements does not end at a whole byte");
  count_bytes(segment.count(), extents.dtype, &bytes);  // fits, since the tensor's bytes do
  const auto list = page_.chunks_of(segment);
  CKPT_TRY(chunks_of("a segment", list, bytes, segment.codec() == 0));
  if (extents.bits % 8 == 0 && list.size() > 1 && list[0].raw_size() % (static_cast<unsigned>(extents.bits) / 8) != 0)
    return bad("a chunk ends inside an element");
  return Ok();
}

// ---- chunks ----

static Status bad_chunk(std::string_view owner, std::span<const fb::Chunk> list, size_t i) {
  return bad(
      strformat("chunk {} of {} has raw size {}, stored size {}", i, owner, list[i].raw_size(), list[i].stored_size()));
}

Status PageCheck::homes() const {
  if (page_.homes.empty()) return Ok();
  if (page_.homes.size() != page_.chunks.size()) return bad("not one home for each chunk");
  const uint16_t most = *std::max_element(page_.homes.begin(), page_.homes.end());
  return most <= root_.bases.size() ? Ok() : bad(strformat("a chunk in base {} of {}", most, root_.bases.size()));
}

// Between the header and the index of its file.
bool PageCheck::lies_in_file(const fb::Chunk& chunk, uint16_t home) const {
  const uint64_t data_end = home == 0 ? root_.data_end : root_.bases[home - 1].part().index_offset();
  uint64_t end;
  return chunk.offset() >= kAlign && !add_overflows(chunk.offset(), chunk.stored_size(), &end) && end <= data_end;
}

// `list` must have at least one chunk.
Status PageCheck::chunks_of(std::string_view owner, std::span<const fb::Chunk> list, uint64_t bytes, bool raw) const {
  uint64_t sum = 0;
  const uint32_t full = list[0].raw_size();  // the size of all chunks but the last
  if (full > kMaxChunkBytes) return bad_chunk(owner, list, 0);
  for (size_t i = 0; i < list.size(); i++) {
    const fb::Chunk& chunk = list[i];
    const uint32_t size = chunk.raw_size(), stored = chunk.stored_size();
    const bool size_ok = i + 1 < list.size() ? size == full : size <= full && size != 0;
    const bool stored_ok = stored == size || (!raw && stored != 0 && stored < size && size / kMaxLz4Ratio <= stored);
    if (!size_ok || !stored_ok) return bad_chunk(owner, list, i);
    if (const uint16_t home = page_.home_of(chunk); !lies_in_file(chunk, home)) {
      const std::string file = home == 0 ? "its part" : strformat("base {}", home);
      return bad(strformat("chunk {} of {} at {} does not lie between header and index of {}", i, owner, chunk.offset(),
                           file));
    }
    sum += size;
  }
  if (sum == bytes) return Ok();
  return bad(strformat("the chunks of {} hold {} bytes, expected {}", owner, sum, bytes));
}

}  // namespace ckpt::format
