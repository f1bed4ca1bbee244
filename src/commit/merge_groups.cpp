// Replica groups: all members must have assigned from the same list (FORMAT §6).
#include "commit/merge_steps.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/text.h"
#include "codec/checksum.h"
#include "codec/codec.h"
#include "format/names.h"
#include "plan/declare.h"

namespace ckpt::commit {

struct Member {
  uint32_t rank;
  const fb::Group* group;
};

// Reads a member's declaration list. Empty if that fails: the list only explains a difference that is certain already.
static std::vector<plan::Declared> read_list(const Member& member, const PartFolder& folder) {
  const fb::Chunk& chunk = member.group->list();
  std::vector<std::byte> stored(chunk.stored_size()), raw(chunk.raw_size());
  codec::CodecScratch scratch;
  auto file = folder.store.open(format::part_key(folder.directory, member.rank));
  if (!file.ok() || !(*file)->read_at(chunk.offset(), stored).ok() ||
      codec::xxh3_128(stored) != format::id_of(chunk.digest()) ||
      !codec::decode_chunk({Codec::kLz4, Filter::kNone, 0}, stored, raw, scratch).ok())
    return {};
  auto list = plan::parse_declaration_list(raw);
  return list.ok() ? list.take() : std::vector<plan::Declared>{};
}

static std::string describe(const plan::Declared& entry) {
  return std::string(dtype_name(entry.dtype)) + " " + to_text(entry.shape) + " " + to_text(entry.region) +
         (entry.first_only ? ", first replica"
          : entry.sampled  ? ", compared by a sample"
                           : "");
}

// What a member says of a region. A tensor of several regions has several.
struct Said {
  std::string name, what;
  Digest values;
  auto operator<=>(const Said&) const = default;
};

static std::vector<Said> said_by(const Member& member, const PartFolder& folder) {
  std::vector<Said> all;
  for (const plan::Declared& entry : read_list(member, folder))
    all.push_back({entry.name, describe(entry), entry.values});
  std::sort(all.begin(), all.end());
  return all;
}

static Status other_values(const Said& a, const Said& b, const std::string& ranks) {
  return tensor_error(CKPT_MISMATCH, a.name,
                      strformat("its values differ between ranks {}; replicas must be equal (option replicas=rank0 "
                                "stores those of the first rank that holds it; what is each rank's own is a region of "
                                "a larger tensor, or given replica_count 1 and a name of its own)",
                                ranks))
      .with("ranks", ranks)
      .with("expected", "XXH3-128 " + to_hex(a.values))
      .with("found", "XXH3-128 " + to_hex(b.values));
}

// The first entries of both lists, in their order, that the other lacks. `same`: whether two entries are the same.
template <typename Same>
static std::pair<const Said*, const Said*> first_difference(const std::vector<Said>& a, const std::vector<Said>& b,
                                                            Same&& same) {
  for (size_t i = 0; i < std::max(a.size(), b.size()); i++)
    if (i >= a.size() || i >= b.size() || !same(a[i], b[i]))
      return {i < a.size() ? &a[i] : nullptr, i < b.size() ? &b[i] : nullptr};
  return {nullptr, nullptr};
}

// `others` have another list than `a`; the first of them is compared with it. What tensors there are comes before what
// values they have.
static Status lists_differ(const Member& a, std::span<const Member* const> others, const PartFolder& folder) {
  const Member& b = *others[0];
  const auto first = said_by(a, folder), second = said_by(b, folder);
  std::vector<uint32_t> both{a.rank};
  for (const Member* other : others) both.push_back(other->rank);
  const std::string ranks = list_ranks(both);
  auto [of_a, of_b] = first_difference(
      first, second, [](const Said& x, const Said& y) { return x.name == y.name && x.what == y.what; });
  if (!of_a && !of_b) {
    const auto [x, y] = first_difference(first, second, [](const Said& p, const Said& q) { return p == q; });
    if (x && y) return other_values(*x, *y, ranks);
  }
  // The lower name is the one that the other rank lacks.
  const std::string name = !of_a ? (of_b ? of_b->name : "") : of_b ? std::min(of_a->name, of_b->name) : of_a->name;
  auto said = [&](const Said* entry) { return entry && entry->name == name ? entry->what : std::string("not added"); };
  const std::string text_a = said(of_a), text_b = said(of_b);
  return error_about(CKPT_MISMATCH, name,
                     strformat("tensor {} of replica group {}: rank {} has {}, rank {} has {}; all members "
                               "of a replica group add the same tensors "
                               "(option held_by=some lets each tensor be on some ranks only)",
                               in_quotes(name), a.group->id(), a.rank, text_a, b.rank, text_b))
      .with("ranks", ranks)
      .with("expected", text_a)
      .with("found", text_b);
}

// A tensor that a member added, so that people have a name to look for.
static std::string name_in_group(const Member& member, const PartFolder& folder) {
  auto list = read_list(member, folder);
  return list.empty() ? "" : list[0].name;
}

static Status duplicate_member(uint64_t id, const Member& a, const Member& b, const PartFolder& folder) {
  std::string name = name_in_group(b, folder);
  return error_about(CKPT_MISMATCH, name,
                     strformat("ranks {} and {} are both member {} of replica group {} (tensor {} among its tensors)",
                               a.rank, b.rank, b.group->index(), id, in_quotes(name)))
      .with("ranks", strformat("{}, {}", a.rank, b.rank));
}

// MISMATCH if not all lists are equal. Those of the majority are held to be right, or of as many the first.
static Status check_lists(const std::vector<Member>& members, const PartFolder& folder) {
  std::map<Digest, size_t> counts;
  auto digest = [](const Member& member) { return format::id_of(member.group->digest()); };
  for (const Member& member : members) counts[digest(member)]++;
  if (counts.size() == 1) return Ok();
  const Member* usual = &members[0];
  for (const Member& member : members)
    if (counts[digest(member)] > counts[digest(*usual)]) usual = &member;
  std::vector<const Member*> others;
  for (const Member& member : members)
    if (digest(member) != digest(*usual)) others.push_back(&member);
  return lists_differ(*usual, others, folder);
}

static Status check_group(uint64_t id, const std::vector<Member>& members, const PartFolder& folder) {
  uint32_t count = members[0].group->count();
  std::map<uint32_t, const Member*> by_index;
  std::string ranks;
  for (const Member& member : members) ranks += (ranks.empty() ? "" : ", ") + std::to_string(member.rank);
  for (const Member& member : members) {
    const Member*& holder = by_index[member.group->index()];
    if (holder) return duplicate_member(id, *holder, member, folder);
    holder = &member;
  }
  CKPT_TRY(check_lists(members, folder));
  if (members.size() == count) return Ok();
  std::string name = name_in_group(members[0], folder);
  return error_about(CKPT_MISMATCH, name,
                     strformat("replica group {} has {} members, but only ranks {} added its tensors (tensor {} among "
                               "them); option held_by=some lets each tensor be on some ranks only",
                               id, count, ranks, in_quotes(name)))
      .with("ranks", ranks);
}

Status check_groups(Sources sources, const PartFolder& folder) {
  std::map<std::tuple<uint64_t, uint32_t>, std::vector<Member>> groups;
  auto add = [&](const fb::Group& group, uint32_t rank) {
    groups[{group.id(), group.count()}].push_back({rank, &group});
  };
  for (const Source& source : sources) {
    if (source.part)
      for (const fb::Group& group : source.part->index->root().groups) add(group, source.part->header.rank);
    else
      for (const Gathered::Member& member : source.gathered->members) add(member.group, member.rank);
  }
  for (const auto& [key, members] : groups) CKPT_TRY(check_group(std::get<0>(key), members, folder));
  return Ok();
}

}  // namespace ckpt::commit
