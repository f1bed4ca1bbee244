// The rules of FORMAT §4 for untrusted indexes: ranges lie inside their columns, records are in canonical order, sums
// agree. All arithmetic on numbers of the file is checked. Tensors are checked in index_tensors.cpp.
#include "format/index_check.h"

#include <algorithm>

#include "format/index_fault.h"
#include "format/names.h"

namespace ckpt::format {

Status IndexCheck::run(unsigned threads) {
  CKPT_TRY(tensors(threads));
  CKPT_TRY(aliases());
  CKPT_TRY(objects());
  CKPT_TRY(attrs());
  if (kind_ == IndexKind::kPart) return index_.parts.empty() ? Ok() : bad("a part's index lists parts");
  return parts();
}

Status IndexCheck::parts() const {
  uint64_t part_bytes = 0;
  for (size_t i = 0; i < index_.parts.size(); i++) {
    const fb::Part& part = index_.parts[i];
    if (part.kind() == 0 && (part.rank() != i || part.pad() != 0 || part.pad2() != 0))
      return bad(strformat("part {} is of rank {}", i, part.rank()));
    if (part.kind() != 0)
      return Status(CKPT_UNSUPPORTED,
                    strformat("a part of kind {}, which this library does not read yet", part.kind()));
    if (part.size() % kAlign != 0 || part.size() < 2 * kAlign || id_of(part.save_id()) != index_.summary.save_id)
      return bad(strformat("part {} is of another save or of no legal size", part.rank()));
    if (add_overflows(part_bytes, part.size(), &part_bytes)) return bad("the sizes of the parts overflow");
  }
  const Summary& summary = index_.summary;
  if (index_.parts.size() != summary.world_size || index_.parts.size() != summary.part_count ||
      part_bytes != summary.part_bytes || index_.tensors.size() != summary.tensor_count ||
      index_.objects.size() != summary.object_count || !index_.groups.empty())
    return bad("the summary's counts are not those of the index");
  return Ok();
}

Status IndexCheck::objects() const {
  uint64_t next_chunk = end_of_chunks(index_.segments.size()), next_inline = 0;
  const fb::Object* before = nullptr;
  for (const fb::Object& object : index_.objects) {
    if (!text_ok(object.name()) || !text_ok(object.media_type()))
      return bad("the name of an object lies outside the names");
    std::string_view name = index_.text(object.name());
    if (Status status = check_tensor_name(name); !status.ok()) return bad(status.message());
    if (Status status = check_text(index_.text(object.media_type())); !status.ok()) return bad(status.message());
    bool ordered = !before || index_.text(before->name()) < name ||
                   (index_.text(before->name()) == name && before->scope() == 1 && object.scope() == 1 &&
                    before->rank() < object.rank());
    bool place_ok = object.placement() != 2 || object.scope() == 0;
    if (!ordered || object.scope() > 1 || (object.scope() == 0 && object.rank() != 0) || !place_ok ||
        object.placement() > (kind_ == IndexKind::kManifest ? 1 : 2) || object.pad() != 0 || object.pad2() != 0)
      return bad("object " + quoted(name) + " is out of order or of no known kind");
    before = &object;
    CKPT_TRY(object_data(object, &next_chunk, &next_inline));
  }
  if (next_inline != index_.inline_data.size()) return bad("data that belongs to nothing");
  return groups(next_chunk);
}

Status IndexCheck::object_data(const fb::Object& object, uint64_t* next_chunk, uint64_t* next_inline) const {
  std::string_view name = index_.text(object.name());
  if (object.chunk_first() != *next_chunk || !range_ok(*next_chunk, object.chunk_count(), index_.chunks.size()) ||
      object.inline_offset() != *next_inline || (object.placement() == 1) != (object.chunk_count() > 0))
    return bad("the data of object " + quoted(name) + " does not follow that before");
  *next_chunk += object.chunk_count();
  if (object.placement() == 0) {
    if (object.size() > kMaxInlineObject || !range_ok(*next_inline, object.size(), index_.inline_data.size()))
      return bad("the data of object " + quoted(name) + " lies outside the inline data");
    *next_inline += object.size();
  }
  if (kind_ == IndexKind::kManifest && (object.part() >= index_.parts.size() || object.part() != object.rank()))
    return bad("object " + quoted(name) + " lies in no part, or not in that of its rank");
  if (object.placement() != 1) return Ok();
  CKPT_TRY(chunks_of("object " + quoted(name), index_.chunks_of(object), object.size(), true));
  const fb::Chunk& last = index_.chunks_of(object).back();
  if (kind_ == IndexKind::kManifest && last.offset() + last.stored_size() > index_.parts[object.part()].size())
    return bad("object " + quoted(name) + " ends beyond its part");
  return Ok();
}

// The lists of replica groups follow the chunks of everything else.
Status IndexCheck::groups(uint64_t next_chunk) const {
  for (const fb::Group& group : index_.groups) {
    const uint64_t at = next_chunk++;
    if (group.chunk() != at || at >= index_.chunks.size() || group.index() >= group.count() || group.count() < 2)
      return bad("a group's list does not follow what precedes it");
    const fb::Chunk& list = index_.chunks[group.chunk()];
    CKPT_TRY(chunks_of("a declaration list", {&list, 1}, list.raw_size(), false));
  }
  return next_chunk == index_.chunks.size() ? Ok() : bad("data that belongs to nothing");
}

Status IndexCheck::aliases() const {
  std::string_view previous;
  for (const fb::Alias& alias : index_.aliases) {
    if (!text_ok(alias.name()) || !text_ok(alias.target())) return bad("the name of an alias lies outside the names");
    std::string_view name = index_.text(alias.name());
    if (Status status = check_tensor_name(name); !status.ok()) return bad(status.message());
    if ((&alias != index_.aliases.data() && name <= previous) || index_.find_tensor(name))
      return bad("alias " + quoted(name) + " is out of order or a tensor");
    previous = name;
    uint64_t count = uint64_t{1} + 2 * uint64_t{alias.ndim()};
    if (alias.is_view() > 1 || alias.pad() != 0 || alias.pad2() != 0 || alias.ndim() > kMaxNdim ||
        (alias.is_view() && !range_ok(alias.view(), count, index_.numbers.size())))
      return bad("the view of alias " + quoted(name) + " lies outside the numbers");
    const fb::Tensor* target = index_.find_tensor(index_.text(alias.target()));
    if (kind_ == IndexKind::kPart) continue;
    if (!target) return bad("alias " + quoted(name) + " of a tensor that is not there");
    if (!alias.is_view()) continue;
    if (!index_.view_fits(index_.numbers.subspan(alias.view(), count), *target))
      return bad("the view of alias " + quoted(name) + " leaves its tensor");
  }
  return Ok();
}

Status IndexCheck::attrs() const {
  for (size_t i = 0; i < index_.attrs.size(); i++) {
    const fb::Attr& attr = index_.attrs[i];
    if (!text_ok(attr.owner()) || !text_ok(attr.key()) || !text_ok(attr.value()))
      return bad("an attribute lies outside the names");
    if (Status status = check_attr_key(index_.text(attr.key())); !status.ok()) return bad(status.message());
    if (Status status = check_text(index_.text(attr.value())); !status.ok()) return bad(status.message());
    if (attr.value().size() > kMaxAttrValue)
      return bad("attribute " + quoted(index_.text(attr.key())) + " is longer than 1 MiB");
    bool owned = attr.owner().size() == 0 || index_.find_tensor(index_.text(attr.owner())) ||
                 index_.find_alias(index_.text(attr.owner()));
    if (kind_ == IndexKind::kManifest && !owned)
      return bad("attribute " + quoted(index_.text(attr.key())) + " of " + quoted(index_.text(attr.owner())) +
                 ", which is not there");
    if (i == 0) continue;
    std::string_view owner = index_.text(index_.attrs[i - 1].owner());
    if (owner > index_.text(attr.owner()) ||
        (owner == index_.text(attr.owner()) && index_.text(index_.attrs[i - 1].key()) >= index_.text(attr.key())))
      return bad("attribute " + quoted(index_.text(attr.key())) + " is out of order");
  }
  return Ok();
}

}  // namespace ckpt::format
