// What surrounds the indexes in the files: header and trailer of a part (FORMAT §3), trailer of MANIFEST (FORMAT §2).
// Pure. A decoder accepts exactly what an encoder makes: one flipped bit anywhere is an error. It checks the magic
// (FORMAT: this is something else), then the checksum (CORRUPT), then the revision (REVISION: a newer library wrote
// it), then the rest. The check_ functions compare the sizes with the file; call them before using a size.
#pragma once

#include <array>

#include "base/status.h"
#include "base/types.h"

namespace ckpt::format {

inline constexpr size_t kPartHeaderSize = 4096;  // where data may start
inline constexpr size_t kPartTrailerSize = 72;
inline constexpr size_t kManifestTrailerSize = 88;
inline constexpr uint64_t kPartIndexAlign = 64;
inline constexpr uint64_t kMaxRootSize = (uint64_t{1} << 31) - 1;  // FORMAT §10
inline constexpr uint64_t kMaxSlotText = 1 << 20;                  // of a summary or tombstone: the same

struct PartHeader {
  uint32_t revision = CKPT_FORMAT_REVISION;
  Id save_id;
  uint32_t rank = 0, world_size = 0;
  Id store_id;
  uint64_t token = 0, attempt = 0;
  bool operator==(const PartHeader&) const = default;
};
std::array<std::byte, kPartHeaderSize> encode_part_header(const PartHeader& header);
Result<PartHeader> decode_part_header(Bytes first_bytes);  // exactly kPartHeaderSize bytes

struct PartTrailer {
  uint64_t index_offset = 0, index_size = 0, root_size = 0;
  Digest root_digest;
  Id save_id;
  bool operator==(const PartTrailer&) const = default;
};
std::array<std::byte, kPartTrailerSize> encode_part_trailer(const PartTrailer& trailer);
Result<PartTrailer> decode_part_trailer(Bytes last_bytes);
// FORMAT unless the index lies between header and trailer of a file of this size.
Status check_part_layout(const PartTrailer& trailer, uint64_t file_size);

enum class ManifestKind : uint32_t { kManifest = 1, kTombstone = 2 };

struct ManifestTrailer {
  uint64_t index_size = 0, root_size = 0, copies_size = 0, summary_size = 0;
  Digest root_digest, summary_digest;
  ManifestKind kind = ManifestKind::kManifest;
  uint32_t revision = CKPT_FORMAT_REVISION;
  bool operator==(const ManifestTrailer&) const = default;
};
std::array<std::byte, kManifestTrailerSize> encode_manifest_trailer(const ManifestTrailer& trailer);
Result<ManifestTrailer> decode_manifest_trailer(Bytes last_bytes);
// FORMAT unless index, copies, summary, their padding and the trailer add up to exactly the file.
Status check_manifest_layout(const ManifestTrailer& trailer, uint64_t file_size);
// Where the copies of parts' indexes and the summary start. The layout must have been checked.
inline uint64_t manifest_copies_offset(const ManifestTrailer& trailer) {
  return round_up(trailer.index_size, kPartIndexAlign);
}
inline uint64_t manifest_summary_offset(const ManifestTrailer& trailer) {
  return manifest_copies_offset(trailer) + trailer.copies_size;
}

// The number of zero bytes before the first that is not zero. For checking padding.
size_t leading_zeros(Bytes bytes);
inline bool all_zero(Bytes bytes) { return leading_zeros(bytes) == bytes.size(); }

}  // namespace ckpt::format
