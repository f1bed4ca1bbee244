#include "checkpoint/chunk_io.h"

#include <cstring>

#include "format/checksum.h"
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

Status check_chunk(const fb::Chunk& chunk, Bytes stored) { return check_digest(chunk, format::xxh3_128(stored)); }

Status decode_chunk(const fb::Segment& segment, Bytes stored, MutableBytes raw, format::CodecScratch& scratch) {
  format::CodecSpec spec{static_cast<Codec>(segment.codec()), static_cast<Filter>(segment.filter()),
                         segment.filter_width()};
  return format::decode_chunk(spec, stored, raw, scratch);
}

ElementRange elements_of(const format::Index& index, const fb::Tensor& tensor, const fb::Segment& segment,
                         const fb::Chunk& chunk) {
  Shape shape = index.shape_of(tensor);
  plan::Geometry geometry = *plan::geometry_of(tensor.dtype(), shape);
  plan::Order order = plan::order_of(
      geometry, *plan::to_units(geometry, tensor.dtype(), shape, index.region_of(segment, tensor.ndim())));
  auto flat = [&](uint64_t position) {
    uint64_t result = 0, stride = 1, rest = position;
    for (int i = geometry.shape.ndim - 1; i >= 0; i--) {
      result += (order.box.offset[i] + rest % order.box.extent[i]) * stride;
      rest /= order.box.extent[i];
      stride *= geometry.shape[i];
    }
    return geometry.packed ? result * 8 / static_cast<uint64_t>(dtype_bits(tensor.dtype())) : result;
  };
  auto chunks = index.chunks_of(segment);
  uint64_t before = static_cast<uint64_t>(&chunk - chunks.data()) * chunks[0].raw_size();
  uint64_t first = order.first + before / geometry.width;
  return {static_cast<int64_t>(flat(first)), static_cast<int64_t>(flat(first + chunk.raw_size() / geometry.width - 1))};
}

Status at_chunk(const Checkpoint& checkpoint, const fb::Tensor& tensor, const fb::Segment& segment,
                const fb::Chunk& chunk, Status status) {
  const format::Index& index = checkpoint.index();
  std::string name(index.text(tensor.name()));
  ElementRange elements = elements_of(index, tensor, segment, chunk);
  return checkpoint.at_part(std::move(status), segment.part())
      .in(strformat("tensor \"{}\", elements {} to {}", name, elements.first, elements.last))
      .with("tensor", name)
      .with("offset", uint64_t{chunk.offset()});
}

Status plain_read(Job& job, const store::Reader& file, uint64_t offset, MutableBytes out) {
  CKPT_TRY(file.read_at(offset, out));
  job.counters.bytes_read += out.size();
  job.counters.io_count++;
  return Ok();
}

// Objects are stored raw (FORMAT §4).
Status read_object(const Checkpoint& checkpoint, const fb::Object& object, MutableBytes out, Job& job) {
  const format::Index& index = checkpoint.index();
  if (object.placement() == 0) {
    if (object.size() != 0) std::memcpy(out.data(), index.inline_data.data() + object.inline_offset(), object.size());
    return Ok();
  }
  uint64_t at = 0;
  for (const fb::Chunk& chunk : index.chunks_of(object)) {
    CKPT_TRY(job.check());
    CKPT_ASSIGN(const PartReader file, checkpoint.part(object.part()));
    MutableBytes bytes = out.subspan(at, chunk.raw_size());
    Status status = plain_read(job, *file, chunk.offset(), bytes);
    if (status.ok()) status = check_chunk(chunk, bytes);
    if (!status.ok()) {
      std::string name(index.text(object.name()));
      return checkpoint.at_part(std::move(status), object.part()).in("object \"" + name + "\"").with("tensor", name);
    }
    at += chunk.raw_size();
  }
  return Ok();
}

}  // namespace ckpt::checkpoint
