// Replica groups: all members must have assigned from the same list (FORMAT §6).
#include <map>
#include <tuple>

#include "commit/merge_steps.h"
#include "format/checksum.h"
#include "format/codec.h"
#include "format/names.h"
#include "plan/declare.h"

namespace ckpt::commit {

struct Member {
  const checkpoint::PartFile* part;
  const fb::Group* group;
};

// Reads a member's declaration list. Empty if that fails: the list only explains a difference that is certain already.
static std::vector<plan::Declared> read_list(const Member& member, const PartSource& source) {
  const fb::Chunk& chunk = member.group->list();
  std::vector<std::byte> stored(chunk.stored_size()), raw(chunk.raw_size());
  format::CodecScratch scratch;
  auto file = source.store.open(format::part_key(source.directory, member.part->number));
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

static Status lists_differ(const Member& a, const Member& b, const PartSource& source) {
  auto first = read_list(a, source), second = read_list(b, source);
  std::map<std::string, const plan::Declared*> known;
  for (const auto& entry : first) known[entry.name] = &entry;
  uint32_t rank_a = a.part->header.rank, rank_b = b.part->header.rank;
  std::string ranks = strformat("{}, {}", rank_a, rank_b), name, text_a = "not added", text_b = "not added";
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
static std::string name_in_group(const Member& member, const PartSource& source) {
  auto list = read_list(member, source);
  return list.empty() ? "" : list[0].name;
}

static Status duplicate_member(uint64_t id, const Member& a, const Member& b, const PartSource& source) {
  std::string name = name_in_group(b, source);
  return Status(CKPT_MISMATCH,
                strformat("ranks {} and {} are both member {} of replica group {} (tensor {} among its tensors)",
                          a.part->header.rank, b.part->header.rank, b.group->index(), id, quoted(name)))
      .with("tensor", name)
      .with("ranks", strformat("{}, {}", a.part->header.rank, b.part->header.rank));
}

static Status check_group(uint64_t id, const std::vector<Member>& members, const PartSource& source) {
  uint32_t count = members[0].group->count();
  std::map<uint32_t, const Member*> by_index;
  std::string ranks;
  for (const Member& member : members) ranks += (ranks.empty() ? "" : ", ") + std::to_string(member.part->header.rank);
  for (const Member& member : members) {
    const Member*& holder = by_index[member.group->index()];
    if (holder) return duplicate_member(id, *holder, member, source);
    holder = &member;
    if (!(format::id_of(member.group->digest()) == format::id_of(members[0].group->digest())))
      return lists_differ(members[0], member, source);
  }
  if (members.size() == count) return Ok();
  std::string name = name_in_group(members[0], source);
  return Status(CKPT_MISMATCH,
                strformat("replica group {} has {} members, but only ranks {} added its tensors (tensor {} among "
                          "them); a tensor that only "
                          "one rank holds is given replica_count 1",
                          id, count, ranks, quoted(name)))
      .with("tensor", name)
      .with("ranks", ranks);
}

Status check_groups(std::span<const checkpoint::PartFile> parts, const PartSource& source) {
  std::map<std::tuple<uint64_t, uint32_t>, std::vector<Member>> groups;
  for (const checkpoint::PartFile& part : parts)
    for (const fb::Group& group : part.index->root().groups)
      groups[{group.id(), group.count()}].push_back({&part, &group});
  for (const auto& [key, members] : groups) CKPT_TRY(check_group(std::get<0>(key), members, source));
  return Ok();
}

}  // namespace ckpt::commit
