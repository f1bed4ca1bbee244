#include "checkpoint/part_file.h"

#include <algorithm>

#include "format/checksum.h"
#include "format/names.h"

namespace ckpt::checkpoint {

Status at_part(Status status, const store::Store& store, std::string_view directory, uint32_t number) {
  std::string path = store.path(format::part_key(directory, number));
  return std::move(status).in(path).with("part", format::part_name(number)).with("path", path);
}

static Status check_chunk_ends(const PartFile& part) {
  for (const fb::Chunk& chunk : part.index.chunks)
    if (chunk.offset() + chunk.stored_size() > part.trailer.index_offset)
      return Status(CKPT_FORMAT, strformat("a chunk ends at {}, inside the index at {}",
                                           chunk.offset() + chunk.stored_size(), part.trailer.index_offset));
  return Ok();
}

// A part of rank N is PART_N, and its records refer to no other part.
static Status check_rank(const PartFile& part) {
  uint32_t rank = part.header.rank;
  if (rank != part.number)
    return Status(CKPT_MISMATCH, strformat("part of rank {}, expected rank {}", rank, part.number))
        .with("expected", uint64_t{part.number})
        .with("found", uint64_t{rank});
  auto elsewhere = [rank](const auto& record) { return record.part() != rank; };
  if (std::any_of(part.index.segments.begin(), part.index.segments.end(), elsewhere) ||
      std::any_of(part.index.objects.begin(), part.index.objects.end(), elsewhere))
    return Status(CKPT_FORMAT, "its index describes data of another part");
  return Ok();
}

static Status read_part(PartFile& part) {
  uint64_t size = part.size = part.file->size();
  if (size < 2 * kAlign || size % kAlign != 0)
    return Status(CKPT_FORMAT, strformat("no part: {} bytes, a multiple of 4096 from 8192 expected", size))
        .with("found", size);
  std::vector<std::byte> head(kAlign), tail(format::kPartTrailerSize);
  CKPT_TRY(part.file->read_at(0, head));
  CKPT_ASSIGN(part.header, format::decode_part_header(head));
  CKPT_TRY(part.file->read_at(size - tail.size(), tail));
  CKPT_ASSIGN(part.trailer, format::decode_part_trailer(tail));
  CKPT_TRY(format::check_part_layout(part.trailer, size));
  if (part.header.save_id != part.trailer.save_id)
    return Status(CKPT_FORMAT, strformat("header of save {}, trailer of save {}", to_hex(part.header.save_id),
                                         to_hex(part.trailer.save_id)));
  part.index_bytes.resize(part.trailer.index_size);
  CKPT_TRY(part.file->read_at(part.trailer.index_offset, part.index_bytes));
  Digest digest = format::xxh3_128(part.index_bytes);
  if (digest != part.trailer.index_digest)
    return Status(CKPT_CORRUPT, strformat("its index at {}: expected XXH3-128 {}, found {}", part.trailer.index_offset,
                                          to_hex(part.trailer.index_digest), to_hex(digest)))
        .with("offset", part.trailer.index_offset)
        .with("expected", to_hex(part.trailer.index_digest))
        .with("found", to_hex(digest));
  CKPT_ASSIGN(part.index, format::Index::open(part.index_bytes, format::IndexKind::kPart));
  CKPT_TRY(check_rank(part));
  return check_chunk_ends(part);
}

Result<PartFile> open_part(const store::Store& store, std::string_view directory, uint32_t number) {
  PartFile part;
  part.number = number;
  auto file = store.open(format::part_key(directory, number));
  if (!file.ok()) return at_part(std::move(file).status(), store, directory, number);
  part.file = file.take();
  if (Status status = read_part(part); !status.ok()) return at_part(std::move(status), store, directory, number);
  return part;
}

}  // namespace ckpt::checkpoint
