// Single chunks: checksum, codec, place in the tensor. And objects, which are read chunk by chunk.
#pragma once

#include "base/job.h"
#include "checkpoint/checkpoint.h"
#include "codec/codec.h"

namespace ckpt::checkpoint {

// CORRUPT if the stored bytes of a chunk are not those that were saved.
Status check_chunk(const fb::Chunk& chunk, Bytes stored);
// The same, for a digest that the caller has computed.
Status check_digest(const fb::Chunk& chunk, const Digest& found);

// Whether a chunk stores the bytes of its elements unchanged.
inline bool stored_raw(const fb::Chunk& chunk) { return chunk.stored_size() == chunk.raw_size(); }
// Decodes a checked chunk that is not stored raw.
Status decode_chunk(const fb::Segment& segment, Bytes stored, MutableBytes raw, codec::CodecScratch& scratch);

// First and last element of a chunk, by their position in the flattened tensor. If the region is a box, elements
// between the two may belong to other chunks.
struct ElementRange {
  int64_t first, last;
};
ElementRange elements_of(const Piece& piece, const fb::Chunk& chunk);
// Adds to an error where it happened: part, tensor, offset, elements.
Status at_chunk(const Checkpoint& checkpoint, const Piece& piece, const fb::Chunk& chunk, Status status);

// The units of a piece are consecutive in the row-major order of `box`, starting at `first` (plan::order_of).
struct PieceOrder {
  Box box;
  uint64_t first, units;
};
PieceOrder order_of(const Piece& piece, const plan::Geometry& geometry);

// read_at, counted in the statistics of the job.
Status plain_read(Job& job, const store::Reader& file, uint64_t offset, MutableBytes out);
// The same by read_again, for what did not match.
Status read_again(Job& job, const store::Reader& file, uint64_t offset, MutableBytes out);

// Reads and checks all bytes of an object. `out` must have its size.
Status read_object(const Checkpoint& checkpoint, const ObjectRef& object, MutableBytes out, Job& job);

}  // namespace ckpt::checkpoint
