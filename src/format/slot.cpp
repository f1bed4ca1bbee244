// The file in the commit slot: MANIFEST or tombstone (FORMAT §2).
#include <cstring>

#include "format/checksum.h"
#include "format/framing.h"
#include "format/index.h"

namespace ckpt::format {

static constexpr uint32_t kManifestKind = 1, kTombstoneKind = 2;

static std::vector<std::byte> frame(Bytes index, Bytes summary, uint32_t kind) {
  std::vector<std::byte> file(round_up(index.size(), 8) + round_up(summary.size(), 8));
  std::memcpy(file.data(), index.data(), index.size());
  if (!summary.empty()) std::memcpy(file.data() + round_up(index.size(), 8), summary.data(), summary.size());
  auto trailer = encode_manifest_trailer(ManifestTrailer{
      .index_size = index.size(),
      .summary_size = summary.size(),
      .index_digest = xxh3_128(index),
      .summary_digest = xxh3_128(summary),
      .kind = kind,
      .revision = CKPT_FORMAT_REVISION,
  });
  file.insert(file.end(), trailer.begin(), trailer.end());
  return file;
}

std::vector<std::byte> frame_manifest(Bytes index, const Summary& summary) {
  return frame(index, encode_summary(summary), kManifestKind);
}

std::vector<std::byte> frame_tombstone(const Tombstone& tombstone) {
  flatbuffers::FlatBufferBuilder builder;
  auto reason = builder.CreateString(tombstone.reason);
  fb::Digest save_id = digest_of(tombstone.save_id);
  builder.Finish(
      fb::CreateTombstone(builder, &save_id, tombstone.rank, tombstone.status, reason, tombstone.closed_by_token),
      "CKPX");
  return frame({reinterpret_cast<const std::byte*>(builder.GetBufferPointer()), builder.GetSize()}, {}, kTombstoneKind);
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

static Status check_digest(Bytes bytes, const Digest& expected, const char* what) {
  Digest found = xxh3_128(bytes);
  if (found == expected) return Ok();
  return Status(CKPT_CORRUPT,
                strprintf("%s: expected XXH3-128 %s, found %s", what, to_hex(expected).c_str(), to_hex(found).c_str()))
      .with("expected", to_hex(expected))
      .with("found", to_hex(found));
}

static Status check_zero(Bytes bytes, const char* what) {
  for (std::byte byte : bytes)
    if (byte != std::byte{0}) return Status(CKPT_CORRUPT, strprintf("%s: expected zero padding", what));
  return Ok();
}

static Result<ManifestTrailer> trailer_at_end(Bytes tail, uint64_t file_size) {
  if (tail.size() < kManifestTrailerSize)
    return Status(CKPT_FORMAT, strprintf("no manifest: %llu bytes, at least %llu expected",
                                         static_cast<unsigned long long>(file_size),
                                         static_cast<unsigned long long>(kManifestTrailerSize)));
  CKPT_ASSIGN(ManifestTrailer trailer, decode_manifest_trailer(tail.last(kManifestTrailerSize)));
  if (trailer.kind != kManifestKind && trailer.kind != kTombstoneKind)
    return Status(CKPT_FORMAT, strprintf("a commit record of kind %u", trailer.kind));
  CKPT_TRY(check_manifest_layout(trailer, file_size));
  return trailer;
}

// Reads the small record: the summary of a manifest, or the tombstone.
static Status open_small(Bytes small, const ManifestTrailer& trailer, Slot* slot) {
  slot->committed = trailer.kind == kManifestKind;
  if (slot->committed) {
    CKPT_TRY(check_digest(small, trailer.summary_digest, "the summary"));
    CKPT_ASSIGN(slot->summary, decode_summary(small));
    if (slot->summary.revision != trailer.revision)
      return Status(CKPT_FORMAT, "summary and trailer differ in their revision");
    return Ok();
  }
  CKPT_TRY(check_digest(small, trailer.index_digest, "the tombstone"));
  CKPT_ASSIGN(slot->tombstone, decode_tombstone(small));
  return Ok();
}

Result<Slot> open_slot(Bytes file) {
  CKPT_ASSIGN(ManifestTrailer trailer, trailer_at_end(file, file.size()));
  Slot slot;
  uint64_t summary_at = round_up(trailer.index_size, 8), summary_end = summary_at + trailer.summary_size;
  Bytes index = file.first(trailer.index_size), summary = file.subspan(summary_at, trailer.summary_size);
  CKPT_TRY(check_digest(index, trailer.index_digest, "the index"));
  CKPT_TRY(check_zero(file.subspan(index.size(), summary_at - index.size()), "after the index"));
  CKPT_TRY(
      check_zero(file.subspan(summary_end, file.size() - kManifestTrailerSize - summary_end), "after the summary"));
  CKPT_TRY(check_digest(summary, trailer.summary_digest, "the summary"));
  CKPT_TRY(open_small(trailer.kind == kManifestKind ? summary : index, trailer, &slot));
  if (slot.committed) slot.index = index;
  return slot;
}

Result<Slot> open_slot_tail(Bytes tail, uint64_t file_size, uint64_t* needed) {
  CKPT_ASSIGN(ManifestTrailer trailer, trailer_at_end(tail, file_size));
  uint64_t size = trailer.kind == kManifestKind ? trailer.summary_size : trailer.index_size;
  *needed = round_up(size, 8) + kManifestTrailerSize;
  if (*needed > tail.size()) return Status(CKPT_INVALID, "the tail is too short");
  Slot slot;
  CKPT_TRY(open_small(tail.subspan(tail.size() - *needed, size), trailer, &slot));
  return slot;
}

}  // namespace ckpt::format
