#include "save/part_stage.h"

#include <cstring>
#include <set>

#include "codec/checksum.h"

namespace ckpt::save {

static fb::Chunk record(uint64_t offset, uint64_t stored, uint64_t raw, const Digest& digest) {
  return fb::Chunk(offset, static_cast<uint32_t>(stored), static_cast<uint32_t>(raw), format::digest_of(digest));
}

// Calls visit(item, number of the chunk in its item, index of the chunk) for the chunks of a block.
template <typename Visit>
void BlockStager::for_each_chunk(const Block& block, Visit&& visit) const {
  size_t item_index = block.item_first;
  for (size_t c = block.chunk_first; c < block.chunk_first + block.chunk_count; c++) {
    while (c >= layout_.items[item_index].chunk_first + layout_.items[item_index].chunk_count) item_index++;
    const Item& item = layout_.items[item_index];
    visit(item, c - item.chunk_first, c);
  }
}

static Bytes finish_block(std::byte* block, uint64_t end) {
  uint64_t size = round_up(end, kAlign);
  std::memset(block + end, 0, size - end);
  return {block, size};
}

Bytes BlockStager::source_of(const Block& block) const {
  const Item& item = layout_.items[block.item_first];
  if (block.encoded || block.chunk_first + block.chunk_count > item.chunk_first + item.chunk_count) return {};
  return contiguous_source(item, block.chunk_first - item.chunk_first, block.chunk_count);
}

std::vector<Bytes> BlockStager::sources_of(const Block& block) const {
  std::vector<Bytes> sources;
  for_each_chunk(block, [&](const Item& item, uint64_t number, size_t) {
    const Bytes chunk = contiguous_source(item, number, 1);
    const bool follows = !sources.empty() && sources.back().data() + sources.back().size() == chunk.data();
    if (follows)
      sources.back() = {sources.back().data(), sources.back().size() + chunk.size()};
    else if (!chunk.empty())
      sources.push_back(chunk);
  });
  return sources;
}

void BlockStager::hash_in_place(const Block& block) {
  uint64_t at = 0;
  for_each_chunk(block, [&](const Item& item, uint64_t number, size_t index) {
    Bytes bytes = contiguous_source(item, number, 1);
    chunks_[index] = record(at, bytes.size(), bytes.size(), codec::xxh3_128(bytes));
    at += bytes.size();
  });
}

// Copies a chunk of the host's memory.
static Digest copy_chunk(const Item& item, uint64_t number, MutableBytes to) {
  const Bytes source = contiguous_source(item, number, 1);
  // Even if the copy will be encoded and needs no digest: hashing costs nothing, and the copy bypasses the cache.
  if (!source.empty()) return codec::copy_xxh3_128(source.data(), to.data(), to.size());
  gather_chunk(item, number, to);
  return codec::xxh3_128(to);
}

Bytes BlockStager::copy(const Block& block, std::byte* to) {
  uint64_t at = 0;
  for_each_chunk(block, [&](const Item& item, uint64_t number, size_t index) {
    uint64_t place = place_chunk(item, number, at), size = chunk_raw_size(item, number);
    std::memset(to + at, 0, place - at);
    chunks_[index] = record(place, size, size, copy_chunk(item, number, {to + place, size}));
    at = place + size;
  });
  return finish_block(to, at);
}

Result<Bytes> BlockStager::fetch(const Block& block, std::byte* to, device::Transfers& transfers,
                                 device::Fences* fences) {
  uint64_t at = 0;
  Status status;
  std::set<uint8_t> devices;
  // Chunks that follow each other there and here are fetched as one: each copy takes a device microseconds beside it.
  struct {
    const Item* item = nullptr;
    uint64_t number = 0;
    MutableBytes to = {};
  } run;
  const auto begin = [&] {
    if (run.item && status.ok()) status = begin_gather_chunk(*run.item, run.number, run.to, transfers);
  };
  for_each_chunk(block, [&](const Item& item, uint64_t number, size_t index) {
    const uint64_t place = place_chunk(item, number, at), size = chunk_raw_size(item, number);
    const MutableBytes chunk(to + place, size);
    std::memset(to + at, 0, place - at);
    if (item.device() == 0)
      chunks_[index] = record(place, size, size, copy_chunk(item, number, chunk));
    else
      chunks_[index] = record(place, size, size, {});
    at = place + size;
    if (item.device() == 0) return;
    devices.insert(item.device());
    if (run.item == &item && item.tensor->comes_in_order()) {
      run.to = {run.to.data(), run.to.size() + size};
      return;
    }
    begin();
    run = {&item, number, chunk};
  });
  begin();
  CKPT_TRY(std::move(status));
  for (const uint8_t device : devices) {
    CKPT_ASSIGN(auto fence, transfers.fence(device));
    fences->add(std::move(fence));
  }
  return finish_block(to, at);
}

void BlockStager::finish_fetched(const Block& block, std::byte* copy, StageScratch& scratch) {
  for_each_chunk(block, [&](const Item& item, uint64_t number, size_t index) {
    if (item.device() == 0) return;
    const fb::Chunk& chunk = chunks_[index];
    const MutableBytes bytes(copy + chunk.offset(), chunk.raw_size());
    end_gather_chunk(item, number, bytes, &scratch.gathered);
    chunks_[index] = record(chunk.offset(), chunk.stored_size(), chunk.raw_size(), codec::xxh3_128(bytes));
  });
}

template <typename RawOf>
Bytes BlockStager::encode_from(const Block& block, std::byte* to, StageScratch& scratch, RawOf&& raw_of) {
  uint64_t at = 0;
  for_each_chunk(block, [&](const Item& item, uint64_t number, size_t index) {
    uint64_t place = place_chunk(item, number, at);
    Bytes raw = raw_of(item, number, index);
    std::memset(to + at, 0, place - at);
    uint64_t stored = codec::encode_chunk(item.codec, raw, {to + place, raw.size()}, scratch.codec);
    chunks_[index] = record(place, stored, raw.size(), codec::xxh3_128({to + place, stored}));
    at = place + stored;
  });
  return finish_block(to, at);
}

Bytes BlockStager::encode(const Block& block, std::byte* to, StageScratch& scratch) {
  return encode_from(block, to, scratch, [&](const Item& item, uint64_t number, size_t) -> Bytes {
    Bytes source = contiguous_source(item, number, 1);
    if (!source.empty()) return source;
    scratch.gathered.resize(std::max<size_t>(scratch.gathered.size(), chunk_raw_size(item, number)));
    MutableBytes gathered(scratch.gathered.data(), chunk_raw_size(item, number));
    gather_chunk(item, number, gathered);
    return gathered;
  });
}

Bytes BlockStager::encode_copy(const Block& block, const std::byte* raw, std::byte* to, StageScratch& scratch) {
  return encode_from(block, to, scratch, [&](const Item&, uint64_t, size_t index) -> Bytes {
    return {raw + chunks_[index].offset(), chunks_[index].raw_size()};
  });
}

}  // namespace ckpt::save
