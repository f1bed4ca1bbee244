// One chunk: its checksum, its codec, its place in the tensor. And objects, which are read chunk by chunk.
#pragma once

#include "base/job.h"
#include "checkpoint/checkpoint.h"
#include "format/codec.h"

namespace ckpt::checkpoint {

// CORRUPT where the stored bytes of a chunk are others than were saved.
Status check_chunk(const fb::Chunk& chunk, Bytes stored);
// The same for a digest that was computed on the way.
Status check_digest(const fb::Chunk& chunk, const Digest& found);

// Whether the bytes of a chunk are those of its elements.
inline bool stored_raw(const fb::Chunk& chunk) { return chunk.stored_size() == chunk.raw_size(); }
// Decodes a checked chunk that is not stored raw.
Status decode_chunk(const fb::Segment& segment, Bytes stored, MutableBytes raw, format::CodecScratch& scratch);

// First and last element of a chunk in the flattened tensor: of a box, those of its corner elements.
struct ElementRange {
  int64_t first, last;
};
ElementRange elements_of(const format::Index& index, const fb::Tensor& tensor, const fb::Segment& segment,
                         const fb::Chunk& chunk);
// Says where an error happened: part, tensor, offset, elements.
Status at_chunk(const Checkpoint& checkpoint, const fb::Tensor& tensor, const fb::Segment& segment,
                const fb::Chunk& chunk, Status status);

// read_at, counted.
Status plain_read(Job& job, const store::Reader& file, uint64_t offset, MutableBytes out);

// All bytes of an object, checked. `out` has its size.
Status read_object(const Checkpoint& checkpoint, const fb::Object& object, MutableBytes out, Job& job);

}  // namespace ckpt::checkpoint
