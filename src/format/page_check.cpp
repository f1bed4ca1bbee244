// The rules of FORMAT §4 for untrusted pages: ranges lie inside their columns, records are in canonical order, sums
// agree. All arithmetic on numbers of the file is checked. Tensors are checked in page_tensors.cpp.
#include "format/page_check.h"

#include <algorithm>

#include "format/fault.h"
#include "format/names.h"
#include "format/part_record.h"

namespace ckpt::format {

Status PageCheck::records(size_t number) {
  from_ = root_.first_name(root_.pages[number]);
  to_ = number + 1 < root_.pages.size() ? root_.first_name(root_.pages[number + 1]) : std::string_view();
  if (!page_.parts.empty() || !page_.used.empty()) return bad("a page of names holds parts");
  CKPT_TRY(homes());
  CKPT_TRY(tensors());
  CKPT_TRY(aliases());
  CKPT_TRY(objects());
  CKPT_TRY(attrs());
  return names(number);
}

// The positions that the root gives to names and objects.
Status PageCheck::names(size_t number) const {
  const fb::PageRef& here = root_.pages[number];
  const bool last = number + 1 == root_.pages.size();
  const uint64_t names_end = last ? root_.name_count : root_.pages[number + 1].name_first();
  const uint64_t objects_end = !last       ? root_.pages[number + 1].object_first()
                               : manifest_ ? root_.summary.object_count
                                           : here.object_first() + objects_;
  if (here.name_first() + page_.tensors.size() + page_.aliases.size() != names_end ||
      here.object_first() + objects_ != objects_end)
    return bad("a page holds more or fewer names than the root says");
  return Ok();
}

Status PageCheck::parts(size_t number) const {
  if (page_.tensors.size() + page_.aliases.size() + page_.objects.size() + page_.attrs.size() + page_.homes.size() != 0)
    return bad("a page of parts holds something else");
  const uint64_t first = uint64_t{number} * root_.parts_per_page;
  if (page_.parts.size() != std::min<uint64_t>(root_.parts_per_page, root_.file_count() - first))
    return bad(strformat("a page of {} parts", page_.parts.size()));
  if (!page_.used.empty() && page_.used.size() != page_.parts.size())
    return bad("not one number of used bytes for each part");
  const fb::Part* before = nullptr;  // a base
  for (size_t i = 0; i < page_.parts.size(); i++) {
    const fb::Part& part = page_.parts[i];
    const uint64_t used = page_.used.empty() ? 0 : page_.used[i];
    if (part.kind() > kBase)
      return Status(CKPT_UNSUPPORTED,
                    strformat("a part of kind {}, which this library does not read yet", part.kind()));
    if (first + i < root_.summary.part_count) {
      CKPT_TRY(this->part(part, first + i));
      if (used != 0) return bad("used bytes of a part that is no base");
      continue;
    }
    CKPT_TRY(check_base(part, root_.summary.save_id, before));
    if (used == 0) return bad("a base of which nothing is used");
    before = &part;
  }
  return Ok();
}

Status PageCheck::part(const fb::Part& part, uint64_t number) const {
  if (part.kind() == kBase) return bad(strformat("part {} is a base", number));
  if (part.rank() != number || part.pad() != 0 || part.pad2() != 0 || part.pad3() != 0)
    return bad(strformat("part {} is of rank {}", number, part.rank()));
  if (id_of(part.save_id()) != root_.summary.save_id || !fits(part))
    return bad(strformat("part {} is of another save or of no legal size", part.rank()));
  return Ok();
}

// Names ascend and lie in the page's range.
Status PageCheck::ordered(std::string_view what, const fb::Text& text, std::string_view* previous, bool first) const {
  if (!text_ok(page_.names, text))
    return bad(std::string("the name of ") + std::string(what) + " lies outside the names");
  const std::string_view name = page_.text(text);
  if (Status status = check_tensor_name(name); !status.ok()) return bad(status.message());
  if ((!first && name <= *previous) || name < from_ || (!to_.empty() && name >= to_))
    return bad(std::string(what) + " " + in_quotes(name) + " is out of order");
  *previous = name;
  return Ok();
}

Status PageCheck::aliases() const {
  std::string_view previous;
  for (const fb::Alias& alias : page_.aliases) {
    CKPT_TRY(ordered("an alias", alias.name(), &previous, &alias == page_.aliases.data()));
    if (!text_ok(page_.names, alias.target())) return bad("the target of an alias lies outside the names");
    if (page_.find_tensor(previous)) return bad("alias " + in_quotes(previous) + " is a tensor, too");
    const uint64_t count = alias.is_view() ? uint64_t{1} + 2 * uint64_t{alias.ndim()} : 0;
    if (alias.is_view() > 1 || alias.pad() != 0 || alias.ndim() > kMaxNdim ||
        (!alias.is_view() && (alias.ndim() != 0 || alias.view() != 0)) ||
        !range_ok(alias.view(), count, page_.numbers.size()))
      return bad("the view of alias " + in_quotes(previous) + " lies outside the numbers");
    if (alias.is_view() && !numbers_ok(page_.view_of(alias)))
      return bad("the view of alias " + in_quotes(previous) + " has a number beyond 2^63-1");
  }
  return Ok();
}

Status PageCheck::objects() {
  std::string_view previous;
  for (const fb::Object& object : page_.objects) {
    CKPT_TRY(ordered("an object", object.name(), &previous, &object == page_.objects.data()));
    if (!text_ok(page_.names, object.media_type())) return bad("the type of an object lies outside the names");
    if (Status status = check_text(page_.text(object.media_type())); !status.ok()) return bad(status.message());
    if (object.scope() > CKPT_OBJECT_TREE || object.pad() != 0 || object.pad2() != 0)
      return bad("object " + in_quotes(previous) + " is of no known kind");
    CKPT_TRY(object_place(object, previous));
    CKPT_TRY(object_data(object, previous));
    objects_ += manifest_ ? root_.layouts[object.layout()].per_cell() : 1;
  }
  if (next_inline_ != page_.inline_data.size() || next_chunk_ != page_.chunks.size())
    return bad("data that belongs to nothing");
  return Ok();
}

Status PageCheck::object_place(const fb::Object& object, std::string_view name) const {
  if (!manifest_) {
    const bool elsewhere = object.placement() == 2, shared = object.scope() == CKPT_OBJECT_SHARED;
    if (object.layout() != 0 || object.placement() > 2 || (elsewhere && !shared))
      return bad("object " + in_quotes(name) + " is of no known kind");
    if (shared && root_.rank != Root::kNoRank && elsewhere != (root_.rank != 0))
      return bad(strformat("object {} is shared, so rank 0 alone has it, but {} part {}", in_quotes(name),
                           elsewhere ? "not" : "so has", root_.rank));
    return Ok();
  }
  const bool known = object.placement() == 3 && object.layout() < root_.layouts.size();
  if (!known || root_.layouts[object.layout()].kind() != 0)
    return bad("object " + in_quotes(name) + " has no list of parts");
  const fb::Layout& layout = root_.layouts[object.layout()];
  uint32_t first = UINT32_MAX;
  root_.for_each_part(layout, 0, 1, [&](uint32_t part) { first = part; });
  if (object.scope() == 0 ? layout.per_cell() != 1 || first != 0
                          : layout.per_cell() == 0 || object.size() != 0 || !id_of(object.digest()).zero())
    return bad("object " + in_quotes(name) + " is not described well");
  return Ok();
}

Status PageCheck::object_data(const fb::Object& object, std::string_view name) {
  if (object.chunk_first() != next_chunk_ || !range_ok(next_chunk_, object.chunk_count(), page_.chunks.size()) ||
      object.inline_offset() != next_inline_ || (object.placement() == 1) != (object.chunk_count() > 0))
    return bad("the data of object " + in_quotes(name) + " does not follow that before");
  next_chunk_ += object.chunk_count();
  if (object.placement() == 0) {
    if (object.size() > kMaxInlineObject || !range_ok(next_inline_, object.size(), page_.inline_data.size()))
      return bad("the data of object " + in_quotes(name) + " lies outside the inline data");
    next_inline_ += object.size();
  }
  if (object.placement() != 1) return Ok();
  return chunks_of("object " + in_quotes(name), page_.chunks_of(object), object.size(), true);
}

Status PageCheck::attrs() const {
  for (size_t i = 0; i < page_.attrs.size(); i++) {
    const fb::Attr& attr = page_.attrs[i];
    if (!text_ok(page_.names, attr.owner()) || !text_ok(page_.names, attr.key()) || !text_ok(page_.names, attr.value()))
      return bad("an attribute lies outside the names");
    const std::string_view owner = page_.text(attr.owner()), key = page_.text(attr.key());
    if (Status status = check_attr_key(key); !status.ok()) return bad(status.message());
    if (Status status = check_text(page_.text(attr.value())); !status.ok()) return bad(status.message());
    if (attr.value().size() > kMaxAttrValue) return bad("attribute " + in_quotes(key) + " is longer than 1 MiB");
    if (manifest_ && !owner.empty() && !page_.find_tensor(owner) && !page_.find_alias(owner))
      return bad("attribute " + in_quotes(key) + " of " + in_quotes(owner) + ", which is not there");
    const std::string_view before = i == 0 ? std::string_view() : page_.text(page_.attrs[i - 1].owner());
    if (owner < from_ || (!to_.empty() && owner >= to_) ||
        (i > 0 && (before > owner || (before == owner && page_.text(page_.attrs[i - 1].key()) >= key))))
      return bad("attribute " + in_quotes(key) + " is out of order");
  }
  return Ok();
}

}  // namespace ckpt::format
