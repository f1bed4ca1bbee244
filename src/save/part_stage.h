// Bringing the bytes of a block together: from the caller's memory, hashed or encoded, to what the file will hold.
// Every call leaves the records of the block's chunks, their offsets counted from the start of the block. Concurrent
// calls for different blocks are fine.
#pragma once

#include "save/layout.h"

namespace ckpt::save {

// What a thread needs to encode; grows to the largest chunk.
struct StageScratch {
  format::CodecScratch codec;
  std::vector<std::byte> gathered;
};

class BlockStager {
 public:
  BlockStager(const PartLayout& layout, std::span<fb::Chunk> chunks) : layout_(layout), chunks_(chunks) {}

  // The caller's memory of a block that lies there in one piece, as it will lie in the file; else empty.
  Bytes source_of(const Block& block) const;
  // Hashes a block where it is.
  void hash_in_place(const Block& block);
  // Copies a block as it is, with its gaps filled. Returns what to write: whole multiples of kAlign.
  Bytes copy(const Block& block, std::byte* to);
  // Encodes a block from the caller's memory, or from the copy that copy() made of it.
  Bytes encode(const Block& block, std::byte* to, StageScratch& scratch);
  Bytes encode_copy(const Block& block, const std::byte* raw, std::byte* to, StageScratch& scratch);

 private:
  template <typename Visit>
  void for_each_chunk(const Block& block, Visit&& visit) const;
  template <typename RawOf>
  Bytes encode_from(const Block& block, std::byte* to, StageScratch& scratch, RawOf&& raw_of);

  const PartLayout& layout_;
  std::span<fb::Chunk> chunks_;
};

}  // namespace ckpt::save
