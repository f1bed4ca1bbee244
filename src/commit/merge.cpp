#include "commit/merge.h"

#include "codec/checksum.h"
#include "commit/merge_steps.h"
#include "format/names.h"
#include "format/part_record.h"
#include "format/slot.h"

namespace ckpt::commit {

Status disagree(const char* what, std::string_view name, uint32_t rank, uint32_t other, std::string expected,
                std::string found) {
  return error_about(
             CKPT_MISMATCH, name,
             strformat("{} {}: rank {} has {}, rank {} has {}", what, in_quotes(name), rank, expected, other, found))
      .with("ranks", strformat("{}, {}", rank, other))
      .with("expected", std::move(expected))
      .with("found", std::move(found));
}

static Result<std::vector<Source>> sources_of(std::span<const checkpoint::PartFile> parts,
                                              std::span<const Gathered> groups) {
  std::vector<Source> sources;
  sources.reserve(parts.size() + groups.size());
  for (const checkpoint::PartFile& part : parts) {
    Source source{&part, {}, nullptr};
    for (size_t i = 0; i < part.index->page_count(); i++) {
      CKPT_ASSIGN(const format::Page* page, part.index->page(i));
      source.pages.push_back(page);
    }
    sources.push_back(std::move(source));
  }
  for (const Gathered& group : groups) sources.push_back({nullptr, {}, &group});
  return sources;
}

// `world`: how many ranks there are.
static Status check_identities(Sources sources, uint64_t world) {
  const format::Summary& a = sources[0].summary();
  for (const Source& source : sources) {
    const format::Summary& b = source.summary();
    const Id save = source.part ? source.part->header.save_id : b.save_id;
    const uint32_t theirs = source.part ? source.part->header.world_size : b.world_size;
    if (theirs != world || b.save_id != save || b.save_id != a.save_id)
      return Status(CKPT_MISMATCH,
                    strformat("{} of save {} in a world of {} does not belong to save {} in a world of {}", "a part",
                              to_hex(save), theirs, to_hex(a.save_id), world))
          .with("ranks", std::to_string(source.first_rank()));
    if (a.step != b.step)
      return disagree("step of", a.label, sources[0].first_rank(), source.first_rank(), std::to_string(a.step),
                      std::to_string(b.step));
  }
  return Ok();
}

// ---- parts ----

// Up to so many bytes of parts' indexes are copied into the manifest (FORMAT §4).
static constexpr uint64_t kMostCopies = 1 << 20;

static fb::Part record_of(const checkpoint::PartFile& part) {
  return fb::Part(part.size, part.trailer.index_offset, part.trailer.index_size, 0,
                  format::digest_of(part.trailer.root_digest), format::digest_of(part.header.save_id),
                  static_cast<uint32_t>(part.trailer.root_size), part.header.rank, uint8_t{0}, uint8_t{0}, uint16_t{0},
                  0u);
}

static fb::Part with_copy(const fb::Part& part, uint64_t offset) {
  return fb::Part(part.size(), part.index_offset(), part.index_size(), offset, part.root_digest(), part.save_id(),
                  part.root_size(), part.rank(), part.kind(), uint8_t{0}, uint16_t{0}, 0u);
}

static uint64_t copy_size(const fb::Part& part) { return round_up(part.index_size(), format::kPageAlign); }

Status merge_bases(std::span<const fb::Base> bases, uint32_t rank, LargeVector<fb::Base>* known) {
  LargeVector<fb::Base> merged;
  auto at = known->begin();
  for (const fb::Base& base : bases) {
    const auto identity = format::identity_of(base.part());
    while (at != known->end() && format::identity_of(at->part()) < identity) merged.push_back(*at++);
    uint64_t used = base.used();
    if (at != known->end() && format::identity_of(at->part()) == identity) {
      const std::string name = format::file_name(base.part());
      if (!format::same_file(at->part(), base.part()))
        return Status(CKPT_MISMATCH, strformat("rank {} describes {} otherwise than a rank before it", rank, name))
            .with("part", name)
            .with("ranks", std::to_string(rank));
      if (add_overflows(used, at++->used(), &used)) return Status(CKPT_FORMAT, "the sizes of bases overflow");
    }
    merged.emplace_back(base.part(), used);
  }
  merged.insert(merged.end(), at, known->end());
  *known = std::move(merged);
  return Ok();
}

// Adds the records of the parts and their bases, and copies of their indexes if they all are small enough for a
// manifest.
static Status gather_indexes(std::span<const checkpoint::PartFile> parts, Gathered& gathered) {
  uint64_t bytes = 0;
  for (const checkpoint::PartFile& part : parts) {
    gathered.parts.push_back(record_of(part));
    bytes += copy_size(gathered.parts.back());
    if (const auto bases = part.index->root().bases; !bases.empty())
      CKPT_TRY(merge_bases(bases, part.header.rank, &gathered.bases));
  }
  if (bytes > kMostCopies) return Ok();
  for (const checkpoint::PartFile& part : parts) {
    const Bytes index = part.index->bytes();
    gathered.copies.insert(gathered.copies.end(), index.begin(), index.end());
    gathered.copies.resize(round_up(gathered.copies.size(), format::kPageAlign));
  }
  return Ok();
}

static void add_parts(std::span<const Gathered* const> groups, format::IndexBuilder& builder, format::Buffer* copies) {
  uint64_t bytes = 0;
  for (const Gathered* group : groups)
    for (const fb::Part& part : group->parts) bytes += copy_size(part);
  const bool copy = bytes <= kMostCopies;
  uint64_t offset = 0;
  for (const Gathered* group : groups) {
    for (fb::Part part : group->parts) {
      builder.summary.part_bytes += part.size();
      if (copy) part = with_copy(part, offset);
      offset += copy_size(part);
      builder.parts.push_back(part);
    }
    if (copy) copies->append(Bytes(group->copies));
  }
}

// After all parts.
static Status add_bases(std::span<const Gathered* const> groups, format::IndexBuilder& builder) {
  LargeVector<fb::Base> bases;
  for (const Gathered* group : groups)
    if (!group->bases.empty()) CKPT_TRY(merge_bases(group->bases, group->parts[0].rank(), &bases));
  if (bases.empty()) return Ok();
  if (bases.size() > UINT32_MAX - builder.parts.size())
    return Status(CKPT_UNSUPPORTED, strformat("{} parts and {} bases", builder.parts.size(), bases.size()));
  format::Summary& summary = builder.summary;
  summary.base_count = static_cast<uint32_t>(bases.size());
  builder.used.resize(builder.parts.size());
  for (const fb::Base& base : bases) {
    builder.parts.push_back(base.part());
    builder.used.push_back(base.used());
    if (add_overflows(summary.base_bytes, base.part().size(), &summary.base_bytes) ||
        add_overflows(summary.used_bytes, base.used(), &summary.used_bytes))
      return Status(CKPT_FORMAT, "the sizes of bases overflow");
  }
  return Ok();
}

// ---- into a manifest ----

static Status bad_alias(const AliasEntry& alias, std::string why, ckpt_status code = CKPT_MISMATCH) {
  return error_about(code, alias.name,
                     strformat("alias {} of rank {}: ", in_quotes(alias.name), alias.rank) + std::move(why))
      .with("ranks", std::to_string(alias.rank));
}

// The lowest rank that has this tensor. Only errors ask.
static uint32_t rank_with(Sources sources, std::string_view name) {
  TensorEntry tensor;
  for (const Source& source : sources)
    for (size_t page = 0; page < source.page_count(); page++)
      for (size_t at = 0; at < TensorEntry::count(source, page); at++)
        if (tensor.read(source, page, at); tensor.name == name) return tensor.rank;
  return 0;
}

// Adds an alias to a builder that has all tensors.
static Status add_alias(Sources sources, const AliasEntry& alias, format::IndexBuilder& builder) {
  if (builder.find_tensor(alias.name))
    return disagree("name", alias.name, alias.rank, rank_with(sources, alias.name), "an alias", "a tensor");
  const fb::Tensor* target = builder.find_tensor(alias.target);
  if (!target) return bad_alias(alias, "no rank added its target " + in_quotes(alias.target));
  const auto extents = builder.extents_of(*target);
  if (alias.is_view && !format::view_fits(alias.view, extents, target->dtype()))
    return bad_alias(alias, "its view leaves " + in_quotes(alias.target) + " of shape " + to_text(Shape::of(extents)));
  if (alias.is_view && dtype_bits(target->dtype()) % 8 != 0)
    return bad_alias(alias, "a view of packed elements, which no load gives", CKPT_UNSUPPORTED);
  builder.add_alias(alias.name, alias.target, alias.is_view, alias.view, alias.ndim);
  return Ok();
}

static Status add_object(const ObjectEntry& object, std::span<const Holder> holders, format::IndexBuilder& builder,
                         std::vector<HeldTree>* trees) {
  const bool shared = object.scope == CKPT_OBJECT_SHARED;
  if (shared && object.rank != 0)
    return error_about(
               CKPT_MISMATCH, object.name,
               strformat("shared object {}: rank {} added it, rank 0 did not", in_quotes(object.name), object.rank))
        .with("ranks", strformat("0, {}", object.rank));
  builder.summary.object_count += holders.size();  // one of each rank counts once for each
  std::vector<uint32_t> parts;
  for (const Holder& holder : holders) parts.push_back(holder.part);
  builder.add_object({.name = object.name,
                      .media_type = object.media_type,
                      .scope = object.scope,
                      .placement = 3,
                      .size = shared ? object.size : 0,
                      .digest = shared ? object.digest : Digest{},
                      .inline_bytes = {},
                      .chunks = {},
                      .layout = builder.list_layout(parts)});
  if (object.scope == CKPT_OBJECT_TREE) trees->push_back({std::string(object.name), std::move(parts)});
  return Ok();
}

static Status add_records(Sources sources, format::IndexBuilder& builder, std::vector<HeldTree>* trees) {
  CKPT_TRY(merge_tensors(sources, builder));
  CKPT_TRY(merge_aliases(sources, [&](const AliasEntry& alias) { return add_alias(sources, alias, builder); }));
  CKPT_TRY(merge_objects(sources, [&](const ObjectEntry& object, std::span<const Holder> holders) {
    return add_object(object, holders, builder, trees);
  }));
  return merge_attrs(sources, [&](const AttrEntry& attr) {
    builder.add_attr(attr.owner, attr.name, attr.value);
    return Ok();
  });
}

Result<Merged> merge_parts(std::span<const checkpoint::PartFile> parts, std::span<const Gathered> groups,
                           const store::Store& store, std::string_view directory, bool mark_rebuilt) {
  Gathered direct;
  CKPT_TRY(gather_indexes(parts, direct));
  std::vector<const Gathered*> records{&direct};
  for (const Gathered& group : groups) records.push_back(&group);
  uint64_t world = 0;
  for (const Gathered* group : records) world += group->parts.size();
  CKPT_ASSIGN(const std::vector<Source> sources, sources_of(parts, groups));
  CKPT_TRY(check_identities(sources, world));
  CKPT_TRY(check_groups(sources, {store, directory}));
  format::IndexBuilder builder;
  builder.summary = sources[0].summary();
  builder.summary.part_count = static_cast<uint32_t>(world);
  builder.summary.part_bytes = builder.summary.object_count = 0;
  builder.summary.required_features = 0;  // part 0 may have bases, and others none, or the other way round
  builder.summary.rebuilt = mark_rebuilt;
  std::vector<HeldTree> trees;
  CKPT_TRY(add_records(sources, builder, &trees));
  builder.summary.tensor_count = builder.tensor_count();
  format::Buffer copies;
  add_parts(records, builder, &copies);
  CKPT_TRY(add_bases(records, builder));
  CKPT_ASSIGN(format::EncodedIndex index, builder.encode(format::IndexKind::kManifest));
  // What is committed must open again: apply the reader's own checks before anybody depends on it.
  CKPT_ASSIGN(auto again, checkpoint::IndexFile::open(
                              {format::IndexKind::kManifest, index.bytes.size(), index.root_size, index.root_digest},
                              Bytes(index.bytes)));
  CKPT_TRY(again->load_all());
  std::vector<std::string> bases;
  for (size_t i = builder.summary.part_count; i < builder.parts.size(); i++)
    bases.push_back(format::file_name(builder.parts[i]));
  return Merged{builder.summary, format::frame_manifest(std::move(index), copies, builder.summary), std::move(trees),
                std::move(bases)};
}

// ---- into a group's file ----

Result<Gathered> gather_parts(std::span<const checkpoint::PartFile> parts) {
  CKPT_ASSIGN(const std::vector<Source> sources, sources_of(parts, {}));
  CKPT_TRY(check_identities(sources, parts[0].header.world_size));
  Gathered gathered;
  gathered.summary = parts[0].summary();
  CKPT_TRY(gather_indexes(parts, gathered));
  for (const checkpoint::PartFile& part : parts)
    for (const fb::Group& group : part.index->root().groups) gathered.members.push_back({group, part.header.rank, 0});
  CKPT_TRY(gather_tensors(sources, gathered));
  CKPT_TRY(merge_aliases(sources, [&](const AliasEntry& alias) {
    const fb::Text name = gathered.put_text(alias.name), target = gathered.put_text(alias.target);
    gathered.aliases.push_back({name, target, alias.rank, static_cast<uint16_t>(alias.is_view),
                                static_cast<uint16_t>(alias.ndim), gathered.put_numbers(alias.view)});
    return Ok();
  }));
  std::vector<uint64_t> rows;
  CKPT_TRY(merge_objects(sources, [&](const ObjectEntry& object, std::span<const Holder> holders) {
    const fb::Text name = gathered.put_text(object.name), media_type = gathered.put_text(object.media_type);
    const size_t width = Gathered::Object::holder_width(object.scope);
    rows.clear();
    for (const Holder& holder : holders) {
      const uint64_t row[] = {holder.part, holder.digest.lo, holder.digest.hi};
      rows.insert(rows.end(), row, row + width);
    }
    gathered.objects.push_back({name, media_type, object.size, format::digest_of(object.digest),
                                gathered.put_rows(rows, width), object.rank, object.scope});
    return Ok();
  }));
  CKPT_TRY(merge_attrs(sources, [&](const AttrEntry& attr) {
    const fb::Text owner = gathered.put_text(attr.owner), key = gathered.put_text(attr.name);
    gathered.attrs.push_back({owner, key, gathered.put_text(attr.value), attr.rank, 0});
    return Ok();
  }));
  return gathered;
}

}  // namespace ckpt::commit
