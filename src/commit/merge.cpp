#include "commit/merge.h"

#include "commit/merge_steps.h"
#include "format/checksum.h"
#include "format/names.h"
#include "format/slot.h"

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
    const format::Summary &a = leader.summary(), &b = part.summary();
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

// Up to so many bytes of parts' indexes are copied into the manifest (FORMAT §4).
static constexpr uint64_t kMostCopies = 1 << 20;

static void add_parts(std::span<const checkpoint::PartFile> parts, format::IndexBuilder& builder,
                      format::Buffer* copies) {
  uint64_t index_bytes = 0;
  for (const checkpoint::PartFile& part : parts) index_bytes += round_up(part.trailer.index_size, format::kPageAlign);
  const bool copy = index_bytes <= kMostCopies;
  builder.parts.reserve(parts.size());
  for (const checkpoint::PartFile& part : parts) {
    builder.summary.part_bytes += part.size;
    builder.parts.emplace_back(part.size, part.trailer.index_offset, part.trailer.index_size, copies->size(),
                               format::digest_of(part.trailer.root_digest), format::digest_of(part.header.save_id),
                               static_cast<uint32_t>(part.trailer.root_size), part.header.rank, uint8_t{0}, uint8_t{0},
                               uint16_t{0}, 0u);
    if (!copy) continue;
    static constexpr std::byte kZeros[format::kPageAlign]{};
    copies->append(part.index->bytes());
    copies->append(Bytes(kZeros).first(round_up(copies->size(), format::kPageAlign) - copies->size()));
  }
}

Result<Merged> merge_parts(std::span<const checkpoint::PartFile> parts, const store::Store& store,
                           std::string_view directory, bool mark_rebuilt) {
  CKPT_TRY(check_identities(parts));
  CKPT_TRY(check_groups(parts, {store, directory}));
  std::vector<PartPage> pages;
  for (const checkpoint::PartFile& part : parts)
    for (size_t i = 0; i < part.index->page_count(); i++) {
      CKPT_ASSIGN(const format::Page* page, part.index->page(i));
      pages.push_back({&part, page});
    }
  format::IndexBuilder builder;
  builder.summary = parts[0].summary();
  builder.summary.part_count = static_cast<uint32_t>(parts.size());
  builder.summary.part_bytes = 0;
  builder.summary.rebuilt = mark_rebuilt;
  CKPT_ASSIGN(const LargeVector<NameRef> tensors, merge_tensors(pages, builder));
  CKPT_TRY(merge_aliases(pages, tensors, builder));
  CKPT_TRY(merge_objects(pages, builder, &builder.summary.object_count));
  CKPT_TRY(merge_attrs(pages, builder));
  builder.summary.tensor_count = builder.tensor_count();
  format::Buffer copies;
  add_parts(parts, builder, &copies);
  CKPT_ASSIGN(format::EncodedIndex index, builder.encode(format::IndexKind::kManifest));
  // What is committed must open again: apply the reader's own checks before anybody depends on it.
  CKPT_ASSIGN(auto again, checkpoint::IndexFile::open(
                              {format::IndexKind::kManifest, index.bytes.size(), index.root_size, index.root_digest},
                              Bytes(index.bytes)));
  CKPT_TRY(again->load_all());
  return Merged{builder.summary, format::frame_manifest(std::move(index), copies, builder.summary)};
}

}  // namespace ckpt::commit
