#include "format/slot.h"

#include "format/checksum.h"
#include "format/framing.h"

namespace ckpt::format {

static Buffer frame(Buffer file, Bytes summary, ManifestKind kind) {
  auto trailer = encode_manifest_trailer(ManifestTrailer{
      .index_size = file.size(),
      .summary_size = summary.size(),
      .index_digest = xxh3_128(file),
      .summary_digest = xxh3_128(summary),
      .kind = kind,
      .revision = CKPT_FORMAT_REVISION,
  });
  static constexpr std::byte kZeros[8]{};
  auto pad = [&](size_t size) { file.append(Bytes(kZeros).first(round_up(size, 8) - size)); };
  pad(file.size());
  file.append(summary);
  pad(summary.size());
  file.append(trailer);
  return file;
}

Buffer frame_manifest(Buffer index, const Summary& summary) {
  return frame(std::move(index), encode_summary(summary), ManifestKind::kManifest);
}

Buffer frame_tombstone(const Tombstone& tombstone) {
  flatbuffers::FlatBufferBuilder builder;
  auto reason = builder.CreateString(tombstone.reason);
  fb::Digest save_id = digest_of(tombstone.save_id);
  builder.Finish(
      fb::CreateTombstone(builder, &save_id, tombstone.rank, tombstone.status, reason, tombstone.closed_by_token),
      "CKPX");
  Bytes bytes(reinterpret_cast<const std::byte*>(builder.GetBufferPointer()), builder.GetSize());
  return frame(Buffer(bytes), {}, ManifestKind::kTombstone);
}

static Result<Tombstone> decode_tombstone(Bytes bytes) {
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), 8, 16);
  if (!verifier.VerifyBuffer<fb::Tombstone>("CKPX"))
    return Status(CKPT_FORMAT, "the tombstone is no FlatBuffer \"CKPX\"");
  auto* in = flatbuffers::GetRoot<fb::Tombstone>(bytes.data());
  Tombstone out;
  if (in->save_id()) out.save_id = id_of(*in->save_id());
  out.rank = in->rank();
  out.status = in->status();
  if (in->reason()) out.reason = in->reason()->str();
  out.closed_by_token = in->closed_by_token();
  return out;
}

static Status check_digest(const Digest& found, const Digest& expected, const char* what) {
  if (found == expected) return Ok();
  return Status(CKPT_CORRUPT, strformat("{}: expected XXH3-128 {}, found {}", what, to_hex(expected), to_hex(found)))
      .with("expected", to_hex(expected))
      .with("found", to_hex(found));
}

static Status check_zero(Bytes bytes, const char* what) {
  return all_zero(bytes) ? Ok() : Status(CKPT_CORRUPT, strformat("{}: expected zero padding", what));
}

static Result<ManifestTrailer> trailer_at_end(Bytes tail, uint64_t file_size) {
  if (tail.size() < kManifestTrailerSize)
    return Status(CKPT_FORMAT,
                  strformat("no manifest: {} bytes, at least {} expected", file_size, kManifestTrailerSize));
  CKPT_ASSIGN(ManifestTrailer trailer, decode_manifest_trailer(tail.last(kManifestTrailerSize)));
  CKPT_TRY(check_manifest_layout(trailer, file_size));
  return trailer;
}

// Decodes the small record: the summary of a manifest, or the tombstone.
static Status open_small(Bytes small, const ManifestTrailer& trailer, Slot* slot) {
  slot->committed = trailer.kind == ManifestKind::kManifest;
  if (slot->committed) {
    CKPT_TRY(check_digest(xxh3_128(small), trailer.summary_digest, "the summary"));
    CKPT_ASSIGN(slot->summary, decode_summary(small));
    if (slot->summary.revision != trailer.revision)
      return Status(CKPT_FORMAT, "summary and trailer differ in their revision");
    return Ok();
  }
  CKPT_TRY(check_digest(xxh3_128(small), trailer.index_digest, "the tombstone"));
  CKPT_ASSIGN(slot->tombstone, decode_tombstone(small));
  return Ok();
}

Result<uint64_t> slot_index_size(Bytes tail, uint64_t file_size) {
  CKPT_ASSIGN(ManifestTrailer trailer, trailer_at_end(tail, file_size));
  return trailer.index_size;
}

Result<Slot> open_slot(Bytes file) {
  CKPT_ASSIGN(uint64_t index_size, slot_index_size(file, file.size()));
  return open_slot(file, xxh3_128(file.first(index_size)));
}

Result<Slot> open_slot(Bytes file, const Digest& index_digest) {
  CKPT_ASSIGN(ManifestTrailer trailer, trailer_at_end(file, file.size()));
  Slot slot;
  uint64_t summary_at = manifest_summary_offset(trailer), summary_end = summary_at + trailer.summary_size;
  Bytes index = file.first(trailer.index_size), summary = file.subspan(summary_at, trailer.summary_size);
  CKPT_TRY(check_digest(index_digest, trailer.index_digest, "the index"));
  CKPT_TRY(check_zero(file.subspan(index.size(), summary_at - index.size()), "after the index"));
  CKPT_TRY(
      check_zero(file.subspan(summary_end, file.size() - kManifestTrailerSize - summary_end), "after the summary"));
  CKPT_TRY(check_digest(xxh3_128(summary), trailer.summary_digest, "the summary"));
  CKPT_TRY(open_small(trailer.kind == ManifestKind::kManifest ? summary : index, trailer, &slot));
  if (slot.committed) slot.index = index;
  return slot;
}

Result<Slot> open_slot_tail(Bytes tail, uint64_t file_size, uint64_t* needed) {
  CKPT_ASSIGN(ManifestTrailer trailer, trailer_at_end(tail, file_size));
  uint64_t size = trailer.kind == ManifestKind::kManifest ? trailer.summary_size : trailer.index_size;
  *needed = round_up(size, 8) + kManifestTrailerSize;
  if (*needed > tail.size()) return Status(CKPT_INVALID, "the tail is too short");
  Slot slot;
  CKPT_TRY(open_small(tail.subspan(tail.size() - *needed, size), trailer, &slot));
  return slot;
}

}  // namespace ckpt::format
