#include "format/slot.h"

#include "base/shown.h"
#include "codec/checksum.h"
#include "format/framing.h"

namespace ckpt::format {

static constexpr size_t kMostFacts = 32;  // texts; each takes up to kMostOfFact bytes of the kMaxSlotText there are

static void pad(Buffer* file, uint64_t align) {
  static constexpr std::byte kZeros[kPageAlign]{};
  file->append(Bytes(kZeros).first(round_up(file->size(), align) - file->size()));
}

Buffer frame_manifest(EncodedIndex index, Bytes copies, const Summary& summary) {
  const std::vector<std::byte> small = encode_summary(summary);
  const auto trailer = encode_manifest_trailer({.index_size = index.bytes.size(),
                                                .root_size = index.root_size,
                                                .copies_size = copies.size(),
                                                .summary_size = small.size(),
                                                .root_digest = index.root_digest,
                                                .summary_digest = codec::xxh3_128(small)});
  Buffer file = std::move(index.bytes);
  pad(&file, kPageAlign);
  file.append(copies);
  file.append(small);
  pad(&file, 8);
  file.append(trailer);
  return file;
}

Buffer frame_tombstone(const Tombstone& tombstone) {
  flatbuffers::FlatBufferBuilder builder;
  auto reason = builder.CreateString(cut_line(tombstone.reason));
  std::vector<std::string> texts;
  for (const auto& [key, value] : tombstone.facts) texts.insert(texts.end(), {key, cut_line(value, kMostOfFact)});
  if (texts.size() > kMostFacts) texts.resize(kMostFacts);
  auto facts = builder.CreateVectorOfStrings(texts);
  fb::Digest save_id = digest_of(tombstone.save_id);
  builder.Finish(fb::CreateTombstone(builder, &save_id, tombstone.rank, tombstone.status, reason,
                                     tombstone.closed_by_token, facts),
                 "CKPX");
  Bytes bytes(reinterpret_cast<const std::byte*>(builder.GetBufferPointer()), builder.GetSize());
  const auto trailer = encode_manifest_trailer({.index_size = bytes.size(),
                                                .root_digest = codec::xxh3_128(bytes),
                                                .summary_digest = codec::xxh3_128({}),
                                                .kind = ManifestKind::kTombstone});
  Buffer file(bytes);
  pad(&file, kPageAlign);
  file.append(trailer);
  return file;
}

static Result<Tombstone> decode_tombstone(Bytes bytes) {
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), 8, 2 + kMostFacts);
  if (!verifier.VerifyBuffer<fb::Tombstone>("CKPX"))
    return Status(CKPT_FORMAT, "the tombstone is no FlatBuffer \"CKPX\"");
  auto* in = flatbuffers::GetRoot<fb::Tombstone>(bytes.data());
  Tombstone out;
  if (in->save_id()) out.save_id = id_of(*in->save_id());
  out.rank = in->rank();
  out.status = in->status();
  if (in->reason()) out.reason = in->reason()->str();
  out.closed_by_token = in->closed_by_token();
  for (uint32_t i = 0; in->facts() && i + 1 < in->facts()->size(); i += 2)
    out.facts.emplace_back(in->facts()->Get(i)->str(), in->facts()->Get(i + 1)->str());
  return out;
}

Status check_digest(const Digest& found, const Digest& expected, const char* what) {
  if (found == expected) return Ok();
  return Status(CKPT_CORRUPT, strformat("{}: expected XXH3-128 {}, found {}", what, to_hex(expected), to_hex(found)))
      .with("expected", to_hex(expected))
      .with("found", to_hex(found));
}

static Status check_zero(Bytes bytes, const char* what) {
  return all_zero(bytes) ? Ok() : Status(CKPT_CORRUPT, strformat("{}: expected zero padding", what));
}

static Status read_summary_at(Bytes summary, Slot* slot) {
  CKPT_TRY(check_digest(codec::xxh3_128(summary), slot->trailer.summary_digest, "the summary"));
  CKPT_ASSIGN(slot->summary, decode_summary(summary));
  if (slot->summary.revision == slot->trailer.revision) return Ok();
  return Status(CKPT_FORMAT, "summary and trailer differ in their revision");
}

static Status read_tombstone_at(Bytes tombstone, Slot* slot) {
  CKPT_TRY(check_digest(codec::xxh3_128(tombstone), slot->trailer.root_digest, "the tombstone"));
  CKPT_TRY(check_digest(codec::xxh3_128({}), slot->trailer.summary_digest, "the summary"));
  CKPT_ASSIGN(slot->tombstone, decode_tombstone(tombstone));
  return Ok();
}

Result<Slot> open_slot(Bytes tail, uint64_t file_size, uint64_t* needed) {
  if (tail.size() < kManifestTrailerSize)
    return Status(CKPT_FORMAT,
                  strformat("no manifest: {} bytes, at least {} expected", file_size, kManifestTrailerSize));
  Slot slot;
  CKPT_ASSIGN(slot.trailer, decode_manifest_trailer(tail.last(kManifestTrailerSize)));
  CKPT_TRY(check_manifest_layout(slot.trailer, file_size));
  slot.committed = slot.trailer.kind == ManifestKind::kManifest;
  *needed = slot.committed ? file_size - manifest_summary_offset(slot.trailer) : file_size;
  if (*needed > tail.size()) return Status(CKPT_INVALID, "the tail is too short");
  const Bytes small = tail.last(*needed).first(*needed - kManifestTrailerSize);
  const uint64_t size = slot.committed ? slot.trailer.summary_size : slot.trailer.index_size;
  CKPT_TRY(check_zero(small.subspan(size), "before the trailer"));
  CKPT_TRY(slot.committed ? read_summary_at(small.first(size), &slot) : read_tombstone_at(small.first(size), &slot));
  return slot;
}

Status check_manifest_gaps(Bytes file, const ManifestTrailer& trailer) {
  const uint64_t copies = manifest_copies_offset(trailer);
  return check_zero(file.subspan(trailer.index_size, copies - trailer.index_size), "after the index");
}

}  // namespace ckpt::format
