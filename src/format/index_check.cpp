// The rules of FORMAT §4 for untrusted indexes: ranges inside their columns, canonical order, sums. All arithmetic on
// file numbers is checked.
#include <algorithm>

#include "format/index.h"
#include "format/names.h"

namespace ckpt::format {

static Status bad(std::string what) { return Status(CKPT_FORMAT, std::move(what)); }

static std::string quoted(std::string_view name) { return "\"" + std::string(name) + "\""; }

// No LZ4 block grows more: whoever claims it wants our memory.
static constexpr uint32_t kMaxLz4Ratio = 255;

static bool range_ok(uint64_t first, uint64_t count, size_t size) { return first <= size && count <= size - first; }

bool Index::text_ok(const fb::Text& text) const {
  uint64_t end = uint64_t{text.offset()} + text.size();
  return end < names.size() && names[end] == '\n';
}

Status Index::validate(IndexKind kind) const {
  CKPT_TRY(validate_tensors(kind));
  CKPT_TRY(validate_aliases(kind));
  CKPT_TRY(validate_objects(kind));
  CKPT_TRY(validate_attrs(kind));
  if (kind == IndexKind::kPart) return parts.empty() ? Ok() : bad("a part's index lists parts");
  uint64_t part_bytes = 0;
  for (const fb::Part& part : parts) {
    if (part.kind() == 0 &&
        (part.rank() != static_cast<size_t>(&part - parts.data()) || part.pad() != 0 || part.pad2() != 0))
      return bad(strprintf("part %zu is of rank %u", &part - parts.data(), part.rank()));
    if (part.kind() != 0)
      return Status(CKPT_UNSUPPORTED,
                    strprintf("a part of kind %d, which this library does not read yet", part.kind()));
    if (part.size() % kAlign != 0 || part.size() < 2 * kAlign || id_of(part.save_id()) != summary.save_id)
      return bad(strprintf("part %u is of another save or of no legal size", part.rank()));
    if (add_overflows(part_bytes, part.size(), &part_bytes)) return bad("the sizes of the parts overflow");
  }
  if (parts.size() != summary.world_size || parts.size() != summary.part_count || part_bytes != summary.part_bytes ||
      tensors.size() != summary.tensor_count || objects.size() != summary.object_count || !groups.empty())
    return bad("the summary's counts are not those of the index");
  return Ok();
}

Status Index::validate_tensors(IndexKind kind) const {
  std::string_view previous;
  uint64_t next_segment = 0, next_chunk = 0;
  for (const fb::Tensor& tensor : tensors) {
    if (!text_ok(tensor.name())) return bad("the name of a tensor lies outside the names");
    std::string_view name = text(tensor.name());
    if (Status status = check_tensor_name(name); !status.ok()) return bad(status.message());
    if (&tensor != tensors.data() && name <= previous) return bad("tensor " + quoted(name) + " is out of order");
    previous = name;
    if (tensor.ndim() > kMaxNdim || tensor.reserved() != 0 ||
        !range_ok(tensor.shape(), tensor.ndim(), numbers.size()) || dtype_bits(tensor.dtype()) == 0)
      return bad("tensor " + quoted(name) + " has no valid shape or dtype");
    Shape shape = shape_of(tensor);
    auto count = element_count(shape);
    if (!count.ok() || !element_bytes(*count, tensor.dtype()).ok())
      return bad("tensor " + quoted(name) + " is larger than 2^63-1 bytes");
    if (tensor.segment_first() != next_segment || !range_ok(next_segment, tensor.segment_count(), segments.size()))
      return bad("the segments of tensor " + quoted(name) + " do not follow those before");
    next_segment += tensor.segment_count();
    const fb::Segment* before = nullptr;
    for (const fb::Segment& segment : segments_of(tensor)) {
      if (segment.chunk_first() != next_chunk || !range_ok(next_chunk, segment.chunk_count(), chunks.size()) ||
          segment.chunk_count() == 0)
        return bad("the chunks of tensor " + quoted(name) + " do not follow those before");
      next_chunk += segment.chunk_count();
      if (Status status = validate_segment(tensor, segment, shape, kind); !status.ok())
        return std::move(status).in("tensor " + quoted(name)).with("tensor", std::string(name));
      if (before &&
          (segment.part() < before->part() ||
           (segment.part() == before->part() && chunks_of(segment)[0].offset() <= chunks_of(*before)[0].offset())))
        return bad("the segments of tensor " + quoted(name) + " are out of order");
      before = &segment;
    }
  }
  return next_segment == segments.size() ? Ok() : bad("a segment belongs to no tensor");
}

// The number of elements of a region, or an error where it leaves its tensor or is empty.
static Result<uint64_t> region_elements(const Region& region, const Shape& shape, uint64_t total) {
  if (region.kind == RegionKind::kFlat) {
    uint64_t end;
    if (region.flat_size == 0 || add_overflows(region.flat_offset, region.flat_size, &end) || end > total)
      return bad("a flat range is empty or ends outside its tensor");
    return region.flat_size;
  }
  uint64_t count = 1;
  for (int i = 0; i < shape.ndim; i++) {
    uint64_t end;
    if (region.box.extent[i] == 0 || add_overflows(region.box.offset[i], region.box.extent[i], &end) || end > shape[i])
      return bad("a box is empty or ends outside its tensor");
    count *= region.box.extent[i];  // at most the tensor's own count, which was checked
  }
  return count;
}

// FORMAT §5: packed elements start and end at whole bytes, unless the segment is the whole tensor.
static bool whole_bytes(const Region& region, const Shape& shape, int bits, uint64_t count, uint64_t total) {
  if (bits % 8 == 0 || count == total) return true;
  auto aligned = [bits](uint64_t n) { return (n % 8) * static_cast<unsigned>(bits) % 8 == 0; };
  if (region.kind == RegionKind::kFlat)
    return aligned(region.flat_offset) && (aligned(region.flat_size) || region.flat_offset + region.flat_size == total);
  int last = shape.ndim - 1;
  return aligned(region.box.offset[last]) && aligned(region.box.extent[last]) && aligned(shape[last]);
}

Status Index::validate_segment(const fb::Tensor& tensor, const fb::Segment& segment, const Shape& shape,
                               IndexKind kind) const {
  int width = segment.filter_width();
  if (segment.kind() > 1 || segment.codec() > 1 || segment.filter() > 2)
    return Status(CKPT_UNSUPPORTED,
                  strprintf("a segment of kind %d, codec %d, filter %d, which this library does not know",
                            segment.kind(), segment.codec(), segment.filter()));
  if (segment.filter() != 0 ? (width != 1 && width != 2 && width != 4 && width != 8) : width != 0)
    return bad(strprintf("filter width %d", width));
  if (segment.codec() == 0 && segment.filter() != 0) return bad("a filter without a codec");
  uint64_t numbers_needed = segment.kind() == 1 ? 2 : 2 * uint64_t{tensor.ndim()};
  if (!range_ok(segment.geometry(), numbers_needed, numbers.size()))
    return bad("a segment's geometry lies outside the numbers");
  if (kind == IndexKind::kManifest && segment.part() >= parts.size())
    return bad(strprintf("a segment in part %u of %zu", segment.part(), parts.size()));
  Region region = region_of(segment, tensor.ndim());
  uint64_t total = *element_count(shape);
  CKPT_ASSIGN(uint64_t count, region_elements(region, shape, total));
  if (!whole_bytes(region, shape, dtype_bits(tensor.dtype()), count, total))
    return bad("a segment of packed elements does not end at a whole byte");
  CKPT_ASSIGN(uint64_t bytes, element_bytes(count, tensor.dtype()));
  CKPT_TRY(validate_chunks("a segment", chunks_of(segment), bytes, segment.codec() == 0));
  uint64_t unit = dtype_bits(tensor.dtype()) % 8 == 0 ? static_cast<uint64_t>(dtype_bits(tensor.dtype())) / 8 : 1;
  if (chunks_of(segment)[0].raw_size() % unit != 0) return bad("a chunk ends inside an element");
  const fb::Chunk& last = chunks_of(segment).back();
  if (kind == IndexKind::kManifest && last.offset() + last.stored_size() > parts[segment.part()].size())
    return bad(strprintf("a chunk ends at %llu, beyond its part of %llu bytes",
                         static_cast<unsigned long long>(last.offset() + last.stored_size()),
                         static_cast<unsigned long long>(parts[segment.part()].size())));
  return Ok();
}

Status Index::validate_chunks(std::string_view owner, std::span<const fb::Chunk> list, uint64_t bytes, bool raw) const {
  uint64_t sum = 0, end = kAlign;
  for (size_t i = 0; i < list.size(); i++) {
    const fb::Chunk& chunk = list[i];
    bool size_ok =
        i + 1 < list.size() ? chunk.raw_size() == list[0].raw_size() : chunk.raw_size() <= list[0].raw_size();
    if (!size_ok || chunk.raw_size() == 0 || chunk.raw_size() > kMaxChunkBytes || chunk.stored_size() == 0 ||
        chunk.stored_size() > chunk.raw_size() || chunk.raw_size() / kMaxLz4Ratio > chunk.stored_size() ||
        (raw && chunk.stored_size() != chunk.raw_size()))
      return bad(strprintf("chunk %zu of %.*s has raw size %u, stored size %u", i, static_cast<int>(owner.size()),
                           owner.data(), chunk.raw_size(), chunk.stored_size()));
    if (chunk.offset() < end || add_overflows(chunk.offset(), chunk.stored_size(), &end))
      return bad(strprintf("chunk %zu of %.*s starts at %llu, before the end of what precedes it", i,
                           static_cast<int>(owner.size()), owner.data(),
                           static_cast<unsigned long long>(chunk.offset())));
    sum += chunk.raw_size();
  }
  return sum == bytes ? Ok()
                      : bad(strprintf("the chunks of %.*s hold %llu bytes, expected %llu",
                                      static_cast<int>(owner.size()), owner.data(),
                                      static_cast<unsigned long long>(sum), static_cast<unsigned long long>(bytes)));
}

Status Index::validate_objects(IndexKind kind) const {
  uint64_t next_chunk = segments.empty() ? 0 : segments.back().chunk_first() + segments.back().chunk_count(),
           next_inline = 0;
  const fb::Object* before = nullptr;
  for (const fb::Object& object : objects) {
    if (!text_ok(object.name()) || !text_ok(object.media_type()))
      return bad("the name of an object lies outside the names");
    std::string_view name = text(object.name());
    if (Status status = check_tensor_name(name); !status.ok()) return bad(status.message());
    if (Status status = check_text(text(object.media_type())); !status.ok()) return bad(status.message());
    bool ordered =
        !before || text(before->name()) < name ||
        (text(before->name()) == name && before->scope() == 1 && object.scope() == 1 && before->rank() < object.rank());
    bool place_ok = object.placement() != 2 || object.scope() == 0;
    if (!ordered || object.scope() > 1 || (object.scope() == 0 && object.rank() != 0) || !place_ok ||
        object.placement() > (kind == IndexKind::kManifest ? 1 : 2) || object.pad() != 0 || object.pad2() != 0)
      return bad("object " + quoted(name) + " is out of order or of no known kind");
    before = &object;
    if (object.chunk_first() != next_chunk || !range_ok(next_chunk, object.chunk_count(), chunks.size()) ||
        object.inline_offset() != next_inline || (object.placement() == 1) != (object.chunk_count() > 0))
      return bad("the data of object " + quoted(name) + " does not follow that before");
    next_chunk += object.chunk_count();
    if (object.placement() == 0) {
      if (object.size() > kMaxInlineObject || !range_ok(next_inline, object.size(), inline_data.size()))
        return bad("the data of object " + quoted(name) + " lies outside the inline data");
      next_inline += object.size();
    }
    if (kind == IndexKind::kManifest && (object.part() >= parts.size() || object.part() != object.rank()))
      return bad("object " + quoted(name) + " lies in no part, or not in that of its rank");
    if (object.placement() != 1) continue;
    CKPT_TRY(validate_chunks("object " + quoted(name), chunks_of(object), object.size(), true));
    const fb::Chunk& last = chunks_of(object).back();
    if (kind == IndexKind::kManifest && last.offset() + last.stored_size() > parts[object.part()].size())
      return bad("object " + quoted(name) + " ends beyond its part");
  }
  for (const fb::Group& group : groups) {
    if (group.chunk() != next_chunk++ || next_chunk > chunks.size() || group.index() >= group.count() ||
        group.count() < 2)
      return bad("a group's list does not follow what precedes it");
    const fb::Chunk& list = chunks[group.chunk()];
    CKPT_TRY(validate_chunks("a declaration list", {&list, 1}, list.raw_size(), false));
  }
  if (next_inline != inline_data.size() || next_chunk != chunks.size()) return bad("data that belongs to nothing");
  return Ok();
}

bool Index::view_fits(std::span<const uint64_t> view, const fb::Tensor& target) const {
  size_t ndim = (view.size() - 1) / 2;
  uint64_t last = view[0];
  bool empty = false, overflow = false;
  for (size_t i = 0; i < ndim; i++) {
    uint64_t extent = view[1 + i], stride = view[1 + ndim + i], reach = 0;
    if (extent == 0)
      empty = true;
    else
      overflow |= mul_overflows(extent - 1, stride, &reach) || add_overflows(last, reach, &last);
  }
  // A view may repeat elements, so its own size is not bounded by the target's.
  auto elements = element_count(Shape::of(view.subspan(1, ndim)));
  return elements.ok() && element_bytes(*elements, target.dtype()).ok() &&
         (empty || (!overflow && last < *element_count(shape_of(target))));
}

Status Index::validate_aliases(IndexKind kind) const {
  std::string_view previous;
  for (const fb::Alias& alias : aliases) {
    if (!text_ok(alias.name()) || !text_ok(alias.target())) return bad("the name of an alias lies outside the names");
    std::string_view name = text(alias.name());
    if (Status status = check_tensor_name(name); !status.ok()) return bad(status.message());
    if ((&alias != aliases.data() && name <= previous) || find_tensor(name))
      return bad("alias " + quoted(name) + " is out of order or a tensor");
    previous = name;
    uint64_t count = uint64_t{1} + 2 * uint64_t{alias.ndim()};
    if (alias.is_view() > 1 || alias.pad() != 0 || alias.pad2() != 0 || alias.ndim() > kMaxNdim ||
        (alias.is_view() && !range_ok(alias.view(), count, numbers.size())))
      return bad("the view of alias " + quoted(name) + " lies outside the numbers");
    const fb::Tensor* target = find_tensor(text(alias.target()));
    if (kind == IndexKind::kPart) continue;
    if (!target) return bad("alias " + quoted(name) + " of a tensor that is not there");
    if (!alias.is_view()) continue;
    if (!view_fits(numbers.subspan(alias.view(), count), *target))
      return bad("the view of alias " + quoted(name) + " leaves its tensor");
  }
  return Ok();
}

Status Index::validate_attrs(IndexKind kind) const {
  for (size_t i = 0; i < attrs.size(); i++) {
    const fb::Attr& attr = attrs[i];
    if (!text_ok(attr.owner()) || !text_ok(attr.key()) || !text_ok(attr.value()))
      return bad("an attribute lies outside the names");
    if (Status status = check_attr_key(text(attr.key())); !status.ok()) return bad(status.message());
    if (Status status = check_text(text(attr.value())); !status.ok()) return bad(status.message());
    if (attr.value().size() > kMaxAttrValue)
      return bad("attribute " + quoted(text(attr.key())) + " is longer than 1 MiB");
    bool owned = attr.owner().size() == 0 || find_tensor(text(attr.owner())) || find_alias(text(attr.owner()));
    if (kind == IndexKind::kManifest && !owned)
      return bad("attribute " + quoted(text(attr.key())) + " of " + quoted(text(attr.owner())) +
                 ", which is not there");
    if (i == 0) continue;
    std::string_view owner = text(attrs[i - 1].owner());
    if (owner > text(attr.owner()) || (owner == text(attr.owner()) && text(attrs[i - 1].key()) >= text(attr.key())))
      return bad("attribute " + quoted(text(attr.key())) + " is out of order");
  }
  return Ok();
}

}  // namespace ckpt::format
