// Replica groups: all members must have assigned from the same list (FORMAT §6).
#include <algorithm>
#include <map>
#include <tuple>

#include "commit/merge_steps.h"
#include "format/checksum.h"
#include "format/codec.h"
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
  format::CodecScratch scratch;
  auto file = folder.store.open(format::part_key(folder.directory, member.rank));
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

// The entries of a list by name; a tensor of several regions has several.
static std::vector<std::pair<std::string, std::string>> by_name(const std::vector<plan::Declared>& list) {
  std::vector<std::pair<std::string, std::string>> entries;
  for (const plan::Declared& entry : list) entries.emplace_back(entry.name, describe(entry));
  std::sort(entries.begin(), entries.end());
  return entries;
}

static Status lists_differ(const Member& a, const Member& b, const PartFolder& folder) {
  const auto first = by_name(read_list(a, folder)), second = by_name(read_list(b, folder));
  std::vector<std::pair<std::string, std::string>> only_a, only_b;
  std::set_difference(first.begin(), first.end(), second.begin(), second.end(), std::back_inserter(only_a));
  std::set_difference(second.begin(), second.end(), first.begin(), first.end(), std::back_inserter(only_b));
  const uint32_t rank_a = a.rank, rank_b = b.rank;
  const std::string ranks = strformat("{}, {}", rank_a, rank_b);
  // The first name of which they say different things, and what.
  std::string name = only_a.empty() ? "" : only_a[0].first;
  if (!only_b.empty() && (only_a.empty() || only_b[0].first < name)) name = only_b[0].first;
  auto said = [&](const auto& only) {
    return !only.empty() && only[0].first == name ? only[0].second : std::string("not added");
  };
  const std::string text_a = said(only_a), text_b = said(only_b);
  return Status(CKPT_MISMATCH, strformat("tensor {} of replica group {}: rank {} has {}, rank {} has {}; all members "
                                         "of a replica group add the same tensors "
                                         "(a tensor that only one rank holds is given replica_count 1)",
                                         quoted(name), a.group->id(), rank_a, text_a, rank_b, text_b))
      .with("tensor", name)
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
  return Status(CKPT_MISMATCH,
                strformat("ranks {} and {} are both member {} of replica group {} (tensor {} among its tensors)",
                          a.rank, b.rank, b.group->index(), id, quoted(name)))
      .with("tensor", name)
      .with("ranks", strformat("{}, {}", a.rank, b.rank));
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
    if (!(format::id_of(member.group->digest()) == format::id_of(members[0].group->digest())))
      return lists_differ(members[0], member, folder);
  }
  if (members.size() == count) return Ok();
  std::string name = name_in_group(members[0], folder);
  return Status(CKPT_MISMATCH,
                strformat("replica group {} has {} members, but only ranks {} added its tensors (tensor {} among "
                          "them); a tensor that only "
                          "one rank holds is given replica_count 1",
                          id, count, ranks, quoted(name)))
      .with("tensor", name)
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
