#include "commit/merge.h"

#include "commit/merge_steps.h"

namespace ckpt::commit {

Status disagree(const char* what, std::string_view name, const checkpoint::PartFile& a, const checkpoint::PartFile& b,
                std::string expected, std::string found) {
  return Status(CKPT_MISMATCH, strformat("{} {}: rank {} has {}, rank {} has {}", what, quoted(name), a.header.rank,
                                         expected, b.header.rank, found))
      .with("tensor", std::string(name))
      .with("ranks", strformat("{}, {}", a.header.rank, b.header.rank))
      .with("expected", std::move(expected))
      .with("found", std::move(found));
}

static Status check_identities(std::span<const checkpoint::PartFile> parts) {
  const checkpoint::PartFile& leader = parts[0];
  for (const checkpoint::PartFile& part : parts) {
    const format::Summary &a = leader.index.summary, &b = part.index.summary;
    if (part.header.world_size != parts.size() || b.save_id != part.header.save_id || b.save_id != a.save_id)
      return Status(CKPT_MISMATCH,
                    strformat("{} of save {} in a world of {} does not belong to save {} in a world of {}", "a part",
                              to_hex(part.header.save_id), part.header.world_size, to_hex(a.save_id), parts.size()))
          .with("ranks", std::to_string(part.header.rank));
    if (a.step != b.step)
      return disagree("step of", a.label, leader, part, std::to_string(a.step), std::to_string(b.step));
  }
  return Ok();
}

// The summary holds the counts and is written before the index is complete, so the records are counted during the
// merge.
static void complete_summary(std::span<const checkpoint::PartFile> parts, uint64_t tensors, bool mark_rebuilt,
                             format::IndexBuilder& builder) {
  builder.summary = parts[0].index.summary;
  builder.summary.part_count = static_cast<uint32_t>(parts.size());
  builder.summary.tensor_count = tensors;
  builder.summary.object_count = builder.object_count();
  builder.summary.part_bytes = 0;
  builder.summary.rebuilt = mark_rebuilt;
  for (const checkpoint::PartFile& part : parts) {
    builder.summary.part_bytes += part.size;
    builder.parts.emplace_back(part.size, format::digest_of(part.trailer.index_digest),
                               format::digest_of(part.header.save_id), part.header.rank, uint8_t{0}, uint8_t{0},
                               uint16_t{0});
  }
}

Result<Merged> merge_parts(std::span<const checkpoint::PartFile> parts, const store::Store& store,
                           std::string_view directory, bool mark_rebuilt, unsigned threads) {
  CKPT_TRY(check_identities(parts));
  CKPT_TRY(check_groups(parts, {store, directory}));
  format::IndexBuilder builder;
  format::IndexBuilder::Room room;
  for (const checkpoint::PartFile& part : parts) room.add(part.index);
  builder.reserve(room);
  LargeVector<NameRef> tensors = tensors_by_name(parts);
  CKPT_ASSIGN(uint64_t count, merge_tensors(parts, tensors, builder));
  CKPT_TRY(merge_aliases(parts, tensors, builder));
  CKPT_TRY(merge_objects(parts, builder));
  CKPT_TRY(merge_attrs(parts, builder));
  complete_summary(parts, count, mark_rebuilt, builder);
  Merged merged;
  merged.summary = builder.summary;
  CKPT_ASSIGN(merged.index, builder.encode());
  // What is committed must open again: apply the reader's own checks before anybody depends on it.
  CKPT_ASSIGN(auto index, format::Index::open(merged.index, format::IndexKind::kManifest, threads));
  CKPT_TRY(check_merged_coverage(parts, index, threads));
  return merged;
}

}  // namespace ckpt::commit
