#include "session/merge.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "format/checksum.h"
#include "format/codec.h"
#include "plan/box.h"
#include "plan/deal.h"
#include "session/geometry.h"

namespace ckpt::session {

static std::string quoted(std::string_view name) { return "\"" + std::string(name) + "\""; }

// ---- replica groups: all members dealt from the same list ----

// Where the parts lie, to look up what the indexes do not hold.
struct Place {
  const store::Store& store;
  std::string_view directory;
};

struct Member {
  const PartFile* part;
  const fb::Group* group;
};

// Reads a member's declaration list; empty where it cannot be had (it only explains what is certain already).
static std::vector<plan::Declared> read_list(const Member& member, const Place& place) {
  const fb::Chunk& chunk = member.part->index.chunks[member.group->chunk()];
  std::vector<std::byte> stored(chunk.stored_size()), raw(chunk.raw_size());
  format::CodecScratch scratch;
  auto file = place.store.open(part_key(place.directory, member.part->number));
  if (!file.ok() || !(*file)->read_at(chunk.offset(), stored).ok() ||
      format::xxh3_128(stored) != format::id_of(chunk.digest()) ||
      !format::decode_chunk({Codec::kLz4, Filter::kNone, 0}, stored, raw, scratch).ok())
    return {};
  auto list = plan::parse_declaration_list(raw);
  return list.ok() ? list.take() : std::vector<plan::Declared>{};
}

static std::string describe(const plan::Declared& entry) {
  return std::string(dtype_name(entry.dtype)) + " " + to_text(entry.shape) + " " + to_text(entry.region);
}

static Status lists_differ(const Member& a, const Member& b, const Place& place) {
  auto first = read_list(a, place), second = read_list(b, place);
  std::map<std::string, const plan::Declared*> known;
  for (const auto& entry : first) known[entry.name] = &entry;
  uint32_t rank_a = a.part->header.rank, rank_b = b.part->header.rank;
  std::string ranks = strprintf("%u, %u", rank_a, rank_b), name, text_a = "not added", text_b = "not added";
  for (const auto& entry : second) {
    auto found = known.find(entry.name);
    if (found != known.end() && found->second->dtype == entry.dtype && found->second->shape == entry.shape &&
        found->second->region == entry.region) {
      known.erase(found);
      continue;
    }
    name = entry.name;
    text_b = describe(entry);
    if (found != known.end()) text_a = describe(*found->second);
    break;
  }
  if (name.empty() && !known.empty()) {
    name = known.begin()->first;
    text_a = describe(*known.begin()->second);
  }
  return Status(CKPT_MISMATCH, strprintf("tensor %s of replica group %llu: rank %u has %s, rank %u has %s; all members "
                                         "of a replica group add the same tensors "
                                         "(a tensor that only one rank holds is given replica_count 1)",
                                         quoted(name).c_str(), static_cast<unsigned long long>(a.group->id()), rank_a,
                                         text_a.c_str(), rank_b, text_b.c_str()))
      .with("tensor", name)
      .with("ranks", ranks)
      .with("expected", text_a)
      .with("found", text_b);
}

// One of the tensors that a member added, to give people a name to look for.
static std::string name_in_group(const Member& member, const Place& place) {
  auto list = read_list(member, place);
  return list.empty() ? "" : list[0].name;
}

static Status doubled_member(uint64_t id, const Member& a, const Member& b, const Place& place) {
  std::string name = name_in_group(b, place);
  return Status(CKPT_MISMATCH,
                strprintf("ranks %u and %u both are member %u of replica group %llu (tensor %s among its tensors)",
                          a.part->header.rank, b.part->header.rank, b.group->index(),
                          static_cast<unsigned long long>(id), quoted(name).c_str()))
      .with("tensor", name)
      .with("ranks", strprintf("%u, %u", a.part->header.rank, b.part->header.rank));
}

static Status check_group(uint64_t id, const std::vector<Member>& members, const Place& place) {
  uint32_t count = members[0].group->count();
  std::map<uint32_t, const Member*> by_index;
  std::string ranks;
  for (const Member& member : members) ranks += (ranks.empty() ? "" : ", ") + std::to_string(member.part->header.rank);
  for (const Member& member : members) {
    const Member*& holder = by_index[member.group->index()];
    if (holder) return doubled_member(id, *holder, member, place);
    holder = &member;
    if (!(format::id_of(member.group->digest()) == format::id_of(members[0].group->digest())))
      return lists_differ(members[0], member, place);
  }
  if (members.size() == count) return Ok();
  std::string name = name_in_group(members[0], place);
  return Status(CKPT_MISMATCH,
                strprintf("replica group %llu has %u members, but only ranks %s added its tensors (tensor %s among "
                          "them); a tensor that only "
                          "one rank holds is given replica_count 1",
                          static_cast<unsigned long long>(id), count, ranks.c_str(), quoted(name).c_str()))
      .with("tensor", name)
      .with("ranks", ranks);
}

static Status check_groups(std::span<const PartFile> parts, const Place& place) {
  std::map<std::tuple<uint64_t, uint32_t>, std::vector<Member>> groups;
  for (const PartFile& part : parts)
    for (const fb::Group& group : part.index.groups) groups[{group.id(), group.count()}].push_back({&part, &group});
  for (const auto& [key, members] : groups) CKPT_TRY(check_group(std::get<0>(key), members, place));
  return Ok();
}

// ---- merging sorted lists ----

// Calls visit(records of one name, in order of part) for every name in ascending order. `list` picks a part's sorted
// records, `name` a record's name.
template <typename Record, typename List, typename Name, typename Visit>
static Status merge_by_name(std::span<const PartFile> parts, List&& list, Name&& name, Visit&& visit) {
  struct Cursor {
    const PartFile* part;
    size_t at;
  };
  auto name_of = [&](const Cursor& cursor) { return name(*cursor.part, list(*cursor.part)[cursor.at]); };
  auto later = [&](const Cursor& a, const Cursor& b) {
    auto left = name_of(a), right = name_of(b);
    return left != right ? left > right : a.part->number > b.part->number;
  };
  std::vector<Cursor> heap;
  for (const PartFile& part : parts)
    if (!list(part).empty()) heap.push_back({&part, 0});
  std::make_heap(heap.begin(), heap.end(), later);
  std::vector<std::pair<const PartFile*, const Record*>> same;
  while (!heap.empty()) {
    same.clear();
    auto current = name_of(heap.front());
    while (!heap.empty() && name_of(heap.front()) == current) {
      std::pop_heap(heap.begin(), heap.end(), later);
      Cursor& cursor = heap.back();
      same.emplace_back(cursor.part, &list(*cursor.part)[cursor.at]);
      if (++cursor.at < list(*cursor.part).size())
        std::push_heap(heap.begin(), heap.end(), later);
      else
        heap.pop_back();
    }
    CKPT_TRY(visit(same));
  }
  return Ok();
}

template <typename Record>
using Same = std::vector<std::pair<const PartFile*, const Record*>>;

static Status disagree(const char* what, std::string_view name, const PartFile& a, const PartFile& b,
                       std::string expected, std::string found) {
  return Status(CKPT_MISMATCH, strprintf("%s %s: rank %u has %s, rank %u has %s", what, quoted(name).c_str(),
                                         a.header.rank, expected.c_str(), b.header.rank, found.c_str()))
      .with("tensor", std::string(name))
      .with("ranks", strprintf("%u, %u", a.header.rank, b.header.rank))
      .with("expected", std::move(expected))
      .with("found", std::move(found));
}

static Status coverage_error(Status status, std::string_view name, std::span<const uint32_t> ranks) {
  std::string owners;
  std::set<uint32_t> distinct(ranks.begin(), ranks.end());
  for (uint32_t rank : distinct) owners += (owners.empty() ? "" : ", ") + std::to_string(rank);
  const std::string *first = status.detail("first"), *second = status.detail("second");
  if (first && second) {
    size_t a = std::stoul(*first), b = std::stoul(*second);
    if (a < ranks.size() && b < ranks.size()) owners = strprintf("%u, %u", ranks[a], ranks[b]);
  }
  // Whatever is missing or double, the ranks' descriptions do not fit together.
  Status mismatch(CKPT_MISMATCH, "tensor " + quoted(name) + " (ranks " + owners + "): " + status.message());
  if (const std::string* found = status.detail("found")) mismatch = std::move(mismatch).with("found", *found);
  return std::move(mismatch).with("tensor", std::string(name)).with("ranks", owners);
}

static Status add_merged_tensor(const Same<fb::Tensor>& same, format::IndexBuilder& builder) {
  auto [first_part, first] = same[0];
  std::string_view name = first_part->index.text(first->name());
  Shape shape = first_part->index.shape_of(*first);
  for (auto [part, tensor] : same) {
    Shape other = part->index.shape_of(*tensor);
    if (tensor->dtype() != first->dtype() || !(other == shape))
      return disagree("tensor", name, *first_part, *part,
                      dtype_name(first->dtype()) + std::string(" ") + to_text(shape),
                      dtype_name(tensor->dtype()) + std::string(" ") + to_text(other));
  }
  builder.add_tensor(name, first->dtype(), shape);
  std::vector<Region> regions;
  std::vector<uint32_t> ranks;
  for (auto [part, tensor] : same)
    for (const fb::Segment& segment : part->index.segments_of(*tensor)) {
      Region region = part->index.region_of(segment, tensor->ndim());
      builder.add_segment(part->number, region, shape, static_cast<Codec>(segment.codec()),
                          static_cast<Filter>(segment.filter()), segment.filter_width(),
                          part->index.chunks_of(segment));
      regions.push_back(region);
      ranks.push_back(part->header.rank);
    }
  Status covered = plan::check_coverage(shape, regions);
  for (auto [part, tensor] : same) ranks.push_back(part->header.rank);
  return covered.ok() ? covered : coverage_error(std::move(covered), name, ranks);
}

// Checks an alias against the tensors of all ranks.
static Status check_target(std::span<const PartFile> parts, const PartFile& by, const fb::Alias& alias,
                           std::span<const uint64_t> view) {
  std::string_view name = by.index.text(alias.name()), target = by.index.text(alias.target());
  const PartFile* holder = nullptr;
  for (const PartFile& part : parts) {
    if (part.index.find_tensor(name)) return disagree("name", name, by, part, "an alias", "a tensor");
    if (!holder && part.index.find_tensor(target)) holder = &part;
  }
  std::string why;
  if (!holder)
    why = "no rank added its target " + quoted(target);
  else if (!view.empty() && !holder->index.view_fits(view, *holder->index.find_tensor(target)))
    why = "its view leaves " + quoted(target) + " of shape " +
          to_text(holder->index.shape_of(*holder->index.find_tensor(target)));
  if (why.empty()) return Ok();
  return Status(CKPT_MISMATCH, strprintf("alias %s of rank %u: ", quoted(name).c_str(), by.header.rank) + why)
      .with("tensor", std::string(name))
      .with("ranks", std::to_string(by.header.rank));
}

static Status add_merged_alias(std::span<const PartFile> parts, const Same<fb::Alias>& same,
                               format::IndexBuilder& builder) {
  auto [first_part, first] = same[0];
  const format::Index& index = first_part->index;
  std::string_view name = index.text(first->name()), target = index.text(first->target());
  auto numbers = [](const format::Index& from, const fb::Alias& alias) {
    return alias.is_view() ? from.numbers.subspan(alias.view(), 1 + 2 * size_t{alias.ndim()})
                           : std::span<const uint64_t>();
  };
  auto view = numbers(index, *first);
  CKPT_TRY(check_target(parts, *first_part, *first, view));
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
                      strprintf("%llu bytes, XXH3-128 %s", static_cast<unsigned long long>(first->size()),
                                to_hex(format::id_of(first->digest())).c_str()),
                      strprintf("%llu bytes, XXH3-128 %s", static_cast<unsigned long long>(object->size()),
                                to_hex(format::id_of(object->digest())).c_str()));
  }
  if (first->scope() == 0 && first_part->header.rank != 0)
    return Status(CKPT_MISMATCH, strprintf("shared object %s: rank %u added it, rank 0 did not", quoted(name).c_str(),
                                           first_part->header.rank))
        .with("tensor", std::string(name))
        .with("ranks", strprintf("0, %u", first_part->header.rank));
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

static Status check_identities(std::span<const PartFile> parts) {
  const PartFile& leader = parts[0];
  for (const PartFile& part : parts) {
    const format::Summary &a = leader.index.summary, &b = part.index.summary;
    if (part.header.world_size != parts.size() || b.save_id != part.header.save_id || b.save_id != a.save_id)
      return Status(CKPT_MISMATCH,
                    strprintf("%s of save %s in a world of %u does not belong to save %s in a world of %zu", "a part",
                              to_hex(part.header.save_id).c_str(), part.header.world_size, to_hex(a.save_id).c_str(),
                              parts.size()))
          .with("ranks", std::to_string(part.header.rank));
    if (a.step != b.step)
      return disagree("step of", a.label, leader, part, std::to_string(a.step), std::to_string(b.step));
  }
  return Ok();
}

static uint64_t total_count(std::span<const PartFile> parts) {
  uint64_t bytes = 0;
  for (const PartFile& part : parts) bytes += part.size;
  return bytes;
}

// The counts are part of the summary, which is written before the index is complete: so they are counted while it is
// merged.
Result<Merged> merge_parts(std::span<const PartFile> parts, const store::Store& store, std::string_view directory,
                           bool mark_rebuilt) {
  CKPT_TRY(check_identities(parts));
  CKPT_TRY(check_groups(parts, {store, directory}));
  format::IndexBuilder builder;
  uint64_t tensors = 0;
  using Part = PartFile;
  CKPT_TRY(merge_by_name<fb::Tensor>(
      parts, [](const Part& p) { return p.index.tensors; },
      [](const Part& p, const fb::Tensor& t) { return p.index.text(t.name()); },
      [&](const Same<fb::Tensor>& same) {
        tensors++;
        return add_merged_tensor(same, builder);
      }));
  CKPT_TRY(merge_by_name<fb::Alias>(
      parts, [](const Part& p) { return p.index.aliases; },
      [](const Part& p, const fb::Alias& a) { return p.index.text(a.name()); },
      [&](const Same<fb::Alias>& same) { return add_merged_alias(parts, same, builder); }));
  CKPT_TRY(merge_by_name<fb::Object>(
      parts, [](const Part& p) { return p.index.objects; },
      [](const Part& p, const fb::Object& o) { return p.index.text(o.name()); },
      [&](const Same<fb::Object>& same) { return add_merged_object(same, builder); }));
  CKPT_TRY(merge_by_name<fb::Attr>(
      parts, [](const Part& p) { return p.index.attrs; },
      [](const Part& p, const fb::Attr& a) { return std::make_pair(p.index.text(a.owner()), p.index.text(a.key())); },
      [&](const Same<fb::Attr>& same) { return add_merged_attr(same, builder); }));
  for (const PartFile& part : parts)
    builder.parts.emplace_back(part.size, format::digest_of(part.trailer.index_digest),
                               format::digest_of(part.header.save_id), part.header.rank, uint8_t{0}, uint8_t{0},
                               uint16_t{0});
  builder.summary = parts[0].index.summary;
  builder.summary.part_count = static_cast<uint32_t>(parts.size());
  builder.summary.tensor_count = tensors;
  builder.summary.object_count = builder.object_count();
  builder.summary.part_bytes = total_count(parts);
  builder.summary.rebuilt = mark_rebuilt;
  Merged merged;
  merged.summary = builder.summary;
  CKPT_ASSIGN(merged.index, builder.encode());
  // What is committed must open again: the reader's own checks look at it before anybody depends on it.
  CKPT_ASSIGN(auto check, format::Index::open(merged.index, format::IndexKind::kManifest));
  (void)check;
  return merged;
}

// ---- coverage of an index that was read ----

static bool covers_alone(const format::Index& index, const fb::Tensor& tensor, const fb::Segment& segment) {
  Shape shape = index.shape_of(tensor);
  Region region = index.region_of(segment, tensor.ndim());
  if (region.kind == RegionKind::kFlat) return region.flat_offset == 0 && region.flat_size == *element_count(shape);
  for (int i = 0; i < shape.ndim; i++)
    if (region.box.offset[i] != 0 || region.box.extent[i] != shape[i]) return false;
  return true;
}

Status check_index_coverage(const format::Index& index) {
  std::vector<Region> regions;
  for (const fb::Tensor& tensor : index.tensors) {
    auto segments = index.segments_of(tensor);
    if (segments.size() == 1 && covers_alone(index, tensor, segments[0])) continue;
    regions.clear();
    for (const fb::Segment& segment : segments) regions.push_back(index.region_of(segment, tensor.ndim()));
    Status status = plan::check_coverage(index.shape_of(tensor), regions);
    if (!status.ok())
      return Status(CKPT_FORMAT, "tensor " + quoted(index.text(tensor.name())) + ": " + status.message())
          .with("tensor", std::string(index.text(tensor.name())));
  }
  return Ok();
}

}  // namespace ckpt::session
