#include "checkpoint/part_file.h"

#include <algorithm>

#include "codec/checksum.h"
#include "format/names.h"
#include "format/part_record.h"

namespace ckpt::checkpoint {

static constexpr uint64_t kMostRootToAsk = 64 << 20;  // for its summary

Status at_file(Status status, const store::Store& store, std::string_view directory, const std::string& name) {
  std::string path = store.path(format::file_key(directory, name));
  return std::move(status).in(path).with("part", name).with("path", path);
}

Status at_part(Status status, const store::Store& store, std::string_view directory, uint32_t number) {
  return at_file(std::move(status), store, directory, format::part_name(number));
}

IndexPlace place_of(const format::PartTrailer& trailer, uint32_t number) {
  return {format::IndexKind::kPart, trailer.index_size,   trailer.root_size,
          trailer.root_digest,      trailer.index_offset, number};
}

// Header and trailer.
static Status read_framing(PartFile& part, const store::Reader& file) {
  uint64_t size = part.size = file.size();
  if (size < 2 * kAlign || size % kAlign != 0)
    return Status(CKPT_FORMAT, strformat("no part: {} bytes, a multiple of 4096 from 8192 expected", size))
        .with("found", size);
  std::vector<std::byte> head(kAlign), tail(format::kPartTrailerSize);
  CKPT_TRY(file.read_at(0, head));
  CKPT_ASSIGN(part.header, format::decode_part_header(head));
  CKPT_TRY(file.read_at(size - tail.size(), tail));
  CKPT_ASSIGN(part.trailer, format::decode_part_trailer(tail));
  CKPT_TRY(format::check_part_layout(part.trailer, size));
  if (part.header.save_id != part.trailer.save_id)
    return Status(CKPT_FORMAT, strformat("header of save {}, trailer of save {}", to_hex(part.header.save_id),
                                         to_hex(part.trailer.save_id)));
  if (part.header.rank != part.number)
    return Status(CKPT_MISMATCH, strformat("part of rank {}, expected rank {}", part.header.rank, part.number))
        .with("expected", uint64_t{part.number})
        .with("found", uint64_t{part.header.rank});
  return Ok();
}

static Status read_part(PartFile& part, bool whole) {
  CKPT_TRY(read_framing(part, *part.file));
  if (!whole && part.trailer.root_size > kMostRootToAsk) return Status(CKPT_FORMAT, "a root that is too large to ask");
  auto read = [&](uint64_t offset, MutableBytes out, bool) {
    return part.file->read_at(part.trailer.index_offset + offset, out);
  };
  auto index = IndexFile::open(place_of(part.trailer, part.number), read, whole);
  if (index.ok()) part.index = index.take();
  Status status = !part.index ? std::move(index).status() : whole ? part.index->load_all() : Ok();
  return status.ok() ? Ok()
                     : std::move(status)
                           .in(strformat("its index at {}", part.trailer.index_offset))
                           .with("offset", part.trailer.index_offset);
}

static Result<PartFile> open_part(const store::Store& store, std::string_view directory, const std::string& name,
                                  uint32_t rank, bool whole) {
  PartFile part;
  Status status = store::read_checked(store, [&] {
    part = PartFile();
    part.number = rank;
    CKPT_ASSIGN(part.file, store.open(format::file_key(directory, name)));
    return read_part(part, whole);
  });
  if (!status.ok()) return at_file(std::move(status), store, directory, name);
  return part;
}

Result<PartFile> open_part(const store::Store& store, std::string_view directory, uint32_t number) {
  return open_part(store, directory, format::part_name(number), number, true);
}

Result<PartFile> open_file(const store::Store& store, std::string_view directory, const fb::Part& record) {
  return open_part(store, directory, format::file_name(record), record.rank(), true);
}

Status check_file(const store::Reader& file, const fb::Part& record) {
  PartFile found;
  found.number = record.rank();
  CKPT_TRY(read_framing(found, file));
  const format::PartTrailer wanted{record.index_offset(), record.index_size(), record.root_size(),
                                   format::id_of(record.root_digest()), format::id_of(record.save_id())};
  if (found.size == record.size() && found.trailer == wanted) return Ok();
  return Status(CKPT_MISMATCH,
                strformat("part of save {} with index {}, expected save {}, index {}", to_hex(found.trailer.save_id),
                          to_hex(found.trailer.root_digest), to_hex(wanted.save_id), to_hex(wanted.root_digest)));
}

Result<format::Summary> part_summary(const store::Store& store, std::string_view directory, uint32_t number) {
  CKPT_ASSIGN(const PartFile part, open_part(store, directory, format::part_name(number), number, false));
  return part.summary();
}

}  // namespace ckpt::checkpoint
