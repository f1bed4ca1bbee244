// The file in the commit slot: MANIFEST or tombstone (FORMAT §2). Stateless.
#pragma once

#include <string>

#include "format/index.h"

namespace ckpt::format {

struct Tombstone {
  Id save_id;
  uint32_t rank = 0;
  ckpt_status status = CKPT_ABORTED;
  std::string reason;
  uint64_t closed_by_token = 0;
};

// The whole MANIFEST file (FORMAT §2) for an encoded index, or for a tombstone.
Buffer frame_manifest(Buffer index, const Summary& summary);
Buffer frame_tombstone(const Tombstone& tombstone);

// What the commit slot holds.
struct Slot {
  bool committed = false;
  Bytes index;          // if committed: inside the given bytes
  Summary summary;      // if committed
  Tombstone tombstone;  // otherwise
};
// Checks framing, digests and the summary of a whole MANIFEST file, but not the index itself. CORRUPT, FORMAT,
// REVISION.
Result<Slot> open_slot(Bytes file);
// For a caller who hashes the index while reading it. slot_index_size: how many bytes of the file are the index, given
// at least the last 72 bytes of the file. open_slot: the same as above, with the digest that the caller computed.
Result<uint64_t> slot_index_size(Bytes tail, uint64_t file_size);
Result<Slot> open_slot(Bytes file, const Digest& index_digest);
// The same from the end of the file alone, for listing. `tail` holds at least the last 72 bytes of a file of
// `file_size` bytes. INVALID if it is too short for the summary; `*needed` then tells how many bytes it must have.
Result<Slot> open_slot_tail(Bytes tail, uint64_t file_size, uint64_t* needed);

}  // namespace ckpt::format
