// Merges the aliases, objects and attributes of all parts. Equal ones become one.
#include <algorithm>

#include "commit/merge_steps.h"

namespace ckpt::commit {

template <typename Record>
using Same = std::vector<Held<Record>>;

// ---- aliases ----

// The tensors of all parts, sorted by name for lookups.
struct AllTensors {
  std::span<const checkpoint::PartFile> parts;
  std::span<const NameRef> by_name;

  // Finds the tensor in the first part that has it.
  Held<fb::Tensor> find(std::string_view name) const {
    auto name_of = [this](const NameRef& ref) {
      const format::Index& index = parts[ref.list].index;
      return index.text(index.tensors[ref.at].name());
    };
    auto found = std::ranges::lower_bound(by_name, name, {}, name_of);
    if (found == by_name.end() || name_of(*found) != name) return {};
    return {&parts[found->list], &parts[found->list].index.tensors[found->at]};
  }
};

// Checks an alias against the tensors of all ranks.
static Status check_target(const AllTensors& tensors, const checkpoint::PartFile& by, const fb::Alias& alias,
                           std::span<const uint64_t> view) {
  std::string_view name = by.index.text(alias.name()), target = by.index.text(alias.target());
  if (auto clash = tensors.find(name); clash.part)
    return disagree("name", name, by, *clash.part, "an alias", "a tensor");
  Held<fb::Tensor> holder = tensors.find(target);
  std::string why;
  if (!holder.part)
    why = "no rank added its target " + quoted(target);
  else if (!view.empty() && !holder.part->index.view_fits(view, *holder.record))
    why = "its view leaves " + quoted(target) + " of shape " + to_text(holder.part->index.shape_of(*holder.record));
  if (why.empty()) return Ok();
  return Status(CKPT_MISMATCH, strformat("alias {} of rank {}: ", quoted(name), by.header.rank) + why)
      .with("tensor", std::string(name))
      .with("ranks", std::to_string(by.header.rank));
}

static Status add_merged_alias(const AllTensors& tensors, const Same<fb::Alias>& same, format::IndexBuilder& builder) {
  auto [first_part, first] = same[0];
  const format::Index& index = first_part->index;
  std::string_view name = index.text(first->name()), target = index.text(first->target());
  auto numbers = [](const format::Index& from, const fb::Alias& alias) {
    return alias.is_view() ? from.numbers.subspan(alias.view(), 1 + 2 * size_t{alias.ndim()})
                           : std::span<const uint64_t>();
  };
  auto view = numbers(index, *first);
  CKPT_TRY(check_target(tensors, *first_part, *first, view));
  for (auto [part, alias] : same) {
    auto other = numbers(part->index, *alias);
    std::string_view other_target = part->index.text(alias->target());
    if (other_target != target || !std::equal(view.begin(), view.end(), other.begin(), other.end()))
      return disagree("alias", name, *first_part, *part, "target " + quoted(target),
                      "target " + quoted(other_target) + " or another view");
  }
  builder.add_alias(name, target, first->is_view(), view, first->ndim());
  return Ok();
}

Status merge_aliases(std::span<const checkpoint::PartFile> parts, std::span<const NameRef> tensors,
                     format::IndexBuilder& builder) {
  auto list = [](const checkpoint::PartFile& part) { return part.index.aliases; };
  auto name = [](const checkpoint::PartFile& part, const fb::Alias& alias) { return part.index.text(alias.name()); };
  return for_each_name<fb::Alias>(
      parts, records_by_name(parts, list, name), list, name,
      [&](const Same<fb::Alias>& same) { return add_merged_alias({parts, tensors}, same, builder); });
}

// ---- objects ----

static Status add_merged_object(const Same<fb::Object>& same, format::IndexBuilder& builder) {
  auto [first_part, first] = same[0];
  std::string_view name = first_part->index.text(first->name());
  for (auto [part, object] : same) {
    if (object->scope() != first->scope())
      return disagree("object", name, *first_part, *part, first->scope() ? "its own" : "a shared one",
                      object->scope() ? "its own" : "a shared one");
    if (object->scope() == 0 &&
        (object->size() != first->size() || !(format::id_of(object->digest()) == format::id_of(first->digest()))))
      return disagree("shared object", name, *first_part, *part,
                      strformat("{} bytes, XXH3-128 {}", first->size(), to_hex(format::id_of(first->digest()))),
                      strformat("{} bytes, XXH3-128 {}", object->size(), to_hex(format::id_of(object->digest()))));
  }
  if (first->scope() == 0 && first_part->header.rank != 0)
    return Status(CKPT_MISMATCH, strformat("shared object {}: rank {} added it, rank 0 did not", quoted(name),
                                           first_part->header.rank))
        .with("tensor", std::string(name))
        .with("ranks", strformat("0, {}", first_part->header.rank));
  for (auto [part, object] : same) {
    if (object->placement() == 2) continue;
    const format::Index& index = part->index;
    builder.add_object({.name = name,
                        .media_type = index.text(object->media_type()),
                        .scope = object->scope(),
                        .placement = object->placement(),
                        .rank = object->scope() ? part->header.rank : 0,
                        .part = part->number,
                        .size = object->size(),
                        .digest = format::id_of(object->digest()),
                        .inline_bytes = object->placement() == 0
                                            ? index.inline_data.subspan(object->inline_offset(), object->size())
                                            : Bytes(),
                        .chunks = index.chunks_of(*object)});
  }
  return Ok();
}

Status merge_objects(std::span<const checkpoint::PartFile> parts, format::IndexBuilder& builder) {
  auto list = [](const checkpoint::PartFile& part) { return part.index.objects; };
  auto name = [](const checkpoint::PartFile& part, const fb::Object& object) { return part.index.text(object.name()); };
  return for_each_name<fb::Object>(parts, records_by_name(parts, list, name), list, name,
                                   [&](const Same<fb::Object>& same) { return add_merged_object(same, builder); });
}

// ---- attributes ----

static Status add_merged_attr(const Same<fb::Attr>& same, format::IndexBuilder& builder) {
  auto [first_part, first] = same[0];
  const format::Index& index = first_part->index;
  for (auto [part, attr] : same)
    if (part->index.text(attr->value()) != index.text(first->value()))
      return disagree("attribute of tensor", index.text(first->owner()), *first_part, *part,
                      quoted(index.text(first->value()).substr(0, 80)),
                      quoted(part->index.text(attr->value()).substr(0, 80)));
  builder.add_attr(index.text(first->owner()), index.text(first->key()), index.text(first->value()));
  return Ok();
}

// Ordered by owner, then by key.
Status merge_attrs(std::span<const checkpoint::PartFile> parts, format::IndexBuilder& builder) {
  auto list = [](const checkpoint::PartFile& part) { return part.index.attrs; };
  auto owner = [](const checkpoint::PartFile& part, const fb::Attr& attr) { return part.index.text(attr.owner()); };
  auto key = [](const checkpoint::PartFile& part, const fb::Attr& attr) { return part.index.text(attr.key()); };
  LargeVector<NameRef> refs = records_by_name(parts, list, owner);
  auto attr_of = [&](const NameRef& ref) -> const fb::Attr& { return parts[ref.list].index.attrs[ref.at]; };
  for (size_t first = 0, end; first < refs.size(); first = end) {
    std::string_view current = owner(parts[refs[first].list], attr_of(refs[first]));
    for (end = first + 1; end < refs.size() && owner(parts[refs[end].list], attr_of(refs[end])) == current; end++) {
    }
    auto of_owner = std::span(refs).subspan(first, end - first);
    sort_by_name(of_owner, [&](const NameRef& ref) { return key(parts[ref.list], attr_of(ref)); });
    CKPT_TRY(for_each_name<fb::Attr>(parts, of_owner, list, key,
                                     [&](const Same<fb::Attr>& same) { return add_merged_attr(same, builder); }));
  }
  return Ok();
}

}  // namespace ckpt::commit
