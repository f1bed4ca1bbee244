#include "checkpoint/chunk_io.h"

#include <cstring>

#include "codec/checksum.h"
#include "format/names.h"

namespace ckpt::checkpoint {

Status check_digest(const fb::Chunk& chunk, const Digest& found) {
  Digest expected = format::id_of(chunk.digest());
  if (found == expected) return Ok();
  return Status(CKPT_CORRUPT, strformat("{} bytes at {}: expected XXH3-128 {}, found {}", chunk.stored_size(),
                                        chunk.offset(), to_hex(expected), to_hex(found)))
      .with("offset", uint64_t{chunk.offset()})
      .with("expected", to_hex(expected))
      .with("found", to_hex(found));
}

Status check_chunk(const fb::Chunk& chunk, Bytes stored) { return check_digest(chunk, codec::xxh3_128(stored)); }

Status decode_chunk(const fb::Segment& segment, Bytes stored, MutableBytes raw, codec::CodecScratch& scratch) {
  codec::CodecSpec spec{static_cast<Codec>(segment.codec()), static_cast<Filter>(segment.filter()),
                        segment.filter_width()};
  return codec::decode_chunk(spec, stored, raw, scratch);
}

PieceOrder order_of(const Piece& piece, const plan::Geometry& geometry) {
  const Shape shape = piece.shape();
  const uint16_t dtype = piece.tensor->dtype();
  const plan::Order order = plan::order_of(geometry, *plan::to_units(geometry, dtype, shape, piece.held()));
  uint64_t bytes = 0;
  count_bytes(piece.segment->count(), dtype, &bytes);
  // A segment starts at a whole byte, so this is exact.
  const uint64_t start =
      geometry.packed ? piece.segment->start() * static_cast<uint64_t>(dtype_bits(dtype)) / 8 : piece.segment->start();
  return {order.box, order.first + start, bytes / geometry.width};
}

ElementRange elements_of(const Piece& piece, const fb::Chunk& chunk) {
  const Shape shape = piece.shape();
  const plan::Geometry geometry = *plan::geometry_of(piece.tensor->dtype(), shape);
  const PieceOrder order = order_of(piece, geometry);
  auto flat = [&](uint64_t position) {
    uint64_t result = 0, stride = 1, rest = position;
    for (int i = geometry.shape.ndim - 1; i >= 0; i--) {
      result += (order.box.offset[i] + rest % order.box.extent[i]) * stride;
      rest /= order.box.extent[i];
      stride *= geometry.shape[i];
    }
    return geometry.packed ? result * 8 / static_cast<uint64_t>(dtype_bits(piece.tensor->dtype())) : result;
  };
  auto chunks = piece.chunks();
  uint64_t before = static_cast<uint64_t>(&chunk - chunks.data()) * chunks[0].raw_size();
  uint64_t first = order.first + before / geometry.width;
  return {static_cast<int64_t>(flat(first)), static_cast<int64_t>(flat(first + chunk.raw_size() / geometry.width - 1))};
}

Status at_chunk(const Checkpoint& checkpoint, const Piece& piece, const fb::Chunk& chunk, Status status) {
  std::string name(piece.page->text(piece.tensor->name()));
  ElementRange elements = elements_of(piece, chunk);
  return checkpoint.at_part(std::move(status), checkpoint.file_of(piece.part, *piece.page, chunk))
      .in(strformat("tensor \"{}\", elements {} to {}", name, elements.first, elements.last))
      .with("tensor", name)
      .with("offset", uint64_t{chunk.offset()});
}

static Status counted_read(Job& job, Status read, MutableBytes out) {
  CKPT_TRY(std::move(read));
  job.counters.bytes_read += out.size();
  job.counters.io_count++;
  return Ok();
}

Status plain_read(Job& job, const store::Reader& file, uint64_t offset, MutableBytes out) {
  return counted_read(job, file.read_at(offset, out), out);
}

Status read_again(Job& job, const store::Reader& file, uint64_t offset, MutableBytes out) {
  return counted_read(job, file.read_again(offset, out), out);
}

// Objects are stored raw (FORMAT §4).
Status read_object(const Checkpoint& checkpoint, const ObjectRef& from, MutableBytes out, Job& job) {
  const fb::Object& object = *from.object;
  if (object.placement() == 0) {
    if (object.size() != 0)
      std::memcpy(out.data(), from.page->inline_data.data() + object.inline_offset(), object.size());
    return Ok();
  }
  uint64_t at = 0;
  for (const fb::Chunk& chunk : from.page->chunks_of(object)) {
    CKPT_TRY(job.check());
    const uint32_t number = checkpoint.file_of(from.part, *from.page, chunk);
    CKPT_ASSIGN(const PartReader file, checkpoint.part(number));
    MutableBytes bytes = out.subspan(at, chunk.raw_size());
    Status status = plain_read(job, *file, chunk.offset(), bytes);
    if (status.ok()) status = check_chunk(chunk, bytes);
    if (status.code() == CKPT_CORRUPT && checkpoint.store().traits().remote) {
      status = read_again(job, *file, chunk.offset(), bytes);
      if (status.ok()) status = check_chunk(chunk, bytes);
    }
    if (!status.ok()) {
      std::string name(from.page->text(object.name()));
      return checkpoint.at_part(std::move(status), number).in("object \"" + name + "\"").with("tensor", name);
    }
    at += chunk.raw_size();
  }
  return Ok();
}

}  // namespace ckpt::checkpoint
