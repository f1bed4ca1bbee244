#include "format/framing.h"

#include <cstring>
#include <string>

#include "codec/checksum.h"

namespace ckpt::format {
namespace {

// The tables of FORMAT §2 and §3; types.cpp asserts that the machine is little-endian.
struct RawPartHeader {
  char magic[8];
  uint32_t revision, data_start;
  Id save_id;
  uint32_t rank, world_size;
  Id store_id;
  uint64_t token, attempt, checksum;
};
static_assert(sizeof(RawPartHeader) == 80 && offsetof(RawPartHeader, store_id) == 40 &&
              offsetof(RawPartHeader, checksum) == 72);

struct RawPartTrailer {
  uint64_t index_offset, index_size, root_size;
  Digest root_digest;
  Id save_id;
  char magic[8];
  uint64_t checksum;
};
static_assert(sizeof(RawPartTrailer) == kPartTrailerSize && offsetof(RawPartTrailer, checksum) == 64);

struct RawManifestTrailer {
  uint64_t index_size, root_size, copies_size, summary_size;
  Digest root_digest, summary_digest;
  uint32_t kind, revision;
  char magic[8];
  uint64_t checksum;
};
static_assert(sizeof(RawManifestTrailer) == kManifestTrailerSize && offsetof(RawManifestTrailer, checksum) == 80);

constexpr std::string_view kPartMagic = "CKPTPART", kTailMagic = "CKPTTAIL", kManifestMagic = "CKPTMANI";

std::string hex(uint64_t value) { return strformat("{:016x}", value); }

// Eight bytes for a message: as text if they are printable.
std::string shown_magic(const char* magic) {
  uint64_t value = 0;
  bool text = true;
  for (int i = 0; i < 8; i++) {
    value = value << 8 | static_cast<unsigned char>(magic[i]);
    text = text && magic[i] >= 0x20 && magic[i] < 0x7f;
  }
  return text ? std::string(magic, 8) : "bytes " + hex(value);
}

template <typename Raw>
uint64_t checksum_of(const Raw& raw) {
  return codec::xxh3_64(std::as_bytes(std::span(&raw, 1)).first(offsetof(Raw, checksum)));
}

template <typename Raw>
void seal(Raw& raw, std::string_view magic) {
  std::memcpy(raw.magic, magic.data(), sizeof raw.magic);
  raw.checksum = checksum_of(raw);
}

// Checks the magic, then the checksum.
template <typename Raw>
Status open(Bytes bytes, size_t size, std::string_view magic, const char* what, Raw& raw) {
  if (bytes.size() != size)
    return Status(CKPT_FORMAT, std::string("no ") + what + ": expected " + std::to_string(size) + " bytes, found " +
                                   std::to_string(bytes.size()));
  std::memcpy(&raw, bytes.data(), sizeof raw);
  if (std::string_view(raw.magic, sizeof raw.magic) != magic)
    return Status(CKPT_FORMAT, std::string("no ") + what + ": expected magic " + std::string(magic) + ", found " +
                                   shown_magic(raw.magic))
        .with("expected", std::string(magic))
        .with("found", shown_magic(raw.magic));
  uint64_t found = checksum_of(raw);
  if (found == raw.checksum) return Ok();
  return Status(CKPT_CORRUPT, std::string(what) + ": expected checksum " + hex(raw.checksum) + ", found " + hex(found))
      .with("expected", hex(raw.checksum))
      .with("found", hex(found));
}

Status check_revision(const char* what, uint32_t revision) {
  if (revision == CKPT_FORMAT_REVISION) return Ok();
  return Status(CKPT_REVISION, std::string(what) + " has format revision " + std::to_string(revision) +
                                   ": this library reads revision " + std::to_string(CKPT_FORMAT_REVISION))
      .with("expected", uint64_t{CKPT_FORMAT_REVISION})
      .with("found", uint64_t{revision});
}

Status bad_layout(const char* what, const std::string& why) {
  return Status(CKPT_FORMAT, std::string(what) + ": " + why);
}

template <size_t kSize, typename Raw>
std::array<std::byte, kSize> to_array(const Raw& raw) {
  std::array<std::byte, kSize> bytes{};
  std::memcpy(bytes.data(), &raw, sizeof raw);
  return bytes;
}

}  // namespace

size_t leading_zeros(Bytes bytes) {
  size_t at = 0;
  for (uint64_t word; at + 8 <= bytes.size(); at += 8) {
    std::memcpy(&word, &bytes[at], 8);
    if (word != 0) break;
  }
  while (at < bytes.size() && bytes[at] == std::byte{0}) at++;
  return at;
}

std::array<std::byte, kPartHeaderSize> encode_part_header(const PartHeader& header) {
  RawPartHeader raw{{},
                    header.revision,
                    kPartHeaderSize,
                    header.save_id,
                    header.rank,
                    header.world_size,
                    header.store_id,
                    header.token,
                    header.attempt,
                    0};
  seal(raw, kPartMagic);
  return to_array<kPartHeaderSize>(raw);
}

Result<PartHeader> decode_part_header(Bytes first_bytes) {
  RawPartHeader raw;
  CKPT_TRY(open(first_bytes, kPartHeaderSize, kPartMagic, "part", raw));
  CKPT_TRY(check_revision("part", raw.revision));
  if (raw.data_start != kPartHeaderSize)
    return bad_layout("part header", "expected data from 4096, found " + std::to_string(raw.data_start));
  if (raw.rank >= raw.world_size)
    return bad_layout("part header", strformat("rank {} in a world of {}", raw.rank, raw.world_size));
  if (!all_zero(first_bytes.subspan(sizeof raw)))
    return Status(CKPT_CORRUPT, "part header: expected zeros from byte 80 to 4096, found others");
  return PartHeader{raw.revision, raw.save_id, raw.rank, raw.world_size, raw.store_id, raw.token, raw.attempt};
}

std::array<std::byte, kPartTrailerSize> encode_part_trailer(const PartTrailer& trailer) {
  RawPartTrailer raw{
      trailer.index_offset, trailer.index_size, trailer.root_size, trailer.root_digest, trailer.save_id, {}, 0};
  seal(raw, kTailMagic);
  return to_array<kPartTrailerSize>(raw);
}

Result<PartTrailer> decode_part_trailer(Bytes last_bytes) {
  RawPartTrailer raw;
  CKPT_TRY(open(last_bytes, kPartTrailerSize, kTailMagic, "part trailer", raw));
  return PartTrailer{raw.index_offset, raw.index_size, raw.root_size, raw.root_digest, raw.save_id};
}

Status check_part_layout(const PartTrailer& trailer, uint64_t file_size) {
  std::string index = "index of " + std::to_string(trailer.index_size) + " bytes at " +
                      std::to_string(trailer.index_offset) + " in a part of " + std::to_string(file_size) + " bytes";
  if (file_size % kAlign != 0 || file_size < kPartHeaderSize + kPartTrailerSize)
    return bad_layout("part", "expected a size in multiples of 4096 from 8192, found " + std::to_string(file_size));
  if (trailer.root_size > kMaxRootSize || trailer.root_size > trailer.index_size)
    return bad_layout("part", index + " with a root of " + std::to_string(trailer.root_size) + " bytes");
  if (trailer.index_offset % kPartIndexAlign != 0) return bad_layout("part", index + ": expected a multiple of 64");
  uint64_t end;
  if (trailer.index_offset < kPartHeaderSize || add_overflows(trailer.index_offset, trailer.index_size, &end) ||
      end > file_size - kPartTrailerSize)
    return bad_layout("part", index + ": expected it between header and trailer");
  return Ok();
}

std::array<std::byte, kManifestTrailerSize> encode_manifest_trailer(const ManifestTrailer& trailer) {
  RawManifestTrailer raw{trailer.index_size,
                         trailer.root_size,
                         trailer.copies_size,
                         trailer.summary_size,
                         trailer.root_digest,
                         trailer.summary_digest,
                         static_cast<uint32_t>(trailer.kind),
                         trailer.revision,
                         {},
                         0};
  seal(raw, kManifestMagic);
  return to_array<kManifestTrailerSize>(raw);
}

// Revision 0 ended with a trailer of 72 bytes, of which the first 64 were summed; its revision was at 52.
static bool is_revision_0(Bytes last_bytes) {
  if (last_bytes.size() != kManifestTrailerSize) return false;
  const Bytes trailer = last_bytes.last(72);
  uint32_t revision;
  uint64_t checksum;
  std::memcpy(&revision, &trailer[52], sizeof revision);
  std::memcpy(&checksum, &trailer[64], sizeof checksum);
  return revision == 0 && checksum == codec::xxh3_64(trailer.first(64));
}

Result<ManifestTrailer> decode_manifest_trailer(Bytes last_bytes) {
  if (is_revision_0(last_bytes)) CKPT_TRY(check_revision("manifest", 0));
  RawManifestTrailer raw;
  CKPT_TRY(open(last_bytes, kManifestTrailerSize, kManifestMagic, "manifest", raw));
  CKPT_TRY(check_revision("manifest", raw.revision));
  if (raw.kind != static_cast<uint32_t>(ManifestKind::kManifest) &&
      raw.kind != static_cast<uint32_t>(ManifestKind::kTombstone))
    return bad_layout("manifest", "expected kind 1 or 2, found " + std::to_string(raw.kind));
  return ManifestTrailer{raw.index_size,  raw.root_size,      raw.copies_size,        raw.summary_size,
                         raw.root_digest, raw.summary_digest, ManifestKind{raw.kind}, raw.revision};
}

Status check_manifest_layout(const ManifestTrailer& trailer, uint64_t file_size) {
  const bool tombstone = trailer.kind == ManifestKind::kTombstone;
  if (trailer.index_size > file_size || trailer.copies_size > file_size || trailer.summary_size > file_size ||
      trailer.root_size > trailer.index_size || trailer.root_size > kMaxRootSize ||
      trailer.copies_size % kPartIndexAlign != 0)
    return bad_layout("manifest", "an index of " + std::to_string(trailer.index_size) + ", copies of " +
                                      std::to_string(trailer.copies_size) + " and a summary of " +
                                      std::to_string(trailer.summary_size) + " bytes in a file of " +
                                      std::to_string(file_size));
  if (const uint64_t text = tombstone ? trailer.index_size : trailer.summary_size; text > kMaxSlotText)
    return bad_layout("manifest", strformat("a {} of {} bytes: expected at most {}",
                                            tombstone ? "tombstone" : "summary", text, kMaxSlotText));
  if (tombstone && (trailer.summary_size != 0 || trailer.copies_size != 0 || trailer.root_size != 0))
    return bad_layout("manifest",
                      "tombstone with a summary of " + std::to_string(trailer.summary_size) + " bytes: expected none");
  uint64_t expected = manifest_summary_offset(trailer) + round_up(trailer.summary_size, 8) + kManifestTrailerSize;
  if (file_size == expected) return Ok();
  return bad_layout("manifest",
                    "expected a file of " + std::to_string(expected) + " bytes, found " + std::to_string(file_size))
      .with("expected", expected)
      .with("found", file_size);
}

}  // namespace ckpt::format
