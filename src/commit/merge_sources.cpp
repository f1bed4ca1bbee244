#include "commit/merge_sources.h"

namespace ckpt::commit {

// ---- tensors ----

size_t TensorEntry::count(const Source& source, size_t page) {
  return source.gathered ? source.gathered->tensors.size() : source.pages[page]->tensors.size();
}

void TensorEntry::read(const Source& source, size_t number, size_t at) {
  if (source.gathered) {
    gathered = source.gathered;
    pieces = &gathered->tensors[at];
    name = gathered->text(pieces->name);
    rank = pieces->rank;
    dtype = pieces->dtype;
    extents = gathered->range({pieces->shape, pieces->ndim});
    const auto runs = gathered->range(pieces->pieces);
    rows = !runs.empty() && runs[1] == static_cast<uint64_t>(RegionKind::kRows);
    return;
  }
  gathered = nullptr;
  page = source.pages[number];
  tensor = &page->tensors[at];
  name = page->text(tensor->name());
  rank = source.part->header.rank;
  dtype = tensor->dtype();
  extents = page->extents_of(*tensor);
  const auto regions = page->regions_of(*tensor);
  rows = !regions.empty() && static_cast<RegionKind>(regions[0].kind()) == RegionKind::kRows;
}

// ---- aliases ----

size_t AliasEntry::count(const Source& source, size_t page) {
  return source.gathered ? source.gathered->aliases.size() : source.pages[page]->aliases.size();
}

void AliasEntry::read(const Source& source, size_t number, size_t at) {
  if (source.gathered) {
    const Gathered& from = *source.gathered;
    const Gathered::Alias& alias = from.aliases[at];
    *this = {from.text(alias.name),         from.text(alias.target), alias.rank, alias.is_view != 0, alias.ndim,
             from.range(alias.view_range())};
    return;
  }
  const format::Page& page = *source.pages[number];
  const fb::Alias& alias = page.aliases[at];
  *this = {
      page.text(alias.name()), page.text(alias.target()), source.part->header.rank, alias.is_view() != 0, alias.ndim(),
      page.view_of(alias)};
}

// ---- objects ----

size_t ObjectEntry::count(const Source& source, size_t page) {
  return source.gathered ? source.gathered->objects.size() : source.pages[page]->objects.size();
}

void ObjectEntry::read(const Source& source, size_t number, size_t at) {
  if (source.gathered) {
    const Gathered& from = *source.gathered;
    const Gathered::Object& object = from.objects[at];
    *this = {from.text(object.name),       from.text(object.media_type),       object.rank, object.size,
             format::id_of(object.digest), static_cast<uint8_t>(object.scope), false,       0,
             from.range(object.holders)};
    return;
  }
  const format::Page& page = *source.pages[number];
  const fb::Object& object = page.objects[at];
  *this = {page.text(object.name()),
           page.text(object.media_type()),
           source.part->header.rank,
           object.size(),
           format::id_of(object.digest()),
           object.scope(),
           object.placement() != 2,
           source.part->number,
           {}};
}

// ---- attributes ----

size_t AttrEntry::count(const Source& source, size_t page) {
  return source.gathered ? source.gathered->attrs.size() : source.pages[page]->attrs.size();
}

void AttrEntry::read(const Source& source, size_t number, size_t at) {
  if (source.gathered) {
    const Gathered& from = *source.gathered;
    const Gathered::Attr& attr = from.attrs[at];
    *this = {from.text(attr.owner), from.text(attr.key), from.text(attr.value), attr.rank};
    return;
  }
  const format::Page& page = *source.pages[number];
  const fb::Attr& attr = page.attrs[at];
  *this = {page.text(attr.owner()), page.text(attr.key()), page.text(attr.value()), source.part->header.rank};
}

}  // namespace ckpt::commit
