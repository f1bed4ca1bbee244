#include "save/part_stage.h"

#include <cstring>
#include <set>

#include "codec/checksum.h"

namespace ckpt::save {

static fb::Chunk record(uint64_t offset, uint64_t stored, uint64_t raw, const Digest& digest) {
  return fb::Chunk(offset, static_cast<uint32_t>(stored), static_cast<uint32_t>(raw), format::digest_of(digest));
}

namespace {

// Goes through the chunks of a block: for (ChunkWalk chunk(layout, block); chunk.next();)
struct ChunkWalk {
  const Item* item;
  size_t index, end;    // of all chunks
  uint64_t number = 0;  // in the item

  ChunkWalk(const PartLayout& layout, const Block& block)
      : item(&layout.items[block.item_first]),
        index(block.chunk_first - 1),
        end(block.chunk_first + block.chunk_count) {}
  bool next() {
    if (++index == end) return false;
    while (index >= item->chunk_first + item->chunk_count) item++;
    number = index - item->chunk_first;
    return true;
  }
  uint64_t first_byte() const { return item->first_byte(number); }
  uint64_t raw_size() const { return item->raw_size(number); }
  Bytes direct() const { return item->source.direct(first_byte(), raw_size()); }
};

// Fills the gap before a chunk, and returns where the chunk begins.
uint64_t begin_chunk(const ChunkWalk& chunk, std::byte* block, uint64_t at) {
  const uint64_t place = place_chunk(*chunk.item, chunk.number, at);
  std::memset(block + at, 0, place - at);
  return place;
}

}  // namespace

static Bytes finish_block(std::byte* block, uint64_t end) {
  uint64_t size = round_up(end, kAlign);
  std::memset(block + end, 0, size - end);
  return {block, size};
}

Bytes BlockStager::source_of(const Block& block) const {
  const Item& item = layout_.items[block.item_first];
  if (block.encoded || block.chunk_first + block.chunk_count > item.chunk_first + item.chunk_count) return {};
  const uint64_t number = block.chunk_first - item.chunk_first, first = item.first_byte(number);
  return item.source.direct(first, std::min(item.size, item.first_byte(number + block.chunk_count)) - first);
}

std::vector<Bytes> BlockStager::sources_of(const Block& block) const {
  std::vector<Bytes> sources;
  for (ChunkWalk chunk(layout_, block); chunk.next();) {
    const Bytes bytes = chunk.direct();
    if (!sources.empty() && sources.back().data() + sources.back().size() == bytes.data())
      sources.back() = {sources.back().data(), sources.back().size() + bytes.size()};
    else if (!bytes.empty())
      sources.push_back(bytes);
  }
  return sources;
}

void BlockStager::hash_in_place(const Block& block) {
  uint64_t at = 0;
  for (ChunkWalk chunk(layout_, block); chunk.next();) {
    const Bytes bytes = chunk.direct();
    chunks_[chunk.index] = record(at, bytes.size(), bytes.size(), codec::xxh3_128(bytes));
    at += bytes.size();
  }
}

Result<Bytes> BlockStager::copy(const Block& block, std::byte* to) {
  uint64_t at = 0;
  for (ChunkWalk chunk(layout_, block); chunk.next();) {
    const uint64_t place = begin_chunk(chunk, to, at), size = chunk.raw_size();
    Digest digest;
    // Even if the copy will be encoded and needs no digest: hashing costs nothing, and the copy bypasses the cache.
    if (const Bytes source = chunk.direct(); !source.empty()) {
      digest = codec::copy_xxh3_128(source.data(), to + place, size);
    } else {
      CKPT_TRY(chunk.item->source.read(chunk.first_byte(), {to + place, size}, nullptr));
      digest = codec::xxh3_128({to + place, size});
    }
    chunks_[chunk.index] = record(place, size, size, digest);
    at = place + size;
  }
  return finish_block(to, at);
}

Result<Bytes> BlockStager::fetch(const Block& block, std::byte* to, device::Transfers& transfers,
                                 device::Fences* fences) {
  uint64_t at = 0;
  std::set<uint8_t> devices;
  // Chunks that follow each other there and here are fetched as one: each copy takes a device microseconds beside it.
  struct {
    const Item* item = nullptr;
    uint64_t first = 0;
    MutableBytes to = {};
  } run;
  const auto begin = [&] { return run.item ? run.item->source.begin_read(run.first, run.to, transfers) : Ok(); };
  for (ChunkWalk chunk(layout_, block); chunk.next();) {
    const uint64_t place = begin_chunk(chunk, to, at), size = chunk.raw_size();
    chunks_[chunk.index] = record(place, size, size, {});
    at = place + size;
    const Source& source = chunk.item->source;
    if (source.on_device()) devices.insert(source.tensor->device);
    if (run.item == chunk.item && source.comes_in_order()) {
      run.to = {run.to.data(), run.to.size() + size};
      continue;
    }
    CKPT_TRY(begin());
    run = {chunk.item, chunk.first_byte(), {to + place, size}};
  }
  CKPT_TRY(begin());
  for (const uint8_t device : devices) {
    CKPT_ASSIGN(auto fence, transfers.fence(device));
    fences->add(std::move(fence));
  }
  return finish_block(to, at);
}

void BlockStager::finish_fetched(const Block& block, std::byte* copy, StageScratch& scratch) {
  for (ChunkWalk chunk(layout_, block); chunk.next();) {
    fb::Chunk& found = chunks_[chunk.index];
    const MutableBytes bytes(copy + found.offset(), found.raw_size());
    chunk.item->source.end_read(chunk.first_byte(), bytes, &scratch.gathered);
    found = record(found.offset(), found.stored_size(), found.raw_size(), codec::xxh3_128(bytes));
  }
}

Bytes BlockStager::leave_out(const Block& block, std::byte* buffer, const std::function<bool(size_t chunk)>& left_out) {
  uint64_t at = 0;
  const Item* item = nullptr;  // of the chunk before, as the file will have it
  for (ChunkWalk chunk(layout_, block); chunk.next();) {
    if (left_out(chunk.index)) continue;
    fb::Chunk& kept = chunks_[chunk.index];
    const uint64_t place = place_chunk(*chunk.item, item == chunk.item ? 1 : 0, at);
    std::memmove(buffer + place, buffer + kept.offset(), kept.stored_size());
    std::memset(buffer + at, 0, place - at);
    kept = record(place, kept.stored_size(), kept.raw_size(), format::id_of(kept.digest()));
    at = place + kept.stored_size();
    item = chunk.item;
  }
  return finish_block(buffer, at);
}

Result<Bytes> BlockStager::encode(const Block& block, const std::byte* copied, std::byte* to, StageScratch& scratch) {
  uint64_t at = 0;
  for (ChunkWalk chunk(layout_, block); chunk.next();) {
    fb::Chunk& made = chunks_[chunk.index];
    const Source source = copied ? Source::of({copied + made.offset(), made.raw_size()}) : chunk.item->source;
    CKPT_ASSIGN(const Bytes raw,
                source.view(copied ? 0 : chunk.first_byte(), chunk.raw_size(), &scratch.gathered, nullptr));
    const uint64_t place = begin_chunk(chunk, to, at);
    const uint64_t stored = codec::encode_chunk(chunk.item->codec, raw, {to + place, raw.size()}, scratch.codec);
    made = record(place, stored, raw.size(), codec::xxh3_128({to + place, stored}));
    at = place + stored;
  }
  return finish_block(to, at);
}

}  // namespace ckpt::save
