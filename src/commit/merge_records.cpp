// Merges the aliases, objects and attributes of all parts. Equal ones become one.
#include <algorithm>

#include "commit/merge_steps.h"

namespace ckpt::commit {

template <typename Record>
using Same = std::vector<Held<Record>>;

// ---- aliases ----

// The tensors of all parts, sorted by name for lookups.
struct AllTensors {
  PartPages pages;
  std::span<const NameRef> by_name;

  // Finds the tensor in the first part that has it.
  Held<fb::Tensor> find(std::string_view name) const {
    auto name_of = [this](const NameRef& ref) {
      const format::Page& page = *pages[ref.list].page;
      return page.text(page.tensors[ref.at].name());
    };
    auto found = std::ranges::lower_bound(by_name, name, {}, name_of);
    if (found == by_name.end() || name_of(*found) != name) return {};
    const PartPage& at = pages[found->list];
    return {at.part, at.page, &at.page->tensors[found->at]};
  }
};

// Checks an alias against the tensors of all ranks.
static Status check_target(const AllTensors& tensors, const Held<fb::Alias>& by, std::span<const uint64_t> view) {
  std::string_view name = by.page->text(by.record->name()), target = by.page->text(by.record->target());
  if (auto clash = tensors.find(name); clash.part)
    return disagree("name", name, *by.part, *clash.part, "an alias", "a tensor");
  Held<fb::Tensor> holder = tensors.find(target);
  std::string why;
  if (!holder.part)
    why = "no rank added its target " + quoted(target);
  else if (!view.empty() && !format::view_fits(view, holder.page->extents_of(*holder.record), holder.record->dtype()))
    why = "its view leaves " + quoted(target) + " of shape " + to_text(holder.page->shape_of(*holder.record));
  if (why.empty()) return Ok();
  return Status(CKPT_MISMATCH, strformat("alias {} of rank {}: ", quoted(name), by.part->header.rank) + why)
      .with("tensor", std::string(name))
      .with("ranks", std::to_string(by.part->header.rank));
}

static Status add_merged_alias(const AllTensors& tensors, const Same<fb::Alias>& same, format::IndexBuilder& builder) {
  const Held<fb::Alias>& first = same[0];
  std::string_view name = first.page->text(first.record->name()), target = first.page->text(first.record->target());
  auto view = first.page->view_of(*first.record);
  CKPT_TRY(check_target(tensors, first, view));
  for (const Held<fb::Alias>& other : same) {
    std::string_view other_target = other.page->text(other.record->target());
    if (other_target != target || !std::ranges::equal(view, other.page->view_of(*other.record)))
      return disagree("alias", name, *first.part, *other.part, "target " + quoted(target),
                      "target " + quoted(other_target) + " or another view");
  }
  builder.add_alias(name, target, first.record->is_view(), view, first.record->ndim());
  return Ok();
}

Status merge_aliases(PartPages pages, std::span<const NameRef> tensors, format::IndexBuilder& builder) {
  auto list = [](const format::Page& page) { return page.aliases; };
  auto name = [](const format::Page& page, const fb::Alias& alias) { return page.text(alias.name()); };
  return for_each_name<fb::Alias>(
      pages, records_by_name(pages, list, name), list, name,
      [&](const Same<fb::Alias>& same) { return add_merged_alias({pages, tensors}, same, builder); });
}

// ---- objects ----

static Status check_objects(const Same<fb::Object>& same) {
  const Held<fb::Object>& first = same[0];
  std::string_view name = first.page->text(first.record->name());
  auto describe = [](const fb::Object& object) {
    return strformat("{} bytes, XXH3-128 {}", object.size(), to_hex(format::id_of(object.digest())));
  };
  for (const Held<fb::Object>& other : same) {
    const fb::Object &a = *first.record, &b = *other.record;
    if (a.scope() != b.scope())
      return disagree("object", name, *first.part, *other.part, a.scope() ? "its own" : "a shared one",
                      b.scope() ? "its own" : "a shared one");
    if (a.scope() == 0 && (a.size() != b.size() || !(format::id_of(a.digest()) == format::id_of(b.digest()))))
      return disagree("shared object", name, *first.part, *other.part, describe(a), describe(b));
  }
  if (first.record->scope() == 0 && first.part->header.rank != 0)
    return Status(CKPT_MISMATCH, strformat("shared object {}: rank {} added it, rank 0 did not", quoted(name),
                                           first.part->header.rank))
        .with("tensor", std::string(name))
        .with("ranks", strformat("0, {}", first.part->header.rank));
  return Ok();
}

static Status add_merged_object(const Same<fb::Object>& same, format::IndexBuilder& builder, uint64_t* count) {
  CKPT_TRY(check_objects(same));
  const fb::Object& object = *same[0].record;
  const bool shared = object.scope() == 0;
  std::vector<uint32_t> holders;
  for (const Held<fb::Object>& held : same)
    if (held.record->placement() != 2) holders.push_back(held.part->number);
  *count += holders.size();
  builder.add_object({.name = same[0].page->text(object.name()),
                      .media_type = same[0].page->text(object.media_type()),
                      .scope = object.scope(),
                      .placement = 3,
                      .size = shared ? object.size() : 0,
                      .digest = shared ? format::id_of(object.digest()) : Digest{},
                      .inline_bytes = {},
                      .chunks = {},
                      .layout = builder.list_layout(holders)});
  return Ok();
}

Status merge_objects(PartPages pages, format::IndexBuilder& builder, uint64_t* count) {
  auto list = [](const format::Page& page) { return page.objects; };
  auto name = [](const format::Page& page, const fb::Object& object) { return page.text(object.name()); };
  return for_each_name<fb::Object>(
      pages, records_by_name(pages, list, name), list, name,
      [&](const Same<fb::Object>& same) { return add_merged_object(same, builder, count); });
}

// ---- attributes ----

static Status add_merged_attr(const Same<fb::Attr>& same, format::IndexBuilder& builder) {
  const Held<fb::Attr>& first = same[0];
  auto text = [](const Held<fb::Attr>& held, const fb::Text& of) { return held.page->text(of); };
  const std::string_view value = text(first, first.record->value());
  for (const Held<fb::Attr>& other : same)
    if (const std::string_view theirs = text(other, other.record->value()); theirs != value)
      return disagree("attribute of tensor", text(first, first.record->owner()), *first.part, *other.part,
                      quoted(value.substr(0, 80)), quoted(theirs.substr(0, 80)));
  builder.add_attr(text(first, first.record->owner()), text(first, first.record->key()), value);
  return Ok();
}

// Ordered by owner, then by key.
Status merge_attrs(PartPages pages, format::IndexBuilder& builder) {
  auto list = [](const format::Page& page) { return page.attrs; };
  auto owner = [](const format::Page& page, const fb::Attr& attr) { return page.text(attr.owner()); };
  auto key = [](const format::Page& page, const fb::Attr& attr) { return page.text(attr.key()); };
  LargeVector<NameRef> refs = records_by_name(pages, list, owner);
  auto text_of = [&](const NameRef& ref, auto&& field) {
    const format::Page& page = *pages[ref.list].page;
    return field(page, page.attrs[ref.at]);
  };
  for (size_t first = 0, end; first < refs.size(); first = end) {
    std::string_view current = text_of(refs[first], owner);
    for (end = first + 1; end < refs.size() && text_of(refs[end], owner) == current; end++) {
    }
    auto of_owner = std::span(refs).subspan(first, end - first);
    sort_by_name(of_owner, [&](const NameRef& ref) { return text_of(ref, key); });
    CKPT_TRY(for_each_name<fb::Attr>(pages, of_owner, list, key,
                                     [&](const Same<fb::Attr>& same) { return add_merged_attr(same, builder); }));
  }
  return Ok();
}

}  // namespace ckpt::commit
