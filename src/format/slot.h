// The file in the commit slot: MANIFEST or tombstone (FORMAT §2). Stateless.
#pragma once

#include <string>

#include "format/framing.h"
#include "format/index_builder.h"

namespace ckpt::format {

struct Tombstone {
  Id save_id;
  uint32_t rank = 0;
  ckpt_status status = CKPT_ABORTED;
  std::string reason;
  uint64_t closed_by_token = 0;
  Status::Details facts = {};  // of the failure
};

// The whole MANIFEST file (FORMAT §2) for an index and the copies of parts' indexes, or for a tombstone.
Buffer frame_manifest(EncodedIndex index, Bytes copies, const Summary& summary);
Buffer frame_tombstone(const Tombstone& tombstone);

// What the commit slot holds.
struct Slot {
  bool committed = false;
  ManifestTrailer trailer;
  Summary summary;      // if committed
  Tombstone tombstone;  // otherwise
};
// Checks the end of the file in the slot: framing, summary or tombstone, their digests. `tail` holds at least the last
// 88 bytes of a file of `file_size` bytes. INVALID if it is too short for the summary; `*needed` then tells how many
// bytes it must have. CORRUPT, FORMAT, REVISION.
Result<Slot> open_slot(Bytes tail, uint64_t file_size, uint64_t* needed);
// CORRUPT unless the gaps of a whole manifest hold zeros only.
Status check_manifest_gaps(Bytes file, const ManifestTrailer& trailer);
// CORRUPT.
Status check_digest(const Digest& found, const Digest& expected, const char* what);

}  // namespace ckpt::format
