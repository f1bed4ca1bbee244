// Takes the bytes of a block from the caller's memory, hashes or encodes them, and makes what the file will hold. Every
// call fills in the records of the block's chunks, with offsets from the start of the block. Calls for different blocks
// may run concurrently.
#pragma once

#include <functional>

#include "save/layout.h"

namespace ckpt::save {

// What a thread needs for encoding, and to put elements of a device in order. Grows to the largest chunk.
struct StageScratch {
  codec::CodecScratch codec;
  std::vector<std::byte> gathered;
};

class BlockStager {
 public:
  BlockStager(const PartLayout& layout, std::span<fb::Chunk> chunks) : layout_(layout), chunks_(chunks) {}

  // The caller's memory of a block, if it has the block in one piece and as the file will; else empty.
  Bytes source_of(const Block& block) const;
  // The caller's memory that a block is made of, as far as it lies in a row.
  std::vector<Bytes> sources_of(const Block& block) const;
  // Hashes a block in the caller's memory.
  void hash_in_place(const Block& block);
  // Copies a block without encoding it, and fills its gaps. Returns what to write: a multiple of kAlign bytes.
  Result<Bytes> copy(const Block& block, std::byte* to);
  // As copy() of a block of which something is on a device: begins the copies. finish_fetched() once they are there.
  Result<Bytes> fetch(const Block& block, std::byte* to, device::Transfers& transfers, device::Fences* fences);
  void finish_fetched(const Block& block, std::byte* copy, StageScratch& scratch);
  // Moves the chunks of a block in a buffer together, without those that are left out, and fills the gaps. Returns what
  // to write, as copy() does.
  Bytes leave_out(const Block& block, std::byte* buffer, const std::function<bool(size_t chunk)>& left_out);
  // Encodes a block from the copy that was made of it or, if that is null, from the caller's memory.
  Result<Bytes> encode(const Block& block, const std::byte* copied, std::byte* to, StageScratch& scratch);

 private:
  const PartLayout& layout_;
  std::span<fb::Chunk> chunks_;
};

}  // namespace ckpt::save
